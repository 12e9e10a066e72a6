//! JSON of strangers: what it would take in memory is estimated before anything is built of it. A few kilobytes, compressed, can
//! be JSON of gigabytes.

use serde::de::DeserializeOwned;

use crate::trust::in_force;

/// Bytes that serde's `Value` takes, and about those of any other value.
const VALUE: usize = 32;
/// Bytes of the smallest node of a B-tree of values by names.
const OBJECT: usize = 640;
/// Bytes that a list takes at least: room for four values.
const LIST: usize = 24 + 4 * VALUE;
/// Deepest nesting: that of serde_json.
const MAX_DEPTH: usize = 127;

/// Limits on a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Bytes of memory that a tree of all its values would take, about.
    pub memory: usize,
}

impl JsonLimits {
    /// Of what describes a model: META, `config.json`, a plan. Real ones have some kilobytes; META has a few hundred bytes for
    /// each tensor.
    pub const DESCRIPTION: JsonLimits = JsonLimits { bytes: 16 << 20, memory: 40 << 20 };

    /// Of lists with a name for each tensor or token: an index of files, a vocabulary.
    pub const LIST: JsonLimits = JsonLimits { bytes: 64 << 20, memory: 96 << 20 };
}

/// What the JSON text `json` says.
///
/// # Errors
/// What is wrong with it, or which limit it exceeds, in words.
pub fn from_json<T: DeserializeOwned>(json: &[u8], limits: JsonLimits) -> Result<T, String> {
    check_json(json, limits)?;
    serde_json::from_slice(json).map_err(|e| e.to_string())
}

/// Checks a JSON text against limits. Whether it is JSON at all is for the parser to say.
///
/// # Errors
/// Which limit it exceeds, in words.
pub fn check_json(json: &[u8], limits: JsonLimits) -> Result<(), String> {
    let limits = JsonLimits { bytes: in_force(limits.bytes), memory: in_force(limits.memory) };
    if json.len() > limits.bytes {
        return Err(format!("{} bytes of JSON; at most {} are accepted", json.len(), limits.bytes));
    }
    let mut memory = VALUE;
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        memory += match byte {
            b'"' => string_length(&mut bytes),
            b',' | b':' => VALUE,
            b'{' | b'[' => {
                depth += 1;
                if *byte == b'{' { OBJECT } else { LIST }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                0
            }
            _ => 0,
        };
        if depth > MAX_DEPTH {
            return Err(format!("JSON nested more than {MAX_DEPTH} deep (recursion limit)"));
        }
        if memory > limits.memory {
            let limit = limits.memory >> 20;
            return Err(format!(
                "JSON of so many values that they would take more than {limit} MiB of memory"
            ));
        }
    }
    Ok(())
}

/// Bytes up to the end of a string, which is passed over.
fn string_length(bytes: &mut std::slice::Iter<'_, u8>) -> usize {
    let mut length = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    const SMALL: JsonLimits = JsonLimits { bytes: 10_000, memory: 10_000 };

    fn error(json: &str) -> String {
        from_json::<Value>(json.as_bytes(), SMALL).unwrap_err()
    }

    #[test]
    fn what_is_within_the_limits_is_read() {
        let value = json!({"a": [1, 2.5, null, "b\\\"{[,:"], "c": {"d": true}});
        assert_eq!(from_json::<Value>(value.to_string().as_bytes(), SMALL), Ok(value));
        assert!(from_json::<Map<String, Value>>(b"[1]", SMALL).unwrap_err().contains("invalid type"));
    }

    #[test]
    fn many_values_of_any_kind_are_refused_before_they_are_built() {
        for json in ["{},".repeat(20), "[],".repeat(80), "0,".repeat(400), "\"\",".repeat(400)] {
            assert!(error(&format!("[{json}0]")).contains("MiB of memory"), "{json:.9}");
        }
        let members: String = (0..300).map(|i| format!("\"{i}\":0,")).collect();
        assert!(error(&format!("{{{members}\"a\":0}}")).contains("MiB of memory"));
        assert!(error(&format!("\"{}\"", "a".repeat(9_990))).contains("MiB of memory"));
    }

    #[test]
    fn brackets_in_strings_are_text() {
        let text = "[{,:".repeat(1000);
        assert_eq!(from_json::<Value>(json!(text).to_string().as_bytes(), SMALL), Ok(json!(text)));
    }

    #[test]
    fn long_and_deep_texts_are_refused() {
        assert!(error(&" ".repeat(10_001)).contains("at most 10000"));
        let deep = JsonLimits { bytes: 1 << 20, memory: 1 << 30 };
        let json = "[".repeat(500_000);
        assert!(from_json::<Value>(json.as_bytes(), deep).unwrap_err().contains("recursion limit"));
        let most = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        from_json::<Value>(most.as_bytes(), deep).unwrap();
    }

    #[test]
    fn the_estimate_is_not_far_below_what_is_taken() {
        // The bomb that took 600 times its size: maps of one member.
        let map = r#"{"a":1},"#;
        let limits = JsonLimits { bytes: usize::MAX, memory: 100 * 700 };
        assert!(check_json(map.repeat(110).as_bytes(), limits).is_err());
        assert!(check_json(map.repeat(80).as_bytes(), limits).is_ok());
    }
}
