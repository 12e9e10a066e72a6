//! The items of a task file one after another, each with the examples before it.

use std::path::Path;

use super::document::{Document, Texts};
use super::few_shot::{FewShot, complete_prompts};
use super::sources::{TaskFormat, TaskSource};
use super::task::Task;
use crate::error::{Result, RuntimeError};

/// What to read.
#[derive(Debug, Clone, Copy)]
pub struct TaskRequest<'a> {
    /// The task.
    pub task: Task,
    /// Its file.
    pub path: &'a Path,
    /// Examples before each item.
    pub few_shot: usize,
    /// The file that examples are from; without it the task's own file, of which no item is its own example.
    pub examples: Option<&'a Path>,
    /// Items at most.
    pub limit: Option<usize>,
}

/// Reads a task.
pub struct TaskReader<'a> {
    request: TaskRequest<'a>,
    source: TaskSource,
    few_shot: Option<FewShot>,
    items: usize,
}

/// An item where it stands.
pub(super) struct Item {
    pub number: usize,
    /// 0 in binary files.
    pub line: usize,
    pub document: Document,
}

impl<'a> TaskReader<'a> {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be read or is none of the task's, or there are fewer examples than asked for.
    pub fn open(request: TaskRequest<'a>) -> Result<TaskReader<'a>> {
        let TaskRequest { task, path, few_shot, examples, .. } = request;
        let source = TaskSource::open(task, path)?;
        let few_shot = match few_shot {
            0 => None,
            _ if source.format() == TaskFormat::LlamaCpp => return Err(complete_prompts(path)),
            count => Some(FewShot::read(task, examples.unwrap_or(path), count, examples.is_none())?),
        };
        Ok(TaskReader { request, source, few_shot, items: 0 })
    }

    /// How the file is written.
    pub fn format(&self) -> TaskFormat {
        self.source.format()
    }

    /// The next item.
    pub(super) fn next(&mut self) -> Result<Option<Item>> {
        let TaskRequest { task, path, limit, .. } = self.request;
        if limit.is_some_and(|limit| self.items >= limit) {
            return Ok(None);
        }
        let Some((line, mut document)) = self.source.next(task, path)? else {
            return if self.items == 0 {
                Err(RuntimeError::bad_input(path, "the task file", "items", "none"))
            } else {
                Ok(None)
            };
        };
        let examples = self.few_shot.as_mut().map(|few_shot| few_shot.before(&document)).transpose()?;
        let before = document.description.clone() + &examples.unwrap_or_default();
        if let Texts::Pairs(pairs) = &mut document.texts {
            for pair in pairs {
                pair.context.insert_str(0, &before);
            }
        }
        self.items += 1;
        Ok(Some(Item { number: self.items - 1, line, document }))
    }

    /// What messages call an item.
    pub(super) fn place(&self, item: &Item) -> String {
        match item.line {
            0 => format!("{}: item {}", self.request.path.display(), item.number + 1),
            line => {
                let unit = if self.format() == TaskFormat::Parquet { "row" } else { "line" };
                format!("{}: {unit} {line}", self.request.path.display())
            }
        }
    }
}
