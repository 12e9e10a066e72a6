//! Opens the tokenizer of whatever a path leads to: a model, or a tokenizer alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use qsf_format::{QsfFile, SectionTag};

use super::Tokenizer;
use super::definition::{TokenizerConfig, find_tokenizer, read_gguf_tokenizer, read_model};
use crate::error::{Result, RuntimeError};
use crate::gguf::GgufFile;
use crate::model_dir::files;

/// The tokenizer at `path`: of a QSF or GGUF file, of a directory with a model or with a tokenizer's files only, or a
/// `tokenizer.json` or `tokenizer.model` by itself. Weights are not read.
///
/// # Errors
/// There is none, or it is damaged or of a kind that is not supported.
pub fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
    let none = |expected: &str| RuntimeError::bad_input(path, "the tokenizer", expected, "none");
    if path.is_dir() {
        let found = find_tokenizer(path)?;
        let found = found.ok_or_else(|| {
            none("tokenizer.json, tokenizer.model, or vocab.json with merges.txt in this directory")
        })?;
        return Tokenizer::from_json(&found.json, &found.files[0]);
    }
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    let known = match file.read_exact(&mut magic) {
        Ok(()) => Some(&magic),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => None,
        Err(e) => return Err(RuntimeError::io(path, "read", e)),
    };
    match known {
        Some(b"QSF1") => {
            let json = QsfFile::open(path)?.section_bytes(SectionTag::TOKENIZER)?;
            Tokenizer::from_json(&json.ok_or_else(|| none("a QSF file with a tokenizer"))?, path)
        }
        Some(b"GGUF") => {
            let found = read_gguf_tokenizer(&GgufFile::open(path)?.metadata)?;
            let found = found.ok_or_else(|| none("a GGUF file with a tokenizer"))?;
            Tokenizer::from_json(&found.definition.to_json()?, path)
        }
        // A tokenizer.model begins with its first piece: field 1, of a message.
        Some([0x0a, ..]) => {
            Tokenizer::from_json(&read_model(path, &TokenizerConfig::default())?.to_json()?, path)
        }
        _ => Tokenizer::from_json(&files::read(path, files::MAX_TOKENIZER_BYTES)?, path),
    }
}
