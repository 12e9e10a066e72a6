//! Calibration texts: plain text, or JSONL with a document on every line. They are read as far as their tokens are needed.

use std::collections::BTreeSet;
use std::mem::take;
use std::ops::Range;
use std::path::Path;

use qsf_format::ModelConfig;
use qsf_runtime::text_file::{Lines, TextFile, TextInMemory, TextSource};
use qsf_runtime::{LayerRunner, Result, RuntimeError, Tokenizer, WorkPart};
use sha2::{Digest, Sha256};

use crate::document::{Conversation, Document, parse_line};

/// Ends of names of files with a JSON object on every line.
const JSONL: [&str; 2] = ["jsonl", "ndjson"];

/// Makes a text of a conversation, as the model's chat template does.
pub type Renderer<'a> = &'a dyn Fn(&Conversation) -> Result<String>;

/// A calibration text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalibrationText<'a> {
    /// A file: JSONL where its name ends in `.jsonl` or `.ndjson`, else one document.
    File(&'a Path),
    /// A document that comes with the program.
    BuiltIn(&'a str),
    /// What the model will write, once it may: as many tokens as its share, all 0 until then.
    Written,
}

/// What was read of one calibration text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextPart {
    /// Its tokens.
    pub tokens: Range<usize>,
    /// Documents that are plain text.
    pub texts: usize,
    /// Conversations, whether they went through a template or not.
    pub conversations: usize,
    /// Tokens of these.
    pub conversation_tokens: usize,
    /// Names of what conversations have beside that.
    pub left_out: BTreeSet<&'static str>,
}

/// What was read of calibration texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTokens {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Hash of all bytes of all texts, one behind the other, whether their tokens were needed or not. What the model will write is
    /// not among them.
    pub sha256: [u8; 32],
    /// What each text gave.
    pub parts: Vec<TextPart>,
    /// Conversations that went through the chat template.
    pub conversations: usize,
}

/// Tokens that are taken at one place of a text that is much longer than its share: what the decoder runs at once.
const STRETCH: usize = 512;
/// Bytes of plain text in which so many tokens are looked for first.
const STRETCH_BYTES: usize = 16 * STRETCH;
/// How many times as long as what is needed of it a text must be for stretches to be taken all over it.
const MUCH_LONGER: u64 = 2;

/// The tokens of several texts, one behind the other: at most `max_tokens`, of which every text gets an even share, and more
/// where texts before it have less than theirs. A text that is at least twice as long as its share gives stretches, evenly spread
/// over it; others give their first tokens. Conversations go through `render`, the chat template, where there is one; else what is
/// said follows one another, a line each.
///
/// # Errors
/// When a text cannot be read or split into tokens, or the template refuses a conversation.
pub fn tokenize(
    tokenizer: &Tokenizer,
    texts: &[CalibrationText<'_>],
    render: Option<Renderer<'_>>,
    max_tokens: usize,
) -> Result<TextTokens> {
    let part = TextPart::default();
    let mut reading = Reading { tokenizer, render, tokens: Vec::new(), end: 0, conversations: 0, part };
    let (mut hash, mut parts) = (Sha256::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        let mut share = (max_tokens - reading.tokens.len()) / (texts.len() - i);
        if i + 1 < texts.len() && share >= STRETCH {
            // So that stretches of the next text begin where the model begins anew.
            share -= share % STRETCH;
        }
        let begin = reading.tokens.len();
        reading.end = begin + share;
        match text {
            CalibrationText::File(path) => {
                let mut file = TextFile::open_behind(hash, path)?;
                let before = reading.conversations;
                if is_jsonl(path) {
                    file = reading.lines(file)?;
                } else {
                    reading.plain(&mut file)?;
                }
                let (needed, size) = (file.bytes_read(), file.size()?);
                hash = file.into_hash()?;
                let whole = reading.tokens.len() < reading.end;
                let mut count = share / STRETCH;
                if is_jsonl(path) {
                    // Long documents are not all cut behind their first tokens: there are fewer stretches, and longer ones.
                    count = count.min(reading.part.texts + reading.part.conversations);
                }
                if !whole && count >= 2 && size / MUCH_LONGER >= needed {
                    reading.tokens.truncate(begin);
                    (reading.conversations, reading.part) = (before, TextPart::default());
                    reading.stretches(path, size, count)?;
                }
            }
            CalibrationText::BuiltIn(text) => {
                reading.plain(&mut TextInMemory::new(text, Path::new("built-in text")))?;
                hash.update(text);
            }
            CalibrationText::Written => reading.tokens.resize(reading.end, 0),
        }
        parts.push(TextPart { tokens: begin..reading.tokens.len(), ..take(&mut reading.part) });
    }
    let Reading { tokens, conversations, .. } = reading;
    Ok(TextTokens { tokens, sha256: hash.finalize().into(), parts, conversations })
}

fn is_jsonl(path: &Path) -> bool {
    let end = path.extension().unwrap_or_default();
    JSONL.iter().any(|known| end.eq_ignore_ascii_case(known))
}

/// Texts on their way to tokens.
struct Reading<'a> {
    tokenizer: &'a Tokenizer,
    render: Option<Renderer<'a>>,
    tokens: Vec<u32>,
    /// How many tokens there are to be behind the present text.
    end: usize,
    conversations: usize,
    /// Of the present text, all but its range.
    part: TextPart,
}

