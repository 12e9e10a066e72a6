//! Files with a prompt in each line.

use std::path::Path;

use qsf_runtime::sample::MAX_SEED;
use qsf_runtime::text_file::read_text;
use qsf_runtime::{Result, RuntimeError};
use serde::Deserialize;
use serde_json::Value;

/// A line of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptLine {
    /// Its number in the file, from 1.
    #[serde(skip)]
    pub line: usize,
    /// The text to continue.
    pub prompt: String,
    /// What the line of the result has, too.
    #[serde(default)]
    pub id: Option<Value>,
    /// What its text is drawn with, in place of what follows from `--seed`.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// The prompts of a file.
///
/// # Errors
/// When the file cannot be read, or a line is none; the message names it.
pub(super) fn read_prompts(path: &Path) -> Result<Vec<PromptLine>> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let prompts = lines.map(|(number, line)| {
        let parsed = serde_json::from_str::<PromptLine>(line);
        let is_seed = |seed: &u64| *seed <= MAX_SEED;
        let parsed =
            parsed.ok().filter(|line| !line.prompt.is_empty() && line.seed.as_ref().is_none_or(is_seed));
        parsed.map(|parsed| PromptLine { line: number + 1, ..parsed }).ok_or_else(|| {
            let expected =
                "a JSON object with a \"prompt\" that is not empty, and perhaps an \"id\" and a \"seed\"";
            let found = line.chars().take(60).collect::<String>();
            RuntimeError::bad_input(path, format!("line {}", number + 1), expected, found.escape_debug())
        })
    });
    let prompts = prompts.collect::<Result<Vec<_>>>()?;
    if prompts.is_empty() {
        return Err(RuntimeError::bad_input(path, "the file", "a prompt in each line", "no line"));
    }
    Ok(prompts)
}

/// The prompts of a run, with their tokens.
pub(super) struct Prompts {
    pub lines: Vec<PromptLine>,
    pub tokens: Vec<Vec<u32>>,
}

impl Prompts {
    /// The one with most tokens.
    pub fn longest(&self) -> &[u32] {
        self.tokens.iter().max_by_key(|tokens| tokens.len()).map_or(&[], |tokens| tokens)
    }
}
