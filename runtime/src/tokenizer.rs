//! Text to tokens and back, by the model's own `tokenizer.json`.

mod build;
mod definition;
mod limits;
mod open;
mod self_check;
mod stream;
mod windows;

use std::path::{Path, PathBuf};

use tokenizers::ModelWrapper;

use crate::error::{Result, RuntimeError};
use crate::guard::catch_library_panic;
use crate::text_file::{TextInMemory, TextSource};
use windows::{Encoder, Lengths, Placed};

pub use definition::{
    Definition, EndTokens, FoundTokenizer, GgufTokenizer, Piece, PieceKind, find_tokenizer, model_pieces,
    pre_tokenizer_name, read_gguf_tokenizer,
};
pub use open::open_tokenizer;
pub(crate) use self_check::check_against;
pub use self_check::{Difference, first_difference, self_check};
pub use stream::TokenStream;

/// A tokenizer as a model comes with it.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    bos: Option<u32>,
    lengths: Lengths,
}

impl Tokenizer {
    /// Reads the text of a `tokenizer.json`; `path` is where it came from, for messages.
    ///
    /// Truncation, padding and dropout of merges that the file asks for are left out: they are leftovers of training. A prompt
    /// that is cut silently is a wrong result, and so are other tokens in every run.
    ///
    /// # Errors
    /// The text is not a tokenizer, or is one that fails at its first use.
    pub fn from_json(bytes: &[u8], path: &Path) -> Result<Tokenizer> {
        let (inner, growth) = catch_library_panic("tokenizer", || {
            let growth = limits::check(bytes)?;
            let inner = build::build(bytes)?;
            limits::check_patterns(&inner)?;
            Ok((inner, growth))
        })
        .map_err(|problem| {
            RuntimeError::bad_input(path, "the tokenizer", "a valid tokenizer.json", problem)
        })?;
        let mut tokenizer =
            Tokenizer { inner, path: path.to_owned(), bos: None, lengths: Lengths::new(growth) };
        tokenizer.bos = tokenizer.find_bos()?;
        Ok(tokenizer)
    }

    /// The tokens of `text`, with those around it that the tokenizer itself adds, such as a start token. Special tokens
    /// written out in the text count as such.
    ///
    /// # Errors
    /// The tokenizer cannot represent the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_whole(text, true)
    }

    /// The tokens of `text` without those that the tokenizer itself adds.
    ///
    /// # Errors
    /// The tokenizer cannot represent the text.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_whole(text, false)
    }

    /// The first `most` tokens of what [`Tokenizer::encode`] makes of the text, or with `special` false [`Tokenizer::encode_plain`]. No
    /// more of the text is read than these need, and little of it is held.
    ///
    /// # Errors
    /// The text cannot be read, or the tokenizer cannot represent it.
    pub fn encode_first(&self, text: &mut dyn TextSource, most: usize, special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_each(text, most, special, &mut |some| {
            ids.extend_from_slice(some);
            Ok(())
        })?;
        Ok(ids)
    }

    /// What reading a text of any length takes at most, beside the tokens: windows of it, and what the library makes of them.
    pub const READING_BYTES: u64 = 6_000_000;

    /// As [`Tokenizer::encode_first`], for tokens that nobody wants all at once: `take` gets them in order, some at a time.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_first`], and of `take`.
    pub fn encode_each(
        &self,
        text: &mut dyn TextSource,
        most: usize,
        special: bool,
        take: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        windows::encode(self, self.lengths, text, most, special, take)
    }

    /// Long texts in windows, as libraries take a hundred times the memory of what they encode at once.
    fn encode_whole(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        if text.len() > self.lengths.window {
            return self.encode_first(&mut TextInMemory::new(text, &self.path), usize::MAX, special);
        }
        self.run("encode text", || Ok(self.inner.encode_fast(text, special)?.get_ids().to_vec()))
    }

    /// Whether special tokens written out in a text count as such, which they do at first.
    pub fn parse_special(&mut self, parse: bool) {
        self.inner.set_encode_special_tokens(!parse);
    }

    /// The token that the tokenizer itself puts before every text, where it does.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The text of the token for what the vocabulary lacks, where the model of the tokenizer has one.
    pub fn unk(&self) -> Option<String> {
        match self.inner.get_model() {
            ModelWrapper::BPE(model) => model.unk_token.clone(),
            ModelWrapper::WordLevel(model) => Some(model.unk_token.clone()),
            ModelWrapper::WordPiece(model) => Some(model.unk_token.clone()),
            // Its id is known to the library alone.
            ModelWrapper::Unigram(_) => None,
        }
    }

    /// The text of `ids`; with `skip_special` without special tokens such as the end of text.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        self.run("decode tokens", || self.inner.decode(ids, skip_special))
    }

    /// The token as the vocabulary spells it, which is not the text it stands for: `Ġthe`, `<0x0A>`.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Number of tokens, special and added ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Only what stands first both before nothing and before something, and was not part of the text: a token that is
    /// added at the end stands first before nothing, too.
    fn find_bos(&self) -> Result<Option<u32>> {
        let first = |text| {
            self.run("encode a first text", || {
                let encoding = self.inner.encode(text, true)?;
                let added = encoding.get_special_tokens_mask().first() == Some(&1);
                Ok(encoding.get_ids().first().copied().filter(|_| added))
            })
        };
        Ok(first("")?.filter(|&id| matches!(first("a"), Ok(Some(other)) if other == id)))
    }

    fn run<T>(&self, action: &str, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
        catch_library_panic("tokenizer", work).map_err(|problem| {
            RuntimeError::bad_input(&self.path, "the tokenizer", format!("it to {action}"), problem)
        })
    }
}

impl Encoder for Tokenizer {
    fn placed(&self, text: &str) -> Result<Vec<Placed>> {
        self.run("encode text", || {
            let encoding = self.inner.encode(text, false)?;
            let places = encoding.get_ids().iter().zip(encoding.get_offsets());
            Ok(places.map(|(&id, &(start, end))| Placed { id, start, end }).collect())
        })
    }

    fn added_around(&self, text: &str) -> Result<(Vec<u32>, Vec<u32>)> {
        self.run("encode text", || {
            let encoding = self.inner.encode_fast(text, true)?;
            let (ids, added) = (encoding.get_ids(), encoding.get_special_tokens_mask());
            let before = added.iter().take_while(|&&added| added == 1).count();
            let behind = added[before..].iter().rev().take_while(|&&added| added == 1).count();
            Ok((ids[..before].to_vec(), ids[ids.len() - behind..].to_vec()))
        })
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The inner one would print its whole vocabulary.
        f.debug_struct("Tokenizer").field("path", &self.path).field("vocab_size", &self.vocab_size()).finish()
    }
}

#[cfg(test)]
mod tests;
