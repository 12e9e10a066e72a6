//! Calibration texts: plain text, or JSONL with a document on every line.

use std::path::Path;

use qsf_format::ModelConfig;
use qsf_runtime::text_file::read_text;
use qsf_runtime::{LayerRunner, Message, Result, RuntimeError, Tokenizer, WorkPart};
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
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
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
        Message::new(self.role, content)
    }
}

/// Makes a text of a conversation, as the model's chat template does.
pub type Renderer<'a> = &'a dyn Fn(&[Message]) -> Result<String>;

/// Text of a document, to be split into tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The text.
    pub text: String,
    /// Whether its special tokens are written out already, so that the tokenizer is to add none.
    pub templated: bool,
}

/// A document as text. Conversations go through `render`, the chat template, where there is one; else what is said follows
/// one another, a line each.
///
/// # Errors
/// Those of `render`.
pub fn document_text(document: &Document, render: Option<Renderer<'_>>) -> Result<Passage> {
    let plain = |text| Passage { text, templated: false };
    match (document, render) {
        (Document::Text(text), _) => Ok(plain(text.clone())),
        (Document::Messages(messages), Some(render)) => {
            Ok(Passage { text: render(messages)?, templated: true })
        }
        (Document::Messages(messages), None) => {
            Ok(plain(messages.iter().flat_map(|message| [message.content.as_str(), "\n"]).collect()))
        }
    }
}

/// The tokens of several files, each a list of documents, one behind the other: at most `max_tokens`, of which every file
/// gets an even share, and more where files before it have less than theirs.
///
/// # Errors
/// When a text cannot be split into tokens.
pub fn tokenize(tokenizer: &Tokenizer, files: &[Vec<Passage>], max_tokens: usize) -> Result<Vec<u32>> {
    let mut tokens = Vec::new();
    for (i, documents) in files.iter().enumerate() {
        let share = (max_tokens - tokens.len()) / (files.len() - i);
        let end = tokens.len() + share;
        for document in documents {
            if tokens.len() >= end {
                break;
            }
            tokens.extend(if document.templated {
                tokenizer.encode_plain(&document.text)?
            } else {
                tokenizer.encode(&document.text)?
            });
        }
        tokens.truncate(end);
    }
    Ok(tokens)
}

/// The tokens of a part of a text, cut where the whole text is cut into sequences that know nothing of each other: the sums of
/// all parts are those of the text.
///
/// # Errors
/// When there are fewer sequences than parts.
pub fn tokens_of_part<'a>(config: &ModelConfig, tokens: &'a [u32], part: WorkPart) -> Result<&'a [u32]> {
    let length = LayerRunner::chunk_of(config);
    let sequences = part.range(tokens.len().div_ceil(length), "sequences")?;
    Ok(&tokens[sequences.start * length..tokens.len().min(sequences.end * length)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(text: &str, templated: bool) -> Passage {
        Passage { text: text.into(), templated }
    }

    fn parse(text: &str) -> Result<Vec<Document>> {
        parse_jsonl(Path::new("chat.jsonl"), text)
    }

    #[test]
    fn lines_are_texts_or_conversations() {
        let documents = parse(
            "{\"text\": \"one\\ntwo\", \"source\": 1}\n\n\
             {\"messages\": [{\"role\": \"user\", \"content\": \"a?\"}, {\"role\": \"assistant\", \"content\": \
             [{\"type\": \"text\", \"text\": \"b\"}, {\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"c\"}]}]}\r\n",
        );
        let conversation = vec![Message::new("user", "a?"), Message::new("assistant", "bc")];
        let expected = [Document::Text("one\ntwo".into()), Document::Messages(conversation)];
        assert_eq!(documents.unwrap(), expected);
        assert_eq!(document_text(&expected[0], None).unwrap(), passage("one\ntwo", false));
        assert_eq!(document_text(&expected[1], None).unwrap(), passage("a?\nbc\n", false));
        let render = |messages: &[Message]| {
            Ok(messages.iter().map(|m| format!("<{}>{}", m.role, m.content)).collect())
        };
        let rendered = document_text(&expected[1], Some(&render)).unwrap();
        assert_eq!(rendered, passage("<user>a?<assistant>bc", true));
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
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "?", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"?": {"id": "?", "ids": [3],
            "tokens": ["?"]}}}}"#;
        let tokenizer = Tokenizer::from_json(json, Path::new("words")).unwrap();
        let passages = |texts: &[&str]| texts.iter().map(|text| passage(text, true)).collect::<Vec<_>>();
        let files = [passages(&["a a", "a a a a"]), passages(&["b"]), passages(&["c c c c c c"])];
        let tokens = |most| tokenize(&tokenizer, &files, most).unwrap();
        assert_eq!(tokens(6), [0, 0, 1, 2, 2, 2]);
        assert_eq!(tokens(1), [2]);
        assert_eq!(tokens(100), [0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
        // The tokenizer's own token comes before what is no conversation.
        let plain = vec![passage("a", false), passage("b", true)];
        assert_eq!(tokenize(&tokenizer, &[plain], 9).unwrap(), [3, 0, 1]);
        assert_eq!(tokens(0), [0; 0]);
        assert_eq!(tokenize(&tokenizer, &[], 5).unwrap(), [0; 0]);
    }
}
