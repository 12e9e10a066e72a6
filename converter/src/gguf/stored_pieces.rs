//! Scores and types of the pieces of a `tokenizer.model`, as llama.cpp's `convert_hf_to_gguf.py` takes them over.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::Path;

use qsf_format::{JsonLimits, from_json};
use qsf_runtime::RuntimeError;
use qsf_runtime::tokenizer::{Piece, PieceKind, model_pieces};
use serde_json::Value as Json;

use super::vocabulary::{Vocabulary, looks_special};
use crate::error::Result;

/// Score of rows of the embedding that are no token.
const UNUSED: f32 = -10_000.0;
/// Score of tokens that files beside the model add to it, or give another name or meaning.
const ADDED: f32 = -1000.0;

/// The scores of a model in the directory `dir` that has a `tokenizer.model` with the pieces of `vocabulary`, whose types become
/// those of the model. `None`: there is none, or it is another tokenizer's, as in directories of LLaMA 3.
///
/// # Errors
/// When it cannot be read.
pub(super) fn stored_scores(dir: &Path, vocabulary: &mut Vocabulary) -> Result<Option<Vec<f32>>> {
    let Some(pieces) = model_pieces(dir)? else { return Ok(None) };
    let renamed = |id: usize, piece: &Piece| {
        let token = vocabulary.tokens.get(id);
        piece.kind == PieceKind::Normal && token.is_some_and(|token| *token != piece.text)
    };
    if pieces.iter().enumerate().any(|(id, piece)| renamed(id, piece)) {
        return Ok(None);
    }
    let mut scores: Vec<f32> =
        vocabulary.kinds.iter().map(|kind| if *kind == PieceKind::Unused { UNUSED } else { ADDED }).collect();
    for ((score, kind), piece) in scores.iter_mut().zip(&mut vocabulary.kinds).zip(&pieces) {
        *score = piece.score;
        *kind = piece.kind;
    }
    for (id, added) in added_beside(dir)? {
        let (Some(score), Some(kind), Some(text)) =
            (scores.get_mut(id), vocabulary.kinds.get_mut(id), vocabulary.tokens.get_mut(id))
        else {
            continue;
        };
        // llama.cpp looks for user-defined ones in the text as it is, where spaces are no marks.
        let (found, token) = match added.control {
            true => (PieceKind::Control, added.text),
            false => (PieceKind::UserDefined, added.text.replace('\u{2581}', " ")),
        };
        (*score, *kind, *text) = (ADDED, found, token);
    }
    Ok(Some(scores))
}

/// A token that a file beside the model names.
struct Added {
    text: String,
    control: bool,
}

/// The tokens of `added_tokens.json` and `tokenizer_config.json`, whose word counts more.
///
/// # Errors
/// When one cannot be read, or is no JSON of ordinary size.
fn added_beside(dir: &Path) -> Result<BTreeMap<usize, Added>> {
    let mut all = BTreeMap::new();
    for (text, id) in read(dir, "added_tokens.json")?.as_object().into_iter().flatten() {
        if let Some(id) = id.as_u64() {
            all.insert(id as usize, Added { text: text.clone(), control: false });
        }
    }
    let config = read(dir, "tokenizer_config.json")?;
    for (id, token) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
        if let (Ok(id), Some(text)) = (id.parse::<usize>(), token["content"].as_str()) {
            let control = token["special"].as_bool().unwrap_or(false) || looks_special(text);
            all.insert(id, Added { text: text.to_owned(), control });
        }
    }
    Ok(all)
}

/// Null where there is no such file.
fn read(dir: &Path, name: &str) -> Result<Json> {
    let path = dir.join(name);
    let Some(found) = path.metadata().ok().filter(Metadata::is_file) else { return Ok(Json::Null) };
    let wrong = |found| RuntimeError::bad_input(&path, "the file", "a JSON object of ordinary size", found);
    if found.len() > JsonLimits::DESCRIPTION.bytes as u64 {
        return Err(wrong(format!("{} bytes", found.len())).into());
    }
    let text = std::fs::read(&path).map_err(|error| RuntimeError::io(&path, "read", error))?;
    Ok(from_json(&text, JsonLimits::DESCRIPTION).map_err(wrong)?)
}
