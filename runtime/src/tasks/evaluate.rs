//! All items of a task with one model, or with two side by side.

use std::time::Instant;

use serde::Serialize;

use super::document::Document;
use super::encode::{Prompt, TaskEncoder};
use super::figures::{Tallies, TaskFigures};
use super::reader::{Item, TaskReader, TaskRequest};
use super::verdict::{Said, judge};
use crate::error::{Result, RuntimeError};
use crate::progress::Progress;
use crate::runner::Runner;
use crate::score::{ContinuationScore, ScoreOptions, Scorer};
use crate::tokenizer::Tokenizer;
use qsf_format::ModelConfig;

/// What a task has, before it is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSurvey {
    /// Items.
    pub items: usize,
    /// Tokens that a model sees of the longest prompt: a context and a continuation but its last.
    pub longest: usize,
}

/// Reads a whole task and makes tokens of it: what is wrong with a record far behind is said before hours of work.
///
/// # Errors
/// When the file cannot be read, a record is none of the task's, or a continuation has no tokens.
pub fn survey(request: TaskRequest<'_>, tokenizer: &Tokenizer, config: &ModelConfig) -> Result<TaskSurvey> {
    let encoder = encoder(tokenizer, config)?;
    let mut reader = TaskReader::open(request)?;
    let mut survey = TaskSurvey { items: 0, longest: 1 };
    while let Some(item) = reader.next()? {
        for Prompt { context, continuations } in prompts(&encoder, &reader, &item)? {
            let longest = continuations.iter().map(Vec::len).max().unwrap_or_default();
            survey.longest = survey.longest.max(context.len() + longest - 1);
        }
        survey.items += 1;
    }
    Ok(survey)
}

/// A model at work on a task.
pub struct TaskSide<'a, R: Runner> {
    scorer: Scorer<'a, R>,
    encoder: TaskEncoder<'a>,
    cancel: &'a R,
}

impl<'a, R: Runner> TaskSide<'a, R> {
    /// By `runner`, whose texts `tokenizer` reads.
    ///
    /// # Errors
    /// When memory runs out, the model keeps no contexts so long, or it has no token that a text can begin with.
    pub fn new(runner: &'a R, tokenizer: &'a Tokenizer, options: ScoreOptions) -> Result<TaskSide<'a, R>> {
        let encoder = encoder(tokenizer, runner.config())?;
        Ok(TaskSide { scorer: Scorer::new(runner, options)?, encoder, cancel: runner })
    }

    fn scores(&mut self, reader: &TaskReader<'_>, item: &Item) -> Result<Vec<ContinuationScore>> {
        let mut scores = Vec::with_capacity(item.document.candidates());
        for Prompt { context, continuations } in prompts(&self.encoder, reader, item)? {
            self.cancel.cancel().check()?;
            scores.extend(self.scorer.score(&context, &continuations)?);
        }
        Ok(scores)
    }
}

/// What was said of an item. The field names are those of a line of `qsf-eval --task-out`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredItem {
    /// Number of the item, from 0.
    pub item: usize,
    /// Line of the file that it begins at; none in a binary file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Subject, where the task has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The right continuations, from 0.
    pub gold: Vec<usize>,
    /// Scores of the model.
    #[serde(flatten)]
    pub model: ItemScores,
    /// Scores of the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<ItemScores>,
}

/// How one model scores an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemScores {
    /// The continuation chosen by each measure that chooses.
    pub chosen: std::collections::BTreeMap<&'static str, usize>,
    /// Log-likelihood of each continuation.
    pub log_likelihoods: Vec<f64>,
    /// Tokens of each.
    pub tokens: Vec<usize>,
    /// Whether greedy decoding gives it.
    pub greedy: Vec<bool>,
}

impl ItemScores {
    fn of(scores: &[ContinuationScore], said: &[Said]) -> ItemScores {
        ItemScores {
            chosen: said.iter().filter_map(|said| Some((said.name, said.choice?))).collect(),
            log_likelihoods: scores.iter().map(ContinuationScore::log_likelihood).collect(),
            tokens: scores.iter().map(ContinuationScore::tokens).collect(),
            greedy: scores.iter().map(|score| score.greedy).collect(),
        }
    }
}

/// Scores the items of a task, of which `survey` is known. `see` gets each as soon as it is scored.
///
/// # Errors
/// When the file cannot be read or has changed to something else, a model computes what is no number, the user interrupts, or
/// `see` fails.
pub fn evaluate_task<R: Runner>(
    request: TaskRequest<'_>,
    survey: TaskSurvey,
    model: &mut TaskSide<'_, R>,
    mut base: Option<&mut TaskSide<'_, R>>,
    progress: &dyn Progress,
    see: &mut dyn FnMut(&ScoredItem) -> Result<()>,
) -> Result<TaskFigures> {
    let started = Instant::now();
    let mut reader = TaskReader::open(request)?;
    let mut tallies = Tallies::default();
    let mut cut_items = 0;
    progress.begin("scoring", survey.items as u64);
    while let Some(item) = reader.next()? {
        let Document { group, question, .. } = &item.document;
        let scores = model.scores(&reader, &item)?;
        let said = judge(question, &scores);
        cut_items += usize::from(scores.iter().any(|score| score.cut > 0));
        let base = match &mut base {
            Some(base) => {
                let scores = base.scores(&reader, &item)?;
                let said = judge(question, &scores);
                Some((ItemScores::of(&scores, &said), said))
            }
            None => None,
        };
        tallies.add(group.as_deref(), &said, base.as_ref().map(|(_, said)| said.as_slice()));
        see(&ScoredItem {
            item: item.number,
            line: (item.line > 0).then_some(item.line),
            group: group.clone(),
            gold: item.document.gold(),
            model: ItemScores::of(&scores, &said),
            base: base.map(|(scores, _)| scores),
        })?;
        progress.advance(1);
    }
    progress.end();
    Ok(TaskFigures {
        items: tallies.items(),
        measures: tallies.measures(),
        groups: tallies.groups(),
        cut_items,
        tokens: model.scorer.tokens_run(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn encoder<'a>(tokenizer: &'a Tokenizer, config: &ModelConfig) -> Result<TaskEncoder<'a>> {
    let start = tokenizer.bos().or(config.bos).or_else(|| config.stop_tokens.first().copied());
    let start = start.ok_or_else(|| {
        RuntimeError::Request(
            "the model has neither a start nor an end token, behind which a text could begin".into(),
        )
    })?;
    Ok(TaskEncoder { tokenizer, start })
}

/// The prompts of an item, of which each continuation has tokens.
fn prompts(encoder: &TaskEncoder<'_>, reader: &TaskReader<'_>, item: &Item) -> Result<Vec<Prompt>> {
    let prompts = encoder.prompts(&item.document)?;
    if prompts.iter().flat_map(|prompt| &prompt.continuations).any(Vec::is_empty) {
        return Err(RuntimeError::Request(format!(
            "{}: a choice has no tokens of its own behind its context",
            reader.place(item)
        )));
    }
    Ok(prompts)
}
