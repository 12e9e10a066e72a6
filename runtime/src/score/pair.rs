//! A context and its continuation as tokens, as lm-evaluation-harness makes them of texts.

use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// The tokens of a context, and those of the continuation: both are one text to the tokenizer, which is cut where the context alone
/// ends. Spaces at the end of the context belong to the continuation, as they do to the tokens of words (`_encode_pair` of the
/// harness). `alone` are the tokens of the context without them, `start` is what an empty one consists of.
///
/// # Errors
/// When a text cannot be encoded.
pub fn encode_pair(
    tokenizer: &Tokenizer,
    start: u32,
    (context, alone): (&str, &[u32]),
    continuation: &str,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let text = format!("{context}{continuation}");
    if alone.is_empty() || context.is_empty() {
        let mut tokens = tokenizer.encode_plain(&text)?;
        if tokens.first() == Some(&start) {
            tokens.remove(0);
        }
        return Ok((vec![start], tokens));
    }
    let whole = tokenizer.encode(&text)?;
    Ok((alone.to_vec(), whole.get(alone.len()..).unwrap_or_default().to_vec()))
}
