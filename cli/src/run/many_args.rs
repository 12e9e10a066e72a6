//! Flags of many prompts: `--prompts`, `--classify` and what goes with them.

use std::path::PathBuf;

use clap::Args;

use crate::kept_model::DEFAULT_SEQUENCES;

/// Flags of many prompts.
#[derive(Debug, Clone, Args)]
pub(super) struct PromptsArgs {
    /// File with a prompt in each line: {"prompt": TEXT}, also with "id" and "seed"; prints a line of JSON for each, in their
    /// order. Line N draws with --seed plus N - 1
    #[arg(long, value_name = "FILE", groups = ["input", "lines"],
          conflicts_with_all = ["json", "interactive", "measure", "tokenize", "system", "memory_plan"])]
    pub(super) prompts: Option<PathBuf>,
    /// With --prompts or --classify: where these lines go; a run that was stopped goes on behind those that are there
    #[arg(long, value_name = "FILE")]
    pub(super) results: Option<PathBuf>,
    /// With --prompts: texts that grow at once, at most [default: 64]; with --bench: sequences that are decoded together, a list
    /// [default: 1]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = number_of_sequences)]
    pub(super) sequences: Vec<usize>,
}

impl PromptsArgs {
    /// Texts that grow at once at most.
    pub(super) fn sequences_at_once(&self) -> usize {
        self.sequences.first().copied().unwrap_or(DEFAULT_SEQUENCES)
    }

    /// Numbers of sequences that are measured.
    pub(super) fn sequences_to_measure(&self) -> &[usize] {
        if self.sequences.is_empty() { &[1] } else { &self.sequences }
    }
}

/// Most sequences at once. A step that many tokens go through gains nothing from more.
const MOST_SEQUENCES: usize = 4096;

/// `--sequences`.
fn number_of_sequences(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_SEQUENCES).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {MOST_SEQUENCES}, found '{text}'"))
}

/// Flags of classification.
#[derive(Debug, Clone, Args)]
pub(super) struct ClassifyArgs {
    /// File with a prompt in each line: {"prompt": TEXT}, also with "id"; prints for each the likeliest label, as a line of JSON
    #[arg(long, value_name = "FILE", groups = ["input", "lines"],
          conflicts_with_all = ["json", "interactive", "measure", "tokenize", "system", "memory_plan", "max_tokens", "stop", "ignore_eos",
                                "sequences", "temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "presence_penalty",
                                "frequency_penalty", "repeat_last_n", "early_exit"])]
    pub(super) classify: Option<PathBuf>,
    /// With --classify: a label, by its first token; may be repeated [default: every token]
    #[arg(long, value_name = "TEXT")]
    pub(super) label: Vec<String>,
}
