//! Limits on what a `tokenizer.json` may make of a text. The library applies whatever the file says: a few hundred bytes of
//! chained replacements turn one letter into gigabytes, and a failed allocation cannot be caught.

use serde_json::Value;

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

/// The parts of a `tokenizer.json` that can multiply a text; the vocabulary, which is most of it, is passed over.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    post_processor: Value,
    added_tokens: Vec<Value>,
    model: Option<serde::de::IgnoredAny>,
}

/// Checks the parts of a tokenizer that can multiply a text, and tables that the library follows unchecked.
///
/// # Errors
/// Which part, and by how much it could grow a text, or what is wrong with the table.
pub(super) fn check_growth(parts: &Parts) -> Result<(), String> {
    if parts.model.is_none() {
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
        check_growth(&serde_json::from_value(json).unwrap())
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
