//! A document of a calibration text: what a line of JSONL says.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use qsf_format::{JsonLimits, from_json};
use qsf_runtime::text_file::MAX_WHOLE_BYTES;
use qsf_runtime::{RawMessages, Result, RuntimeError};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A line of JSONL: as long as one may be, and many messages.
const LINE: JsonLimits = JsonLimits { bytes: MAX_WHOLE_BYTES, memory: MAX_WHOLE_BYTES + (64 << 20) };

/// Members of a message that only a template makes text of.
const FOR_TEMPLATES: [&str; 5] =
    ["tool_calls", "reasoning_content", "reasoning", "thinking", "function_call"];
/// What is left out of a conversation whose contents are lists.
const PARTS_WITHOUT_TEXT: &str = "parts that are no text";

/// A document of a calibration text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Text as it is.
    Text(String),
    /// What the model's chat template can make a text of.
    Conversation(Conversation),
}

/// A conversation, with all that its line says of its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// As JSON, a list of objects. Parts of a content are one text.
    messages: String,
    /// As JSON, what may be called.
    tools: Option<String>,
    /// What is said, a line for each message that says something.
    said: String,
    /// What only a template makes text of.
    unsaid: BTreeSet<&'static str>,
    /// What no template gets to see.
    unseen: BTreeSet<&'static str>,
}

impl Conversation {
    /// For a template.
    pub fn raw(&self) -> RawMessages<'_> {
        RawMessages { messages: &self.messages, tools: self.tools.as_deref() }
    }

    /// What is said, a line for each message.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Names of what is left out of it, with and without a template.
    pub fn left_out(&self, templated: bool) -> impl Iterator<Item = &'static str> {
        self.unseen.iter().chain(self.unsaid.iter().filter(move |_| !templated)).copied()
    }

    /// The conversation of these messages and tools.
    fn of(messages: Vec<Members>, tools: Option<&RawValue>) -> Result<Conversation, String> {
        let mut found = Conversation { tools: tools.map(|tools| tools.get().to_owned()), ..Self::default() };
        if tools.is_some_and(says_something) {
            found.unsaid.insert("tools");
        }
        let mut all = Vec::with_capacity(messages.len());
        for (number, mut message) in messages.into_iter().enumerate() {
            found.add(&mut message).map_err(|problem| format!("message {number}: {problem}"))?;
            all.push(message);
        }
        found.messages = serde_json::to_string(&all).map_err(|e| e.to_string())?;
        Ok(found)
    }

    fn add(&mut self, message: &mut Members) -> Result<(), String> {
        match message.get("role").map(as_text) {
            Some(Some(_)) => {}
            _ => return Err("no \"role\" that is a text".into()),
        }
        if message.get("content").is_none() && message.get("tool_calls").is_none() {
            return Err("neither \"content\" nor \"tool_calls\"".into());
        }
        let has = |name: &str| message.get(name).is_some_and(says_something);
        self.unsaid.extend(FOR_TEMPLATES.into_iter().filter(|name| has(name)));
        let Some(content) = message.get("content") else { return Ok(()) };
        if let Some(text) = as_text(content) {
            self.say(&text);
        } else if let Ok(parts) = serde_json::from_str::<Vec<ContentPart>>(content.get()) {
            if parts.iter().any(|part| part.text.is_none()) {
                self.unseen.insert(PARTS_WITHOUT_TEXT);
            }
            let text: String = parts.into_iter().filter_map(|part| part.text).collect();
            self.say(&text);
            // Most templates take texts alone.
            message.set("content", serde_json::value::to_raw_value(&text).map_err(|e| e.to_string())?);
        } else {
            self.unsaid.insert("content that is no text");
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        self.said += text;
        self.said.push('\n');
    }
}

/// A part of a content.
#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
}

