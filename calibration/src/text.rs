//! Calibration texts: plain text, or JSONL with a document on every line.

use std::path::Path;

use qsf_runtime::cli::read_text;
use qsf_runtime::{Result, RuntimeError, Tokenizer};
use serde::Deserialize;

/// Ends of names of files with a JSON object on every line.
const JSONL: [&str; 2] = ["jsonl", "ndjson"];

/// A document of a calibration text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Text as it is.
    Text(String),
    /// A conversation, which the model's chat template can make a text of.
    Messages(Vec<Message>),
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it: `system`, `user`, `assistant` and the like.
    pub role: String,
    /// What.
    pub content: String,
}

/// A line of JSONL. Other fields say nothing that is of use here.
#[derive(Deserialize)]
struct Line {
    text: Option<String>,
    messages: Option<Vec<LineMessage>>,
}

#[derive(Deserialize)]
struct LineMessage {
    role: String,
    content: Content,
}

/// A text, or parts of which some are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

/// The documents of a file: of one whose name ends in `.jsonl` or `.ndjson`, one for every line, from the field `text` or
/// `messages`; else one, the whole file.
///
/// # Errors
/// When the file cannot be read, is not UTF-8, or a line is neither; the error names the line.
pub fn read_documents(path: &Path) -> Result<Vec<Document>> {
    let text = read_text(path)?;
    let end = path.extension().unwrap_or_default();
    if JSONL.iter().any(|known| end.eq_ignore_ascii_case(known)) {
        parse_jsonl(path, &text)
    } else {
        Ok(vec![Document::Text(text)])
    }
}

/// The documents of JSONL; `path` is for messages.
///
/// # Errors
/// When a line is no JSON object, or has neither field.
pub fn parse_jsonl(path: &Path, text: &str) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let refuse = |found: String| {
            let expected = "a JSON object with \"text\" or \"messages\"";
            RuntimeError::bad_input(path, format!("line {}", number + 1), expected, found)
        };
        let line: Line = serde_json::from_str(line).map_err(|e| refuse(e.to_string()))?;
        documents.push(match line {
            Line { text: Some(text), .. } => Document::Text(text),
            Line { messages: Some(messages), .. } => {
                Document::Messages(messages.into_iter().map(LineMessage::into_message).collect())
            }
            _ => return Err(refuse("neither".into())),
        });
    }
    Ok(documents)
}

impl LineMessage {
    fn into_message(self) -> Message {
        let content = match self.content {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        };
        Message { role: self.role, content }
    }
}

/// Makes a text of a conversation, as the model's chat template does.
pub type Renderer<'a> = &'a dyn Fn(&[Message]) -> Result<String>;

/// A document as text. Conversations go through `render`, the chat template, where there is one; else what is said follows
/// one another, a line each.
///
/// # Errors
/// Those of `render`.
pub fn document_text(document: &Document, render: Option<Renderer<'_>>) -> Result<String> {
    match (document, render) {
        (Document::Text(text), _) => Ok(text.clone()),
        (Document::Messages(messages), Some(render)) => render(messages),
        (Document::Messages(messages), None) => {
            Ok(messages.iter().flat_map(|message| [message.content.as_str(), "\n"]).collect())
        }
    }
}

/// The tokens of several files, each a list of documents, one behind the other: at most `max_tokens`, of which every file
/// gets an even share, and more where files before it have less than theirs.
///
/// # Errors
/// When a text cannot be split into tokens.
pub fn tokenize(tokenizer: &Tokenizer, files: &[Vec<String>], max_tokens: usize) -> Result<Vec<u32>> {
    let mut tokens = Vec::new();
    for (i, documents) in files.iter().enumerate() {
        let share = (max_tokens - tokens.len()) / (files.len() - i);
        let end = tokens.len() + share;
        for document in documents {
            if tokens.len() >= end {
                break;
            }
            tokens.extend(tokenizer.encode(document)?);
        }
        tokens.truncate(end);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Document>> {
        parse_jsonl(Path::new("chat.jsonl"), text)
    }

    fn message(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    #[test]
    fn lines_are_texts_or_conversations() {
        let documents = parse(
            "{\"text\": \"one\\ntwo\", \"source\": 1}\n\n\
             {\"messages\": [{\"role\": \"user\", \"content\": \"a?\"}, {\"role\": \"assistant\", \"content\": \
             [{\"type\": \"text\", \"text\": \"b\"}, {\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"c\"}]}]}\r\n",
        );
        let conversation = vec![message("user", "a?"), message("assistant", "bc")];
        let expected = [Document::Text("one\ntwo".into()), Document::Messages(conversation)];
        assert_eq!(documents.unwrap(), expected);
        assert_eq!(document_text(&expected[0], None).unwrap(), "one\ntwo");
        assert_eq!(document_text(&expected[1], None).unwrap(), "a?\nbc\n");
        let render = |messages: &[Message]| {
            Ok(messages.iter().map(|m| format!("<{}>{}", m.role, m.content)).collect())
        };
        assert_eq!(document_text(&expected[1], Some(&render)).unwrap(), "<user>a?<assistant>bc");
    }

    #[test]
    fn a_line_that_is_neither_is_named() {
        for (text, parts) in [
            ("{\"text\": \"a\"}\n{\"txt\": 1}", ["line 2", "neither"]),
            ("{\"text\": 1}", ["line 1", "invalid type"]),
            ("\n\ntext", ["line 3", "expected"]),
            ("{\"messages\": [{\"role\": \"user\"}]}", ["line 1", "content"]),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)) && error.contains("chat.jsonl"), "{error}");
        }
    }

    #[test]
    fn only_files_of_that_name_are_jsonl() {
        let dir = tempfile::tempdir().unwrap();
        let line = "{\"text\": \"a\"}\n";
        for (name, expected) in [("a.jsonl", "a"), ("a.NDJSON", "a"), ("a.txt", line), ("jsonl", line)] {
            let path = dir.path().join(name);
            std::fs::write(&path, line).unwrap();
            assert_eq!(read_documents(&path).unwrap(), [Document::Text(expected.into())], "{name}");
        }
        assert!(read_documents(&dir.path().join("none")).is_err());
        std::fs::write(dir.path().join("a.txt"), b"ab\xff").unwrap();
        let error = read_documents(&dir.path().join("a.txt")).unwrap_err().to_string();
        assert!(error.contains("offset 2"), "{error}");
    }

    #[test]
    fn every_file_gets_an_even_share_of_the_tokens() {
        let json =
            br#"{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2, "?": 3}, "unk_token": "?"},
            "pre_tokenizer": {"type": "Whitespace"}}"#;
        let tokenizer = Tokenizer::from_json(json, Path::new("words")).unwrap();
        let files = [vec!["a a".into(), "a a a a".into()], vec!["b".into()], vec!["c c c c c c".into()]];
        let tokens = |most| tokenize(&tokenizer, &files, most).unwrap();
        assert_eq!(tokens(6), [0, 0, 1, 2, 2, 2]);
        assert_eq!(tokens(1), [2]);
        assert_eq!(tokens(100), [0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(tokens(0), [0; 0]);
        assert_eq!(tokenize(&tokenizer, &[], 5).unwrap(), [0; 0]);
    }
}
