//! Texts of WGSL with places for what Rust decides. An editor takes them for WGSL, since all that is special looks like it:
//!
//! - A word in capitals, of two letters or more, is a place: it becomes a value that has its name. It may be a part of a longer word, so
//!   that `sumPANEL_TOKEN` becomes `sum0_1`.
//! - `//: if NAME`, `//: else` and `//: end`, each on a line, keep or leave out what is between them.
//! - `//: insert NAME` becomes statements that Rust has made.
//! - `//: part NAME` begins a part of the file, which is a text of its own.

use std::collections::HashMap;
use std::fmt::{Debug, Display};

/// A text, with the values of its places.
#[derive(Debug, Clone)]
pub struct Template {
    text: &'static str,
    values: HashMap<&'static str, String>,
    flags: HashMap<&'static str, bool>,
}

impl Template {
    /// The text of a file up to its first part.
    pub fn new(file: &'static str) -> Template {
        Template { text: parts(file).next().unwrap_or(""), values: HashMap::new(), flags: HashMap::new() }
    }

    /// A part of a file.
    ///
    /// # Panics
    /// When the file has no such part.
    pub fn part(file: &'static str, name: &str) -> Template {
        let named = |part: &&str| part.lines().next().is_some_and(|line| line.trim() == name);
        let text = parts(file).skip(1).find(named).unwrap_or_else(|| panic!("no part {name}"));
        Template { text: text.split_once('\n').map_or("", |(_, text)| text), ..Template::new("") }
    }

    /// Sets a word.
    pub fn word(mut self, name: &'static str, value: impl Display) -> Template {
        self.values.insert(name, value.to_string());
        self
    }

    /// Sets a number of type `u32`.
    pub fn number(self, name: &'static str, value: usize) -> Template {
        self.word(name, format_args!("{value}u"))
    }

    /// Sets a float.
    pub fn float(self, name: &'static str, value: impl Debug) -> Template {
        self.word(name, format_args!("{value:?}"))
    }

    /// Says whether a condition holds.
    pub fn when(mut self, name: &'static str, holds: bool) -> Template {
        self.flags.insert(name, holds);
        self
    }

    /// The text with everything in its place.
    ///
    /// # Panics
    /// When a condition or an insertion has no value, or the lines of a condition do not fit together: mistakes in the text.
    pub fn make(&self) -> String {
        let mut out = String::new();
        // Whether the lines at hand are kept, and those of each condition around them.
        let mut kept = vec![true];
        for line in self.text.lines() {
            let here = kept.iter().all(|kept| *kept);
            let Some(order) = line.trim().strip_prefix("//: ") else {
                if here {
                    self.write_line(line, &mut out);
                }
                continue;
            };
            match order.split_once(' ').unwrap_or((order, "")) {
                ("if", name) => {
                    kept.push(*self.flags.get(name).unwrap_or_else(|| panic!("no condition {name}")));
                }
                ("else", _) => {
                    let last = kept.pop().expect("a condition before its else");
                    kept.push(!last);
                }
                ("end", _) => {
                    kept.pop();
                    assert!(!kept.is_empty(), "an end without a condition");
                }
                ("insert", name) if here => {
                    out += self.values.get(name).unwrap_or_else(|| panic!("nothing to insert as {name}"));
                    out.push('\n');
                }
                ("insert", _) => {}
                _ => panic!("no such order: {order}"),
            }
        }
        assert_eq!(kept.len(), 1, "a condition without an end");
        out
    }

    /// A line with its values.
    fn write_line(&self, line: &str, out: &mut String) {
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(from.len());
            let name = from[..end].trim_end_matches('_');
            out.push_str(before);
            match self.values.get(name) {
                Some(value) => out.push_str(value),
                // Several values in one name.
                None => {
                    let words =
                        name.split('_').map(|word| self.values.get(word).map_or(word, String::as_str));
                    out.push_str(&words.collect::<Vec<_>>().join("_"));
                }
            }
            rest = &from[name.len()..];
        }
        out.push_str(rest);
        out.push('\n');
    }
}

/// A file's parts, the first without its name.
fn parts(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.split("//: part ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
var sumPANEL_TOKEN = coopLoadT(WIDTH, HEAD_WORDS);
//: if BIAS
  bias
//: else
  none
//: end
//: insert MORE
//: part second
two LETTERS
";

    #[test]
    fn values_conditions_and_insertions_are_put_in_their_places() {
        let text = Template::new(FILE)
            .word("PANEL", 0)
            .word("TOKEN", 1)
            .number("WIDTH", 64)
            .number("HEAD_WORDS", 8)
            .word("MORE", "let x = 1;");
        let with = text.clone().when("BIAS", true).make();
        assert_eq!(with, "var sum0_1 = coopLoadT(64u, 8u);\n  bias\nlet x = 1;\n");
        let without = text.when("BIAS", false).make();
        assert_eq!(without, "var sum0_1 = coopLoadT(64u, 8u);\n  none\nlet x = 1;\n");
        assert_eq!(Template::part(FILE, "second").float("LETTERS", 1.0f32).make(), "two 1.0\n");
    }

    #[test]
    #[should_panic(expected = "no condition BIAS")]
    fn a_condition_that_nothing_decides_is_a_mistake() {
        Template::new(FILE).word("MORE", "").make();
    }
}
