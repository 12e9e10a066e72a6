//! The tokens that start and end a text.

use qsf_format::ModelConfig;

use crate::error::Result;
use crate::gguf::Metadata;

const TOKENS: &str = "tokenizer.ggml.tokens";

/// Sets start, stop and padding tokens.
///
/// # Errors
/// When there are more tokens than the model has rows for, or one of these is none of them.
pub(super) fn read(metadata: &Metadata, config: &mut ModelConfig) -> Result<()> {
    if let Some(tokens) = metadata.array_length(TOKENS).filter(|&tokens| tokens > u64::from(config.vocab)) {
        let expected = format!("at most {}, as the embedding has rows", config.vocab);
        return Err(metadata.wrong(TOKENS, expected, tokens));
    }
    config.bos = token(metadata, "bos", config.vocab)?;
    config.pad = token(metadata, "padding", config.vocab)?;
    for name in ["eos", "eot", "eom"] {
        let stop = token(metadata, name, config.vocab)?;
        if let Some(stop) = stop.filter(|stop| !config.stop_tokens.contains(stop)) {
            config.stop_tokens.push(stop);
        }
    }
    Ok(())
}

fn token(metadata: &Metadata, name: &str, vocab: u32) -> Result<Option<u32>> {
    let key = format!("tokenizer.ggml.{name}_token_id");
    // The first converters wrote -1, as an unsigned number, for "none".
    match metadata.u32(&key)?.filter(|&id| id != u32::MAX) {
        Some(id) if id >= vocab => Err(metadata.wrong(&key, format!("a token below {vocab}"), id)),
        other => Ok(other),
    }
}
