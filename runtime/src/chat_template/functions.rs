//! Functions and filters that transformers gives to templates.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Spaces per level that `tojson` may be asked for.
const MAX_INDENT: usize = 16;

/// Values as Python's `json.dumps` writes them: characters as they are, and a space behind `,` and `:`.
pub(super) fn to_json(value: &Value, args: Kwargs) -> Result<String, Error> {
    let refuse = |e: &dyn std::fmt::Display| Error::new(ErrorKind::InvalidOperation, format!("tojson: {e}"));
    // Python's name for what is always so here.
    args.get::<Option<bool>>("ensure_ascii")?;
    let mut json = Vec::new();
    let written = match args.get::<Option<usize>>("indent")? {
        Some(indent) if indent > MAX_INDENT => return Err(refuse(&format!("an indent of {indent}"))),
        Some(indent) => {
            let spaces = " ".repeat(indent);
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut json, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut json, Spaced)),
    };
    args.assert_all_used()?;
    written.map_err(|e| refuse(&e))?;
    String::from_utf8(json).map_err(|e| refuse(&e))
}

/// JSON on one line, as Python has it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The date that templates get for that of today: always Friday, 26 July 2024, which those of LLaMA 3 write where they cannot
/// ask. With the real one neither a conversion nor an answer could be repeated.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out += match chars.next() {
            Some('d') => "26",
            Some('m') => "07",
            Some('b' | 'h') => "Jul",
            Some('B') => "July",
            Some('Y') => "2024",
            Some('y') => "24",
            Some('a') => "Fri",
            Some('A') => "Friday",
            Some('j') => "208",
            Some('F') => "2024-07-26",
            Some('H' | 'M' | 'S') => "00",
            Some('I') => "12",
            Some('p') => "AM",
            Some('T') => "00:00:00",
            Some('%') => "%",
            Some(c) => {
                let problem = format!("strftime_now: %{c} is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
            None => return Err(Error::new(ErrorKind::InvalidOperation, "strftime_now: % at the end")),
        };
    }
    Ok(out)
}
