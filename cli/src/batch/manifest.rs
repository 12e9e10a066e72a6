//! The list of jobs as it is written: keys and values with their lines, from JSONL or TOML. What they mean is the business of
//! `job.rs`.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use qsf_format::{JsonLimits, check_json};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use toml_span::value::{Table, Value as TomlValue, ValueInner};

use super::error::{BatchError, Problem};

/// More than any list of jobs has. The tree of a TOML text takes thirty times as much.
const MAX_BYTES: u64 = 16 << 20;
const MAX_TOML_BYTES: u64 = 1 << 20;
/// Most jobs, and most problems that are told of.
const MAX_JOBS: usize = 1 << 16;
const MAX_PROBLEMS: usize = 100;
/// Of a job in JSON. Real ones have some hundred bytes.
const JOB: JsonLimits = JsonLimits { bytes: 1 << 20, memory: 4 << 20 };
/// The table of TOML that is a job.
const JOB_TABLE: &str = "job";

/// A job as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it begins, counted from 1.
    pub line: usize,
    /// Its keys, in their order.
    pub pairs: Vec<Pair>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The key as it is written.
    pub key: String,
    /// Where it is, counted from 1.
    pub line: usize,
    /// The value.
    pub value: Given,
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// A text.
    Text(String),
    /// A number, in its own digits.
    Number(String),
    /// True or false.
    Flag(bool),
    /// A list.
    List(Vec<Given>),
    /// What no option takes, by its name.
    Other(&'static str),
}

impl Given {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Given::Text(_) => "a text",
            Given::Number(_) => "a number",
            Given::Flag(_) => "true or false",
            Given::List(_) => "a list",
            Given::Other(kind) => kind,
        }
    }
}

/// Which of the two a list is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// One JSON object a line.
    JsonLines,
    /// One table `[[job]]` a job.
    Toml,
}

/// Reads the list at `path`; its name says what it is written in.
///
/// # Errors
/// When it cannot be read, is too large, or is not what its name says.
pub fn read(path: &Path) -> Result<Vec<Entry>, BatchError> {
    let whole = |what: String| BatchError::Manifest {
        problems: vec![Problem { file: path.to_owned(), line: 1, key: None, what }],
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    let syntax = match extension {
        Some("jsonl" | "ndjson") => Syntax::JsonLines,
        Some("toml") => Syntax::Toml,
        _ => return Err(whole("a list of jobs has a name that ends in .jsonl or .toml".into())),
    };
    let most = if syntax == Syntax::Toml { MAX_TOML_BYTES } else { MAX_BYTES };
    let found = fs::metadata(path).map_err(|e| BatchError::io(path, "read", e))?;
    let file = found.is_file().then(|| File::open(path)).transpose();
    let mut bytes = Vec::new();
    if let Some(file) = file.map_err(|e| BatchError::io(path, "read", e))? {
        // One byte beyond the limit tells a file that is too large, also one that grows meanwhile.
        file.take(most + 1).read_to_end(&mut bytes).map_err(|e| BatchError::io(path, "read", e))?;
    }
    if !found.is_file() || bytes.len() as u64 > most {
        return Err(whole(format!("expected a file of at most {most} bytes, found {}", found.len())));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        whole(format!("expected UTF-8 text, found other bytes at offset {}", e.utf8_error().valid_up_to()))
    })?;
    parse(&text, syntax).map_err(|problems| {
        let problem = |(line, what)| Problem { file: path.to_owned(), line, key: None, what };
        BatchError::Manifest { problems: problems.into_iter().map(problem).collect() }
    })
}

/// The jobs of a text.
///
/// # Errors
/// Every line that is none, with what is wrong.
pub fn parse(text: &str, syntax: Syntax) -> Result<Vec<Entry>, Vec<(usize, String)>> {
    match syntax {
        Syntax::JsonLines => parse_json_lines(text),
        Syntax::Toml => parse_toml(text),
    }
}

