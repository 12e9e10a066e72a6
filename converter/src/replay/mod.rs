//! What a plan has decided of a conversion: the types of all tensors, for these files and no others.
//!
//! | File | Duty |
//! |---|---|
//! | `replayed` | all of it, held against what there is now |
//! | `types` | how every tensor is stored, by its name: what people may edit |

mod replayed;
mod types;

pub use replayed::{Replay, SurveyedModel};
pub(crate) use types::Types;
