//! `--bench` and `--kernel`: what is measured, on how many threads, and how it is printed.

mod bandwidth;
#[cfg(feature = "gpu")]
mod gpu_kernel;
mod kernel;
mod model;
mod report;
mod sheet;

use clap::Args;
use qsf_runtime::bench::{Test, TestKind};
use qsf_runtime::{Result, RuntimeError};

pub use kernel::run_kernels;
pub use model::{BenchModel, run_bench};
pub use sheet::OutputFormat;

/// Flags of `qsf-run` that mean nothing to a measurement.
const GENERATION: [&str; 10] = [
    "input",
    "max_tokens",
    "ctx_size",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "kv_window",
    "kv_policy",
];

/// What the flags of `--bench` do not go with. That they require it does not suffice: clap drops a requirement that something
/// given conflicts with.
const NOT_A_BENCH: [&str; 3] = ["input", "kernel", "system"];

/// Flags of measurements.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measuring")]
pub struct BenchArgs {
    /// Measure prompt processing and decoding of MODEL
    #[arg(long, group = "measure", conflicts_with_all = GENERATION)]
    pub bench: bool,
    /// Measure single kernels, without a model; FILTER is a part of their names, as in 4bit/1/memory; with --device gpu those of
    /// a graphics processor, as in 4bit/1
    #[arg(
        long,
        value_name = "FILTER",
        group = "measure",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = GENERATION,
        conflicts_with_all = ["model", "verbose", "activations", "lora", "head", "quality", "early_exit", "kv_type", "ram_budget", "memory_plan", "io", "huge_pages"]
    )]
    pub kernel: Option<String>,
    /// With --bench: lengths of prompts; 0 for none
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "512", requires = "bench", conflicts_with_all = NOT_A_BENCH)]
    pub pp: Vec<usize>,
    /// With --bench: numbers of decoded tokens; 0 for none
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "64", requires = "bench", conflicts_with_all = NOT_A_BENCH)]
    pub tg: Vec<usize>,
    /// With --bench: positions that the context holds already
    #[arg(
        short,
        long,
        visible_alias = "n-depth",
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "0",
        requires = "bench",
        conflicts_with_all = NOT_A_BENCH
    )]
    pub depth: Vec<usize>,
    /// With --bench: repetitions of each, after one that does not count
    #[arg(short, long, value_name = "N", default_value_t = 5, requires = "bench", conflicts_with_all = NOT_A_BENCH)]
    pub repetitions: usize,
    /// With --bench: first measure loading with the model's files dropped from the page cache (Linux)
    #[arg(long, requires = "bench", conflicts_with_all = NOT_A_BENCH, conflicts_with = "ram_budget")]
    pub cold: bool,
    /// How results are printed; --json is the same as --format json
    #[arg(long, value_enum, value_name = "FORMAT", requires = "measure", conflicts_with_all = ["json", "input", "system"])]
    pub format: Option<OutputFormat>,
}

impl BenchArgs {
    /// Every combination: by depth, prompts before decoding, and that by numbers of `sequences`.
    fn tests(&self, sequences: &[usize]) -> Result<Vec<Test>> {
        let mut tests = Vec::new();
        for &depth in &self.depth {
            for (kind, lengths) in [(TestKind::Prompt, &self.pp), (TestKind::Decode, &self.tg)] {
                for &tokens in lengths.iter().filter(|&&tokens| tokens > 0) {
                    let sequences = if kind == TestKind::Decode { sequences } else { &[1] };
                    tests.extend(sequences.iter().map(|&sequences| Test { kind, tokens, depth, sequences }));
                }
            }
        }
        if tests.is_empty() {
            let nothing = "nothing to measure: --pp or --tg needs at least one length above 0";
            return Err(RuntimeError::Request(nothing.into()));
        }
        Ok(tests)
    }

    fn format_of(&self, json: bool) -> OutputFormat {
        self.format.unwrap_or(if json { OutputFormat::Json } else { OutputFormat::Table })
    }
}
