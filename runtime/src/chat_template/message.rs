//! What is rendered: a message of a conversation.

use serde::{Deserialize, Serialize};

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

/// All that a template sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Input {
    pub messages: Vec<Message>,
    /// Whether the text goes up to where the assistant's next message begins.
    pub prompt_reply: bool,
    /// The texts of the tokens that begin and end a text, where the model has them.
    pub bos: Option<String>,
    pub eos: Option<String>,
}

impl Input {
    /// Bytes of the conversation, which limits grow with.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(|m| m.role.len() + m.content.len()).sum()
    }
}
