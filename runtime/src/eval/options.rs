//! What to evaluate, and how.

use crate::decoder::{KvKeep, KvOptions};
use crate::error::{Result, RuntimeError};
use crate::generate::PROMPT_BATCH;
use qsf_cpu::KvTypes;

/// Most positions whose logits are held at once.
const LOGIT_ROWS: usize = 64;

/// Tokens of the shortest chunk: one is scored.
pub(super) const MIN_CTX: usize = 4;

/// What to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct EvalOptions {
    /// Tokens per chunk.
    pub ctx: usize,
    /// Chunks to evaluate; all whole chunks of the text without it.
    pub chunks: Option<usize>,
    /// The token that the tokenizer puts before a text, where it does.
    pub bos: Option<u32>,
    /// How the model's keys and values are kept.
    pub kv: KvOptions,
    /// How those of the base are stored.
    pub base_kv: KvTypes,
    /// Tokens of a step at most. Where not all positions are kept, steps are short, as positions are let go between them.
    pub step: usize,
    /// Positions whose logits are held at once, at most.
    pub logit_rows: usize,
}

impl EvalOptions {
    /// How many tokens of a text can be needed.
    pub fn most_tokens(&self) -> usize {
        self.chunks.map_or(usize::MAX, |chunks| chunks.saturating_mul(self.ctx))
    }

    /// How many chunks of `tokens` are evaluated.
    ///
    /// # Errors
    /// When a chunk is too short, or the text has not one.
    pub fn chunks_of(&self, tokens: &[u32]) -> Result<usize> {
        let ctx = self.ctx;
        if ctx < MIN_CTX {
            return Err(RuntimeError::Request(format!(
                "a chunk of {ctx} tokens is too short: --ctx must be at least {MIN_CTX}"
            )));
        }
        let available = tokens.len() / ctx;
        match self.chunks.unwrap_or(available).min(available) {
            0 => Err(RuntimeError::Request(format!(
                "the text has {} tokens, less than one chunk of {ctx}: pass a longer text or a smaller --ctx",
                tokens.len()
            ))),
            chunks => Ok(chunks),
        }
    }

    /// Tokens of a step. Which they are influences figures where not all positions are kept, and only there.
    pub fn steps(&self) -> usize {
        if self.kv.keep.is_some() { self.step.min(KvKeep::SLACK) } else { self.step }
    }
}

impl Default for EvalOptions {
    fn default() -> EvalOptions {
        EvalOptions {
            ctx: 512,
            chunks: None,
            bos: None,
            kv: KvTypes::F16.into(),
            base_kv: KvTypes::F16,
            step: PROMPT_BATCH,
            logit_rows: LOGIT_ROWS,
        }
    }
}