fn parse_json_lines(text: &str) -> Result<Vec<Entry>, Vec<(usize, String)>> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        if entries.len() == MAX_JOBS || problems.len() == MAX_PROBLEMS {
            problems.push((
                line,
                format!("more than {MAX_JOBS} jobs or {MAX_PROBLEMS} wrong lines before this one"),
            ));
            break;
        }
        if let Err(problem) = check_json(text.as_bytes(), JOB) {
            problems.push((line, problem));
            continue;
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let pairs = json.deserialize_map(Pairs).and_then(|pairs| json.end().map(|()| pairs));
        match pairs {
            Ok(pairs) => {
                let pair = |(key, value)| Pair { key, line, value: of_json(value) };
                entries.push(Entry { line, pairs: pairs.into_iter().map(pair).collect() });
            }
            Err(error) => problems.push((line, format!("expected one JSON object: {}", placed(&error)))),
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

/// The message without the line, which is always the first of the text that was parsed.
fn placed(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("{what} at column {}", error.column())
}

/// The pairs of a JSON object, those with the same key as well.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

fn of_json(value: Value) -> Given {
    match value {
        Value::String(text) => Given::Text(text),
        Value::Number(number) => Given::Number(number.to_string()),
        Value::Bool(flag) => Given::Flag(flag),
        Value::Array(values) => Given::List(values.into_iter().map(of_json).collect()),
        Value::Object(_) => Given::Other("an object"),
        Value::Null => Given::Other("null"),
    }
}

fn parse_toml(text: &str) -> Result<Vec<Entry>, Vec<(usize, String)>> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line_of = |offset: usize| 1 + ends.partition_point(|end| *end < offset);
    let mut document = toml_span::parse(text).map_err(|error| {
        let what = error.kind.to_string();
        vec![(line_of(error.span.start), if what.is_empty() { "not TOML".to_owned() } else { what })]
    })?;
    let ValueInner::Table(keys) = document.take() else {
        return Err(vec![(1, "expected tables [[job]]".into())]);
    };
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for (key, mut value) in keys {
        match value.take() {
            ValueInner::Array(jobs) if key.name == JOB_TABLE => {
                for mut job in jobs {
                    let line = line_of(job.span.start);
                    match job.take() {
                        ValueInner::Table(table) => entries.push(entry(line, table, text, &line_of)),
                        _ => problems.push((line, "expected a table [[job]]".into())),
                    }
                }
            }
            _ => {
                problems.push((
                    line_of(key.span.start),
                    format!("\"{}\" is not [[job]], which begins a job", key.name),
                ));
            }
        }
    }
    entries.sort_by_key(|entry| entry.line);
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

fn entry(line: usize, table: Table<'_>, text: &str, line_of: &dyn Fn(usize) -> usize) -> Entry {
    let mut pairs: Vec<Pair> = table
        .into_iter()
        .map(|(key, value)| Pair {
            line: line_of(key.span.start),
            key: key.name.into_owned(),
            value: of_toml(value, text),
        })
        .collect();
    // The table is sorted by name.
    pairs.sort_by_key(|pair| pair.line);
    Entry { line, pairs }
}

fn of_toml(mut value: TomlValue<'_>, text: &str) -> Given {
    let written = text.get(value.span.start..value.span.end).unwrap_or_default();
    match value.take() {
        ValueInner::String(text) => Given::Text(text.into_owned()),
        ValueInner::Integer(_) if written.starts_with('0') && written.len() > 1 => {
            Given::Other("a number that is not decimal")
        }
        // Digits as they are written: a float that went through 64 bits can have others.
        ValueInner::Integer(_) | ValueInner::Float(_) => {
            Given::Number(written.trim_start_matches('+').replace('_', ""))
        }
        ValueInner::Boolean(flag) => Given::Flag(flag),
        ValueInner::Array(values) => {
            Given::List(values.into_iter().map(|value| of_toml(value, text)).collect())
        }
        ValueInner::Table(_) => Given::Other("a table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(entry: &Entry) -> Vec<(&str, usize, &Given)> {
        entry.pairs.iter().map(|pair| (pair.key.as_str(), pair.line, &pair.value)).collect()
    }

    #[test]
    fn both_ways_of_writing_give_the_same_jobs_with_their_lines() {
        let json = "{\"model\": \"a\", \"max_kld\": 0.1}\n\n{\"model\": \"b\", \"force\": true, \"x\": [1, \"y\"]}\n";
        let entries = parse(json, Syntax::JsonLines).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 3]);
        let (text, number) = (|s: &str| Given::Text(s.into()), |s: &str| Given::Number(s.into()));
        assert_eq!(pairs(&entries[0]), [("model", 1, &text("a")), ("max_kld", 1, &number("0.1"))]);
        let list = Given::List(vec![number("1"), text("y")]);
        assert_eq!(pairs(&entries[1])[1..], [("force", 3, &Given::Flag(true)), ("x", 3, &list)]);
        let toml =
            "[[job]]\nmodel = 'a'\nmax_kld = 0.1\n\n[[job]]\nmodel = 'b'\nforce = true\nx = [1, 'y']\n";
        let from_toml = parse(toml, Syntax::Toml).unwrap();
        assert_eq!(from_toml.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(
            pairs(&from_toml[1]),
            [("model", 6, &text("b")), ("force", 7, &Given::Flag(true)), ("x", 8, &list)]
        );
    }

    #[test]
    fn a_key_that_is_there_twice_is_seen_twice() {
        let entries = parse("{\"model\": \"a\", \"model\": \"b\"}", Syntax::JsonLines).unwrap();
        assert_eq!(entries[0].pairs.len(), 2);
        let [(line, what)] = &parse("[[job]]\nmodel = 'a'\nmodel = 'b'\n", Syntax::Toml).unwrap_err()[..]
        else {
            panic!("one problem");
        };
        assert!(*line == 3 && what.contains("duplicate"), "{line} {what}");
    }

    #[test]
    fn numbers_of_toml_keep_their_digits_and_what_no_option_takes_is_named() {
        let toml = "[[job]]\na = 1_000\nb = +0.10\nc = 0x10\nd = {x = 1}\ne = 0\nf = -0.5e-3\n";
        let entries = parse(toml, Syntax::Toml).unwrap();
        let values: Vec<&Given> = entries[0].pairs.iter().map(|pair| &pair.value).collect();
        let number = |s: &str| Given::Number(s.into());
        let (hex, table) = (Given::Other("a number that is not decimal"), Given::Other("a table"));
        assert_eq!(
            values,
            [&number("1000"), &number("0.10"), &hex, &table, &number("0"), &number("-0.5e-3")]
        );
        for (toml, line) in [
            ("[[job]]\nx = 2026-11-25\n", 2),
            ("[[job]]\n\nx = 99999999999999999999\n", 3),
            (&format!("[[job]]\nx = {}\n", "[".repeat(100_000)), 2),
            (&format!("[[job]]\nx{} = 1\n", ".x".repeat(100_000)), 2),
        ] {
            let problems = parse(toml, Syntax::Toml).unwrap_err();
            assert!(problems[0].0 == line && !problems[0].1.is_empty(), "{problems:?}");
        }
    }

    #[test]
    fn every_broken_line_is_named() {
        let problems = parse("{\"a\": 1}\n{\"a\": \nnothing\n[1]\n{} {}\n", Syntax::JsonLines).unwrap_err();
        assert_eq!(problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 4, 5]);
        let problems = parse("[[job]]\nmodel = \n", Syntax::Toml).unwrap_err();
        assert_eq!(problems[0].0, 2);
        let problems = parse("x = 1\n[[job]]\nmodel = 'a'\n[jobs]\n", Syntax::Toml).unwrap_err();
        assert_eq!(problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 1]);
        assert!(parse("job = [1]", Syntax::Toml).is_err());
    }
}
