//! Flags of `--attention`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `--attention`.
#[derive(Debug, Clone, Args)]
pub(super) struct AttentionArgs {
    /// Write where each token of the prompt looks, and the keys, to a safetensors file
    #[arg(long, value_name = "FILE", requires = "input",
          conflicts_with_all = ["lines", "interactive", "measure", "tokenize", "system", "ram_budget", "kv_window", "max_tokens", "stop",
                                "ignore_eos", "temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "presence_penalty",
                                "frequency_penalty", "repeat_last_n", "head", "quality", "early_exit"])]
    pub(super) attention: Option<PathBuf>,
    /// With --attention: only these layers, from 0 on
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', requires = "attention")]
    pub(super) attention_layers: Option<Vec<u32>>,
    /// With --attention: replace FILE if it exists
    #[arg(long, requires = "attention")]
    pub(super) force: bool,
}