/// The document on a line of JSONL, from its member `text`, or `messages` and `tools`; others are passed over. `path` and `place`
/// are for messages.
///
/// # Errors
/// When the line is no JSON object, or has neither member.
pub fn parse_line(path: &Path, place: &str, line: &str) -> Result<Document> {
    let refuse = |found: String| {
        let expected = "a JSON object with \"text\" or \"messages\"";
        RuntimeError::bad_input(path, place, expected, found)
    };
    let line: Members = from_json(line.as_bytes(), LINE).map_err(refuse)?;
    if let Some(text) = line.get("text") {
        let text = as_text(text).ok_or_else(|| refuse("a \"text\" that is none".into()))?;
        return Ok(Document::Text(text));
    }
    let messages = line.get("messages").ok_or_else(|| refuse("neither".into()))?;
    let messages = serde_json::from_str(messages.get());
    let messages = messages.map_err(|_| refuse("\"messages\" that are no list of objects".into()))?;
    Conversation::of(messages, line.get("tools")).map(Document::Conversation).map_err(refuse)
}

/// The text that a value is, where it is one.
fn as_text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Whether a template would have something to write.
fn says_something(value: &RawValue) -> bool {
    !matches!(value.get(), "\"\"" | "[]" | "{}" | "false")
}

/// The members of a JSON object, in their order, which templates write them in.
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// A member; null counts as absent.
    fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| &**value).filter(|value| value.get() != "null")
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        if let Some(found) = self.0.iter_mut().find(|(found, _)| found == name) {
            found.1 = value;
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Members(Vec::new());
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.0.push((name, value));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Document> {
        parse_line(Path::new("chat.jsonl"), "line 7", line)
    }

    fn conversation(line: &str) -> Conversation {
        match parse(line).unwrap() {
            Document::Conversation(found) => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_texts_or_conversations() {
        let text = parse("{\"text\": \"one\\ntwo\", \"source\": 1}").unwrap();
        assert_eq!(text, Document::Text("one\ntwo".into()));
        let found = conversation(
            "{\"text\": null, \"messages\": [{\"role\": \"user\", \"content\": \"a?\"}, {\"role\": \"assistant\", \"content\": \
             [{\"type\": \"text\", \"text\": \"b\"}, {\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"c\"}]}]}\r",
        );
        assert_eq!(found.messages, r#"[{"role":"user","content":"a?"},{"role":"assistant","content":"bc"}]"#);
        assert_eq!((found.said(), found.raw().tools), ("a?\nbc\n", None));
        for templated in [true, false] {
            assert_eq!(found.left_out(templated).collect::<Vec<_>>(), ["parts that are no text"]);
        }
    }

    #[test]
    fn a_template_gets_all_that_a_line_says_in_its_order() {
        let messages = r#"[{"role":"user","content":"a"},{"tool_calls":[{"z":1,"a":"{}"}],"content":null,"role":"assistant"},{"role":"tool","content":{"t":5.0}},{"role":"assistant","reasoning_content":"hm","content":"b"}]"#;
        let tools = r#"[{"type": "function",  "a": 1}]"#;
        let found = conversation(&format!("{{\"tools\": {tools}, \"messages\": {messages}}}"));
        assert_eq!((found.raw().messages, found.raw().tools), (messages, Some(tools)));
        assert_eq!(found.said(), "a\nb\n");
        let left_out: Vec<&str> = found.left_out(false).collect();
        assert_eq!(left_out, ["content that is no text", "reasoning_content", "tool_calls", "tools"]);
        assert_eq!(found.left_out(true).count(), 0);
        let nothing = conversation(
            r#"{"tools": null, "messages": [{"role": "a", "content": "b", "tool_calls": [], "reasoning_content": null}]}"#,
        );
        assert_eq!((nothing.raw().tools, nothing.left_out(false).count()), (None, 0));
    }

    #[test]
    fn a_line_that_is_neither_is_named() {
        for (line, part) in [
            ("{\"txt\": 1}", "neither"),
            ("{\"text\": 1}", "a \"text\" that is none"),
            ("text", "expected"),
            ("[1]", "expected a JSON object"),
            ("{\"messages\": 3}", "no list of objects"),
            ("{\"messages\": [3]}", "no list of objects"),
            ("{\"messages\": [{\"content\": \"a\"}]}", "message 0: no \"role\""),
            ("{\"messages\": [{\"role\": null, \"content\": \"a\"}]}", "message 0: no \"role\""),
            ("{\"messages\": [{\"role\": \"user\"}]}", "message 0: neither \"content\" nor \"tool_calls\""),
            ("{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "message 0: neither"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(["chat.jsonl", "line 7", part].iter().all(|part| error.contains(part)), "{error}");
            assert!(!error.contains("untagged"), "{error}");
        }
    }
}
