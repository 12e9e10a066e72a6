//! Limits on what a `tokenizer.json` may make of a text. The library applies whatever the file says: a few hundred bytes of
//! chained replacements turn one letter into gigabytes, and a failed allocation cannot be caught.

use std::fmt;

use qsf_format::{JsonLimits, from_json};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::definition::Charsmap;

/// Most bytes that normalizers or decoders may make of one byte. Real ones replace a space by a three-byte mark, or escape a
/// character.
const MAX_GROWTH: f64 = 256.0;
/// Most special tokens that a post-processor may add to a text. Real ones add one or two.
const MAX_ADDED: usize = 4096;

/// Most added tokens, and bytes of all of them: the library makes an automaton of them that takes 75 times as much. Real
/// tokenizers have some thousand of some ten bytes.
const MAX_ADDED_TOKENS: usize = 1 << 16;
const MAX_ADDED_TOKEN_BYTES: usize = 1 << 20;

/// Most pieces of a vocabulary, and most merges: the library takes some hundred bytes for each. The largest in use have some
/// 260 000 and 520 000.
const MAX_PIECES: usize = 1 << 20;
/// Of a normalizer and the like. Tables of replacements are texts of some hundred kilobytes in them; real ones have a few members.
const STEPS: JsonLimits = JsonLimits { bytes: 16 << 20, memory: 24 << 20 };

/// The parts of a `tokenizer.json`, of which nothing is built yet.
#[derive(Deserialize)]
struct RawParts<'a> {
    #[serde(borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(borrow)]
    pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow)]
    decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    post_processor: Option<&'a RawValue>,
    #[serde(borrow)]
    added_tokens: Option<&'a RawValue>,
    model: Option<ModelSize>,
}

/// How large the model of a tokenizer is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelSize {
    vocab: Count,
    merges: Count,
}

/// The number of members or elements, which are passed over.
#[derive(Default)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        struct Counter;

        impl<'de> Visitor<'de> for Counter {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or an object")
            }

            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(0))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        deserializer.deserialize_any(Counter)
    }
}

/// Checks the size of a `tokenizer.json` and what it may do, before the library builds anything of it.
///
/// # Errors
/// What is too large or wrong, in words.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    let parts: RawParts<'_> = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    if let Some(ModelSize { vocab: Count(vocab), merges: Count(merges) }) = parts.model
        && vocab.max(merges) > MAX_PIECES
    {
        return Err(format!("{vocab} pieces and {merges} merges; at most {MAX_PIECES} each are accepted"));
    }
    let read = |part: Option<&RawValue>, limits| match part {
        Some(part) => from_json::<Value>(part.get().as_bytes(), limits),
        None => Ok(Value::Null),
    };
    let added = read(parts.added_tokens, JsonLimits::LIST).map_err(|e| format!("its added tokens: {e}"))?;
    let step = |name: &str, part| read(part, STEPS).map_err(|e| format!("its {name}: {e}"));
    check_growth(&Parts {
        normalizer: step("normalizer", parts.normalizer)?,
        pre_tokenizer: step("pre_tokenizer", parts.pre_tokenizer)?,
        decoder: step("decoder", parts.decoder)?,
        post_processor: step("post_processor", parts.post_processor)?,
        added_tokens: added.as_array().cloned().unwrap_or_default(),
        has_model: parts.model.is_some(),
    })
}

/// The parts of a `tokenizer.json` that can multiply a text; the vocabulary, which is most of it, is none.
struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    post_processor: Value,
    added_tokens: Vec<Value>,
    has_model: bool,
}

/// Checks the parts of a tokenizer that can multiply a text, and tables that the library follows unchecked.
///
/// # Errors
/// Which part, and by how much it could grow a text, or what is wrong with the table.
fn check_growth(parts: &Parts) -> Result<(), String> {
    if !parts.has_model {
        return Err(
            "JSON without a model: a tokenizer.json has one; for vocab.json pass the directory".to_owned()
        );
    }
    let texts = parts.added_tokens.iter().map(|token| token["content"].as_str().map_or(0, str::len));
    let (count, bytes) = (parts.added_tokens.len(), texts.sum::<usize>());
    if count > MAX_ADDED_TOKENS || bytes > MAX_ADDED_TOKEN_BYTES {
        return Err(format!(
            "{count} added tokens of {bytes} bytes in all; at most {MAX_ADDED_TOKENS} of {MAX_ADDED_TOKEN_BYTES} \
             bytes are accepted"
        ));
    }
    let chains = [
        ("normalizer", &parts.normalizer),
        ("pre_tokenizer", &parts.pre_tokenizer),
        ("decoder", &parts.decoder),
    ];
    check_charsmaps(&parts.normalizer)?;
    for (part, chain) in chains {
        let growth = growth(chain);
        if growth > MAX_GROWTH {
            return Err(format!(
                "its {part} could make a text {growth:.0} times as long; at most {MAX_GROWTH} is accepted"
            ));
        }
    }
    let added = added(&parts.post_processor);
    if added > MAX_ADDED {
        return Err(format!(
            "its post-processor adds {added} tokens to a text; at most {MAX_ADDED} is accepted"
        ));
    }
    Ok(())
}

