//! The calibration text: what tells which errors of the weights matter.

use std::path::PathBuf;

use qsf_calibration::{CalibrationText, Conversation, Renderer, TextTokens, tokenize};
use qsf_runtime::file_hash::hex;
use qsf_runtime::source::{WeightSource, tokenizer_of};
use qsf_runtime::{ChatTemplate, RuntimeError};

use crate::error::Result;
use crate::options::{Calibration, SearchEffort, Written};

/// What stands in for a calibration text where none is given: prose of a book in the public domain, and technical text and
/// code of this project.
const DEFAULT_TEXT: &str = include_str!("../../data/calibration.txt");

/// Fewer tokens than this part of the widest input's columns, and what a matrix is fitted to is mostly chance: measured in
/// docs/measurements/quality.md.
pub(crate) const TOKENS_PER_COLUMN: usize = 4;

/// Tokens that a model of any size gets.
const LEAST_TOKENS: u64 = 32_768;
/// Most tokens for a search of normal effort.
const MOST_TOKENS: u64 = 131_072;
/// Tokens times weights that a default may come to: on two cores a few minutes of arithmetic.
const MOST_WORK: u64 = 1 << 43;

/// At most `max_tokens` tokens of the files, text or JSONL, by the tokenizer of `source`; of a built-in text where there are none.
/// A file that is much longer gives stretches all over it. The file [`Calibration::SELF`] is text that the model will write; a
/// conversion has it do that. Several files get even shares. With `chat` conversations go through the chat template of `source`.
///
/// # Errors
/// When a file cannot be read, the source has no tokenizer, or the text is empty; with `chat` when the source has no template,
/// no file has a conversation, or the template refuses one.
pub fn calibrate(
    source: &dyn WeightSource,
    files: &[PathBuf],
    max_tokens: usize,
    chat: bool,
) -> Result<Calibration> {
    let tokenizer = tokenizer_of(source, "the calibration text")?;
    let template = if chat { Some(ChatTemplate::of_source(source, &tokenizer)?) } else { None };
    let texts = match files {
        [] => vec![CalibrationText::BuiltIn(DEFAULT_TEXT)],
        files => files
            .iter()
            .map(|path| match Calibration::is_written(path) {
                true => CalibrationText::Written,
                false => CalibrationText::File(path),
            })
            .collect(),
    };
    let render = template
        .as_ref()
        .map(|template| |conversation: &Conversation| template.render_raw(conversation.raw(), false));
    let render = render.as_ref().map(|render| render as Renderer<'_>);
    let is_written = |text: &CalibrationText<'_>| *text == CalibrationText::Written;
    if texts.iter().filter(|text| is_written(text)).count() > 1 {
        let problem =
            "--calibration self is given several times: what the model writes would be the same text";
        return Err(RuntimeError::Request(problem.into()).into());
    }
    let TextTokens { tokens, sha256, parts, conversations } =
        tokenize(&tokenizer, &texts, render, max_tokens)?;
    let written = texts.iter().position(is_written);
    let written = written.map(|text| Written { at: parts[text].tokens.clone(), done: false, expected: None });
    if chat && conversations == 0 {
        let problem = "--chat-template: what was read of the calibration text has no conversations: it takes files that end \
                       in .jsonl or .ndjson, with \"messages\" on their lines";
        return Err(RuntimeError::Request(problem.into()).into());
    }
    if tokens.is_empty() {
        return Err(RuntimeError::Request("the calibration text is empty".into()).into());
    }
    let text_sha256 = hex(&sha256);
    Ok(Calibration {
        files: files.to_vec(),
        most_tokens: max_tokens,
        tokens,
        text_sha256,
        chat_template: chat,
        parts,
        written,
    })
}

/// As many tokens of a calibration text as a model of this size is worth waiting for: more text makes the moments of inputs surer, and
/// time goes with tokens times weights. More effort takes up to twice as many.
pub fn default_tokens(source: &dyn WeightSource, effort: SearchEffort) -> usize {
    let weights = source.tensors().iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    let matrices = source.tensors().iter().filter(|t| t.id.kind.is_matrix());
    // Low effort saves time, but not so much that a file may be worse than without a text.
    let least = TOKENS_PER_COLUMN.saturating_mul(matrices.map(|t| t.cols).max().unwrap_or(0));
    tokens_for(weights, effort).max(least.min(LEAST_TOKENS as usize))
}

fn tokens_for(weights: u64, effort: SearchEffort) -> usize {
    let (work, least, most) = match effort {
        SearchEffort::Low => (MOST_WORK / 4, LEAST_TOKENS / 2, MOST_TOKENS / 4),
        SearchEffort::Normal => (MOST_WORK, LEAST_TOKENS, MOST_TOKENS),
        SearchEffort::High | SearchEffort::Max => (2 * MOST_WORK, LEAST_TOKENS, 2 * MOST_TOKENS),
    };
    (work / weights.max(1)).clamp(least, most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_fall_with_the_size_of_the_model_and_more_effort_takes_up_to_twice_as_many() {
        use SearchEffort::{High, Low, Max, Normal};
        for (weights, low, normal, high) in [
            (0, 32_768, 131_072, 262_144),
            (52_443_648, 32_768, 131_072, 262_144),
            (1 << 27, 16_384, 65_536, 131_072),
            (1 << 28, 16_384, 32_768, 65_536),
            (400_000_000, 16_384, 32_768, 43_980),
            (u64::MAX, 16_384, 32_768, 32_768),
        ] {
            let found = [Low, Normal, High, Max].map(|effort| tokens_for(weights, effort));
            assert_eq!(found, [low, normal, high, high], "{weights} weights");
        }
    }
}
