//! Lines of results in the order of their prompts, in a file that a stopped run goes on with, or on stdout.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use qsf_format::{Links, open_side_file};
use qsf_runtime::text_file::MAX_WHOLE_BYTES;
use qsf_runtime::{Result, RuntimeError};
use serde::Serialize;
use serde_json::Value;

use super::prompt_lines::PromptLine;
use crate::console::print;
use crate::json_document::SCHEMA;

/// Which prompt a line is of. This stands before what came of it, so that also a line that was cut off tells.
#[derive(Serialize)]
struct Head<'a> {
    document: &'a str,
    schema: u32,
    line: usize,
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
}

impl Head<'_> {
    /// The beginning of the line, up to the comma behind it.
    fn text(document: &str, of: &PromptLine) -> Result<String> {
        let head = Head { document, schema: SCHEMA, line: of.line, prompt: &of.prompt, id: of.id.as_ref() };
        let mut text = as_json(&head)?;
        text.pop();
        text.push(',');
        Ok(text)
    }
}

fn as_json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value);
    text.map_err(|e| RuntimeError::Request(format!("a result cannot be written as JSON: {e}")))
}

/// Hears of a result that is there, with its prompt; an error refuses the file.
pub(super) type Keep<'k> = &'k mut dyn FnMut(&PromptLine, &Value) -> Result<()>;

/// Where results go.
pub(super) struct Results<'a> {
    document: &'static str,
    prompts: &'a [PromptLine],
    file: Option<(PathBuf, File)>,
    /// Lines that were there when it was opened.
    done: usize,
    /// The line that is written next.
    next: usize,
    /// Those that wait for lines before them.
    waiting: BTreeMap<usize, String>,
}

impl<'a> Results<'a> {
    /// Documents of this name, in a file at `path`, behind the lines that it has of these prompts; without a path on stdout.
    /// `keep` hears of each of these lines.
    ///
    /// # Errors
    /// When the file cannot be written, or has something else, or `keep` fails. Then it is as it was.
    pub fn open(
        document: &'static str,
        path: Option<&Path>,
        prompts: &'a [PromptLine],
        keep: Keep<'_>,
    ) -> Result<Results<'a>> {
        let (mut file, mut done) = (None, 0);
        if let Some(path) = path {
            let mut opened = open_side_file(path, Links::Followed)?;
            done = go_on(path, &mut opened, document, prompts, keep)?;
            file = Some((path.to_owned(), opened));
        }
        Ok(Results { document, prompts, file, done, next: done, waiting: BTreeMap::new() })
    }

    /// Results that are there already.
    pub fn done(&self) -> usize {
        self.done
    }

    /// What came of a prompt, by its number: an object with members.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, number: usize, members: &impl Serialize) -> Result<()> {
        let (head, members) = (Head::text(self.document, &self.prompts[number])?, as_json(members)?);
        self.waiting.insert(number, format!("{head}{}\n", &members[1..]));
        while let Some(line) = self.waiting.remove(&self.next) {
            match &mut self.file {
                Some((path, file)) => {
                    file.write_all(line.as_bytes()).map_err(|e| RuntimeError::io(path, "write", e))?;
                }
                None => print(&line).map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))?,
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// How many whole lines a file has of the prompts; what a stopped run has left of another is cut off.
fn go_on(
    path: &Path,
    file: &mut File,
    document: &str,
    prompts: &[PromptLine],
    keep: Keep<'_>,
) -> Result<usize> {
    let (mut done, mut end) = (0, 0);
    let mut lines = BufReader::new(&mut *file);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A file of something else may be one endless line.
        let read = lines.by_ref().take(MAX_WHOLE_BYTES as u64).read_until(b'\n', &mut line);
        if read.map_err(|e| RuntimeError::io(path, "read", e))? == 0 {
            break;
        }
        let whole = line.ends_with(b"\n");
        if !prompts.get(done).is_some_and(|prompt| is_result(&line, document, prompt, whole)) {
            let expected = "the result of the prompt in this place, as an earlier run with --results wrote it; \
                            remove the file, or name another";
            let found = String::from_utf8_lossy(&line).trim_end().chars().take(60).collect::<String>();
            let place = format!("line {}", done + 1);
            return Err(RuntimeError::bad_input(path, place, expected, found.escape_debug()));
        }
        if !whole {
            break;
        }
        let value = serde_json::from_slice(&line).map_err(|e| RuntimeError::Request(e.to_string()))?;
        keep(&prompts[done], &value)?;
        done += 1;
        end += line.len() as u64;
    }
    let ready = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
    ready.map_err(|e| RuntimeError::io(path, "write", e))?;
    Ok(done)
}

/// Whether a line, or the beginning of one, is what an earlier run wrote for this prompt.
fn is_result(line: &[u8], document: &str, of: &PromptLine, whole: bool) -> bool {
    let Ok(ours) = Head::text(document, of) else { return false };
    if whole {
        return line.starts_with(ours.as_bytes()) && serde_json::from_slice::<Value>(line).is_ok();
    }
    // Of a file that does not say yet whose it is, nobody knows that it is ours.
    let named = ours.find("\"line\"").unwrap_or(ours.len());
    let common = line.len().min(ours.len());
    line.len() >= named && line[..common] == ours.as_bytes()[..common]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_our_lines_are_told_from_other_files() {
        let document = "prompt_result";
        let prompt =
            PromptLine { line: 3, prompt: "a \"text\": b".into(), id: Some(Value::from(7)), seed: None };
        let whole = Head::text(document, &prompt).unwrap() + "\"text\":\"c\"}";
        let named = whole.find("\"line\"").unwrap();
        assert!(is_result(whole.as_bytes(), document, &prompt, true));
        for cut in 0..whole.len() {
            assert_eq!(is_result(&whole.as_bytes()[..cut], document, &prompt, false), cut >= named, "{cut}");
            assert!(!is_result(&whole.as_bytes()[..cut], document, &prompt, true), "{cut}");
        }
        let other = PromptLine { line: 4, ..prompt.clone() };
        for whole_line in [true, false] {
            assert!(!is_result(whole.as_bytes(), document, &other, whole_line));
            assert!(!is_result(whole.as_bytes(), "classification", &prompt, whole_line));
            for foreign in
                ["{\"", "{\"a\": 1}", "{\"prompt\": \"a\"}", "{\"document\":\"generation\",\"schema\":1,"]
            {
                assert!(!is_result(foreign.as_bytes(), document, &prompt, whole_line), "{foreign}");
            }
        }
    }
}
