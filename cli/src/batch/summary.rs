//! What came of all jobs: a table for people, JSON for pipelines.

use std::path::PathBuf;

use qsf_format::human_bytes;
use serde_json::{Value, json};

use super::record::{Record, State};
use crate::console::table;
use crate::json_document::document;

/// What became of a job in this run.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It was done, or tried.
    Ended(Record),
    /// It had been done before, and nothing has changed since.
    Skipped(Record),
    /// It was in work when the batch ended, and goes on with the next one.
    Stopped,
    /// The batch ended before it.
    NotStarted,
}

impl Outcome {
    /// What is known of it.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Outcome::Ended(record) | Outcome::Skipped(record) => Some(record),
            Outcome::Stopped | Outcome::NotStarted => None,
        }
    }

    /// Whether its file is there and is as it was to be.
    pub fn is_done(&self) -> bool {
        self.record().is_some_and(|record| record.state == State::Done)
    }

    fn state(&self) -> String {
        match self {
            Outcome::Ended(record) => record.state.name().into(),
            Outcome::Skipped(record) if record.state == State::Done => "skipped".into(),
            Outcome::Skipped(record) => format!("{} before", record.state.name()),
            Outcome::Stopped => "stopped".into(),
            Outcome::NotStarted => "not started".into(),
        }
    }
}

/// What came of all jobs.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Of each job its line in the list, its output and what became of it.
    pub jobs: Vec<(usize, PathBuf, Outcome)>,
    /// Wall time of this run.
    pub seconds: f64,
}

impl Summary {
    /// Jobs without a file that is as it was to be.
    pub fn failed(&self) -> usize {
        self.jobs.iter().filter(|(_, _, outcome)| !outcome.is_done()).count()
    }

    fn count(&self, of: impl Fn(&Outcome) -> bool) -> usize {
        self.jobs.iter().filter(|(_, _, outcome)| of(outcome)).count()
    }

    /// For people: a row for each job, the reasons of those that failed, and the numbers of all.
    pub fn to_table(&self) -> String {
        let header = [
            "output",
            "state",
            "size",
            "bits/weight",
            "perplexity",
            "KLD",
            "top-1 %",
            "seconds",
            "peak memory",
        ];
        let mut text = table(
            &header,
            2,
            self.jobs.iter().map(|(_, output, outcome)| {
                let mut row = vec![output.display().to_string(), outcome.state()];
                row.extend(match outcome.record() {
                    Some(record) => figures(record),
                    None => vec!["-".into(); header.len() - 2],
                });
                row
            }),
        );
        let reasons: Vec<String> = self
            .jobs
            .iter()
            .filter_map(|(line, output, outcome)| {
                let record = outcome.record()?;
                let error = record.error.as_ref()?;
                let (output, state) = (output.display(), record.state.name());
                Some(format!("{output} (line {line}): {state}, exit code {}: {error}\n", record.exit_code))
            })
            .collect();
        if !reasons.is_empty() {
            text += "\n";
            text += &qsf_format::printable::printable(&reasons.concat());
        }
        let bytes: u64 =
            self.jobs.iter().filter_map(|(_, _, o)| o.record().filter(|_| o.is_done())?.file_bytes).sum();
        text + &format!("\n{}; {} in {:.1} s\n", self.numbers(), human_bytes(bytes), self.seconds)
    }

    /// How many jobs came to what.
    pub fn numbers(&self) -> String {
        let new = self.count(|o| o.is_done() && matches!(o, Outcome::Ended(_)));
        let skipped = self.count(|o| o.is_done() && matches!(o, Outcome::Skipped(_)));
        let of = |state| self.count(|o| o.record().is_some_and(|record| record.state == state));
        let mut text = format!("{} jobs: {new} done, {skipped} skipped", self.jobs.len());
        for (number, what) in [
            (of(State::Rejected), "rejected"),
            (of(State::Failed), "failed"),
            (self.count(|o| matches!(o, Outcome::Stopped)), "stopped in work"),
            (self.count(|o| matches!(o, Outcome::NotStarted)), "not started"),
        ] {
            if number > 0 {
                text += &format!(", {number} {what}");
            }
        }
        text
    }

    /// What `--json` prints: all jobs with their records, and their numbers.
    pub fn to_json(&self) -> Value {
        let jobs = self.jobs.iter().map(|(line, output, outcome)| {
            let mut value = json!(outcome.record());
            if !value.is_object() {
                let state = if matches!(outcome, Outcome::Stopped) { "stopped" } else { "not_started" };
                value = json!({ "output": output, "state": state });
            }
            value["line"] = json!(line);
            value["skipped"] = json!(matches!(outcome, Outcome::Skipped(_)));
            value
        });
        let of = |state| self.count(|o| o.record().is_some_and(|record| record.state == state));
        let members = json!({
            "jobs": jobs.collect::<Vec<_>>(),
            "total": self.jobs.len(),
            "done": of(State::Done),
            "skipped": self.count(|o| matches!(o, Outcome::Skipped(_))),
            "rejected": of(State::Rejected),
            "failed": of(State::Failed),
            "stopped": self.count(|o| matches!(o, Outcome::Stopped)),
            "not_started": self.count(|o| matches!(o, Outcome::NotStarted)),
            "seconds": self.seconds,
        });
        document("batch", members)
    }
}

fn figures(record: &Record) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "-".into(),
    };
    let bytes = |value: Option<u64>| value.map_or("-".into(), human_bytes);
    vec![
        bytes(record.file_bytes),
        number(record.bits_per_weight, 3),
        number(record.ppl, 3),
        number(record.kld_mean, 5),
        number(record.top1, 2),
        format!("{:.2}", record.seconds),
        bytes(record.peak_rss_bytes),
    ]
}

/// A job that has ended, in one line.
pub(super) fn line_of(record: &Record) -> String {
    let mut text = format!("{}: {}", record.output.display(), record.state.name());
    if let (Some(bytes), Some(bits)) = (record.file_bytes, record.bits_per_weight) {
        text += &format!(", {}, {bits:.3} bits per weight", human_bytes(bytes));
    }
    if let Some(kld) = record.kld_mean {
        text += &format!(", KLD {kld:.5}");
    }
    text += &format!(", {:.2} s", record.seconds);
    if let Some(error) = &record.error {
        text += &format!(": {error}");
    }
    text
}
