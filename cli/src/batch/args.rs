//! Flags of `--batch`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use qsf_runtime::WorkPart;

use crate::byte_size::ByteSize;

/// Flags of a batch of conversions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batch")]
pub struct BatchArgs {
    /// Do all conversions that a file lists, JSONL or TOML by its name: a job has a model, an output, and options by the names
    /// of the command line, such as {"model": "gpt2", "output": "gpt2.qsf", "quant": "4bit"}. What is done already is skipped.
    /// Paths in it are relative to its folder
    #[arg(long, value_name = "JOBS", requires = "out_dir")]
    pub batch: Option<PathBuf>,
    /// With --batch: folder for the files and for results.jsonl, which says of each job what came of it
    #[arg(long, value_name = "DIR", requires = "batch")]
    pub out_dir: Option<PathBuf>,
    /// With --batch: most jobs at a time [default: one for each physical core]
    #[arg(long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Most memory, such as 8GB (a number alone is megabytes): a conversion that will need more, by prediction, is refused. With --batch, jobs start only as
    /// far as they need no more than this together [default there: 80 % of what is free]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["demo", "show_stats", "merge_stats"])]
    pub ram: Option<ByteSize>,
    /// With --batch: only every N-th job, from the I-th on, so that N machines share the work
    #[arg(long, value_name = "I/N", requires = "batch")]
    pub shard: Option<Shard>,
    /// With --batch: how often a job is tried again after an error of a disk or network
    #[arg(long, value_name = "N", requires = "batch", default_value = "2", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retry: u32,
    /// With --batch: after the first job that fails start no other
    #[arg(long, requires = "batch")]
    pub fail_fast: bool,
    /// This process does one job of a batch, and talks with the one that runs it by stdin and stdout
    #[arg(long, hide = true, conflicts_with_all = ["batch", "json"])]
    pub batch_worker: bool,
}

/// A part of the jobs: of `count` parts number `index` has every `count`-th job from that number on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard(WorkPart);

impl Shard {
    /// All jobs.
    pub const ALL: Shard = Shard(WorkPart::ALL);

    /// Whether the job at `position`, counted from 0, belongs to it.
    pub fn has(self, position: usize) -> bool {
        position % self.0.count() == self.0.index() - 1
    }

    /// The name of the file for its results: shards on several machines must not write to one.
    pub fn results_name(self) -> String {
        match self {
            Shard::ALL => "results.jsonl".into(),
            Shard(part) => format!("results-{}-of-{}.jsonl", part.index(), part.count()),
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        text.parse().map(Shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_belongs_to_exactly_one_shard() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        for position in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(position)).count(), 1);
            assert!(Shard::ALL.has(position));
        }
        assert_eq!(shards[1].results_name(), "results-2-of-3.jsonl");
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "1/2/3", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
