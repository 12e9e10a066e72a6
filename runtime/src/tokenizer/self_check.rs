//! A check before a tokenizer is given away: texts in many scripts, code, symbols and white space, encoded as the source
//! defines it and as it was written.

mod reference;

use super::Tokenizer;
use super::definition::{Definition, Model};
use crate::error::{Result, RuntimeError};
use crate::guard::catch_library_panic;
use reference::{ByteReference, PieceReference, Reference};

/// Texts that begin with a letter or a symbol, on which all makers of tokenizers agree.
const TEXTS: &str = include_str!("self_check/texts.txt");
/// Texts whose white space or length is unusual. A `tokenizer.json` that its maker derived from a SentencePiece model
/// often differs on them, so they are for those that were derived here.
const EDGES: [&str; 12] = [
    "",
    " ",
    "  two  spaces  between  and  around  ",
    "\n",
    "\t\ttabs\tand\nlines\r\n\r\n  indented",
    " leading space",
    "▁mark ▁ of ▁▁ spaces",
    "\u{a0}no-break\u{2003}wide\u{3000}ideographic\u{200b}zero",
    "a\u{0}b\u{1}c\u{7f}d\u{1b}[2J",
    "                                                                          74 spaces",
    "e\u{301}\u{323} combining \u{1e69} \u{212b} \u{fb01}",
    "\u{fffd}\u{feff}\u{10ffff}\u{e000}",
];
/// What separates the texts of the file.
const SEPARATOR: &str = "\n=====\n";
/// Characters of a text shown around a difference.
const AROUND: usize = 24;

/// The first text that two tokenizers split differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The text around the place where they part.
    pub text: String,
    /// The token there, and those that follow it, as the source defines it.
    pub expected: Vec<u32>,
    /// The token there, and those that follow it, by the tokenizer that was checked.
    pub found: Vec<u32>,
}

/// Compares `written` with what `definition` says, on built-in texts. `derived`: `written` was made from `definition`;
/// otherwise both came with the model.
///
/// # Errors
/// One of the two cannot encode a text.
pub fn self_check(definition: &Definition, written: &Tokenizer, derived: bool) -> Result<Option<Difference>> {
    let path = definition.path();
    let failed = |problem: String| {
        RuntimeError::bad_input(
            path,
            "the tokenizer",
            "one that can encode the texts of the self-check",
            problem,
        )
    };
    let reference: Box<dyn Reference + '_> = match definition.model() {
        Model::Pieces(model) => Box::new(PieceReference::new(model).map_err(failed)?),
        Model::ByteLevel(model) => Box::new(ByteReference::new(model).map_err(failed)?),
    };
    let edges = EDGES.iter().copied().filter(|_| derived);
    for text in TEXTS.split(SEPARATOR).chain(edges) {
        let expected = catch_library_panic("tokenizer", || reference.encode(text)).map_err(failed)?;
        let found = written.encode_plain(text)?;
        if expected != found {
            return Ok(Some(difference(written, text, &expected, &found)));
        }
    }
    Ok(None)
}

/// The first of the built-in texts that two tokenizers split differently, with the tokens that each puts around a text:
/// expected is what `a` makes of it.
///
/// # Errors
/// When one of them cannot encode a text.
pub fn first_difference(a: &Tokenizer, b: &Tokenizer) -> Result<Option<Difference>> {
    for text in TEXTS.split(SEPARATOR).chain(EDGES) {
        let (expected, found) = (a.encode(text)?, b.encode(text)?);
        if expected != found {
            return Ok(Some(difference(b, text, &expected, &found)));
        }
    }
    Ok(None)
}

fn difference(written: &Tokenizer, text: &str, expected: &[u32], found: &[u32]) -> Difference {
    let same = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    // Where the common tokens end in the text: as many characters as they decode to, or nearly.
    let shown = written.decode(&found[..same], false).map_or(0, |text| text.chars().count());
    let from = shown.saturating_sub(AROUND / 2);
    let some = |ids: &[u32]| ids[same..].iter().take(8).copied().collect();
    Difference {
        text: text.chars().skip(from).take(AROUND * 2).collect(),
        expected: some(expected),
        found: some(found),
    }
}

/// [`self_check`] with the difference as an error.
///
/// # Errors
/// As [`self_check`], and the difference where there is one.
pub(crate) fn check_against(definition: &Definition, written: &Tokenizer, derived: bool) -> Result<()> {
    match self_check(definition, written, derived)? {
        None => Ok(()),
        Some(Difference { text, expected, found }) => Err(RuntimeError::bad_input(
            definition.path(),
            format!("the tokenizer, at the text {}", qsf_format::printable::quote(&text)),
            format!("the tokens {expected:?} that it defines"),
            format!(
                "{found:?} in {}",
                if derived { "what was made of it" } else { "tokenizer.json beside it" }
            ),
        )),
    }
}
