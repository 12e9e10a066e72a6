//! The steps of a normalizer and the like, and the patterns in them, of which the library makes automata before it runs any.

use std::str::Chars;

use serde_json::Value;

/// Most steps of a normalizer and the like. Real ones have up to some ten.
const MAX_STEPS: usize = 512;
/// Most patterns of one.
const MAX_PATTERNS: usize = 64;
/// Most bytes that the automata of all its patterns may take, by the estimate below. GPT-OSS has 30 classes of characters, which
/// come to 3 MB.
const MAX_AUTOMATA: usize = 24 << 20;

/// Bytes of an automaton for a character that stands for itself, for one of a small class such as `\s`, and for one of a large
/// class such as `\w`: measured with fancy-regex 0.17, which takes 48, 2000 to 7000, and 100 000.
const CHARACTER: usize = 64;
const SMALL_CLASS: usize = 8192;
const CLASS: usize = 100_000;

/// Checks how many steps and patterns there are, and what the patterns would take.
///
/// # Errors
/// What there is too much of, in words.
pub(super) fn check_steps(part: &Value) -> Result<(), String> {
    let mut found = Found::default();
    found.add(part);
    let Found { steps, patterns, automata } = found;
    if steps > MAX_STEPS {
        return Err(format!("{steps} steps; at most {MAX_STEPS} are accepted"));
    }
    if patterns > MAX_PATTERNS {
        return Err(format!("{patterns} patterns; at most {MAX_PATTERNS} are accepted"));
    }
    if automata > MAX_AUTOMATA {
        let limit = MAX_AUTOMATA >> 20;
        return Err(format!("patterns that would take more than {limit} MiB of memory"));
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    steps: usize,
    patterns: usize,
    automata: usize,
}

impl Found {
    /// The nesting of JSON is limited.
    fn add(&mut self, value: &Value) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(members) => {
                self.steps += usize::from(members.contains_key("type"));
                for (name, value) in members {
                    if name == "pattern" {
                        self.add_pattern(value);
                    }
                    self.add(value);
                }
            }
            _ => {}
        }
    }

    fn add_pattern(&mut self, pattern: &Value) {
        let bytes = match (pattern["Regex"].as_str(), pattern["String"].as_str().or(pattern.as_str())) {
            (Some(regex), _) => automaton(regex),
            (None, Some(text)) => text.len().saturating_mul(CHARACTER),
            (None, None) => 0,
        };
        self.patterns += 1;
        self.automata = self.automata.saturating_add(bytes);
    }
}

/// A group of a pattern, as far as it was read.
#[derive(Default)]
struct Group {
    all: usize,
    /// What a repetition would be of.
    last: usize,
    /// The product of the repetitions that stand behind each other here.
    times: usize,
    /// Whether it is a comment.
    comment: bool,
}

impl Group {
    fn add(&mut self, bytes: usize) {
        (self.last, self.times) = (bytes, 1);
        self.all = self.all.saturating_add(bytes);
    }

    /// Adds what may be a comment: a repetition behind it is of the largest thing before.
    fn add_silently(&mut self, bytes: usize) {
        self.last = self.last.max(bytes);
        self.all = self.all.saturating_add(bytes);
    }

    fn repeat(&mut self, times: usize) {
        let before = self.times.max(1);
        self.times = before.saturating_mul(times.max(1));
        self.all = self.all.saturating_add(self.last.saturating_mul(self.times - before));
    }
}

/// Bytes that the automaton of a regular expression takes at most, about. Whether it is one is for the library to say.
fn automaton(regex: &str) -> usize {
    let mut outer = Vec::new();
    let mut group = Group::default();
    let mut rest = regex.chars();
    // Whether white space and `#` may be comments: what says so is not looked for closely.
    let verbose = regex
        .split("(?")
        .skip(1)
        .any(|flags| flags.split([':', ')']).next().is_some_and(|f| f.contains('x')));
    while let Some(sign) = rest.next() {
        match sign {
            '(' => {
                let inner = Group { comment: rest.as_str().starts_with("?#"), ..Group::default() };
                outer.push(std::mem::replace(&mut group, inner));
            }
            ')' => {
                let inner = std::mem::replace(&mut group, outer.pop().unwrap_or_default());
                if inner.comment || verbose { group.add_silently(inner.all) } else { group.add(inner.all) }
            }
            '{' if let Some(times) = repetitions(rest.as_str()) => {
                group.repeat(times);
                // What it says is no character.
                rest.by_ref().find(|&c| c == '}');
            }
            _ => {
                let bytes = match sign {
                    '\\' => escape(&mut rest),
                    '[' => class(&mut rest),
                    '.' => SMALL_CLASS,
                    _ => CHARACTER,
                };
                if verbose { group.add_silently(bytes) } else { group.add(bytes) }
            }
        }
    }
    outer.into_iter().fold(group.all, |all, group| all.saturating_add(group.all))
}

