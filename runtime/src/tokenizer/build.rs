//! From a `tokenizer.json` that is within the limits to the tokenizer of the library.
//!
//! The library reads a model into one tree of values and then into another before it builds it. With a vocabulary of 150 000
//! pieces that is most of what a program needs to start (docs/measurements/memory.md). So a BPE model, as most are, is read into what
//! the library builds it of. All others, and files that are unusual in any way, are read by the library alone.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokenizers::models::bpe::{BPE, BpeBuilder, Merges, Vocab};
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PaddingParams, PostProcessorWrapper,
    PreTokenizerWrapper, TruncationParams,
};

/// Bytes of a vocabulary from which on another thread is worth waking.
const LARGE: usize = 1 << 20;

/// A `tokenizer.json`; members that the library passes over are passed over.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    version: Option<Cow<'a, str>>,
    #[serde(rename = "truncation")]
    _truncation: Option<TruncationParams>,
    #[serde(rename = "padding")]
    _padding: Option<PaddingParams>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    decoder: Option<DecoderWrapper>,
    #[serde(borrow)]
    model: BpeParts<'a>,
}

#[derive(Deserialize)]
struct Added {
    #[serde(rename = "id")]
    _id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// A model that says that it is BPE.
#[derive(Deserialize)]
struct BpeParts<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    #[serde(borrow)]
    vocab: &'a RawValue,
    #[serde(borrow)]
    merges: &'a RawValue,
}

/// The tokenizer, without truncation, padding and dropout of merges.
///
/// # Errors
/// What is wrong with the file, in the library's words.
pub(super) fn build(json: &[u8]) -> tokenizers::Result<tokenizers::Tokenizer> {
    if let Some(tokenizer) = serde_json::from_slice(json).ok().and_then(with_bpe) {
        return Ok(tokenizer);
    }
    let mut tokenizer = tokenizers::Tokenizer::from_bytes(json)?;
    tokenizer.with_truncation(None)?;
    tokenizer.with_padding(None);
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        tokenizer.with_model(model);
    }
    Ok(tokenizer)
}

/// `None` where anything is wrong: what, the library says better.
fn with_bpe(parts: Parts<'_>) -> Option<tokenizers::Tokenizer> {
    if parts.version.is_some_and(|version| version != "1.0") {
        return None;
    }
    let mut tokenizer = tokenizers::Tokenizer::new(bpe(parts.model)?);
    tokenizer.with_normalizer(parts.normalizer).ok()?;
    tokenizer.with_pre_tokenizer(parts.pre_tokenizer);
    tokenizer.with_post_processor(parts.post_processor);
    tokenizer.with_decoder(parts.decoder);
    tokenizer.add_tokens(parts.added_tokens.into_iter().map(|added| added.token)).ok()?;
    Some(tokenizer)
}

fn bpe(parts: BpeParts<'_>) -> Option<BPE> {
    if parts.kind != "BPE" {
        return None;
    }
    let vocab = || serde_json::from_str::<Vocab>(parts.vocab.get());
    let merges = || merges(parts.merges);
    let is_large = parts.vocab.get().len() >= LARGE;
    let (vocab, merges) = if is_large { rayon::join(vocab, merges) } else { (vocab(), merges()) };
    let mut builder = BpeBuilder::new()
        .vocab_and_merges(vocab.ok()?, merges?)
        .fuse_unk(parts.fuse_unk.unwrap_or(false))
        .byte_fallback(parts.byte_fallback.unwrap_or(false))
        .ignore_merges(parts.ignore_merges.unwrap_or(false));
    if let Some(unk) = parts.unk_token {
        builder = builder.unk_token(unk);
    }
    if let Some(prefix) = parts.continuing_subword_prefix {
        builder = builder.continuing_subword_prefix(prefix);
    }
    if let Some(suffix) = parts.end_of_word_suffix {
        builder = builder.end_of_word_suffix(suffix);
    }
    builder.build().ok()
}

