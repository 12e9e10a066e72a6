//! Which of llama.cpp's names for splitting a text into words a `tokenizer.json` means.

use serde_json::Value;

use super::pre_tokenizers::{GPT2, name_of};

/// llama.cpp's name (`tokenizer.ggml.pre`) for what a byte-level `tokenizer.json` does before its merges; `None` where it has no
/// name for that.
pub fn pre_tokenizer_name(tokenizer: &Value) -> Option<&'static str> {
    let mut found = Steps::default();
    found.add(&tokenizer["pre_tokenizer"])?;
    let patterns: Vec<&str> = found.patterns.iter().map(String::as_str).collect();
    name_of(&patterns, found.punctuation, tokenizer["model"]["ignore_merges"].as_bool().unwrap_or(false))
}

#[derive(Default)]
struct Steps {
    patterns: Vec<String>,
    punctuation: bool,
}

impl Steps {
    /// Adds what a pre-tokenizer does; `None` for one that is not understood.
    fn add(&mut self, step: &Value) -> Option<()> {
        match step["type"].as_str()? {
            "Sequence" => step["pretokenizers"].as_array()?.iter().try_for_each(|step| self.add(step)),
            "ByteLevel" => {
                if step["use_regex"].as_bool().unwrap_or(true) {
                    self.patterns.extend(GPT2.splits.patterns.iter().map(|pattern| (*pattern).to_owned()));
                }
                Some(())
            }
            "Split" => {
                let pattern = &step["pattern"];
                let regex = pattern["Regex"].as_str().or_else(|| pattern["String"].as_str())?;
                let as_it_is = matches!(step["behavior"].as_str(), Some("Isolated" | "Removed"));
                as_it_is.then(|| self.patterns.push(regex.to_owned()))
            }
            "Digits" => {
                let one_by_one = step["individual_digits"].as_bool().unwrap_or(false);
                self.patterns.push(if one_by_one { r"\p{N}" } else { r"\p{N}+" }.to_owned());
                Some(())
            }
            "Punctuation" => {
                self.punctuation = true;
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_tokenizers_do_is_found_by_its_steps() {
        let bytes = |use_regex: bool| json!({"type": "ByteLevel", "use_regex": use_regex});
        let name = |pre: Value, ignore: bool| {
            pre_tokenizer_name(&json!({"pre_tokenizer": pre, "model": {"ignore_merges": ignore}}))
        };
        assert_eq!(name(bytes(true), false), Some("gpt-2"));
        let digits = json!({"type": "Digits", "individual_digits": true});
        assert_eq!(
            name(json!({"type": "Sequence", "pretokenizers": [digits, bytes(true)]}), false),
            Some("starcoder")
        );
        let three = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let split =
            json!({"type": "Split", "pattern": {"Regex": three}, "behavior": "Isolated", "invert": false});
        let llama = json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]});
        assert_eq!(name(llama.clone(), true), Some("llama-bpe"));
        assert_eq!(name(llama, false), Some("dbrx"));
        assert_eq!(name(json!({"type": "Whitespace"}), false), None);
        assert_eq!(name(Value::Null, false), None);
    }
}
