//! What stands beside the weights: the tokenizer and the chat template, copied from a directory or made of what a file has of them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use qsf_format::{JsonLimits, ModelConfig, from_json};
use qsf_runtime::source::{WeightSource, file_of_directory};
use serde_json::{Map, Value, json};

use super::config_json::directory_of;
use crate::error::{ConvertError, Result};

/// Files of a model directory that hold no weights, and go into another as they are.
pub const COMPANIONS: [&str; 13] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// That they can be copied: said before the work.
///
/// # Errors
/// When one is no file, or a link that leads out of the directory.
pub(crate) fn check_companions(source: &dyn WeightSource) -> Result<()> {
    let Some(from) = directory_of(source) else { return Ok(()) };
    Ok(COMPANIONS.iter().try_for_each(|name| file_of_directory(&from, name).map(|_| ()))?)
}

/// Writes them into `dir`.
///
/// # Errors
/// When reading or writing fails, or a file is a link that leads out of the directory.
pub(super) fn write_companions(source: &dyn WeightSource, dir: &Path) -> Result<()> {
    let mut has_tokenizer = false;
    if let Some(from) = directory_of(source) {
        for name in COMPANIONS {
            let Some(from) = file_of_directory(&from, name)? else { continue };
            copy(&from, &dir.join(name)).map_err(|e| ConvertError::io(&from, "copy", e))?;
            has_tokenizer |= name == "tokenizer.json";
        }
    }
    if has_tokenizer {
        return Ok(());
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(|e| ConvertError::io(&path, "write", e))
    };
    let Some(json) = source.tokenizer_json() else { return Ok(()) };
    write("tokenizer.json", json)?;
    if !dir.join("tokenizer_config.json").exists() {
        let fields = tokenizer_config(source.config(), json, source.chat_template());
        write("tokenizer_config.json", &pretty(&fields))?;
    }
    Ok(())
}

/// Without the permissions: a source that is read only gives files that can be written.
fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(from)?, &mut File::create(to)?)
}

/// Bytes that they take, about.
pub(super) fn companion_bytes(source: &dyn WeightSource) -> u64 {
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    match directory_of(source) {
        Some(from) => COMPANIONS.iter().map(|name| size(&from.join(name))).sum(),
        None => [source.tokenizer_json(), source.chat_template()]
            .into_iter()
            .flatten()
            .map(|bytes| bytes.len() as u64)
            .sum(),
    }
}

/// JSON as people write it.
pub(super) fn pretty(fields: &Map<String, Value>) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(fields).expect("names and numbers are JSON");
    text.push(b'\n');
    text
}

/// What a tokenizer.json does not say: which tokens begin, end and pad a text, and the chat template.
fn tokenizer_config(config: &ModelConfig, tokenizer: &[u8], template: Option<&[u8]>) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    let tokens: Value = from_json(tokenizer, JsonLimits::LIST).unwrap_or_default();
    let token = |id: Option<u32>| id.map_or(Value::Null, |id| token_of(&tokens, id));
    add("tokenizer_class", json!("PreTrainedTokenizerFast"));
    add("clean_up_tokenization_spaces", json!(false));
    add("model_max_length", json!(config.max_positions));
    add("bos_token", token(config.bos));
    add("eos_token", token(config.stop_tokens.first().copied()));
    add("pad_token", token(config.pad));
    let template = template.map(|template| String::from_utf8_lossy(template).into_owned());
    add("chat_template", json!(template));
    fields
}

/// The text of a token.
fn token_of(tokenizer: &Value, id: u32) -> Value {
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let found = added.into_iter().find(|token| token["id"] == id).map(|token| token["content"].clone());
    let vocab = &tokenizer["model"]["vocab"];
    let of_list = || vocab.get(id as usize)?.get(0).cloned();
    let of_map = || Some(json!(vocab.as_object()?.iter().find(|(_, number)| **number == id)?.0));
    found.or_else(of_list).or_else(of_map).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_named_whatever_kind_of_vocabulary_has_them() {
        let map =
            json!({ "added_tokens": [{ "id": 2, "content": "</s>" }], "model": { "vocab": { "<s>": 1 } } });
        let list = json!({ "model": { "vocab": [["<unk>", 0.0], ["<s>", -1.0]] } });
        assert_eq!((token_of(&map, 2), token_of(&map, 1)), (json!("</s>"), json!("<s>")));
        assert_eq!((token_of(&list, 1), token_of(&list, 7)), (json!("<s>"), Value::Null));
    }
}
