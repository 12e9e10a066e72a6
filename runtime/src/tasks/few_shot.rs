//! Examples that stand before a prompt.

use std::path::Path;

use super::document::Document;
use super::python_random::PythonRandom;
use super::sources::TaskSource;
use super::task::{Sampling, Task};
use crate::error::{Result, RuntimeError};

/// The seed of lm-evaluation-harness (`--seed`, its fourth).
const SEED: u32 = 1234;
/// Most bytes of all examples together.
const MAX_BYTES: usize = 256 << 20;

/// Examples, and how some are taken.
pub(super) struct FewShot {
    examples: Vec<Example>,
    count: usize,
    sampling: Sampling,
    /// Whether the item itself is among them.
    with_itself: bool,
    random: PythonRandom,
}

/// An item with its answer.
#[derive(PartialEq)]
struct Example {
    text: String,
    group: Option<String>,
}

impl FewShot {
    /// `count` examples of those in the file at `path`. `with_itself` says that the items that are evaluated are from the same file.
    pub fn read(task: Task, path: &Path, count: usize, with_itself: bool) -> Result<FewShot> {
        let mut source = TaskSource::open(task, path)?;
        let mut examples = Vec::new();
        let mut bytes = 0;
        while let Some((_, document)) = source.next(task, path)? {
            let Some(text) = document.example() else { return Err(complete_prompts(path)) };
            bytes += text.len();
            if bytes > MAX_BYTES {
                let expected = format!("examples of at most {MAX_BYTES} bytes together");
                return Err(RuntimeError::bad_input(path, "the examples", expected, "more"));
            }
            examples.push(Example { text, group: document.group });
        }
        let sampling = match task.sampling() {
            Sampling::Random { .. } if with_itself => Sampling::Random { one_more: true },
            sampling => sampling,
        };
        if sampling == Sampling::None {
            return Err(RuntimeError::Request(format!(
                "--few-shot: the prompt of {} has six examples of its own",
                task.name()
            )));
        }
        let needed = count + usize::from(sampling == Sampling::Random { one_more: true });
        if examples.len() < needed {
            return Err(RuntimeError::Request(format!(
                "--few-shot {count}: {} has {} items, and {needed} are needed",
                path.display(),
                examples.len()
            )));
        }
        Ok(FewShot { examples, count, sampling, with_itself, random: PythonRandom::new(SEED) })
    }

    /// The text before the prompt of `document`, the next item. Which examples it has depends on how many items came before.
    pub fn before(&mut self, document: &Document) -> Result<String> {
        let itself = document.example().map(|text| Example { text, group: document.group.clone() });
        let is_itself = |example: &&Example| itself.as_ref() == Some(*example);
        let chosen: Vec<&Example> = match self.sampling {
            Sampling::None => Vec::new(),
            Sampling::First => {
                let of_group = self.examples.iter().filter(|example| example.group == document.group);
                of_group
                    .filter(|example| !(self.with_itself && is_itself(example)))
                    .take(self.count)
                    .collect()
            }
            Sampling::Random { one_more } => {
                let count = self.count + usize::from(one_more);
                let chosen = self.random.sample(self.examples.len(), count);
                let chosen = chosen.into_iter().map(|at| &self.examples[at]);
                chosen.filter(|example| !(one_more && is_itself(example))).take(self.count).collect()
            }
        };
        if chosen.len() < self.count {
            let subject = document.group.as_deref().unwrap_or("the item");
            return Err(RuntimeError::Request(format!(
                "--few-shot {}: there are {} other examples for {subject}",
                self.count,
                chosen.len()
            )));
        }
        Ok(chosen.iter().map(|example| format!("{}\n\n", example.text)).collect())
    }
}

/// Files of llama.cpp have complete prompts.
pub(super) fn complete_prompts(path: &Path) -> RuntimeError {
    RuntimeError::Request(format!(
        "--few-shot: {} is a file of llama.cpp, which has complete prompts; pass the task's JSONL",
        path.display()
    ))
}
