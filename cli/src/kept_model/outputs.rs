//! What the model computes for given tokens: logits, hidden states.

use std::sync::PoisonError;

use qsf_runtime::cpu::zeros;
use qsf_runtime::progress::Cancel;
use qsf_runtime::{Decoder, DecoderState, Result, RuntimeError};

use super::KeptModel;

/// Which hidden state stands for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// That of the last token.
    Last,
    /// The mean of all.
    Mean,
}

impl KeptModel {
    /// Logits behind each of `tokens`, tokens x vocabulary.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or the model cannot be run.
    pub fn logits(&self, tokens: &[u32], cancel: &Cancel) -> Result<Vec<f32>> {
        let vocab = self.decoder.model().config.vocab as usize;
        let mut logits = zeros(tokens.len().saturating_mul(vocab), "logits")?;
        let mut left = &mut *logits;
        self.run(tokens, cancel, &mut |decoder, state, rows| {
            let (now, later) = std::mem::take(&mut left).split_at_mut(rows * vocab);
            left = later;
            decoder.logits(state, 0..rows, now)
        })?;
        Ok(logits)
    }

    /// The hidden state behind the last norm, which is what the head reads: of the last token, or the mean of all.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or the model cannot be run.
    pub fn embed(&self, tokens: &[u32], pooling: Pooling, cancel: &Cancel) -> Result<Vec<f32>> {
        let width = self.decoder.model().config.hidden as usize;
        // Sums of many are exact enough in 64 bits whatever steps the tokens come in.
        let mut sums = vec![0.0_f64; width];
        let mut last = vec![0.0; width];
        self.run(tokens, cancel, &mut |decoder, state, rows| {
            let hidden = decoder.head_input(state, 0..rows);
            last.copy_from_slice(&hidden[(rows - 1) * width..]);
            for row in hidden.chunks_exact(width) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            Ok(())
        })?;
        Ok(match pooling {
            Pooling::Last => last,
            Pooling::Mean => sums.iter().map(|sum| (sum / tokens.len() as f64) as f32).collect(),
        })
    }

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
        let decoder = self.on_cpu("logits and hidden states", cancel)?;
        let mut state = decoder.state_with(tokens.len(), tokens.len().min(self.batch), self.kv)?;
        for step in tokens.chunks(state.batch()) {
            decoder.forward(&mut state, step)?;
            then(&decoder, &mut state, step.len())?;
        }
        Ok(())
    }
}
