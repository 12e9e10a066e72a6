//! Runs contexts and continuations, and keeps what the next ones begin with alike.

use qsf_cpu::zeros;
use rayon::prelude::*;

use super::expected::Expected;
use crate::decoder::{KvOptions, PROMPT_BATCH};
use crate::error::{Result, RuntimeError};
use crate::eval::check_tokens;
use crate::runner::{Runner, Sequence};

/// Most positions whose logits are held at once.
const LOGIT_ROWS: usize = 64;

/// How a [`Scorer`] works.
#[derive(Debug, Clone, Copy)]
pub struct ScoreOptions {
    /// Most tokens that the model sees at once. Context and continuation may be one longer together, as nothing comes behind
    /// the last token.
    pub context: usize,
    /// Tokens of a step at most.
    pub step: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
    /// Positions whose logits are held at once, at most.
    pub logit_rows: usize,
}

impl ScoreOptions {
    /// With `context` tokens at most, steps as for prompts, and keys and values in f32 of all positions.
    pub fn new(context: usize) -> ScoreOptions {
        ScoreOptions { context, step: PROMPT_BATCH, kv: KvOptions::default(), logit_rows: LOGIT_ROWS }
    }
}

/// How likely a continuation is.
#[derive(Debug, Clone, PartialEq)]
pub struct ContinuationScore {
    /// Log-likelihood of each of its tokens, given all before, in nats.
    pub log_likelihoods: Vec<f64>,
    /// Whether each of its tokens is the likeliest one: greedy decoding would give it. True of one without tokens.
    pub greedy: bool,
    /// Tokens of the context that were cut off on the left, as it did not fit.
    pub cut: usize,
}

impl ContinuationScore {
    /// Log-likelihood of all of it.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihoods.iter().sum()
    }

    /// How many tokens it has.
    pub fn tokens(&self) -> usize {
        self.log_likelihoods.len()
    }
}

/// Scores continuations with one model.
pub struct Scorer<'a, R: Runner> {
    runner: &'a R,
    state: R::State,
    /// The tokens that the state has seen.
    seen: Vec<u32>,
    /// Tokens of the context behind which `edge` is expected; 0 for none. They are the first of `seen`.
    edge_at: usize,
    /// Logits behind the last token of the context.
    edge: Vec<f32>,
    /// Logits of a continuation's tokens.
    logits: Vec<f32>,
    /// Tokens that were run so far.
    tokens_run: u64,
}

impl<'a, R: Runner> Scorer<'a, R> {
    /// With a state of its own.
    ///
    /// # Errors
    /// When the model was not made for so long contexts, it cannot keep keys and values so, or memory runs out.
    pub fn new(runner: &'a R, options: ScoreOptions) -> Result<Scorer<'a, R>> {
        // All positions are kept, so that any can be gone back to.
        let kv = KvOptions { whole: true, ..options.kv };
        let state = runner.state_with(options.context, options.step, kv)?;
        let vocab = runner.config().vocab as usize;
        let rows = options.logit_rows.min(state.batch()).max(1);
        Ok(Scorer {
            runner,
            state,
            seen: Vec::new(),
            edge_at: 0,
            edge: zeros(vocab, "logits")?,
            logits: zeros(rows * vocab, "logits")?,
            tokens_run: 0,
        })
    }

    /// Tokens that the model was run on so far: fewer than all contexts and continuations have, by what they share.
    pub fn tokens_run(&self) -> u64 {
        self.tokens_run
    }

    /// How likely each of `continuations` is behind `context`, in their order.
    ///
    /// # Errors
    /// When the context is empty, a continuation alone does not fit, a token is beyond the vocabulary, the model computes what
    /// is no number, or it cannot be run any longer.
    pub fn score<T: AsRef<[u32]>>(
        &mut self,
        context: &[u32],
        continuations: &[T],
    ) -> Result<Vec<ContinuationScore>> {
        if context.is_empty() {
            return Err(RuntimeError::Request(
                "an empty context has no last token, behind which something could be expected: begin with a start token".into(),
            ));
        }
        let vocab = self.runner.config().vocab;
        check_tokens(context, vocab)?;
        let mut scores = Vec::with_capacity(continuations.len());
        for continuation in continuations {
            let continuation = continuation.as_ref();
            check_tokens(continuation, vocab)?;
            let cut = self.cut(context.len(), continuation.len())?;
            let expected = self.score_one(&context[cut..], continuation)?;
            scores.push(ContinuationScore {
                log_likelihoods: expected.iter().map(|token| token.log_likelihood).collect(),
                greedy: expected.iter().all(|token| token.greedy),
                cut,
            });
        }
        Ok(scores)
    }

    /// Tokens that go from a context, so that the continuation fits behind it.
    fn cut(&self, context: usize, continuation: usize) -> Result<usize> {
        let room = self.state.context();
        if continuation > room {
            return Err(RuntimeError::Request(format!(
                "a continuation of {continuation} tokens does not fit the context of {room} tokens"
            )));
        }
        Ok((context + continuation).saturating_sub(room + 1).min(context - 1))
    }

    fn score_one(&mut self, context: &[u32], continuation: &[u32]) -> Result<Vec<Expected>> {
        let Some((first, rest)) = continuation.split_first() else { return Ok(Vec::new()) };
        self.reach(context)?;
        let isa = self.runner.cpu().isa();
        let mut expected = vec![Expected::of(isa, &self.edge, *first)?];
        if rest.is_empty() {
            return Ok(expected);
        }
        self.go_back(context.len())?;
        let vocab = self.edge.len();
        let mut targets = rest;
        for step in continuation[..rest.len()].chunks(self.state.batch()) {
            self.run(step)?;
            for start in (0..step.len()).step_by(self.logits.len() / vocab) {
                let end = (start + self.logits.len() / vocab).min(step.len());
                let (now, later) = targets.split_at(end - start);
                targets = later;
                let logits = &mut self.logits[..now.len() * vocab];
                self.runner.logits(&mut self.state, start..end, logits)?;
                let rows = logits.par_chunks(vocab).zip(now);
                let rows = rows.map(|(row, &token)| Expected::of(isa, row, token));
                expected.extend(rows.collect::<Result<Vec<Expected>>>()?);
            }
        }
        Ok(expected)
    }

    /// Has the logits behind `context` in `edge`, and its tokens in the state, where others may have come behind them.
    fn reach(&mut self, context: &[u32]) -> Result<()> {
        if self.edge_at == context.len() && self.seen.starts_with(context) {
            return Ok(());
        }
        let same = self.seen.iter().zip(context).take_while(|(old, new)| old == new).count();
        // The last token's logits are wanted, so it is run in any case.
        let keep = self.state.way_back(same.min(context.len() - 1));
        self.go_back(keep)?;
        let mut last = 0;
        for step in context[keep..].chunks(self.state.batch()) {
            self.run(step)?;
            last = step.len() - 1;
        }
        self.runner.logits(&mut self.state, last..last + 1, &mut self.edge)?;
        self.edge_at = context.len();
        self.state.mark()
    }

    fn go_back(&mut self, position: usize) -> Result<()> {
        if self.edge_at > position {
            self.edge_at = 0;
        }
        self.state.rewind(position)?;
        self.seen.truncate(position);
        Ok(())
    }

    fn run(&mut self, step: &[u32]) -> Result<()> {
        self.runner.forward(&mut self.state, step)?;
        self.seen.extend_from_slice(step);
        self.tokens_run += step.len() as u64;
        Ok(())
    }
}
