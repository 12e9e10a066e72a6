//! Texts as a plan has them: by path and hash. Another text would make another file, so it is refused.

use std::path::{Path, PathBuf};

use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fit::calibrate;
use crate::options::{Calibration, EvaluationText};
use crate::sections::evaluation_text;

/// A calibration text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedText {
    /// None for the built-in one; `self` for what the model writes.
    files: Vec<PathBuf>,
    most_tokens: usize,
    tokens: usize,
    text_sha256: String,
    chat_template: bool,
}

/// A text to evaluate on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedEvaluation {
    file: PathBuf,
    text_sha256: String,
    ctx: usize,
    chunks: Option<usize>,
}

impl SavedText {
    pub fn of(text: &Calibration) -> SavedText {
        let Calibration { ref files, most_tokens, chat_template, .. } = *text;
        let (files, text_sha256) = (files.clone(), text.text_sha256.clone());
        SavedText { files, most_tokens, tokens: text.tokens.len(), text_sha256, chat_template }
    }
}

impl SavedEvaluation {
    pub fn of(text: &EvaluationText) -> SavedEvaluation {
        let EvaluationText { ref file, ref text_sha256, ctx, chunks, .. } = *text;
        SavedEvaluation { file: file.clone(), text_sha256: text_sha256.clone(), ctx, chunks }
    }
}

/// Where what a plan names is now.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    /// The plan.
    pub plan: &'a Path,
    /// Calibration texts; none for where the plan says.
    pub calibration: &'a [PathBuf],
    /// Statistics files; none for where the plan says.
    pub stats_in: &'a [PathBuf],
    /// Another text to evaluate on than the plan's, which then says nothing.
    pub evaluation: Option<&'a EvaluationText>,
}

impl Texts<'_> {
    /// Refuses texts and statistics for which the plan has no place: a plan that took no notice of them would make another file than
    /// was asked for.
    ///
    /// # Errors
    /// With the option, and what the plan was made by.
    pub(super) fn all_used<'a>(
        &self,
        saved: impl IntoIterator<Item = &'a SavedText>,
        stats_in: &[PathBuf],
    ) -> Result<()> {
        let plan = self.plan.display();
        let made_by = saved.into_iter().fold("no text", |made_by, text| match text.files.is_empty() {
            true if made_by == "no text" => "the built-in text",
            true => made_by,
            false => "a text",
        });
        let problem = if !self.calibration.is_empty() && made_by != "a text" {
            format!("{plan} was made by {made_by}: leave out --calibration, or make another plan")
        } else if !self.stats_in.is_empty() && stats_in.is_empty() {
            format!("{plan} was made without statistics: leave out --stats-in, or make another plan")
        } else {
            return Ok(());
        };
        Err(RuntimeError::Request(problem).into())
    }

    /// The text that a plan was made by.
    pub(super) fn calibration(&self, source: &dyn WeightSource, saved: &SavedText) -> Result<Calibration> {
        let files = match (saved.files.is_empty(), self.calibration) {
            (false, moved @ [_, ..]) => moved,
            _ => &saved.files[..],
        };
        self.all_there(files, "calibration text", "--calibration")?;
        let mut text = calibrate(source, files, saved.most_tokens, saved.chat_template)?;
        let names = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let name = if files.is_empty() { "built-in text".to_owned() } else { names };
        match &mut text.written {
            // It can be compared when it is written.
            Some(written) => written.expected = Some(saved.text_sha256.clone()),
            None => self.check(&name, &saved.text_sha256, &text.text_sha256, "--calibration")?,
        }
        if text.tokens.len() != saved.tokens {
            let expected = format!("{} tokens of {name}, as the plan has", saved.tokens);
            return Err(
                RuntimeError::bad_input(self.plan, "plan", expected, text.tokens.len().to_string()).into()
            );
        }
        Ok(Calibration { files: saved.files.clone(), ..text })
    }

    pub(super) fn statistics(&self, saved: &[PathBuf]) -> Vec<PathBuf> {
        if self.stats_in.is_empty() || saved.is_empty() { saved } else { self.stats_in }.to_vec()
    }

    pub(super) fn evaluation(
        &self,
        source: &dyn WeightSource,
        saved: Option<&SavedEvaluation>,
    ) -> Result<Option<EvaluationText>> {
        if let Some(other) = self.evaluation {
            return Ok(Some(other.clone()));
        }
        let Some(SavedEvaluation { file, text_sha256, ctx, chunks }) = saved else { return Ok(None) };
        self.all_there(std::slice::from_ref(file), "text to evaluate on", "--eval")?;
        let text = evaluation_text(source, file, *ctx, *chunks)?;
        self.check(&file.display().to_string(), text_sha256, &text.text_sha256, "--eval")?;
        Ok(Some(text))
    }

    fn all_there(&self, files: &[PathBuf], what: &str, flag: &str) -> Result<()> {
        let is_missing = |file: &&PathBuf| !file.exists() && !Calibration::is_written(file);
        let Some(missing) = files.iter().find(is_missing) else { return Ok(()) };
        let (plan, missing) = (self.plan.display(), missing.display());
        let problem = format!("{plan}: the {what} {missing} is not there; say where it is by {flag}");
        Err(RuntimeError::Request(problem).into())
    }

    fn check(&self, name: &str, expected: &str, found: &str, flag: &str) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        let plan = self.plan.display();
        let problem = format!(
            "{plan}: {name} is another text than the plan was made by (SHA-256 {found}, expected {expected}); say where \
             that one is by {flag}, or make a new plan by --save-plan"
        );
        Err(RuntimeError::Request(problem).into())
    }
}