/// Pairs of pieces, or, in files of old, texts of two pieces with a space between them.
fn merges(json: &RawValue) -> Option<Merges> {
    if let Ok(pairs) = serde_json::from_str(json.get()) {
        return Some(pairs);
    }
    let lines: Vec<Cow<'_, str>> = serde_json::from_str(json.get()).ok()?;
    let pair = |line: Cow<'_, str>| {
        let (left, right) = line.split_once(' ')?;
        (!right.contains(' ')).then(|| (left.to_owned(), right.to_owned()))
    };
    lines.into_iter().filter(|line| !line.starts_with("#version")).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What the library alone makes of it.
    fn by_library(json: &[u8]) -> String {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(json).unwrap();
        tokenizer.with_truncation(None).unwrap();
        tokenizer.with_padding(None);
        tokenizer.to_string(false).unwrap()
    }

    fn read_here(json: &[u8]) -> Option<tokenizers::Tokenizer> {
        serde_json::from_slice(json).ok().and_then(with_bpe)
    }

    fn model() -> Value {
        json!({"version": "1.0", "added_tokens": [
            {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 9, "content": "<new>", "single_word": true, "lstrip": true, "rstrip": false, "normalized": true, "special": false}],
            "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
            "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "\u{e9}": 4, "\"": 5, "ab\"": 6},
                      "merges": [["a", "b"], ["ab", "\""]]}})
    }

    #[test]
    fn a_bpe_model_is_what_the_library_makes_of_it() {
        let mut models = vec![model()];
        let mut change = |name: &str, value: Value| {
            let mut changed = model();
            changed["model"][name] = value;
            models.push(changed);
        };
        change("merges", json!(["a b", "ab \""]));
        change("merges", json!(["#version: 0.2", "a b"]));
        change("unk_token", json!("<s>"));
        change("fuse_unk", json!(true));
        change("byte_fallback", json!(true));
        change("ignore_merges", json!(true));
        change("ignore_merges", Value::Null);
        change("end_of_word_suffix", json!("</w>"));
        change("unknown", json!([1, {"a": 2}]));
        for model in models {
            let json = model.to_string();
            let found = read_here(json.as_bytes()).unwrap_or_else(|| panic!("not read here: {json}"));
            assert_eq!(found.to_string(false).unwrap(), by_library(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_library() {
        let mut untyped = model();
        untyped["model"].as_object_mut().unwrap().remove("type");
        let list = json!({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}});
        for model in [untyped, list] {
            let json = model.to_string();
            assert!(read_here(json.as_bytes()).is_none(), "{json}");
            assert_eq!(
                build(json.as_bytes()).unwrap().to_string(false).unwrap(),
                by_library(json.as_bytes())
            );
        }
        let mut wrong = Vec::new();
        let mut change = |name: &str, value: Value| {
            let mut changed = model();
            changed["model"][name] = value;
            wrong.push(changed);
        };
        change("merges", json!(["a b", ["ab", "\""]]));
        change("merges", json!(["a b c"]));
        change("merges", json!([["a", "x"]]));
        change("vocab", json!({"a": -1}));
        change("vocab", Value::Null);
        let mut version = model();
        version["version"] = json!("2.0");
        wrong.push(version);
        for model in wrong {
            let json = model.to_string();
            let (found, expected) = (build(json.as_bytes()), tokenizers::Tokenizer::from_bytes(&json));
            assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err().to_string(), "{json}");
        }
    }

    #[test]
    fn merges_are_never_dropped_at_random() {
        let mut json = model();
        json["model"]["dropout"] = json!(0.5);
        for typed in [true, false] {
            if !typed {
                json["model"].as_object_mut().unwrap().remove("type");
            }
            let tokenizer = build(json.to_string().as_bytes()).unwrap();
            assert!(matches!(tokenizer.get_model(), ModelWrapper::BPE(model) if model.dropout.is_none()));
        }
    }
}
