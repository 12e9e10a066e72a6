//! Functions and filters that transformers gives to templates.

use std::io::{self, Write};

use minijinja::Error;
use minijinja::value::{Rest, Value, ValueOrKwargs};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::date::Date;
use super::jinja2::{by_name, wrong};

/// Spaces per level that `tojson` may be asked for.
const MAX_INDENT: usize = 16;

/// Values as Python's `json.dumps` writes them: a space behind `,` and `:`, and characters as they are, unless it is asked for
/// something else.
pub(super) fn to_json(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let refuse = |e: &dyn std::fmt::Display| wrong(format!("tojson: {e}"));
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sorted] = by_name(&args.into_values(), names)?;
    let indent = indent.map(usize::try_from).transpose()?;
    if let Some(indent) = indent.filter(|indent| *indent > MAX_INDENT) {
        return Err(refuse(&format!("an indent of {indent}")));
    }
    let (mut item, mut name) = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(separators) = separators {
        let both: Vec<Value> = separators.try_iter()?.collect();
        match &both[..] {
            [of_items, of_names] => (item, name) = (of_items.to_string(), of_names.to_string()),
            _ => return Err(refuse(&"expected two separators")),
        }
    }
    let is_set = |flag: Option<Value>| flag.is_some_and(|flag| flag.is_true());
    let python = Python { item, name, indent, ascii: is_set(ascii), level: 0, is_empty: true };
    let mut json = Vec::new();
    let mut writer = Serializer::with_formatter(&mut json, python);
    let written = if is_set(sorted) {
        let mut value = serde_json::to_value(value).map_err(|e| refuse(&e))?;
        value.sort_all_objects();
        value.serialize(&mut writer)
    } else {
        value.serialize(&mut writer)
    };
    written.map_err(|e| refuse(&e))?;
    String::from_utf8(json).map_err(|e| refuse(&e))
}

/// JSON as Python has it.
struct Python {
    /// Between items.
    item: String,
    /// Between a name and its value.
    name: String,
    /// Spaces per level; without it all is on one line.
    indent: Option<usize>,
    /// Whether other characters are escaped.
    ascii: bool,
    level: usize,
    /// Whether nothing was written yet of the list or object.
    is_empty: bool,
}

impl Python {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.new_line(writer)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if !self.is_empty {
            self.new_line(writer)?;
        }
        self.is_empty = false;
        writer.write_all(bracket)
    }

    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        (0..self.level * indent).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.name.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        if !self.ascii || text.is_ascii() {
            return writer.write_all(text.as_bytes());
        }
        text.encode_utf16().try_for_each(|unit| match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => writer.write_all(&[byte]),
            None => write!(writer, "\\u{unit:04x}"),
        })
    }
}

/// What `strftime_now` gives at midnight of a day.
pub(super) fn strftime(date: Date, format: &str) -> Result<String, Error> {
    date.strftime(format).map_err(|letter| match letter {
        Some(letter) => wrong(format!("strftime_now: %{letter} is not supported")),
        None => wrong("strftime_now: % at the end".into()),
    })
}
