//! Generated tokens, one after another.

use super::sequences::Session;
use crate::error::{Result, RuntimeError};
use crate::sample::Sampler;

/// An iterator of tokens that a sampler chooses behind a sequence. The last one that it gave is not run until another is asked for.
pub struct GeneratedTokens<'a> {
    session: &'a mut Session,
    sequence: usize,
    sampler: &'a mut Sampler,
    /// The token that is still to be run.
    last: Option<u32>,
    over: bool,
}

impl<'a> GeneratedTokens<'a> {
    /// Behind a sequence that has logits.
    pub(super) fn new(
        session: &'a mut Session,
        sequence: usize,
        sampler: &'a mut Sampler,
    ) -> GeneratedTokens<'a> {
        GeneratedTokens { session, sequence, sampler, last: None, over: false }
    }

    fn choose(&mut self) -> Result<Option<u32>> {
        self.session.decoder().cancel().check()?;
        if let Some(last) = self.last.take() {
            if self.session.has_no_room(self.sequence) {
                return Ok(None);
            }
            self.session.run(&[(self.sequence, &[last])])?;
        }
        let Some(logits) = self.session.logits(self.sequence) else { return Ok(None) };
        let token = self.sampler.sample(logits)?;
        self.sampler.accept(&[token]);
        self.last = Some(token);
        Ok(self.last)
    }
}

impl Iterator for GeneratedTokens<'_> {
    type Item = Result<u32>;

    fn next(&mut self) -> Option<Result<u32>> {
        if self.over {
            return None;
        }
        let chosen = match self.choose() {
            // Who asked for the stop knows of it.
            Err(RuntimeError::Interrupted) => None,
            chosen => chosen.transpose(),
        };
        self.over = !matches!(chosen, Some(Ok(_)));
        chosen
    }
}
