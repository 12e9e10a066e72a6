//! Limits on what a `tokenizer.json` may make of a text. The library applies whatever the file says: a few hundred bytes of
//! chained replacements turn one letter into gigabytes, and a failed allocation cannot be caught.

mod added;
mod model;
mod scalar;
mod steps;

use qsf_format::{JsonLimits, from_json};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokenizers::{NormalizedString, Normalizer};

use super::definition::Charsmap;
use added::AddedTokens;
use model::CheckedModel;
use steps::check_steps;

/// Most bytes that normalizers or decoders may make of one byte. Real ones replace a space by a three-byte mark, or escape a
/// character.
const MAX_GROWTH: f64 = 256.0;
/// Most that normalizer and pre-tokenizer together may. What the library takes of memory is a hundred times that.
const MAX_TOTAL: f64 = 1024.0;
/// Most special tokens that a post-processor may add to a text. Real ones add one or two.
const MAX_ADDED: usize = 4096;

/// Of a normalizer and the like. Tables of replacements are texts of some hundred kilobytes in them; real ones have a few members.
const STEPS: JsonLimits = JsonLimits { bytes: 8 << 20, memory: 12 << 20 };

/// The parts of a `tokenizer.json`. Of normalizer and the like nothing is built yet, of the others nothing at all.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(borrow)]
    pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow)]
    decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    post_processor: Option<&'a RawValue>,
    #[serde(rename = "added_tokens")]
    _added: Option<AddedTokens>,
    model: Option<CheckedModel>,
}

/// Checks the size of a `tokenizer.json` and what it may do, before the library builds anything of it.
///
/// Returns most bytes that it may make of one, in a long text.
///
/// # Errors
/// What is too large or wrong, in words.
pub(super) fn check(json: &[u8]) -> Result<f64, String> {
    let parts: Parts<'_> = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    if parts.model.is_none() {
        return Err(
            "JSON without a model: a tokenizer.json has one; for vocab.json pass the directory".to_owned()
        );
    }
    let mut total = 1.0;
    // One after another: each may be large.
    check_part("normalizer", parts.normalizer, |part| {
        check_charsmaps(part)?;
        total *= check_growth(part)?;
        Ok(())
    })?;
    check_part("pre_tokenizer", parts.pre_tokenizer, |part| {
        total *= check_growth(part)?;
        Ok(())
    })?;
    check_part("decoder", parts.decoder, |part| check_growth(part).map(drop))?;
    check_part("post_processor", parts.post_processor, check_added)?;
    if total > MAX_TOTAL {
        return Err(format!(
            "its normalizer and pre_tokenizer could make a text {total:.0} times as long; at most {MAX_TOTAL} is accepted"
        ));
    }
    Ok(total)
}

/// Checks that the normalizer leaves something of each added token that is searched in normalized text: the library finds an empty one
/// everywhere, and never gets on.
///
/// # Errors
/// The token, in words.
pub(super) fn check_patterns(tokenizer: &tokenizers::Tokenizer) -> Result<(), String> {
    let Some(normalizer) = tokenizer.get_normalizer() else { return Ok(()) };
    for token in tokenizer.get_added_tokens_decoder().values().filter(|token| token.normalized) {
        let mut text = NormalizedString::from(token.content.as_str());
        normalizer.normalize(&mut text).map_err(|e| e.to_string())?;
        if text.is_empty() {
            return Err(format!("its normalizer leaves nothing of the added token {:?}", token.content));
        }
    }
    Ok(())
}

/// Weighs a part of a tokenizer, builds it and checks its steps, then whatever `check` does.
fn check_part(
    name: &str,
    part: Option<&RawValue>,
    check: impl FnOnce(&Value) -> Result<(), String>,
) -> Result<(), String> {
    let Some(part) = part else { return Ok(()) };
    let part = from_json::<Value>(part.get().as_bytes(), STEPS);
    part.and_then(|part| check_steps(&part).and_then(|()| check(&part)))
        .map_err(|e| format!("its {name}: {e}"))
}

