//! Decoding of tokens that come one at a time.
//!
//! Tokens cannot be decoded one by one: a character may be spread over several byte tokens, and decoders treat the
//! first token differently (a space in front of it is dropped). So the last few tokens are decoded together, and only
//! text is handed out that later tokens cannot change.

use super::Tokenizer;
use crate::error::Result;

/// What an unfinished or invalid byte sequence decodes to.
const REPLACEMENT: char = '\u{fffd}';

/// With this many tokens and still no end of a character, the bytes are no text; they are shown as they decode, so
/// that neither memory nor time grows with the length of the garbage.
const MAX_PENDING: usize = 64;

/// Tokens of a prompt that are decoded with what follows it: enough to hold a character.
const CONTEXT: usize = 8;

/// Turns tokens into text as they come; see [`Tokenizer::stream`].
#[derive(Debug)]
pub struct TokenStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The tokens that are decoded together: context of which all text is handed out, then those to come.
    window: Vec<u32>,
    /// How many of them are context.
    context: usize,
    /// The text of the window that is handed out already.
    emitted: String,
}

impl Tokenizer {
    /// A decoder for tokens that come one at a time. Special tokens are left out.
    pub fn stream(&self) -> TokenStream<'_> {
        TokenStream { tokenizer: self, window: Vec::new(), context: 0, emitted: String::new() }
    }

    /// A decoder for tokens that come one at a time behind `tokens`, whose text is known already: a space between the two is kept, which many
    /// decoders drop at the start of a text.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn stream_after(&self, tokens: &[u32]) -> Result<TokenStream<'_>> {
        let window = tokens[tokens.len().saturating_sub(CONTEXT)..].to_vec();
        let emitted = self.decode(&window, true)?;
        Ok(TokenStream { tokenizer: self, context: window.len(), window, emitted })
    }
}

impl TokenStream<'_> {
    /// Takes the next token and gives the text that is now certain: whole characters only, `None` when there is none.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn push(&mut self, id: u32) -> Result<Option<String>> {
        self.window.push(id);
        let text = self.tokenizer.decode(&self.window, true)?;
        let complete = !text.ends_with(REPLACEMENT);
        if !complete && self.window.len() - self.context < MAX_PENDING {
            let certain = text.trim_end_matches(REPLACEMENT);
            return Ok(self.emit(certain));
        }
        let new = self.emit_all(&text);
        if new.is_some() {
            // The tokens since the last time are context enough: they hold at least one character.
            self.window.drain(..self.context);
            self.context = self.window.len();
            self.emitted = self.tokenizer.decode(&self.window, true)?;
        } else if self.window.len() - self.context >= MAX_PENDING {
            // Tokens without text, such as special ones, need not be kept for ever.
            self.window.truncate(self.context);
        }
        Ok(new)
    }

    /// Ends the text: what was held back, where there is anything. The stream can take another text afterwards.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn finish(&mut self) -> Result<Option<String>> {
        let text = self.tokenizer.decode(&self.window, true)?;
        let rest = self.emit_all(&text);
        self.window.clear();
        self.context = 0;
        self.emitted.clear();
        Ok(rest)
    }

    /// Hands out what `certain` has more than was handed out. Where it does not continue that text, it will once the
    /// character is complete: some decoders show a whole run of bytes as invalid until its last one is there.
    fn emit(&mut self, certain: &str) -> Option<String> {
        let new = certain.strip_prefix(self.emitted.as_str()).filter(|new| !new.is_empty())?;
        let new = new.to_owned();
        self.emitted.push_str(&new);
        Some(new)
    }

    /// Hands out everything in `text` beyond what it has in common with the text handed out.
    fn emit_all(&mut self, text: &str) -> Option<String> {
        let common: usize = text
            .chars()
            .zip(self.emitted.chars())
            .take_while(|(new, old)| new == old)
            .map(|(new, _)| new.len_utf8())
            .sum();
        let new = &text[common..];
        self.emitted = text.to_owned();
        (!new.is_empty()).then(|| new.to_owned())
    }
}
