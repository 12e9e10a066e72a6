//! How likely given continuations are.

use std::sync::PoisonError;

use qsf_runtime::progress::Cancel;
use qsf_runtime::score::{ContinuationScore, ScoreOptions, Scorer, encode_pair};
use qsf_runtime::{Result, RuntimeError};

use super::KeptModel;

/// Positions whose logits are held at once, where memory is the system's own.
const LOGIT_ROWS: usize = 64;

impl KeptModel {
    /// What a text begins with that has no other beginning: the tokenizer's start token, the model's, or its first stop token.
    pub fn start_token(&self) -> Option<u32> {
        let config = &self.decoder.model().config;
        self.tokenizer.bos().or(config.bos).or_else(|| config.stop_tokens.first().copied())
    }

    /// The tokens of a context and of its continuation, as lm-evaluation-harness makes them of texts ([`encode_pair`]).
    ///
    /// # Errors
    /// When a text cannot be encoded, or an empty context has nothing to begin with.
    pub fn encode_pair(&self, context: &str, continuation: &str) -> Result<(Vec<u32>, Vec<u32>)> {
        let alone = context.trim_end();
        let alone = if alone.is_empty() { Vec::new() } else { self.tokenizer.encode(alone)? };
        let start = self.start_token().ok_or_else(|| {
            RuntimeError::Request("the model has no token that an empty context could begin with".into())
        });
        let start = if alone.is_empty() { start? } else { 0 };
        encode_pair(&self.tokenizer, start, (context, &alone), continuation)
    }

    /// How likely `continuations` are, each behind the context beside it, in their order. Contexts that are the same, or begin alike,
    /// are run once as far as they are.
    ///
    /// # Errors
    /// When there are not as many contexts, one is empty, a continuation does not fit, or the model cannot be run.
    pub fn score(
        &self,
        contexts: &[Vec<u32>],
        continuations: &[Vec<u32>],
        cancel: &Cancel,
    ) -> Result<Vec<ContinuationScore>> {
        if contexts.len() != continuations.len() {
            return Err(RuntimeError::Request(format!(
                "{} contexts for {} continuations: expected one of each",
                contexts.len(),
                continuations.len()
            )));
        }
        self.refuse_windows_within_budget("scores")?;
        let _turn = self.budget.map(|_| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let decoder = self.on_cpu("scores", cancel)?;
        // A budget has room for the logits of one.
        let logit_rows = if self.budget.is_some() { 1 } else { LOGIT_ROWS };
        let longest = contexts.iter().zip(continuations).map(|(one, other)| one.len() + other.len()).max();
        let context = self.context.min(longest.unwrap_or(1).max(1));
        let options = ScoreOptions { context, step: self.batch, kv: self.kv, logit_rows };
        let mut scorer = Scorer::new(&decoder, options)?;
        // In the order of their tokens, those that begin alike follow each other.
        let mut order: Vec<usize> = (0..contexts.len()).collect();
        order.sort_by(|a, b| contexts[*a].cmp(&contexts[*b]));
        let mut scores = vec![None; contexts.len()];
        for same in order.chunk_by(|a, b| contexts[*a] == contexts[*b]) {
            let of: Vec<&[u32]> = same.iter().map(|at| &*continuations[*at]).collect();
            for (at, score) in same.iter().zip(scorer.score(&contexts[same[0]], &of)?) {
                scores[*at] = Some(score);
            }
        }
        Ok(scores.into_iter().flatten().collect())
    }

    /// Scores keep all positions, also in layers with a sliding window, for which a budget has no room.
    fn refuse_windows_within_budget(&self, what: &str) -> Result<()> {
        let config = &self.decoder.model().config;
        let windows = config.sliding_window.is_some() && !self.kv.whole;
        if self.budget.is_some() && windows {
            return Err(RuntimeError::unsupported(
                self.open.source().path(),
                format!("ram_budget with {what} of a model with sliding windows"),
                "open the model without a budget",
            ));
        }
        Ok(())
    }
}
