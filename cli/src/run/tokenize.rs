//! `--tokenize`: prints the tokens of a text. Needs a tokenizer, not a model.

use std::path::Path;

use clap::Args;
use qsf_runtime::text_file::TextSource;
use qsf_runtime::tokenizer::open_tokenizer;
use serde_json::json;

use crate::console::print;
use crate::model_name::model_name;

/// Flags of `--tokenize`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tokens")]
pub struct TokenizeArgs {
    /// Print the token ids of -p or -f and stop; MODEL may also be a tokenizer.json, a tokenizer.model or a vocabulary in a GGUF file
    #[arg(long, requires = "input", conflicts_with_all = ["prompt_ids", "measure", "max_tokens", "ctx_size", "activations", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io"])]
    pub tokenize: bool,
    /// With --tokenize: leave out the tokens that the tokenizer itself puts around a text
    #[arg(long, requires = "tokenize")]
    pub no_bos: bool,
    /// With --tokenize: special tokens written out in the text are text
    #[arg(long, requires = "tokenize")]
    pub no_parse_special: bool,
}

/// Prints the ids of `text`: one line with spaces between, or one JSON object.
///
/// # Errors
/// There is no tokenizer at `path`, or it cannot represent the text.
pub fn print_tokens(
    args: &TokenizeArgs,
    path: &Path,
    text: &mut dyn TextSource,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut tokenizer = open_tokenizer(path)?;
    tokenizer.parse_special(!args.no_parse_special);
    let ids = tokenizer.encode_first(text, usize::MAX, !args.no_bos)?;
    if as_json {
        let value = json!({"model": model_name(path), "tokens": ids, "count": ids.len()});
        print(&format!("{value}\n"))?;
    } else {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        print(&format!("{}\n", ids.join(" ")))?;
    }
    Ok(())
}
