//! What is rendered: a message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::date::Date;
use crate::error::{Result, RuntimeError};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A conversation as JSON, whose messages may have what a template knows beside role and content: calls of tools, for instance.
#[derive(Debug, Clone, Copy)]
pub struct RawMessages<'a> {
    /// A list of objects, each with `role` and with `content` or `tool_calls`.
    pub messages: &'a str,
    /// What may be called, a list of objects; transformers passes it to templates as `tools`.
    pub tools: Option<&'a str>,
}

impl RawMessages<'_> {
    /// Whether these are messages and tools.
    pub(super) fn check(&self) -> Result<()> {
        let problem = |text: String| Err(RuntimeError::Request(text));
        for (number, message) in objects(self.messages, "messages")?.iter().enumerate() {
            if !message.get("role").is_some_and(Value::is_string) {
                return problem(format!("message {number} has no \"role\" that is a text"));
            }
            if !message.contains_key("content") && !message.contains_key("tool_calls") {
                return problem(format!("message {number} has neither \"content\" nor \"tool_calls\""));
            }
        }
        self.tools.map_or(Ok(()), |tools| objects(tools, "tools").map(drop))
    }
}

/// A list of objects.
fn objects(json: &str, what: &str) -> Result<Vec<Map<String, Value>>> {
    serde_json::from_str(json).map_err(|error| {
        RuntimeError::Request(format!(
            "{what}: {error}; expected a list of objects, each with names and values"
        ))
    })
}

/// All that a template sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Input {
    /// As JSON, a list of objects.
    pub messages: String,
    /// As JSON, a list of objects.
    pub tools: Option<String>,
    /// Whether the text goes up to where the assistant's next message begins.
    pub prompt_reply: bool,
    /// The texts of the tokens that begin and end a text, where the model has them.
    pub bos: Option<String>,
    pub eos: Option<String>,
    /// Those of the tokens for what the vocabulary lacks, and for padding.
    pub unk: Option<String>,
    pub pad: Option<String>,
    /// The day that it is.
    pub date: Date,
}

impl Input {
    /// Bytes of the conversation, which limits grow with.
    pub fn bytes(&self) -> usize {
        self.messages.len() + self.tools.as_ref().map_or(0, String::len)
    }
}
