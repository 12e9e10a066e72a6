//! Tuning of a whole quantized model: what its rows and its norms are multiplied by, so that it predicts what its source does.
//!
//! Codes stay as they are. The loss is the mean KL divergence from the source, and its gradients are those of [`crate::gradient`].
//! So every number of threads and instruction set gives the same factors.
//!
//! | File | Duty |
//! |---|---|
//! | `run` | steps along the text, and what was gained on text that was kept aside |
//! | `factors` | what tensors are multiplied by, and the gradient at that |
//! | `adam` | how far a step goes |

mod adam;
mod factors;
mod run;
#[cfg(test)]
mod tests;

pub use adam::TuningState;
pub use factors::{Factors, is_gain, multiplied_gains};
pub use run::{STEP_WORK, TuningText};
