//! What came of a job, as a record of `results.jsonl`.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use qsf_format::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fingerprint::{SeenFile, fingerprint};
use super::job::BatchJob;
use super::protocol::{Finished, Stopped};

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The file is there, and is as it was to be.
    Done,
    /// The file was made, misses its limits, and is beside under another name.
    Rejected,
    /// There is no file.
    Failed,
}

impl State {
    /// The word that records have.
    pub const fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Rejected => "rejected",
            State::Failed => "failed",
        }
    }
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its file, in the folder of the results.
    pub output: PathBuf,
    /// Its model.
    pub model: String,
    /// How it ended.
    pub state: State,
    /// Why it failed, or which limits the file misses.
    pub error: Option<String>,
    /// What the conversion alone would have ended with.
    pub exit_code: u8,
    /// How often it was tried.
    pub attempts: u32,
    /// Size of the file.
    #[serde(alias = "bytes")]
    pub file_bytes: Option<u64>,
    /// Weights of the model.
    pub weights: Option<u64>,
    /// Bits of the whole file per weight.
    pub bits_per_weight: Option<f64>,
    /// Perplexity on the text to evaluate on.
    #[serde(alias = "perplexity")]
    pub ppl: Option<f64>,
    /// That of the model before.
    #[serde(alias = "base_perplexity")]
    pub base_ppl: Option<f64>,
    /// Mean KL divergence from the model before, in nats per token.
    #[serde(alias = "kld")]
    pub kld_mean: Option<f64>,
    /// Positions with the same likeliest token as before, in percent.
    pub top1: Option<f64>,
    /// Wall time of the process of the last try.
    pub seconds: f64,
    /// Peak of its resident memory, where the system tells.
    pub peak_rss_bytes: Option<u64>,
    /// What that was predicted to be.
    #[serde(alias = "predicted_rss_bytes")]
    pub predicted_peak_rss_bytes: Option<u64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Hash of the file.
    pub sha256: Option<String>,
    /// Hash of everything that the file depends on.
    pub fingerprint: Option<String>,
    /// The file as it was written.
    pub file: Option<SeenFile>,
    /// What it was made of.
    pub inputs: Vec<SeenFile>,
    /// The options that it was made with.
    pub options: Map<String, Value>,
}

/// How often a job was tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    pub attempts: u32,
    /// When the last one began.
    pub began: Instant,
}

impl Record {
    /// Of a job whose file is there, which may miss its limits.
    pub(super) fn finished(
        job: &BatchJob,
        tries: Tries,
        found: Finished,
        mut inputs: Vec<SeenFile>,
        predicted: Option<u64>,
    ) -> Record {
        inputs.extend(found.model);
        let number = |pointer: &str| found.evaluation.as_ref().and_then(|e| e.pointer(pointer)?.as_f64());
        let rejected = !found.missed.is_empty();
        Record {
            state: if rejected { State::Rejected } else { State::Done },
            error: rejected.then(|| found.missed.join("; ")),
            exit_code: if rejected { Failure::LimitsMissed.exit_code() } else { 0 },
            file_bytes: Some(found.file.file_bytes),
            weights: Some(found.weights),
            bits_per_weight: Some(found.bits_per_weight),
            ppl: number("/ppl"),
            base_ppl: number("/base_ppl"),
            kld_mean: number("/kld/mean"),
            top1: number("/top1"),
            peak_rss_bytes: found.peak_rss_bytes,
            predicted_peak_rss_bytes: predicted,
            sha256: Some(found.file.sha256.clone()),
            fingerprint: Some(fingerprint(&job.settings, &inputs)),
            file: Some(found.file),
            inputs,
            ..Record::empty(job, tries)
        }
    }

    /// Of a job without a file.
    pub(super) fn failed(job: &BatchJob, tries: Tries, stopped: Stopped, predicted: Option<u64>) -> Record {
        Record {
            error: Some(stopped.error),
            exit_code: stopped.exit_code,
            peak_rss_bytes: stopped.peak_rss_bytes,
            predicted_peak_rss_bytes: predicted,
            ..Record::empty(job, tries)
        }
    }

    /// Of a job that has ended now, with nothing in it.
    fn empty(job: &BatchJob, tries: Tries) -> Record {
        let value = |values: &Vec<String>| match &values[..] {
            [one] => json!(one),
            several => json!(several),
        };
        let given = job.settings.iter().filter(|(_, values)| !values.is_empty());
        let options: Map<String, Value> = given.map(|(name, values)| (name.clone(), value(values))).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Record {
            output: job.output.clone(),
            model: job.model_name(),
            state: State::Failed,
            error: None,
            exit_code: 0,
            attempts: tries.attempts,
            file_bytes: None,
            weights: None,
            bits_per_weight: None,
            ppl: None,
            base_ppl: None,
            kld_mean: None,
            top1: None,
            seconds: tries.began.elapsed().as_secs_f64(),
            peak_rss_bytes: None,
            predicted_peak_rss_bytes: None,
            ended_ms: now.as_millis() as u64,
            sha256: None,
            fingerprint: None,
            file: None,
            inputs: Vec::new(),
            options,
        }
    }
}