/// Checks how long a step, or a chain of them, could make a text, which it returns.
fn check_growth(step: &Value) -> Result<f64, String> {
    let growth = growth(step);
    if growth > MAX_GROWTH {
        return Err(format!(
            "it could make a text {growth:.0} times as long; at most {MAX_GROWTH} is accepted"
        ));
    }
    Ok(growth)
}

/// Checks how many tokens a post-processor adds to a text.
fn check_added(step: &Value) -> Result<(), String> {
    let added = added_by(step);
    if added > MAX_ADDED {
        return Err(format!("it adds {added} tokens to a text; at most {MAX_ADDED} is accepted"));
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

/// Bytes that a step can make of one byte; chains multiply.
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
        // Three bytes of U+FDFA become 33, those of some other characters nine (Unicode, UAX #15, "Maximum expansion").
        Some("NFKC" | "NFKD") => 11.0,
        Some("NFC" | "NFD") => 3.0,
        // Spaces around each Chinese character, and accents apart.
        Some("BertNormalizer") => 5.0,
        // U+023A: two bytes become three.
        Some("Lowercase") => 1.5,
        // A byte that is no letter becomes a character of two, and a space may come first.
        Some("ByteLevel") => 3.0,
        Some("Metaspace") => 1.0 + length(&step["replacement"]).max(3.0),
        Some("Precompiled") => {
            let table = base64::decode(step["precompiled_charsmap"].as_str().unwrap_or_default());
            let table = table.unwrap_or_default();
            Charsmap::read(&table).map_or(1.0, |map| map.growth())
        }
        _ => 1.0,
    };
    let chained = ["normalizers", "pretokenizers", "decoders"].into_iter();
    let chained = chained.filter_map(|name| step[name].as_array()).flatten().map(growth);
    own * chained.product::<f64>()
}

/// Tokens that templates add: every piece that names a special token stands for all of its ids.
fn added_by(step: &Value) -> usize {
    let ids = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        step["special_tokens"][name]["ids"].as_array().map_or(1, Vec::len)
    };
    let pieces = ["single", "pair"].into_iter().filter_map(|name| step[name].as_array()).flatten();
    let own: usize = pieces
        .filter_map(|piece| piece.get("SpecialToken"))
        .map(|special| ids(&special["id"]))
        .fold(0, usize::saturating_add);
    let nested = step["processors"].as_array().into_iter().flatten().map(added_by);
    nested.fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::model::MAX_PIECES;
    use super::*;

    fn check(mut json: Value) -> Result<(), String> {
        json["model"] = json!({});
        super::check(json.to_string().as_bytes()).map(drop)
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
    fn normal_forms_of_unicode_count_as_growth_too() {
        let replace = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "\u{fdfa}".repeat(20)});
        let chain = |last: &str| json!({"normalizer": {"type": "Sequence", "normalizers": [replace, {"type": last}]}});
        check(chain("Strip")).unwrap();
        assert!(check(chain("NFKD")).unwrap_err().contains("671 times as long"));
        let albert = ["NFKD", "StripAccents", "Lowercase"].map(|kind| json!({"type": kind}));
        check(json!({"normalizer": {"type": "Sequence", "normalizers": albert}})).unwrap();
        let step = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "x".repeat(60)});
        let error = check(json!({"normalizer": step, "pre_tokenizer": {"type": "Sequence", "pretokenizers":
            vec![json!({"type": "Metaspace", "replacement": "\u{2581}"}); 3]}}))
        .unwrap_err();
        assert!(error.contains("3904 times as long; at most 1024"), "{error}");
    }

    #[test]
    fn added_tokens_cannot_fill_the_memory() {
        let token = |length| json!({"id": 0, "content": "x".repeat(length)});
        check(json!({"added_tokens": vec![token(10); 5000]})).unwrap();
        let error = |tokens: Vec<Value>| check(json!({"added_tokens": tokens})).unwrap_err();
        assert!(error(vec![token(1); (1 << 16) + 1]).contains("at most 65536"));
        assert!(error(vec![token((1 << 20) + 1)]).contains("at most 65536 of 1048576 bytes"));
        assert!(error(vec![json!({"content": "x", "junk": [[]]})]).contains("invalid type: sequence"));
        assert!(error(vec![(0..100).map(|i| (i.to_string(), json!(0))).collect()]).contains("members"));
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
