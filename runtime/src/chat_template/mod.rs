//! The chat template of a model: Jinja that makes a text of a conversation.
//!
//! The same conversation gives the same text at any time: the date that a template asks for (`strftime_now`) is fixed, unless
//! a program says which it is.
//!
//! A template is a program of a stranger. It has no way out of its own text. Programs have it run in a process of its own, which
//! ends where it takes too much memory, time or stack ([`set_renderer`]). Without one it runs on a thread of this process:
//! nesting, steps and text are limited there, and memory is not (docs/security.md).
//!
//! | File | Duty |
//! |---|---|
//! | `message`, `refusal` | what is rendered, and why it is not |
//! | `engine`, `functions` | reads and renders with the library; what transformers gives to templates |
//! | `jinja2`, `methods` | what Jinja2 and Python do otherwise than the library |
//! | `date` | the date that templates ask for |
//! | `nesting` | how deeply a template is nested, before the library reads it |
//! | `limits` | memory, time and stack |
//! | `process`, `serve`, `protocol` | the process that renders, from outside, from inside, and the talk with it |
//! | `renderer` | whether there is such a process |

mod date;
mod engine;
mod functions;
mod jinja2;
mod limits;
mod message;
mod methods;
mod nesting;
mod process;
mod protocol;
mod refusal;
mod renderer;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use self::date::{Date, DateError};
pub use self::message::{Message, RawMessages};
pub use self::renderer::set_renderer;
pub use self::serve::serve_renderer;

use qsf_format::is_untrusted;

use self::message::Input;
use self::process::Failed;
use self::renderer::Renderer;
use crate::error::{Result, RuntimeError};
use crate::source::WeightSource;
use crate::tokenizer::Tokenizer;

/// Bytes that a template may have: those of models have up to some ten thousand.
const MAX_TEMPLATE_BYTES: usize = 1 << 20;

/// A chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    /// One conversation at a time.
    renderer: Mutex<Renderer>,
    path: PathBuf,
    bos: Option<String>,
    eos: Option<String>,
    unk: Option<String>,
    pad: Option<String>,
    date: Date,
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
        let template = ChatTemplate::new(text, source.path(), bos, eos)?;
        Ok(ChatTemplate { unk: tokenizer.unk(), pad: name(config.pad), ..template })
    }

    /// The same on another day than [`Date::FIXED`].
    #[must_use]
    pub fn on(self, date: Date) -> ChatTemplate {
        ChatTemplate { date, ..self }
    }

    /// Reads a template; `path` is where it came from, for messages. `bos` and `eos` are the texts of the tokens that begin and
    /// end a text, where the model has them.
    ///
    /// # Errors
    /// When it is not UTF-8 or not Jinja, too large or nested too deeply.
    pub fn new(text: &[u8], path: &Path, bos: Option<String>, eos: Option<String>) -> Result<ChatTemplate> {
        let refuse = |expected: &str, found: String| {
            RuntimeError::bad_input(path, "the chat template", expected, found)
        };
        if is_untrusted() {
            return Err(RuntimeError::Unsupported {
                path: path.to_owned(),
                what: "a chat template, which is a program of the model's author, with --untrusted".into(),
                supported: "text without --chat and -i".into(),
            });
        }
        if text.len() > MAX_TEMPLATE_BYTES {
            let expected = format!("at most {MAX_TEMPLATE_BYTES} bytes");
            return Err(refuse(&expected, format!("{} bytes", text.len())));
        }
        let text = std::str::from_utf8(text).map_err(|e| refuse("UTF-8", e.to_string()))?;
        let renderer = Renderer::new(text).map_err(|failed| error(path, failed))?;
        let renderer = Mutex::new(renderer);
        let path = path.to_owned();
        Ok(ChatTemplate { renderer, path, bos, eos, unk: None, pad: None, date: Date::FIXED })
    }

    /// The text of a conversation; with `prompt_reply` up to where the assistant's next message begins.
    ///
    /// Its special tokens are written out, a first one among them: it is to be split by
    /// [`Tokenizer::encode_plain`], which adds none.
    ///
    /// # Errors
    /// When the template refuses the conversation or fails, with its line. When it takes too many steps, too much time or memory,
    /// or makes too much text.
    pub fn render(&self, messages: &[Message], prompt_reply: bool) -> Result<String> {
        let json = serde_json::to_string(messages).map_err(|e| RuntimeError::Request(e.to_string()))?;
        self.render_input(json, None, prompt_reply)
    }

    /// [`ChatTemplate::render`] of messages that have more than role and content, and of tools.
    ///
    /// # Errors
    /// When they are not a list of messages, or as [`ChatTemplate::render`].
    pub fn render_raw(&self, raw: RawMessages<'_>, prompt_reply: bool) -> Result<String> {
        raw.check()?;
        self.render_input(raw.messages.to_owned(), raw.tools.map(str::to_owned), prompt_reply)
    }

    fn render_input(&self, messages: String, tools: Option<String>, prompt_reply: bool) -> Result<String> {
        let (bos, eos) = (self.bos.clone(), self.eos.clone());
        let (unk, pad, date) = (self.unk.clone(), self.pad.clone(), self.date);
        let input = Input { messages, tools, prompt_reply, bos, eos, unk, pad, date };
        let mut renderer = self.renderer.lock().unwrap_or_else(PoisonError::into_inner);
        renderer.render(input).map_err(|failed| error(&self.path, failed))
    }
}

/// Why there is no text, with the file.
fn error(path: &Path, failed: Failed) -> RuntimeError {
    match failed {
        Failed::Refused(refusal) => {
            RuntimeError::bad_input(path, refusal.place(), &refusal.expected, &refusal.found)
        }
        Failed::Start(source) => RuntimeError::io(path, "start a process for the chat template", source),
    }
}
