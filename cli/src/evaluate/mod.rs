//! `qsf-eval`: how good is a model, and how far is it from another.
//!
//! | File | Duty |
//! |---|---|
//! | `mod` | the flags |
//! | `measure` | evaluations |
//! | `report` | what is printed of one |
//! | `parts` | parts of one as files, and all of them as one |
//! | `golden` | `--golden` |

mod golden;
mod measure;
mod parts;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use qsf_format::printable::printable;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::{Result, RuntimeError, WorkPart};
use serde_json::Value;

use crate::compute::ComputeArgs;
use crate::console::print;
use crate::documents;
use crate::exit::exit_with;
use crate::interrupt::cancel_on_interrupt;
use crate::model_args::{ActivationArgs, DeviceArgs, KvArgs, ShortcutArgs, StreamArgs, Streaming};
use crate::progress::ProgressLine;

pub use measure::evaluation_demand;
use measure::measure;
use parts::WrittenPart;
pub use parts::join_parts;
pub use report::Report;

/// Measures perplexity of a model on a text, and its distance from a base model.
#[derive(Debug, Parser)]
#[command(name = "qsf-eval", version, after_help = EXAMPLES)]
#[command(group(ArgGroup::new("input").required(true).args(["file", "golden", "join"])))]
pub struct EvalArgs {
    /// QSF file; or HuggingFace directory or GGUF file (evaluated at full precision)
    #[arg(value_name = "MODEL", required_unless_present = "join")]
    model: Option<PathBuf>,
    /// Text to evaluate on
    #[arg(short, long, value_name = "TEXT")]
    file: Option<PathBuf>,
    /// Compare with logits of another implementation: a safetensors file with input_ids, logits_last8, nll and
    /// greedy_prompt20
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "chunks", "ctx", "head", "quality", "early_exit", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io"])]
    golden: Option<PathBuf>,
    /// Base model (QSF file, directory or GGUF file) to measure the divergence from, run side by side
    #[arg(long, value_name = "MODEL2")]
    base: Option<PathBuf>,
    /// Tokens per chunk; the second half of each is scored
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    ctx: usize,
    /// Chunks to evaluate [default: all of the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Evaluate only the I-th of N parts of the chunks, such as 1/4, and write its sums for --join
    #[arg(long, value_name = "I/N", requires_all = ["part_out", "file"], conflicts_with = "memory_plan")]
    part: Option<WorkPart>,
    /// With --part: the file for the sums
    #[arg(long, value_name = "FILE", requires = "part")]
    part_out: Option<PathBuf>,
    /// With --part: replace the file if it exists
    #[arg(long, requires = "part")]
    force: bool,
    /// Join all parts of an evaluation: the figures are those of one run, to the last bit
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["model", "file", "golden", "base", "ctx", "chunks", "part", "activations", "head", "quality", "early_exit", "ram_budget", "memory_plan", "io", "kv_type", "kv_window", "kv_policy", "device", "threads", "pin"])]
    join: Vec<PathBuf>,
    #[command(flatten)]
    activations: ActivationArgs,
    #[command(flatten)]
    shortcuts: ShortcutArgs,
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    kv: KvArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    compute: ComputeArgs,
}

const EXAMPLES: &str = "Examples:
  qsf-eval model.qsf --file wiki.test.raw
  qsf-eval model.qsf --file text.txt --base ./model-dir --chunks 60 --json
  qsf-eval model.qsf --file text.txt --base ./model-dir --ram-budget 200
  qsf-eval model.qsf --file text.txt --part 1/4 --part-out 1.part
  qsf-eval --join 1.part 2.part 3.part 4.part
  qsf-eval ./model-dir --golden expected.safetensors

Figures follow llama-perplexity: chunks without overlap, positions ctx/2 to ctx-2 scored.
A RAM budget is that of MODEL; the base has memory of its own. The base runs with an f16 key/value cache; with --golden, the cache is f32 unless --kv-type says otherwise. A GPU keeps keys and values in f16 or 8bit, and runs the base too.
In JSON, top1 and delta_p are in per cent, kld in nats.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory, 130 interrupted.";

impl EvalArgs {
    /// Threads and so on.
    pub fn compute(&self) -> &ComputeArgs {
        &self.compute
    }

    fn model(&self) -> Result<&Path> {
        self.model.as_deref().ok_or_else(|| RuntimeError::Request("no model given".into()))
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    exit_with(print_evaluation(&documents::parse::<EvalArgs>()))
}

/// Prints what the flags ask for.
///
/// # Errors
/// When a model or the text cannot be read, or the two do not fit together.
pub fn print_evaluation(args: &EvalArgs) -> anyhow::Result<()> {
    if !args.join.is_empty() {
        return print_report(args, &join_parts(&args.join)?);
    }
    let cpu = args.compute.start()?;
    args.activations.check(cpu.isa(), &args.stream)?;
    let cancel = cancel_on_interrupt()?;
    if let Some(path) = &args.golden {
        return golden::print_agreement(args, &cpu, path, &cancel);
    }
    match measure(args, &cpu, &ProgressLine::default(), &cancel)? {
        Outcome::Plan(streaming) => print(&streaming.describe(args.json))?,
        Outcome::Part(part) if args.json => print(&format!("{:#}\n", part.to_json()))?,
        Outcome::Part(part) => print(&printable(&part.to_text()))?,
        Outcome::Measured(report) => print_report(args, &report)?,
    }
    Ok(())
}

fn print_report(args: &EvalArgs, report: &Report) -> anyhow::Result<()> {
    let text = if args.json { format!("{:#}\n", report.to_json()?) } else { printable(&report.to_text()) };
    print(&text)?;
    Ok(())
}

/// What `qsf-eval` prints with `--json`.
///
/// # Errors
/// When a model or the text cannot be read, the two do not fit together, or the flags ask for a plan of the memory.
pub fn evaluation_json(
    args: &EvalArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Value> {
    match measure(args, cpu, progress, cancel)? {
        Outcome::Measured(report) => report.to_json(),
        Outcome::Part(part) => Ok(part.to_json()),
        Outcome::Plan(_) => {
            Err(RuntimeError::Request("--memory-plan: asks for a plan, not for an evaluation".into()).into())
        }
    }
}

/// What came of the flags.
enum Outcome {
    /// Of `--memory-plan`.
    Plan(Box<Streaming>),
    /// Of `--part`.
    Part(WrittenPart),
    Measured(Box<Report>),
}
