//! Every way in which models come with a tokenizer, turned into the text of a `tokenizer.json`: what a QSF file carries, and
//! what runs.
//!
//! - [`directory`]: the files of a model directory, or one of them alone.
//! - [`sentencepiece`], [`vocab_merges`], [`gguf`]: what each of them says, read into one of two models.
//! - [`piece_model`], [`byte_level`]: those models, and the `tokenizer.json` of each.
//! - [`end_tokens`]: tokens that end an answer.

mod byte_level;
mod charsmap;
mod directory;
mod end_tokens;
mod gguf;
mod piece_model;
mod pre_tokenizer_name;
mod pre_tokenizers;
mod protobuf;
mod sentencepiece;
mod tokenizer_config;
mod tokenizer_json;
mod vocab_merges;

#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use byte_level::ByteLevelBpe;
pub(crate) use charsmap::Charsmap;
pub(crate) use directory::read_model;
pub use directory::{FoundTokenizer, find_tokenizer, model_pieces};
pub use end_tokens::EndTokens;
pub use gguf::{GgufTokenizer, read_gguf_tokenizer};
pub(crate) use piece_model::{Algorithm, PieceModel, Prefix, SPACE_MARK, byte_of};
pub use piece_model::{Piece, PieceKind};
pub use pre_tokenizer_name::pre_tokenizer_name;
pub(crate) use tokenizer_config::TokenizerConfig;
pub(crate) use tokenizer_json::{AddedSum, AddedToken};

use crate::error::Result;

/// A tokenizer as its source defines it.
#[derive(Debug, Clone)]
pub struct Definition(Model);

/// The models that definitions are read into.
#[derive(Debug, Clone)]
pub(crate) enum Model {
    /// In the manner of SentencePiece.
    Pieces(PieceModel),
    /// In the manner of GPT-2.
    ByteLevel(ByteLevelBpe),
}

impl Definition {
    /// Reads the bytes of a SentencePiece model, a `tokenizer.model` with no other file beside it; `path` is where they
    /// came from, for messages.
    ///
    /// # Errors
    /// The model is damaged, contradicts itself, or is of a type that is not supported.
    pub fn from_sentencepiece(path: &Path, bytes: &[u8]) -> Result<Definition> {
        let model = sentencepiece::read_sentencepiece(path, bytes, &TokenizerConfig::default())?;
        Ok(Definition(Model::Pieces(model)))
    }

    /// The text of a `tokenizer.json` that does the same.
    ///
    /// # Errors
    /// When it would be unreasonably large.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Model::Pieces(model) => model.to_json(),
            Model::ByteLevel(model) => model.to_json(),
        }
    }

    /// The file that it was read from, for messages.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Model::Pieces(model) => &model.path,
            Model::ByteLevel(model) => &model.path,
        }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.0
    }
}
