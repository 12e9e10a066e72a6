//! A job, as its entry in the list describes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use qsf_format::Failure;

use super::protocol::Stopped;
use crate::untrusted::word_for_others;

/// A job whose entry in the list is right.
#[derive(Debug, Clone)]
pub struct BatchJob {
    /// Where it is in the list.
    pub line: usize,
    /// Its model as it is written.
    pub model: String,
    /// The model's place; `None` for a model of the hub.
    pub model_path: Option<PathBuf>,
    /// Its file, below the folder for all files.
    pub output: PathBuf,
    /// Where a file that its options ask for is written as well.
    pub also_written: Vec<PathBuf>,
    /// The command line but for program and output: what comes before MODEL.
    pub options: Vec<OsString>,
    /// Everything that the result depends on but for the contents of files: options with their values, defaults as well.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Files that it reads beside the model, each with the option that names it.
    pub inputs: Vec<(String, PathBuf)>,
    /// What its entry names and is not there, as messages: the job fails, and the others are done.
    pub missing: Vec<String>,
    /// Whether a file that is there may be replaced.
    pub force: bool,
    /// Threads that it takes, where it says so.
    pub threads: Option<usize>,
}

impl BatchJob {
    /// Why it cannot be done: a file that it names is not there. Nothing of what an earlier batch made is touched.
    pub fn cannot_begin(&self) -> Option<Stopped> {
        let error = Some(self.missing.join("; ")).filter(|error| !error.is_empty())?;
        let exit_code = Failure::BadInput.exit_code();
        Some(Stopped { error, exit_code, may_pass: false, peak_rss_bytes: None })
    }

    /// The model by its full path, or by its name on the hub.
    pub fn model_name(&self) -> String {
        self.model_path.as_ref().map_or_else(|| self.model.clone(), |path| path.display().to_string())
    }

    /// The words for the process that writes it to `output`, on `threads` threads where it does not say how many.
    pub fn command_line(&self, output: &Path, threads: usize) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--batch-worker".into()];
        words.extend(word_for_others());
        if self.threads.is_none() {
            words.push(format!("--threads={threads}").into());
        }
        words.extend(self.options.iter().cloned());
        // What an unfinished conversion with other inputs or options left is out of date as well.
        if !self.force {
            words.push("--force".into());
        }
        words.extend(["--".into(), self.model.clone().into(), output.into()]);
        words
    }
}
