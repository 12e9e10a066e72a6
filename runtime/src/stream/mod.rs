//! Runs models that are larger than memory: weights that fit a budget are kept, the rest is read from the file for every token, while
//! the pieces before it are computed.
//!
//! | File | Duty |
//! |---|---|
//! | `source` | a QSF file of which only the outline was read |
//! | `budget`, `plan` | what a budget is spent on |
//! | `load` | a model by a plan, in one arena |
//!
//! How weights come from the disk while a token is computed is in [`on_disk`](crate::on_disk).

mod budget;
mod load;
mod plan;
mod source;

pub use crate::on_disk::Io;
pub use budget::RamBudget;
pub use load::{StreamStatus, StreamedModel};
pub use plan::{InUse, MemoryPlan, Need};
pub use source::StreamSource;
