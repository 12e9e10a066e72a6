//! Conversations: messages and tools as Python has them, for the model's chat template.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use qsf_cli::kept_model::{Generated, KeptModel};
use qsf_runtime::RawMessages;

use crate::errors::raise;
use crate::generation::generation_request;
use crate::work::Work;

/// Keywords of `generate` that messages stand for here.
const SAID_BY_MESSAGES: [&str; 2] = ["chat", "system_prompt"];

/// A conversation as JSON.
pub struct Conversation {
    messages: String,
    tools: Option<String>,
}

impl Conversation {
    /// Of lists of dicts.
    ///
    /// # Errors
    /// `TypeError` for what JSON does not have.
    pub fn new(messages: &Bound<'_, PyAny>, tools: Option<&Bound<'_, PyAny>>) -> PyResult<Conversation> {
        Ok(Conversation {
            messages: as_json(messages, "messages")?,
            tools: tools.map(|tools| as_json(tools, "tools")).transpose()?,
        })
    }

    fn raw(&self) -> RawMessages<'_> {
        RawMessages { messages: &self.messages, tools: self.tools.as_deref() }
    }
}

/// A list of dicts as JSON, with the members of each in their order.
fn as_json(objects: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    let expected = |found: &Bound<'_, PyAny>| {
        let found = found.get_type().name().map_or_else(|_| "another type".into(), |name| name.to_string());
        PyTypeError::new_err(format!("{what}: expected a list of dicts, found {found}"))
    };
    let list = PyList::empty(objects.py());
    // A dict is a sequence of its names, and one message forgets its list easily.
    if objects.is_instance_of::<PyDict>() {
        return Err(expected(objects));
    }
    for object in objects.try_iter().map_err(|_| expected(objects))? {
        let object = object?;
        if !object.is_instance_of::<PyDict>() {
            return Err(expected(&object));
        }
        list.append(object)?;
    }
    let keywords = PyDict::new(objects.py());
    keywords.set_item("ensure_ascii", false)?;
    keywords.set_item("allow_nan", false)?;
    objects.py().import("json")?.call_method("dumps", (list,), Some(&keywords))?.extract()
}

/// `Model.chat_text`.
///
/// # Errors
/// As [`KeptModel::chat_text`].
pub fn chat_text(
    py: Python<'_>,
    model: &KeptModel,
    conversation: &Conversation,
    prompt_reply: bool,
) -> PyResult<String> {
    py.detach(|| model.chat_text(conversation.raw(), prompt_reply)).map_err(raise(py))
}

/// Begins the next message of the assistant.
///
/// # Errors
/// For keywords that there are not. What is wrong with the messages is told by the work.
pub fn answer(
    py: Python<'_>,
    model: &Arc<KeptModel>,
    conversation: Conversation,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Work<Generated>> {
    if let Some(options) = options {
        for name in SAID_BY_MESSAGES {
            if options.contains(name)? {
                let problem = format!(
                    "{name:?} is no option of chat: the messages are the chat, one with the role \"system\" first where there is one"
                );
                return Err(PyTypeError::new_err(problem));
            }
        }
    }
    let request = generation_request(py, String::new(), options)?;
    let model = model.clone();
    Work::start(move |teller, cancel| {
        let prompt = model.chat_tokens(conversation.raw())?;
        Ok(model.continue_tokens(&prompt, &request, cancel, &mut |piece| teller.text(piece))?)
    })
}
