//! Lines of results in the order of their prompts, in a file that a stopped run goes on with, or on stdout.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use qsf_runtime::{Result, RuntimeError};
use serde_json::Value;

use super::prompts::PromptLine;
use crate::console::print;

/// Where results go.
pub(super) struct Results {
    file: Option<(PathBuf, File)>,
    /// Lines that were there when it was opened.
    done: usize,
    /// The line that is written next.
    next: usize,
    /// Those that wait for lines before them.
    waiting: BTreeMap<usize, String>,
}

impl Results {
    /// A file at `path`, behind the lines that it has of these prompts; without a path stdout.
    ///
    /// # Errors
    /// When the file cannot be written, or has something else.
    pub fn open(path: Option<&Path>, prompts: &[PromptLine]) -> Result<Results> {
        let (mut file, mut done) = (None, 0);
        if let Some(path) = path {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let mut opened = opened.map_err(|e| RuntimeError::io(path, "open", e))?;
            done = go_on(path, &mut opened, prompts)?;
            file = Some((path.to_owned(), opened));
        }
        Ok(Results { file, done, next: done, waiting: BTreeMap::new() })
    }

    /// Results that are there already.
    pub fn done(&self) -> usize {
        self.done
    }

    /// The result of a prompt, by its number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, number: usize, value: &Value) -> Result<()> {
        self.waiting.insert(number, format!("{value}\n"));
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
fn go_on(path: &Path, file: &mut File, prompts: &[PromptLine]) -> Result<usize> {
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|e| RuntimeError::io(path, "read", e))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut done = 0;
    for line in text[..whole].lines() {
        let value: Option<Value> = serde_json::from_str(line).ok();
        let prompt = value.as_ref().and_then(|value| value.get("prompt")?.as_str());
        if prompt.is_none() || prompts.get(done).map(|line| &*line.prompt) != prompt {
            let expected = "the result of the prompt in this place, as an earlier run with --results wrote it; \
                            remove the file, or name another";
            let found = line.chars().take(60).collect::<String>();
            let place = format!("line {}", done + 1);
            return Err(RuntimeError::bad_input(path, place, expected, found.escape_debug()));
        }
        done += 1;
    }
    if done == 0 && !text.is_empty() && !text.starts_with("{\"") {
        let expected = "results of an earlier run, or nothing; remove the file, or name another";
        return Err(RuntimeError::bad_input(path, "the file", expected, "something else"));
    }
    let end = file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::Start(whole as u64)));
    end.map_err(|e| RuntimeError::io(path, "write", e))?;
    Ok(done)
}
