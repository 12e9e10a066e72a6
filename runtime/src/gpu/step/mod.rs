//! What is recorded for a step: the dispatches of one compute pass.
//!
//! | File | Duty |
//! |---|---|
//! | `layers` | a step as a whole |
//! | `attention`, `attend` | attention of a layer, and its part over the cache |
//! | `recurrent` | recurrent mixer of a layer |
//! | `feed_forward`, `experts` | feed-forward of a layer, and a mixture of experts |
//! | `multiply`, `low_rank` | matrices, and what adapters add to them |
//! | `scale` | parts of layers multiplied |
//! | `recorder`, `command` | what makes commands, and one of them |

pub mod attend;
mod attention;
mod command;
pub mod experts;
mod feed_forward;
pub mod layers;
mod low_rank;
pub mod multiply;
mod recorder;
mod recurrent;
mod scale;

pub use command::{Command, MANY, padded};
pub use recorder::Recorder;
