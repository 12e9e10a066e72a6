//! The tokenizer as keys: from its `tokenizer.json`, which every source has but a GGUF file, whose keys are taken over.

use std::collections::HashMap;

use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::{PieceKind, Tokenizer, pre_tokenizer_name};
use serde_json::Value as Json;

use super::stored_pieces::stored_scores;
use super::value::{Pairs, Value};
use super::vocabulary::{Vocabulary, is_byte_level};
use crate::error::Result;

/// Score of tokens that no merge makes.
const UNMERGED: f32 = -1000.0;

/// The keys of the tokenizer of `source`.
///
/// # Errors
/// When llama.cpp has no word for a tokenizer of this kind.
pub(super) fn tokenizer_keys(source: &dyn WeightSource) -> Result<Pairs> {
    let Some(text) = source.tokenizer_json() else {
        return Ok(vec![("tokenizer.ggml.model".into(), Value::Text("none".into()))]);
    };
    let path = source.path().join("tokenizer.json");
    let tokenizer = Tokenizer::from_json(text, &path)?;
    let json: Json = serde_json::from_slice(text)
        .map_err(|error| RuntimeError::bad_input(&path, "the tokenizer", "a valid tokenizer.json", error))?;
    let mut vocabulary = Vocabulary::read(&json, source.config().vocab as usize);
    let mut pairs = match json["model"]["type"].as_str() {
        Some("Unigram") => vocabulary.unigram(&json),
        // Files from before the field existed have merges.
        Some("BPE") | None if is_byte_level(&json) => vocabulary.byte_level(&json, source)?,
        Some("BPE") | None => match stored_scores(source.path(), &mut vocabulary)? {
            Some(scores) => vocabulary.pieces(&json, scores),
            None => vocabulary.pieces(&json, vocabulary.scores_of_merges(&json)),
        },
        Some(other) => {
            let what = format!("a tokenizer of kind {other} in a GGUF file");
            let supported = "BPE and Unigram are";
            return Err(RuntimeError::unsupported(source.path(), what, supported).into());
        }
    };
    add_roles(&mut pairs, source, &tokenizer, &vocabulary)?;
    if let Some(template) = source.chat_template() {
        let template = String::from_utf8_lossy(template).into_owned();
        pairs.push(("tokenizer.chat_template".into(), Value::Text(template)));
    }
    Ok(pairs)
}

impl Vocabulary {
    fn keys(&self, model: &str, pre: &str, scores: Option<Vec<f32>>) -> Pairs {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let kinds = self.kinds.iter().map(|kind| *kind as i32).collect();
        let mut pairs = vec![
            (key("model"), Value::Text(model.into())),
            (key("pre"), Value::Text(pre.into())),
            (key("tokens"), Value::Texts(self.tokens.clone())),
        ];
        pairs.extend(scores.map(|scores| (key("scores"), Value::F32s(scores))));
        pairs.push((key("token_type"), Value::I32s(kinds)));
        pairs
    }

    fn byte_level(&self, json: &Json, source: &dyn WeightSource) -> Result<Pairs> {
        let pre = pre_tokenizer_name(json).ok_or_else(|| {
            let what = "how this tokenizer splits a text into words, in a GGUF file";
            let supported = "llama.cpp has names only for what models in use do";
            RuntimeError::unsupported(source.path(), what, supported)
        })?;
        let merges = merges(json).map(|(left, right)| {
            // A space would be taken for what stands between the two.
            format!("{} {}", left.replace(' ', "\u{120}"), right.replace(' ', "\u{120}"))
        });
        let mut pairs = self.keys("gpt2", pre, None);
        pairs.push(("tokenizer.ggml.merges".into(), Value::Texts(merges.collect())));
        Ok(pairs)
    }

    fn pieces(&self, json: &Json, scores: Vec<f32>) -> Pairs {
        let mut pairs = self.keys("llama", "default", Some(scores));
        pairs.push(("tokenizer.ggml.add_space_prefix".into(), Value::Bool(has_space_prefix(json))));
        pairs
    }

