//! Reads and renders a template with minijinja, as `apply_chat_template` of transformers does it: blocks are trimmed, `tojson`
//! leaves characters as they are, Python's methods of strings, lists and maps are there, tests and filters are those of Jinja2,
//! and `{% generation %}` means nothing.
//!
//! Steps and text have limits here, and panics of the library become refusals. Memory, time inside of a step and the stack are
//! the affair of whoever calls.

use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use qsf_format::printable::message as printable;

use super::functions::{strftime, to_json};
use super::message::Input;
use super::nesting::check_nesting;
use super::refusal::{FITTING, JINJA, Refusal};
use super::{jinja2, methods};
use crate::guard::catch_library_panic;

/// Steps of a template: a conversation of ten thousand messages takes some millions.
const FUEL: u64 = 20_000_000;
/// Bytes of text that it may make, beside [`TEXT_PER_BYTE`].
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Bytes of text that it may make for each byte of the conversation.
const TEXT_PER_BYTE: usize = 8;
/// The name by which the engine knows the template.
const NAME: &str = "chat template";

/// A template that was read.
#[derive(Debug)]
pub(super) struct Engine {
    environment: Environment<'static>,
}

impl Engine {
    /// Reads a template.
    pub fn new(text: &str) -> Result<Engine, Refusal> {
        let text = without_marks(text);
        check_nesting(&text)?;
        let mut environment = environment();
        let added = catch_library_panic("template", || Ok(environment.add_template_owned(NAME, text)));
        added.map_err(|panic| Refusal::new(JINJA, panic))?.map_err(|e| wrong(JINJA, &e, 0))?;
        Ok(Engine { environment })
    }

    /// The text of a conversation.
    pub fn render(&self, input: &Input) -> Result<String, Refusal> {
        let none = Value::from(());
        let date = input.date;
        let mut context = vec![
            ("messages", value(&input.messages)?),
            ("add_generation_prompt", input.prompt_reply.into()),
            ("tools", input.tools.as_deref().map_or(Ok(none.clone()), value)?),
            ("documents", none),
            ("strftime_now", Value::from_function(move |format: &str| strftime(date, format))),
        ];
        // A token that the model does not have is undefined, and prints as nothing.
        let tokens = [
            ("bos_token", &input.bos),
            ("eos_token", &input.eos),
            ("unk_token", &input.unk),
            ("pad_token", &input.pad),
        ];
        context.extend(tokens.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?.into()))));
        let context = Value::from_pairs(context);
        let most = most_text(input);
        let mut text = BoundedText { text: Vec::new(), most };
        let rendered = catch_library_panic("template", || {
            let template = self.environment.get_template(NAME)?;
            Ok(template.render_captured_to(context, &mut text).map(drop))
        });
        rendered.map_err(Refusal::limit)?.map_err(|e| wrong(FITTING, &e, most))?;
        String::from_utf8(text.text).map_err(|e| Refusal::new("UTF-8", e))
    }
}

/// What JSON says, with the members of its objects in their order: `tojson` writes them so.
fn value(json: &str) -> Result<Value, Refusal> {
    serde_json::from_str(json).map_err(|error| Refusal::new("JSON", error))
}

/// Bytes of text that a template may make of `input`.
pub(super) fn most_text(input: &Input) -> usize {
    input.bytes().saturating_mul(TEXT_PER_BYTE).saturating_add(MAX_TEXT_BYTES)
}

/// What transformers gives to templates.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("delimiters that are the default"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(methods::call);
    jinja2::add_to(&mut environment);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |reason: &str| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason.to_owned()))
    });
    environment
}

/// An error of the engine, with its line. `most` is how much text there may be.
fn wrong(expected: &str, error: &Error, most: usize) -> Refusal {
    let found = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("more than {FUEL} steps"),
        (ErrorKind::WriteFailure, _) => format!("more than {most} bytes of text"),
        (ErrorKind::InvalidOperation, Some(detail)) => printable(detail),
        (kind, Some(detail)) => printable(format!("{kind}: {detail}")),
        (kind, None) => kind.to_string(),
    };
    Refusal { line: error.line(), expected: expected.to_owned(), found }
}

/// Text that ends somewhere.
struct BoundedText {
    text: Vec<u8>,
    most: usize,
}

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most.saturating_sub(self.text.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
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
