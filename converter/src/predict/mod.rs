//! What a conversion will give and take, before it is made.
//!
//! | File | Duty |
//! |---|---|
//! | `prediction` | all of it; quality is the sum of the damages that the survey measures |
//! | `divergence` | what such a sum says of the whole file |
//! | `size` | bytes of the file, from the plan |
//! | `time` | seconds, from small samples that are taken now, on this machine |
//! | `memory` | peak of resident memory, from shapes |

mod divergence;
mod memory;
mod prediction;
mod size;
mod time;

pub use divergence::DivergenceEstimate;
pub use memory::{predict_peak, predict_statistics_peak};
pub use prediction::{Prediction, predict};