    /// llama.cpp merges by the score of what comes out: the sooner a merge, the higher.
    fn scores_of_merges(&self, json: &Json) -> Vec<f32> {
        let at_first = |kind: &PieceKind| match kind {
            PieceKind::Byte | PieceKind::Control | PieceKind::Unknown => 0.0,
            PieceKind::Normal | PieceKind::UserDefined | PieceKind::Unused => UNMERGED,
        };
        let mut scores: Vec<f32> = self.kinds.iter().map(at_first).collect();
        let all: Vec<(String, String)> = merges(json).collect();
        let lowest = -(all.len() as f32);
        for (score, kind) in scores.iter_mut().zip(&self.kinds) {
            if *kind == PieceKind::Normal {
                *score = lowest;
            }
        }
        for (rank, (left, right)) in all.iter().enumerate().rev() {
            if let Some(id) = self.ids.get(&format!("{left}{right}")) {
                scores[*id as usize] = -(rank as f32);
            }
        }
        scores
    }

    fn unigram(&self, json: &Json) -> Pairs {
        let pieces = json["model"]["vocab"].as_array();
        let score = |id: usize| pieces.and_then(|pieces| pieces.get(id)?[1].as_f64()).unwrap_or(0.0) as f32;
        let scores = (0..self.tokens.len()).map(score).collect();
        let mut pairs = self.keys("t5", "default", Some(scores));
        pairs.push(("tokenizer.ggml.add_space_prefix".into(), Value::Bool(has_space_prefix(json))));
        pairs
    }
}

/// The merges in order, as pairs; `tokenizer.json` has them as texts or as lists.
fn merges(json: &Json) -> impl Iterator<Item = (String, String)> {
    json["model"]["merges"].as_array().into_iter().flatten().filter_map(|merge| match merge {
        Json::String(text) => text.split_once(' ').map(|(left, right)| (left.to_owned(), right.to_owned())),
        list => Some((list[0].as_str()?.to_owned(), list[1].as_str()?.to_owned())),
    })
}

/// Whether a space is put before a text.
fn has_space_prefix(json: &Json) -> bool {
    fn has(step: &Json) -> bool {
        match step["type"].as_str() {
            Some("Prepend") => true,
            Some("Metaspace") => step["prepend_scheme"]
                .as_str()
                .map_or(step["add_prefix_space"] != false, |how| how != "never"),
            Some("Sequence") => ["normalizers", "pretokenizers"]
                .iter()
                .any(|list| step[*list].as_array().is_some_and(|steps| steps.iter().any(has))),
            _ => false,
        }
    }
    has(&json["normalizer"]) || has(&json["pre_tokenizer"])
}

/// Which tokens start, end and fill texts.
fn add_roles(
    pairs: &mut Pairs,
    source: &dyn WeightSource,
    tokenizer: &Tokenizer,
    vocabulary: &Vocabulary,
) -> Result<()> {
    let config = source.config();
    let named = special_tokens(source);
    let of_file = |role: &str| named.get(role).and_then(|text| vocabulary.ids.get(text)).copied();
    let mut role = |name: &str, id: Option<u32>| {
        let id = id.filter(|id| (*id as usize) < vocabulary.tokens.len());
        pairs.extend(id.map(|id| (format!("tokenizer.ggml.{name}_token_id"), Value::U32(id))));
    };
    role("bos", of_file("bos_token").or(config.bos).or(tokenizer.bos()));
    let eos = of_file("eos_token").or(config.stop_tokens.first().copied());
    role("eos", eos);
    let mut others = config.stop_tokens.iter().copied().filter(|id| Some(*id) != eos);
    role("eot", others.next());
    role("eom", others.next());
    role("unknown", of_file("unk_token"));
    role("padding", of_file("pad_token").or(config.pad));
    let (with, plain) = (tokenizer.encode("a")?, tokenizer.encode_plain("a")?);
    let mut flag = |name: &str, value| pairs.push((format!("tokenizer.ggml.{name}"), Value::Bool(value)));
    flag("add_bos_token", tokenizer.bos().is_some());
    flag("add_eos_token", with.last() != plain.last());
    Ok(())
}

/// Texts of the tokens that `tokenizer_config.json` gives roles to.
fn special_tokens(source: &dyn WeightSource) -> HashMap<&'static str, String> {
    const ROLES: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];
    const MOST_BYTES: u64 = 16 << 20;
    let path = source.path().join("tokenizer_config.json");
    let small = path.metadata().is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    let text = if small { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
    let json: Json = serde_json::from_slice(&text).unwrap_or_default();
    let token =
        |role: &str| json[role].as_str().or_else(|| json[role]["content"].as_str()).map(str::to_owned);
    ROLES.into_iter().filter_map(|role| Some((role, token(role)?))).collect()
}
