//! The text of a `tokenizer.json`, written as the `tokenizers` library reads it. Vocabularies go straight from their lists
//! into the text, in order of their ids: the same definition gives the same bytes on every machine.

use std::path::Path;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::error::{Result, RuntimeError};
use qsf_format::printable::{message, quote};

/// A token that is cut out of the text before the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct AddedToken {
    /// Its id.
    pub id: u32,
    /// The text that stands for it.
    pub content: String,
    /// It counts only between characters that are not of words.
    pub single_word: bool,
    /// It swallows white space before it.
    pub lstrip: bool,
    /// It swallows white space after it.
    pub rstrip: bool,
    /// It is looked for in the normalized text.
    pub normalized: bool,
    /// It is not part of the text: decoding can leave it out.
    pub special: bool,
}

impl AddedToken {
    /// A token that is looked for as it is written.
    pub fn new(id: u32, content: impl Into<String>, special: bool) -> AddedToken {
        let content = content.into();
        AddedToken {
            id,
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special,
        }
    }
}

/// Most added tokens, and bytes of all of them: the library makes an automaton of them that takes 75 times as much. Real
/// tokenizers have some thousand of some ten bytes.
const MAX_ADDED_TOKENS: usize = 1 << 16;
const MAX_ADDED_BYTES: usize = 1 << 20;

/// The added tokens of a tokenizer, counted before they are built.
#[derive(Debug, Default)]
pub(crate) struct AddedSum {
    count: usize,
    bytes: usize,
}

impl AddedSum {
    /// Counts a token with a text of so many bytes.
    ///
    /// # Errors
    /// When these are too many, in words.
    pub fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.count > MAX_ADDED_TOKENS || self.bytes > MAX_ADDED_BYTES {
            let AddedSum { count, bytes } = self;
            return Err(format!(
                "{count} added tokens of {bytes} bytes in all, or more; at most {MAX_ADDED_TOKENS} of {MAX_ADDED_BYTES} bytes \
                 are accepted"
            ));
        }
        Ok(())
    }
}

/// The tokens that a tokenizer puts around every text, as (id, spelling).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Around {
    /// Before the text.
    pub first: Option<(u32, String)>,
    /// After it.
    pub last: Option<(u32, String)>,
}

impl Around {
    /// The post-processor that adds them.
    fn post_processor(&self) -> Value {
        let tokens = || [&self.first, &self.last].into_iter().flatten();
        if tokens().next().is_none() {
            return Value::Null;
        }
        let piece = |(_, text): &(u32, String)| json!({"SpecialToken": {"id": text, "type_id": 0}});
        let sequence = |name: &str, type_id: u32| json!({"Sequence": {"id": name, "type_id": type_id}});
        let around = |sequences: Vec<Value>| -> Vec<Value> {
            self.first.iter().map(piece).chain(sequences).chain(self.last.iter().map(piece)).collect()
        };
        let special: serde_json::Map<String, Value> = tokens()
            .map(|(id, text)| (text.clone(), json!({"id": text, "ids": [id], "tokens": [text]})))
            .collect();
        json!({
            "type": "TemplateProcessing",
            "single": around(vec![sequence("A", 0)]),
            "pair": around(vec![sequence("A", 0), sequence("B", 1)]),
            "special_tokens": special,
        })
    }
}

/// The parts of a `tokenizer.json`.
#[derive(Debug)]
pub(super) struct TokenizerJson<'a, M> {
    /// Tokens that are cut out of the text.
    pub added: &'a [AddedToken],
    /// What happens to the text first.
    pub normalizer: Value,
    /// How the text is split into words.
    pub pre_tokenizer: Value,
    /// The tokens put around it.
    pub around: &'a Around,
    /// How tokens become text again.
    pub decoder: Value,
    /// The vocabulary and how words are split into its tokens.
    pub model: M,
}

impl<M: Serialize> TokenizerJson<'_, M> {
    /// The text.
    ///
    /// # Errors
    /// When it is larger than what a QSF file can hold.
    pub fn write(&self, path: &Path) -> Result<Vec<u8>> {
        #[derive(serde::Serialize)]
        struct File<'a, M> {
            version: &'a str,
            truncation: Value,
            padding: Value,
            added_tokens: &'a [AddedToken],
            normalizer: &'a Value,
            pre_tokenizer: &'a Value,
            post_processor: Value,
            decoder: &'a Value,
            model: &'a M,
        }
        let file = File {
            version: "1.0",
            truncation: Value::Null,
            padding: Value::Null,
            added_tokens: self.added,
            normalizer: &self.normalizer,
            pre_tokenizer: &self.pre_tokenizer,
            post_processor: self.around.post_processor(),
            decoder: &self.decoder,
            model: &self.model,
        };
        let text = serde_json::to_vec(&file).map_err(|e| {
            RuntimeError::bad_input(path, "the tokenizer", "one that JSON can hold", message(e))
        })?;
        if text.len() > qsf_format::MAX_SECTION_BYTES {
            return Err(RuntimeError::bad_input(
                path,
                "the tokenizer",
                format!("at most {} bytes as tokenizer.json", qsf_format::MAX_SECTION_BYTES),
                text.len(),
            ));
        }
        Ok(text)
    }
}

/// A BPE model. Merges are in order of their rank.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename = "BPE")]
pub(super) struct BpeJson<'a> {
    pub dropout: Option<f32>,
    pub unk_token: Option<&'a str>,
    pub continuing_subword_prefix: Option<&'a str>,
    pub end_of_word_suffix: Option<&'a str>,
    /// A run of unknown characters is one unknown token.
    pub fuse_unk: bool,
    /// A character without a token becomes its bytes, `<0xE2>` and so on.
    pub byte_fallback: bool,
    /// A word that is a token as a whole is that token.
    pub ignore_merges: bool,
    pub vocab: Vocab<'a>,
    pub merges: Vec<(&'a str, &'a str)>,
}

/// Tokens and their ids, each token once.
#[derive(Debug)]
pub(super) struct Vocab<'a>(pub Vec<(&'a str, u32)>);

impl Serialize for Vocab<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (token, id) in &self.0 {
            map.serialize_entry(token, id)?;
        }
        map.end()
    }
}

/// A Unigram model: the id of a token is its place in the vocabulary.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename = "Unigram")]
pub(super) struct UnigramJson<'a> {
    pub unk_id: u32,
    pub vocab: Vec<(&'a str, f64)>,
    pub byte_fallback: bool,
}

/// Checks that no token and no id is there twice; `tokens` in order of their ids.
///
/// # Errors
/// The first that is.
pub(super) fn check_unique<'a>(
    path: &Path,
    place: &str,
    tokens: impl Iterator<Item = (&'a str, u32)> + Clone,
) -> Result<()> {
    let mut seen = std::collections::HashMap::new();
    let mut last = None;
    for (token, id) in tokens {
        if last == Some(id) {
            return Err(RuntimeError::bad_input(path, place, "each id once", format!("id {id} twice")));
        }
        last = Some(id);
        if let Some(first) = seen.insert(token, id) {
            return Err(RuntimeError::bad_input(
                path,
                place,
                "each token once",
                format!("{} as {first} and {id}", quote(token)),
            ));
        }
    }
    Ok(())
}