/// Tables of replacements: the library believes their sizes, and follows what they say without looking.
fn check_charsmaps(step: &Value) -> Result<(), String> {
    if step["type"] == "Precompiled" {
        let text = step["precompiled_charsmap"].as_str().unwrap_or_default();
        let table =
            base64::decode(text).map_err(|e| format!("its precompiled_charsmap is not base64: {e}"))?;
        Charsmap::read(&table).map_err(|problem| format!("its precompiled_charsmap has {problem}"))?;
    }
    step["normalizers"].as_array().into_iter().flatten().try_for_each(check_charsmaps)
}

/// Bytes that a normalizer or decoder can make of one byte; chains multiply.
fn growth(step: &Value) -> f64 {
    let length = |value: &Value| value.as_str().map_or(0, str::len) as f64;
    let own = match step["type"].as_str() {
        Some("Replace") => {
            let pattern = length(&step["pattern"]["String"]);
            let content = length(&step["content"]);
            // A regular expression, or an empty pattern, can match between any two bytes.
            if pattern > 0.0 { (content / pattern).max(1.0) } else { content + 1.0 }
        }
        // At worst, on a text of one byte.
        Some("Prepend") => 1.0 + length(&step["prepend"]),
        _ => 1.0,
    };
    let chained = ["normalizers", "pretokenizers", "decoders"].into_iter();
    let chained = chained.filter_map(|name| step[name].as_array()).flatten().map(growth);
    own * chained.product::<f64>()
}

/// Tokens that templates add: every piece that names a special token stands for all of its ids.
fn added(step: &Value) -> usize {
    let ids = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        step["special_tokens"][name]["ids"].as_array().map_or(1, Vec::len)
    };
    let pieces = ["single", "pair"].into_iter().filter_map(|name| step[name].as_array()).flatten();
    let own: usize = pieces
        .filter_map(|piece| piece.get("SpecialToken"))
        .map(|special| ids(&special["id"]))
        .fold(0, usize::saturating_add);
    let nested = step["processors"].as_array().into_iter().flatten().map(added);
    nested.fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut json: Value) -> Result<(), String> {
        json["model"] = json!({});
        super::check(json.to_string().as_bytes())
    }

    #[test]
    fn a_vocabulary_of_millions_is_refused_before_it_is_built() {
        let merges = format!("{{\"model\": {{\"merges\": [{}\"a b\"]}}}}", "\"a b\",".repeat(MAX_PIECES));
        let error = super::check(merges.as_bytes()).unwrap_err();
        assert!(error.contains("1048577 merges"), "{error}");
        super::check(br#"{"model": {"vocab": {"a": 0}, "merges": []}}"#).unwrap();
        super::check(br#"{"model": {"vocab": [["a", 0.5]], "merges": null}}"#).unwrap();
    }

    #[test]
    fn a_million_steps_are_refused_before_they_are_built() {
        for part in ["normalizer", "pre_tokenizer", "decoder", "post_processor"] {
            let steps = format!("{}{{}}", "{\"type\":\"NFC\"},".repeat(200_000));
            let json =
                format!("{{\"model\": {{}}, \"{part}\": {{\"type\": \"Sequence\", \"steps\": [{steps}]}}}}");
            let error = super::check(json.as_bytes()).unwrap_err();
            assert!(error.contains(part) && error.contains("MiB of memory"), "{error}");
        }
    }

    #[test]
    fn chained_replacements_cannot_fill_the_memory() {
        let step = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(32)});
        let chain = json!({"normalizer": {"type": "Sequence", "normalizers": vec![step; 7]}});
        let error = check(chain).unwrap_err();
        assert!(error.contains("normalizer"), "{error}");
    }

    #[test]
    fn added_tokens_cannot_fill_the_memory() {
        let token = |length| json!({"id": 0, "content": "x".repeat(length)});
        check(json!({"added_tokens": vec![token(10); 5000]})).unwrap();
        check(json!({"added_tokens": vec![token(1); MAX_ADDED_TOKENS + 1]})).unwrap_err();
        check(json!({"added_tokens": [token(MAX_ADDED_TOKEN_BYTES + 1)]})).unwrap_err();
    }

    #[test]
    fn a_template_cannot_add_millions_of_tokens() {
        let pieces = vec![json!({"SpecialToken": {"id": "x", "type_id": 0}}); 200];
        let template = json!({"type": "TemplateProcessing", "single": pieces,
            "special_tokens": {"x": {"id": "x", "ids": vec![0; 100]}}});
        check(json!({"post_processor": template})).unwrap_err();
    }

    #[test]
    fn what_real_tokenizers_do_is_accepted() {
        let llama2 = json!({
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}]},
        });
        check(llama2).unwrap();
    }
}
