//! The tokenizer among the files of a directory.

use std::path::{Path, PathBuf};

use super::end_tokens::EndTokens;
use super::piece_model::Piece;
use super::sentencepiece::{read_pieces, read_sentencepiece};
use super::tokenizer_config::TokenizerConfig;
use super::vocab_merges::read_vocab_merges;
use super::{Definition, Model};
use crate::error::Result;
use crate::model_dir::files;

/// Largest `tokenizer.model`; those in use take up to 5 MB.
const MAX_MODEL_BYTES: u64 = 64 << 20;

/// A tokenizer, and where it came from.
#[derive(Debug)]
pub struct FoundTokenizer {
    /// The text of its `tokenizer.json`.
    pub json: Vec<u8>,
    /// What the model says beside, or instead of, a `tokenizer.json`.
    pub definition: Option<Definition>,
    /// Whether the text was made from the definition.
    pub derived: bool,
    /// Tokens that end an answer, by what the files say of them.
    pub end_tokens: EndTokens,
    /// Files of which nothing but [`EndTokens::eos`] was taken.
    pub end_files: Vec<PathBuf>,
    /// Every file that was read, the main one first.
    pub files: Vec<PathBuf>,
}

/// The tokenizer in `dir`, where there is one: `tokenizer.json`, else `tokenizer.model`, else `vocab.json` with
/// `merges.txt`.
///
/// # Errors
/// The files are malformed, contradict each other, or are of a kind that is not supported.
pub fn find_tokenizer(dir: &Path) -> Result<Option<FoundTokenizer>> {
    let model = files::find(dir, "tokenizer.model")?;
    if let Some(path) = files::find(dir, "tokenizer.json")? {
        let json = files::read(&path, files::MAX_TOKENIZER_BYTES)?;
        // All that these say counts in tokenizer.json already, but for which token ends a text: files that are wrong
        // otherwise do no harm.
        let config = TokenizerConfig::read(dir).ok();
        // For comparison only: LLaMA 3 has something else under that name.
        let definition = model.and_then(|model| read_model(&model, config.as_ref()?).ok());
        let config = config.unwrap_or_default();
        let end_tokens = EndTokens::read(&json, config.eos());
        let (files, end_files) = (vec![path], config.files);
        return Ok(Some(FoundTokenizer { json, definition, derived: false, end_tokens, end_files, files }));
    }
    let vocab = files::find(dir, "vocab.json")?.zip(files::find(dir, "merges.txt")?);
    let (mut read, definition, config) = match (model, vocab) {
        (Some(path), _) => {
            let config = TokenizerConfig::read(dir)?;
            let definition = read_model(&path, &config)?;
            (vec![path], definition, config)
        }
        (None, Some((path, merges))) => {
            let config = TokenizerConfig::read(dir)?;
            let bpe = read_vocab_merges(&path, &merges, &config)?;
            (vec![path, merges], Definition(Model::ByteLevel(bpe)), config)
        }
        (None, None) => return Ok(None),
    };
    let json = definition.to_json()?;
    let end_tokens = EndTokens::read(&json, config.eos());
    read.extend(config.files);
    let definition = Some(definition);
    Ok(Some(FoundTokenizer {
        json,
        definition,
        derived: true,
        end_tokens,
        end_files: Vec::new(),
        files: read,
    }))
}

/// The pieces of the `tokenizer.model` in `dir`; `None` where there is none of SentencePiece.
///
/// # Errors
/// The file cannot be read.
pub fn model_pieces(dir: &Path) -> Result<Option<Vec<Piece>>> {
    let Some(path) = dir.is_dir().then(|| files::find(dir, "tokenizer.model")).transpose()?.flatten() else {
        return Ok(None);
    };
    let bytes = files::read(&path, MAX_MODEL_BYTES)?;
    // LLaMA 3 has something else under that name.
    Ok(read_pieces(&path, &bytes).ok().filter(|pieces| !pieces.is_empty()))
}

/// Reads the `tokenizer.model` at `path`. `config` is what the files beside it say.
///
/// # Errors
/// As for the file itself.
pub(crate) fn read_model(path: &Path, config: &TokenizerConfig) -> Result<Definition> {
    let bytes = files::read(path, MAX_MODEL_BYTES)?;
    Ok(Definition(Model::Pieces(read_sentencepiece(path, &bytes, config)?)))
}
