//! What of a calibration text types are chosen by. Damage is measured on tokens that no matrix was fitted to: on those that it was
//! fitted to every type does less damage than on any other text.

use qsf_calibration::{ProbeText, set_aside, spread};

use crate::fit::{PROBE_CHUNK, PROBE_CHUNKS};

/// Tokens of a chunk of the text; a measurement takes some chunks from all over it.
pub(super) const CHUNK: usize = 512;
/// Chunks for the moments of the whole model in chosen types.
const MODEL_CHUNKS: usize = 32;
/// At most one in so many tokens is set aside.
const LEAST_RATIO: usize = 4;
/// Of shorter texts nothing is set aside where each matrix is measured alone: damage says nothing of other text.
pub(crate) const LEAST_TOKENS: usize = LEAST_RATIO * PROBE_CHUNK;

/// The parts of a text.
pub(crate) struct SurveyText {
    /// What matrices are fitted to, to compare types.
    pub heard: Vec<u32>,
    /// What damage is measured on.
    measured: Vec<u32>,
    /// Tokens of a chunk of it.
    ctx: usize,
}

impl SurveyText {
    /// The parts of `tokens` where each matrix is measured alone, and moments are of `heard` chunks. With `whole`, as
    /// files of statistics are of a whole text, nothing is set aside.
    pub fn of_tensors(tokens: &[u32], whole: bool, heard: usize) -> SurveyText {
        SurveyText::new(tokens, whole, heard, PROBE_CHUNK, PROBE_CHUNKS)
    }

    /// The parts of `tokens` where the whole model is measured in chosen types, in `count` chunks: small differences must not drown.
    pub fn of_model(tokens: &[u32], count: usize) -> SurveyText {
        SurveyText::new(tokens, false, MODEL_CHUNKS, CHUNK, count)
    }

    fn new(tokens: &[u32], whole: bool, heard: usize, ctx: usize, count: usize) -> SurveyText {
        let heard = |tokens: &[u32]| spread(tokens, CHUNK.min(tokens.len()), heard);
        let count = count.min(tokens.len() / (LEAST_RATIO * ctx));
        if whole || count == 0 {
            let ctx = ctx.min(tokens.len());
            let heard = if whole { tokens.to_vec() } else { heard(tokens) };
            return SurveyText { heard, measured: spread(tokens, ctx, count.max(1)), ctx };
        }
        let (measured, rest) = set_aside(tokens, ctx, count);
        SurveyText { heard: heard(&rest), measured, ctx }
    }

    /// What damage is measured on.
    pub fn measured(&self) -> ProbeText<'_> {
        ProbeText { tokens: &self.measured, ctx: self.ctx, chunks: self.measured.len() / self.ctx.max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_measured_on_tokens_that_nothing_was_fitted_to() {
        for length in [2048, 8192, 65_536, 100_000] {
            let tokens: Vec<u32> = (0..length).collect();
            let text = SurveyText::of_tensors(&tokens, false, 32);
            assert_eq!((text.measured().tokens.len(), text.measured().chunks), (512, 4));
            assert!(
                text.heard.len() >= 1536 && !text.heard.iter().any(|token| text.measured.contains(token))
            );
        }
    }

    #[test]
    fn short_texts_and_files_of_statistics_are_heard_whole() {
        let tokens: Vec<u32> = (0..4096).collect();
        assert_eq!(SurveyText::of_tensors(&tokens, true, 32).heard, tokens);
        assert_eq!(SurveyText::of_tensors(&tokens[..511], false, 32).heard, tokens[..511]);
        assert_eq!(SurveyText::of_tensors(&tokens[..100], false, 32).measured().ctx, 100);
        assert_eq!(SurveyText::of_tensors(&tokens[..512], false, 32).heard, tokens[128..512]);
    }
}
