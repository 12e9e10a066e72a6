//! Tuning of the whole model once all of its tensors are fitted (`--effort max`): scales of rows and gains of norms, so that it
//! predicts what its source does.
//!
//! | File | Duty |
//! |---|---|
//! | `run` | along the calibration text, with a part of it kept aside |
//! | `multiplied` | a stored tensor with its factors, and what is reported of it then |
//! | `state_bytes` | how far tuning is, as a record of the journal |

mod multiplied;
mod run;
mod state_bytes;

pub(crate) use multiplied::Multiplied;
pub(crate) use run::{Tuning, aside_tokens, journal_bytes, kept_tokens, tuned_tokens};
