//! Why a template is refused, without the file that it is of.

use qsf_format::printable::message as printable;
use serde::{Deserialize, Serialize};

/// What reading a template expects.
pub(super) const JINJA: &str = "Jinja";
/// What rendering it expects.
pub(super) const FITTING: &str = "a template and messages that go together";

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The line, where that is known.
    pub line: Option<usize>,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Refusal {
    /// One of the template as a whole.
    pub fn new(expected: impl Into<String>, found: impl std::fmt::Display) -> Refusal {
        Refusal { line: None, expected: expected.into(), found: printable(found) }
    }

    /// A limit that was met.
    pub fn limit(found: impl std::fmt::Display) -> Refusal {
        Refusal::new(FITTING, found)
    }

    /// The place in the file.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("the chat template, line {line}"),
            None => "the chat template".to_owned(),
        }
    }
}
