//! What a model expects behind a token.

use qsf_cpu::Isa;

use crate::error::{Result, RuntimeError};
use crate::eval::{argmax, nll};

/// A token that was looked for behind another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub log_likelihood: f64,
    /// Whether no token is likelier; of equals the first counts.
    pub greedy: bool,
}

impl Expected {
    /// By the logits behind the token before.
    ///
    /// # Errors
    /// When they are no numbers: a figure made of these would look like any other.
    pub fn of(isa: Isa, logits: &[f32], token: u32) -> Result<Expected> {
        let loss = nll(isa, logits, token as usize);
        if !loss.is_finite() {
            return Err(RuntimeError::NotANumber {
                what: format!("a likelihood of {loss} for token {token}"),
            });
        }
        Ok(Expected { log_likelihood: -loss, greedy: argmax(logits) == token as usize })
    }
}
