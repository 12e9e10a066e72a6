//! Runs given tokens, for what is computed of them.

use std::sync::PoisonError;

use qsf_runtime::progress::Cancel;
use qsf_runtime::{Decoder, DecoderState, Result, RuntimeError};

use super::KeptModel;

impl KeptModel {
    /// Runs `tokens` from an empty context, and calls `then` behind each step with the number of its rows.
    pub(super) fn run(
        &self,
        tokens: &[u32],
        cancel: &Cancel,
        then: &mut dyn FnMut(&Decoder, &mut DecoderState, usize) -> Result<()>,
    ) -> Result<()> {
        if tokens.is_empty() || tokens.len() > self.context {
            return Err(RuntimeError::Request(format!(
                "{} tokens: expected 1 to {}, the context of the model",
                tokens.len(),
                self.context
            )));
        }
        let _turn = self.budget.map(|_| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let decoder = self.decoder.clone().stop_on(cancel);
        let mut state = decoder.state_with(tokens.len(), tokens.len().min(self.batch), self.kv)?;
        for step in tokens.chunks(state.batch()) {
            decoder.forward(&mut state, step)?;
            then(&decoder, &mut state, step.len())?;
        }
        Ok(())
    }
}
