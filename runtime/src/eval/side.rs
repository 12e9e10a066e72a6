//! One model at work on a chunk.

use std::ops::Range;
use std::time::{Duration, Instant};

use qsf_cpu::zeros;

use super::sums::Decoded;
use crate::decoder::KvOptions;
use crate::error::Result;
use crate::runner::{Runner, Sequence};

/// Most logits held at once, 256 MiB.
const MAX_LOGITS: usize = 1 << 26;

/// One model at work.
pub(super) struct Side<'a, R: Runner> {
    pub runner: &'a R,
    pub state: R::State,
    logits: Vec<f32>,
    /// Positions that `logits` has room for.
    pub rows: usize,
    /// Time of [`Side::decode`].
    decoding: Duration,
}

impl<'a, R: Runner> Side<'a, R> {
    pub fn new(
        runner: &'a R,
        ctx: usize,
        step: usize,
        kv: KvOptions,
        logit_rows: usize,
    ) -> Result<Side<'a, R>> {
        let vocab = runner.config().vocab as usize;
        let state = runner.state_with(ctx, step, kv)?;
        let rows = (MAX_LOGITS / vocab).min(logit_rows).max(1);
        Ok(Side { runner, state, logits: zeros(rows * vocab, "logits")?, rows, decoding: Duration::ZERO })
    }

    /// How tokens were decoded one by one, where they were.
    pub fn decoded(&self) -> Option<Decoded> {
        let count = self.state.decoded_layers();
        (count.tokens > 0).then_some(Decoded { layers: count.layers, seconds: self.decoding.as_secs_f64() })
    }

    pub fn logits(&mut self, rows: Range<usize>) -> Result<&[f32]> {
        let vocab = self.runner.config().vocab as usize;
        let out = &mut self.logits[..rows.len() * vocab];
        self.runner.logits(&mut self.state, rows, out)?;
        Ok(out)
    }
}

impl<R: Runner> Side<'_, R> {
    /// Decodes `tokens` one by one; the logits of each.
    pub fn decode(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        let Side { runner, state, logits, decoding, .. } = self;
        let vocab = runner.config().vocab as usize;
        let logits = &mut logits[..tokens.len() * vocab];
        let started = Instant::now();
        for (token, logits) in tokens.iter().zip(logits.chunks_exact_mut(vocab)) {
            runner.decode(state, *token)?;
            runner.logits(state, 0..1, logits)?;
        }
        *decoding += started.elapsed();
        Ok(logits)
    }
}
