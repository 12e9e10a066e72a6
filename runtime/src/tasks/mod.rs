//! Multiple-choice and word tasks: how often a model finds the right one of several continuations the likeliest.
//!
//! Records of the hub's data sets become prompts as the tasks of lm-evaluation-harness 0.4.13 have them, and few-shot examples are
//! drawn as it draws them, so that figures can be compared. Files of llama.cpp are scored by the rules of its `llama-perplexity`.
//! A file is read twice, one record at a time: at first only for its mistakes and the longest prompt, then to be scored.
//!
//! | File | Duty |
//! |---|---|
//! | `task` | the tasks by name |
//! | `document` | a record as texts, and what is right |
//! | `records`, `sources` | records of the hub's data sets; the formats of files |
//! | `llama_cpp`, `binary` | records of llama.cpp's files |
//! | `reader` | records of a file one after another, with their examples |
//! | `few_shot`, `python_random` | which examples stand before a prompt |
//! | `encode` | texts to tokens |
//! | `verdict` | what the scores of an item say |
//! | `evaluate` | all items with one model, or with two |
//! | `figures` | what comes of it |

mod binary;
mod document;
mod encode;
mod evaluate;
mod few_shot;
mod figures;
mod llama_cpp;
mod python_random;
mod reader;
mod records;
mod sources;
mod task;
mod verdict;

pub use evaluate::{ItemScores, ScoredItem, TaskSide, TaskSurvey, evaluate_task, survey};
pub use figures::{Compared, Group, Measure, TaskFigures};
pub use reader::{TaskReader, TaskRequest};
pub use sources::TaskFormat;
pub use task::Task;
pub use verdict::MeasureKind;