impl Reading<'_> {
    /// Takes a document that is plain text.
    fn plain(&mut self, text: &mut dyn TextSource) -> Result<()> {
        self.part.texts += 1;
        self.text(text, true)
    }

    /// Takes a document, with `special` those tokens that the tokenizer itself adds.
    fn text(&mut self, text: &mut dyn TextSource, special: bool) -> Result<()> {
        let most = self.end - self.tokens.len();
        if most > 0 {
            self.tokens.extend(self.tokenizer.encode_first(text, most, special)?);
        }
        Ok(())
    }

    /// Takes `count` stretches of a file of `size` bytes, evenly spread over it.
    fn stretches(&mut self, path: &Path, size: u64, count: usize) -> Result<()> {
        let (begin, end) = (self.tokens.len(), self.end);
        let stretch = (end - begin) / count / STRETCH * STRETCH;
        for i in 0..count {
            // The last has what is left over.
            self.end = if i + 1 == count { end } else { begin + (i + 1) * stretch };
            let at = (u128::from(size) * i as u128 / count as u128) as u64;
            let file = if i == 0 { TextFile::open(path)? } else { TextFile::open_within(path, at)? };
            if is_jsonl(path) {
                self.lines(file)?;
            } else {
                self.plain_stretch(file)?;
            }
        }
        self.end = end;
        if !is_jsonl(path) {
            self.part.texts = 1;
        }
        Ok(())
    }

    /// Takes what is wanted of a plain text from where `file` stands.
    fn plain_stretch(&mut self, mut file: TextFile) -> Result<()> {
        let mut text = String::new();
        while text.len() < 4 * STRETCH_BYTES && file.read_piece(&mut text)? {}
        let (path, before) = (file.path(), self.tokens.len());
        let first = &text[..text.floor_char_boundary(STRETCH_BYTES)];
        self.plain(&mut TextInMemory::new(first, path))?;
        if self.tokens.len() < self.end && first.len() < text.len() {
            self.tokens.truncate(before);
            self.plain(&mut TextInMemory::new(&text, path))?;
        }
        Ok(())
    }

    /// Takes as many documents of JSONL as are needed.
    fn lines(&mut self, file: TextFile) -> Result<TextFile> {
        let path = file.path().to_owned();
        let (begin, cut) = (file.begin(), file.begins_within_a_line());
        let mut lines = Lines::new(file);
        if cut {
            lines.next_line()?;
        }
        while self.tokens.len() < self.end
            && let Some((number, line)) = lines.next_line()?
        {
            if !line.trim().is_empty() {
                let place = match begin {
                    0 => format!("line {number}"),
                    begin => format!("line {number} behind byte {begin}"),
                };
                let document = parse_line(&path, &place, line)?;
                self.document(&path, &place, document)?;
            }
        }
        Ok(lines.into_source())
    }

    fn document(&mut self, path: &Path, place: &str, document: Document) -> Result<()> {
        let conversation = match document {
            Document::Text(text) => return self.plain(&mut TextInMemory::new(&text, path)),
            Document::Conversation(conversation) => conversation,
        };
        let rendered = self.render.map(|render| {
            render(&conversation).map_err(|error| {
                let expected = "a conversation that the model's chat template takes";
                RuntimeError::bad_input(path, place, expected, error)
            })
        });
        let rendered = rendered.transpose()?;
        let templated = rendered.is_some();
        self.conversations += usize::from(templated);
        self.part.left_out.extend(conversation.left_out(templated));
        let text = rendered.as_deref().unwrap_or_else(|| conversation.said());
        let before = self.tokens.len();
        // A template writes special tokens out.
        self.text(&mut TextInMemory::new(text, path), !templated)?;
        self.part.conversations += 1;
        self.part.conversation_tokens += self.tokens.len() - before;
        Ok(())
    }
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
    use std::path::PathBuf;

    use qsf_runtime::Message;

    use super::*;

    /// Words are tokens, of which `?` comes before what is no conversation.
    fn words() -> Tokenizer {
        let json =
            br#"{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2, "?": 3}, "unk_token": "?"},
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "?", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"?": {"id": "?", "ids": [3],
            "tokens": ["?"]}}}}"#;
        Tokenizer::from_json(json, Path::new("words")).unwrap()
    }

    fn files(dir: &tempfile::TempDir, contents: &[(&str, &str)]) -> Vec<PathBuf> {
        let written = contents.iter().map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        written.collect()
    }

    fn tokens_of(paths: &[PathBuf], render: Option<Renderer<'_>>, most: usize) -> Result<TextTokens> {
        let texts: Vec<CalibrationText<'_>> = paths.iter().map(|path| CalibrationText::File(path)).collect();
        tokenize(&words(), &texts, render, most)
    }

    #[test]
    fn conversations_go_through_the_template_where_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let line = r#"{"messages": [{"role": "c", "content": "a"}, {"role": "c", "content": "b"}]}"#;
        let paths = files(&dir, &[("a.jsonl", &format!("{line}\n\n{{\"text\": \"c\"}}\n"))]);
        let plain = tokens_of(&paths, None, 9).unwrap();
        assert_eq!((plain.tokens, plain.conversations), (vec![3, 0, 1, 3, 2], 0));
        let render = |conversation: &Conversation| {
            let messages: Vec<Message> = serde_json::from_str(conversation.raw().messages).unwrap();
            Ok(messages.iter().map(|m| format!("{} {} ", m.role, m.content)).collect())
        };
        let rendered = tokens_of(&paths, Some(&render), 9).unwrap();
        assert_eq!((rendered.tokens, rendered.conversations), (vec![2, 0, 2, 1, 3, 2], 1));
        let part = |conversation_tokens| TextPart {
            tokens: 0..conversation_tokens + 2,
            texts: 1,
            conversations: 1,
            conversation_tokens,
            left_out: BTreeSet::new(),
        };
        assert_eq!((plain.parts, rendered.parts), (vec![part(3)], vec![part(4)]));
        let refuse = |_: &Conversation| Err(RuntimeError::Request("no such role".into()));
        let error = tokens_of(&paths, Some(&refuse), 9).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("no such role"), "{error}");
    }

    #[test]
    fn what_only_a_template_makes_text_of_is_told_where_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let lines = [
            r#"{"messages": [{"role": "c", "content": "a"}, {"role": "c", "content": null, "tool_calls": [1]}]}"#,
            r#"{"messages": [{"role": "c", "content": "b", "reasoning_content": "c"}], "tools": [{}]}"#,
        ];
        let paths = files(&dir, &[("a.jsonl", &lines.join("\n"))]);
        let plain = tokens_of(&paths, None, 9).unwrap();
        assert_eq!(plain.tokens, [3, 0, 3, 1]);
        let left_out = BTreeSet::from(["reasoning_content", "tool_calls", "tools"]);
        assert_eq!(plain.parts[0].left_out, left_out);
        let render = |conversation: &Conversation| {
            let raw = conversation.raw();
            assert_eq!(raw.tools.is_some(), raw.messages.contains("reasoning_content"));
            Ok(if raw.messages.contains("[1]") { "b".into() } else { "c c".into() })
        };
        let rendered = tokens_of(&paths, Some(&render), 9).unwrap();
        assert_eq!((rendered.tokens, rendered.parts[0].left_out.len()), (vec![1, 2, 2], 0));
    }

    #[test]
    fn only_files_of_that_name_are_jsonl() {
        let dir = tempfile::tempdir().unwrap();
        let line = "{\"text\": \"a\"}\n";
        let paths = files(&dir, &[("a.jsonl", line), ("a.NDJSON", line), ("a.txt", line), ("jsonl", line)]);
        for (path, expected) in paths.iter().zip([vec![3, 0], vec![3, 0], vec![3, 3, 3], vec![3, 3, 3]]) {
            assert_eq!(tokens_of(std::slice::from_ref(path), None, 9).unwrap().tokens, expected, "{path:?}");
        }
        assert!(tokens_of(&[dir.path().join("none")], None, 9).is_err());
    }

    #[test]
    fn every_text_gets_an_even_share_of_the_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let contents =
            [("1.jsonl", "{\"text\": \"a a\"}\n{\"text\": \"a a a\"}"), ("2", "b"), ("3", "c c c c c c")];
        let paths = files(&dir, &contents);
        let tokens = |most| tokens_of(&paths, None, most).unwrap().tokens;
        assert_eq!(tokens(9), [3, 0, 0, 3, 1, 3, 2, 2, 2]);
        assert_eq!(tokens(1), [3]);
        assert_eq!(tokens(100), [3, 0, 0, 3, 0, 0, 0, 3, 1, 3, 2, 2, 2, 2, 2, 2]);
        assert_eq!(tokens(0), [0; 0]);
        let [first, second] = [&paths[0], &paths[1]].map(|path| CalibrationText::File(path));
        let mixed = tokenize(&words(), &[second, CalibrationText::Written, first], None, 9).unwrap();
        assert_eq!(mixed.tokens, [3, 1, 0, 0, 0, 3, 0, 0, 3], "the share of what is still to be written");
        assert_eq!(mixed.parts[1], TextPart { tokens: 2..5, ..TextPart::default() });
        assert_eq!(tokens_of(&[], None, 5).unwrap().tokens, [0; 0]);
    }

    #[test]
    fn a_much_longer_text_gives_stretches_all_over_it() {
        let dir = tempfile::tempdir().unwrap();
        let part = |word: &str| format!("{word} {word}\n").repeat(40_000);
        let plain = [part("a"), part("b"), part("c")].concat();
        let lines: String = plain.lines().map(|line| format!("{{\"text\": \"{line}\"}}\n")).collect();
        let paths = files(&dir, &[("1", &plain), ("2.jsonl", &lines)]);
        for path in &paths {
            let read = tokens_of(std::slice::from_ref(path), None, 3 * STRETCH + 7).unwrap();
            assert_eq!((read.tokens.len(), &read.parts[0].tokens), (3 * STRETCH + 7, &(0..3 * STRETCH + 7)));
            for (word, stretch) in [0, 1, 2].into_iter().zip(read.tokens.chunks(STRETCH)) {
                assert_eq!(stretch[0], 3, "each begins as a text does");
                assert!(stretch.iter().all(|token| [word, 3].contains(token)), "{path:?} {word}");
            }
            assert_eq!(read.sha256[..], Sha256::digest(std::fs::read(path).unwrap())[..]);
        }
        assert_eq!(tokens_of(&paths[..1], None, 3 * STRETCH).unwrap().parts[0].texts, 1);
        // Where the next text begins, a stretch does.
        let both = tokens_of(&paths, None, 5 * STRETCH).unwrap();
        assert_eq!(
            both.parts.iter().map(|part| part.tokens.end).collect::<Vec<_>>(),
            [2 * STRETCH, 5 * STRETCH]
        );
        // Lines of 96 kB, longer than what is read at once to find their ends; each begins with its letter and goes on with others.
        let long = |word: &str| {
            format!("{{\"text\": \"{} {}\"}}\n", "a ".repeat(700), format!("{word} ").repeat(48_000))
        };
        let longer: String = ["b", "c"].iter().map(|word| long(word).repeat(12)).collect();
        let paths_of_long = files(&dir, &[("3.jsonl", &longer)]);
        let read = tokens_of(&paths_of_long, None, 150_000).unwrap();
        assert_eq!((read.tokens.len(), read.parts[0].texts), (150_000, 4));
        let whole_lines = read.tokens.windows(3).filter(|next| next[0] == 3 && next[1..] == [0, 0]).count();
        assert_eq!(whole_lines, 4, "a stretch begins in the middle of a line");
        assert!(read.tokens.contains(&1) && read.tokens.contains(&2));
        let broken = lines.replace("\"b b\"", "{b b}");
        std::fs::write(&paths[1], broken).unwrap();
        let error = tokens_of(&paths[1..], None, 3 * STRETCH).unwrap_err().to_string();
        assert!(error.contains("line 1 behind byte "), "{error}");
    }

    #[test]
    fn what_is_not_needed_is_hashed_and_not_read_as_text() {
        let dir = tempfile::tempdir().unwrap();
        let contents = [("1.jsonl", "{\"text\": \"a a\"}\n{bad}"), ("2", "b")];
        let paths = files(&dir, &contents);
        let read = tokens_of(&paths, None, 4).unwrap();
        assert_eq!(read.tokens, [3, 0, 3, 1]);
        let whole: String = contents.iter().map(|(_, text)| *text).collect();
        assert_eq!(read.sha256[..], Sha256::digest(whole)[..]);
        assert!(tokens_of(&paths, None, 9).is_err());
    }
}
