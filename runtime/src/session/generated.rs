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

impl Session {
    /// Tokens that `sampler` chooses behind a sequence, one after another, each run as soon as the next one is asked for. They end
    /// where the context does, and behind a stop of the decoder. `sampler` should have accepted the tokens so far, where it has
    /// penalties.
    ///
    /// # Errors
    /// When there are no logits to choose by.
    pub fn generate<'a>(
        &'a mut self,
        sequence: usize,
        sampler: &'a mut Sampler,
    ) -> Result<GeneratedTokens<'a>> {
        if self.logits(sequence).is_none() {
            let problem =
                format!("sequence {sequence} has no logits that a token could be chosen by: run one first");
            return Err(RuntimeError::Request(problem));
        }
        Ok(GeneratedTokens { session: self, sequence, sampler, last: None, over: false })
    }
}

impl GeneratedTokens<'_> {
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
