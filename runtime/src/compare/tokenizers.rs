//! Whether two models split text alike: the same tokens, and the same of them for texts in many scripts.

use crate::error::Result;
use crate::source::WeightSource;
use crate::tokenizer::{Difference, Tokenizer, first_difference};
use qsf_format::printable::quote;

/// How the tokenizers of two models differ first, in words; `None` where they do not, or neither has one.
///
/// # Errors
/// When either cannot be used.
pub fn tokenizer_difference(a: &dyn WeightSource, b: &dyn WeightSource) -> Result<Option<String>> {
    let (x, y) = match (a.tokenizer_json(), b.tokenizer_json()) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Ok(Some("only the first model has one".into())),
        (None, Some(_)) => return Ok(Some("only the second model has one".into())),
        (Some(x), Some(y)) if x == y => return Ok(None),
        (Some(x), Some(y)) => (Tokenizer::from_json(x, a.path())?, Tokenizer::from_json(y, b.path())?),
    };
    let text = |token: Option<String>| token.map_or_else(|| "none".into(), |token| quote(&token));
    // Ids may have gaps, so that the last is behind the count.
    let ids = x.vocab_size().max(y.vocab_size()).max(a.config().vocab as usize) as u32;
    for id in 0..ids {
        let (in_a, in_b) = (x.token_text(id), y.token_text(id));
        if in_a != in_b {
            return Ok(Some(format!("token {id} is {} and {}", text(in_a), text(in_b))));
        }
    }
    let found = first_difference(&x, &y)?;
    Ok(found.map(|Difference { text, expected, found }| {
        format!("the text {} begins with the tokens {expected:?} and {found:?} where they part", quote(&text))
    }))
}