/// Bytes for what stands behind a backslash.
fn escape(rest: &mut Chars<'_>) -> usize {
    let Some(sign) = rest.next() else { return 0 };
    let bytes = match sign {
        's' | 'S' | 'd' | 'D' | 'h' | 'H' => SMALL_CLASS,
        'n' | 'r' | 't' | 'f' | 'v' | 'a' | 'e' | 'x' | 'u' | 'U' | 'b' | 'B' | 'A' | 'z' | 'Z' => CHARACTER,
        letter if letter.is_ascii_alphabetic() => CLASS,
        _ => CHARACTER,
    };
    // A name or a number in braces is part of it.
    let named = sign.is_ascii_alphabetic()
        && rest.as_str().strip_prefix('{').is_some_and(|name| repetitions(name).is_none());
    if named {
        rest.by_ref().find(|&c| c == '}');
    }
    bytes
}

/// Bytes for a class in brackets, the first of which was read.
fn class(rest: &mut Chars<'_>) -> usize {
    // A bracket that closes, right at the start, is a character.
    for first in ['^', ']'] {
        if let Some(behind) = rest.as_str().strip_prefix(first) {
            *rest = behind.chars();
        }
    }
    let mut bytes = SMALL_CLASS;
    let mut depth = 1;
    while let Some(sign) = rest.next() {
        bytes = bytes.saturating_add(match sign {
            '\\' => escape(rest),
            _ => CHARACTER,
        });
        match sign {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    bytes
}

/// The greatest number in `5}`, `5,}`, `5,7}` and the like, with spaces anywhere.
fn repetitions(rest: &str) -> Option<usize> {
    let (numbers, _) = rest.split_once('}')?;
    let known = |c: char| c.is_ascii_digit() || c == ',' || c.is_whitespace();
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        // No number in `5,}`. One that is too large for the machine is for an automaton, too.
        if digits.is_empty() { 1 } else { digits.parse().unwrap_or(usize::MAX) }
    };
    numbers.chars().all(known).then(|| numbers.split(',').map(number).max()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn split(regex: &str) -> Value {
        json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
    }

    #[test]
    fn the_patterns_of_real_tokenizers_are_far_below_the_limit() {
        let o200k = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        check_steps(&json!({"pretokenizers": vec![split(o200k); 4]})).unwrap();
    }

    #[test]
    fn repetitions_multiply_what_they_repeat() {
        for regex in [
            r"\p{L}{1000}",
            r"(?:\w{20}){20}",
            r"((\w\w){5,}){3,60}",
            r"(?x) \w #{ {2}
              { 900 }",
            r"\w{30}(?#of thirty){30}",
            r"(?:(?:a{1000}){1000}",
            r"(?=\p{L}{200})(?=\p{L}{200})",
            r"a{99999999999999999999999}",
            r"[]\p{L}(]{300}",
            r"[^]\w[a]\]]{300}",
            r"(?:\s{1000}){10}",
            r"\p{L}{ 20 }{20}",
        ] {
            let error = check_steps(&split(regex)).expect_err(regex);
            assert!(error.contains("MiB of memory"), "{error}");
        }
        check_steps(&split(r"\p{N}{1,3}|{|}|a{x}|\d{ 2 , 4 }|(?:a{4}){4}|\s{512}(?!\S)|\s{256}(?!\S)|)"))
            .unwrap();
    }

    #[test]
    fn steps_and_patterns_are_counted_wherever_they_are() {
        let sequence =
            |step: Value, count: usize| json!({"type": "Sequence", "normalizers": vec![step; count]});
        check_steps(&sequence(json!({"type": "NFC"}), 500)).unwrap();
        let nested = sequence(sequence(json!({"type": "NFC"}), 30), 20);
        assert!(check_steps(&nested).unwrap_err().contains("621 steps"));
        check_steps(&sequence(split("a"), 64)).unwrap();
        assert!(check_steps(&sequence(split("a"), 65)).unwrap_err().contains("65 patterns"));
        let long = json!({"type": "Replace", "pattern": {"String": "a".repeat(1 << 20)}, "content": ""});
        assert!(check_steps(&long).unwrap_err().contains("MiB of memory"));
    }
}
