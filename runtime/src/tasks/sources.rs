//! The formats of task files, told by their first bytes.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::binary::{BinaryItems, Problem};
use super::document::Document;
use super::llama_cpp::{HELLASWAG_LINES, hellaswag, winogrande};
use super::records::read_record;
use super::task::Task;
use crate::content::no_model;
use crate::error::{Result, RuntimeError};
use crate::parquet::{self, ParquetRows};
use crate::text_file::{Lines, TextFile, TextSource as _};

/// Longest line.
const MAX_LINE: usize = 1 << 20;
/// Bytes that tell the format.
const START: usize = 16;

/// How a task file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskFormat {
    /// A record of the hub's data set as JSON on every line.
    JsonLines,
    /// The hub's data set itself.
    Parquet,
    /// The text or binary files of llama.cpp.
    LlamaCpp,
}

impl TaskFormat {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            TaskFormat::JsonLines => "jsonl",
            TaskFormat::Parquet => "parquet",
            TaskFormat::LlamaCpp => "llama.cpp",
        }
    }
}

/// A task file that is being read.
pub(super) enum TaskSource {
    Records(Lines<TextFile>),
    Parquet(Box<ParquetRows>),
    HellaSwag(Lines<TextFile>),
    Winogrande(Lines<TextFile>),
    Binary(Box<BinaryItems<BufReader<File>>>),
}

impl TaskSource {
    /// Opens the file at `path`, in whatever format it is.
    pub fn open(task: Task, path: &Path) -> Result<TaskSource> {
        let start = start(path)?;
        let wrong = |found: &str| Err(RuntimeError::bad_input(path, "the task file", expected(task), found));
        if start.starts_with(parquet::MAGIC) {
            return Ok(TaskSource::Parquet(Box::new(ParquetRows::open(path, task.columns())?)));
        }
        if start.starts_with(b"\x1f\x8b") || start.starts_with(b"\x28\xb5\x2f\xfd") {
            return wrong("a compressed file; unpack it first");
        }
        let lines = || TextFile::open(path).map(Lines::new);
        match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => wrong("an empty file"),
            Some(b'{') => Ok(TaskSource::Records(lines()?)),
            Some(b'[') => wrong("one JSON list; make lines of it: jq -c '.[]' IN.json > OUT.jsonl"),
            // The number of items, which has bytes that are zero, as text has not.
            Some(_) if start.contains(&0) && task != Task::Winogrande && task != Task::Lambada => {
                let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
                let items = BinaryItems::new(BufReader::new(file)).map_err(|p| damaged(path, p))?;
                Ok(TaskSource::Binary(Box::new(items)))
            }
            Some(_) if task == Task::HellaSwag => Ok(TaskSource::HellaSwag(lines()?)),
            Some(_) if task == Task::Winogrande => Ok(TaskSource::Winogrande(lines()?)),
            Some(_) => match no_model(path) {
                Ok(Some(found)) => wrong(&found),
                _ => wrong("something else"),
            },
        }
    }

    pub fn format(&self) -> TaskFormat {
        match self {
            TaskSource::Records(_) => TaskFormat::JsonLines,
            TaskSource::Parquet(_) => TaskFormat::Parquet,
            _ => TaskFormat::LlamaCpp,
        }
    }

    /// The next item, and the line that it begins at or its row (0 in a binary file). `path` is for messages.
    pub fn next(&mut self, task: Task, path: &Path) -> Result<Option<(usize, Document)>> {
        match self {
            TaskSource::Records(lines) => {
                let Some((line, text)) = filled_line(lines, path)? else { return Ok(None) };
                let document = read_record(task, &text);
                Ok(Some((
                    line,
                    document.map_err(|found| bad_record(task, path, format!("line {line}"), found))?,
                )))
            }
            TaskSource::Parquet(rows) => {
                let Some((row, record)) = rows.next_row()? else { return Ok(None) };
                let document = read_record(task, &record.to_string());
                Ok(Some((
                    row,
                    document.map_err(|found| bad_record(task, path, format!("row {row}"), found))?,
                )))
            }
            TaskSource::Winogrande(lines) => {
                let Some((line, text)) = filled_line(lines, path)? else { return Ok(None) };
                let document = winogrande(&text).map_err(|found| bad_line(path, line, found))?;
                Ok(Some((line, document)))
            }
            TaskSource::HellaSwag(lines) => {
                let mut item = Vec::with_capacity(HELLASWAG_LINES);
                let mut first = 0;
                while item.len() < HELLASWAG_LINES {
                    let Some((line, text)) = next_line(lines, path)? else { break };
                    if item.is_empty() {
                        first = line;
                    }
                    item.push(text);
                }
                // Empty lines at the end are no item.
                if item.iter().all(|line| line.is_empty()) {
                    return Ok(None);
                }
                let short = item.len() < HELLASWAG_LINES;
                let found = if short {
                    Err(format!("the end of the file behind {} lines", item.len()))
                } else {
                    hellaswag(&item)
                };
                Ok(Some((first, found.map_err(|found| bad_line(path, first, found))?)))
            }
            TaskSource::Binary(items) => {
                let item = items.next().map_err(|problem| damaged(path, problem))?;
                Ok(item.map(|document| (0, document)))
            }
        }
    }
}

fn bad_record(task: Task, path: &Path, place: String, found: String) -> RuntimeError {
    let expected = format!("a record of {} ({})", task.name(), task.members());
    RuntimeError::bad_input(path, place, expected, found)
}

fn bad_line(path: &Path, line: usize, found: String) -> RuntimeError {
    RuntimeError::bad_input(path, format!("line {line}"), "an item as llama-perplexity reads it", found)
}

fn damaged(path: &Path, Problem { offset, found }: Problem) -> RuntimeError {
    let expected = "items as llama-perplexity --multiple-choice reads them";
    RuntimeError::bad_input(path, format!("offset {offset}"), expected, found)
}

fn next_line(lines: &mut Lines<TextFile>, path: &Path) -> Result<Option<(usize, String)>> {
    let Some((number, line)) = lines.next_line()? else { return Ok(None) };
    if line.len() > MAX_LINE {
        let expected = format!("a line of at most {MAX_LINE} bytes");
        let found = format!("one of {}", line.len());
        return Err(RuntimeError::bad_input(path, format!("line {number}"), expected, found));
    }
    Ok(Some((number, line.to_owned())))
}

/// The next line that is not empty.
fn filled_line(lines: &mut Lines<TextFile>, path: &Path) -> Result<Option<(usize, String)>> {
    while let Some((number, line)) = next_line(lines, path)? {
        if !line.trim().is_empty() {
            return Ok(Some((number, line)));
        }
    }
    Ok(None)
}

fn expected(task: Task) -> String {
    let records = format!("JSONL or Parquet with records of {} ({})", task.name(), task.members());
    match task {
        Task::HellaSwag | Task::Winogrande => format!("{records}, or llama.cpp's text file"),
        Task::Lambada => records,
        _ => format!("{records}, or llama.cpp's binary file"),
    }
}

/// The first bytes of a file; of a pipe what is text.
fn start(path: &Path) -> Result<Vec<u8>> {
    if path.is_file() {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
        file.take(START as u64).read_to_end(&mut bytes).map_err(|e| RuntimeError::io(path, "read", e))?;
        return Ok(bytes);
    }
    let mut text = String::new();
    TextFile::open(path)?.read_piece(&mut text)?;
    Ok(text.bytes().take(START).collect())
}
