//! The chat template of a model: Jinja that makes a text of a conversation.
//!
//! Rendered as `apply_chat_template` of transformers does it: blocks are trimmed, `tojson` leaves characters as they are, Python's
//! methods of strings and maps are there, and `{% generation %}` means nothing. The same conversation gives the same text at any
//! time: the date that a template asks for is fixed (`strftime_now`).
//!
//! A template is a program of a stranger. It has no way out of its own text, a limit of steps and one of output, and panics of the
//! library become errors. What it holds in memory while it runs is not limited (docs/security.md).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use qsf_format::printable::message as printable;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::error::{Result, RuntimeError};
use crate::guard::catch_library_panic;
use crate::source::WeightSource;
use crate::tokenizer::Tokenizer;

/// Steps of a template: a conversation of ten thousand messages takes some millions.
const FUEL: u64 = 20_000_000;
/// Bytes that a template may have: those of models have up to some ten thousand.
const MAX_TEMPLATE_BYTES: usize = 1 << 20;
/// Bytes of text that it may make.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Spaces per level that `tojson` may be asked for.
const MAX_INDENT: usize = 16;
/// The name by which the engine knows the template.
const NAME: &str = "chat template";

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it: `system`, `user`, `assistant` and the like.
    pub role: String,
    /// What.
    pub content: String,
}

impl Message {
    /// What `role` says.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// A chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    path: PathBuf,
    bos: Option<String>,
    eos: Option<String>,
}

impl ChatTemplate {
    /// The template of a model, whose tokens have the names that `tokenizer` knows.
    ///
    /// # Errors
    /// When the model has none, or it is not Jinja; the error names the line.
    pub fn of_source(source: &dyn WeightSource, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let text = source.chat_template().ok_or_else(|| {
            // chat_template.jinja, or a field of tokenizer_config.json; in a GGUF file tokenizer.chat_template.
            let expected = "one, as models for conversations have (this may be a base model: use it without)";
            RuntimeError::bad_input(source.path(), "the chat template", expected, "none")
        })?;
        let config = source.config();
        let name = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id));
        let (bos, eos) = (name(config.bos.or(tokenizer.bos())), name(config.stop_tokens.first().copied()));
        ChatTemplate::new(text, source.path(), bos, eos)
    }

    /// Reads a template; `path` is where it came from, for messages. `bos` and `eos` are the texts of the tokens that begin and
    /// end a text, where the model has them.
    ///
    /// # Errors
    /// When it is not UTF-8 or not Jinja, or too large.
    pub fn new(text: &[u8], path: &Path, bos: Option<String>, eos: Option<String>) -> Result<ChatTemplate> {
        let refuse = |expected: &str, found: String| {
            RuntimeError::bad_input(path, "the chat template", expected, found)
        };
        if text.len() > MAX_TEMPLATE_BYTES {
            let expected = format!("at most {MAX_TEMPLATE_BYTES} bytes");
            return Err(refuse(&expected, format!("{} bytes", text.len())));
        }
        let text = std::str::from_utf8(text).map_err(|e| refuse("UTF-8", e.to_string()))?;
        let mut environment = environment();
        let added =
            catch_library_panic("template", || Ok(environment.add_template_owned(NAME, without_marks(text))));
        added.map_err(|panic| refuse("Jinja", panic))?.map_err(|e| wrong(path, "Jinja", &e))?;
        Ok(ChatTemplate { environment, path: path.to_owned(), bos, eos })
    }

    /// The text of a conversation; with `prompt_reply` up to where the assistant's next message begins.
    ///
    /// Its special tokens are written out, a first one among them: it is to be split by
    /// [`Tokenizer::encode_plain`], which adds none.
    ///
    /// # Errors
    /// When the template refuses the conversation, fails, takes too many steps or makes too much text; the error names the line.
    pub fn render(&self, messages: &[Message], prompt_reply: bool) -> Result<String> {
        let messages = messages.iter().map(|m| context! { role => &m.role, content => &m.content });
        let none = Value::from(());
        let mut context = vec![
            ("messages", Value::from_iter(messages)),
            ("add_generation_prompt", prompt_reply.into()),
            ("tools", none.clone()),
            ("documents", none),
        ];
        // A token that the model does not have is undefined, and prints as nothing.
        let tokens = [("bos_token", &self.bos), ("eos_token", &self.eos)];
        context.extend(tokens.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?.into()))));
        let context = Value::from_pairs(context);
        let mut text = BoundedText(Vec::new());
        let rendered = catch_library_panic("template", || {
            let template = self.environment.get_template(NAME)?;
            Ok(template.render_captured_to(context, &mut text).map(drop))
        });
        let expected = "a template and messages that go together";
        rendered
            .map_err(|panic| RuntimeError::bad_input(&self.path, "the chat template", expected, panic))?
            .map_err(|e| wrong(&self.path, expected, &e))?;
        String::from_utf8(text.0).map_err(|e| RuntimeError::bad_input(&self.path, NAME, "UTF-8", e))
    }
}

/// What transformers gives to templates.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("delimiters that are the default"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |reason: &str| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason.to_owned()))
    });
    environment.add_function("strftime_now", |format: &str| strftime_now(format));
    environment
}

/// An error of the engine, with its line.
fn wrong(path: &Path, expected: &str, error: &Error) -> RuntimeError {
    let place = match error.line() {
        Some(line) => format!("the chat template, line {line}"),
        None => "the chat template".to_owned(),
    };
    let found = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("more than {FUEL} steps"),
        (ErrorKind::WriteFailure, _) => format!("more than {MAX_TEXT_BYTES} bytes of text"),
        (ErrorKind::InvalidOperation, Some(detail)) => printable(detail),
        (kind, Some(detail)) => printable(format!("{kind}: {detail}")),
        (kind, None) => kind.to_string(),
    };
    RuntimeError::bad_input(path, place, expected, found)
}

/// Text that ends somewhere.
struct BoundedText(Vec<u8>);

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The template with its `{% generation %}` blocks, which mark for training what an assistant says, as blocks that are always
/// taken: the engine does not know them.
fn without_marks(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, tag)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        let inner = tag.split_once("%}").map_or(tag, |(inner, _)| inner);
        let name = inner.trim_matches(|c: char| matches!(c, '-' | '+') || c.is_ascii_whitespace());
        match name {
            "generation" => out.push_str(&inner.replace(name, "if true")),
            "endgeneration" => out.push_str(&inner.replace(name, "endif")),
            _ => out.push_str(inner),
        }
        rest = &tag[inner.len()..];
    }
    out + rest
}

/// Values as Python's `json.dumps` writes them: characters as they are, and a space behind `,` and `:`.
fn to_json(value: &Value, args: Kwargs) -> Result<String, Error> {
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
fn strftime_now(format: &str) -> Result<String, Error> {
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
