//! `--tokenize`: prints the tokens of a text. Needs a tokenizer, not a model.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use qsf_runtime::stream::{InUse, RamBudget};
use qsf_runtime::text_file::TextSource;
use qsf_runtime::tokenizer::{Tokenizer, open_tokenizer};
use qsf_runtime::{RuntimeError, memory};
use serde_json::json;

use crate::console::print;
use crate::json_document::document;
use crate::model_name::model_name;

/// Flags of `--tokenize`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tokens")]
pub struct TokenizeArgs {
    /// Print the token ids of -p or -f and stop; MODEL may also be a tokenizer.json, a tokenizer.model or a vocabulary in a GGUF file
    #[arg(long, requires = "input", conflicts_with_all = ["prompt_ids", "measure", "max_tokens", "ctx_size", "temperature", "top_k", "top_p", "min_p", "seed", "verbose", "device", "threads", "pin", "activations", "lora", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "memory_plan", "io", "huge_pages"])]
    pub tokenize: bool,
    /// With --tokenize: leave out the tokens that the tokenizer itself puts around a text
    #[arg(long, requires = "tokenize")]
    pub no_bos: bool,
    /// With --tokenize: special tokens written out in the text are text
    #[arg(long, requires = "tokenize")]
    pub no_parse_special: bool,
}

/// Bytes of a token that waits to be printed: its id, and what is written of it.
const PER_TOKEN: u64 = 16;

/// What is written of a piece of the text, and what the allocator keeps.
const PRINTING: u64 = 2_000_000;

/// Prints the ids of `text`: one line with spaces between, as soon as they are known, or one JSON object.
///
/// # Errors
/// There is no tokenizer at `path`, it cannot represent the text, or the budget is too small.
pub fn print_tokens(
    args: &TokenizeArgs,
    path: &Path,
    text: &mut dyn TextSource,
    budget: Option<RamBudget>,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut tokenizer = open_tokenizer(path)?;
    tokenizer.parse_special(!args.no_parse_special);
    let in_use = InUse::of_process(0).peak.saturating_add(Tokenizer::READING_BYTES + PRINTING);
    let room_for = |tokens: usize| {
        let bytes = in_use.saturating_add(PER_TOKEN * tokens as u64);
        match budget {
            Some(RamBudget(most)) if bytes > most => {
                let what = format!("tokenizer and {tokens} tokens within --ram-budget");
                Err(RuntimeError::OutOfMemory { what, bytes: bytes.saturating_add(memory::SPREAD) })
            }
            _ => Ok(()),
        }
    };
    room_for(0)?;
    if as_json {
        let mut ids = Vec::new();
        tokenizer.encode_each(text, usize::MAX, !args.no_bos, &mut |some| {
            ids.extend_from_slice(some);
            room_for(ids.len())
        })?;
        let members = json!({ "model": model_name(path), "tokens": ids.len(), "token_ids": ids });
        // On one line: a line for each id would be most of it.
        print(&format!("{}\n", document("tokens", members)))?;
        return Ok(());
    }
    let mut before = "";
    tokenizer.encode_each(text, usize::MAX, !args.no_bos, &mut |some| {
        let mut line = String::new();
        for id in some {
            let _ = write!(line, "{before}{id}");
            before = " ";
        }
        print(&line).map_err(|error| RuntimeError::io(Path::new("stdout"), "write", error))
    })?;
    print("\n")?;
    Ok(())
}
