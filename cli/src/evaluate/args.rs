//! The flags.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Parser};
use qsf_runtime::tasks::{Task, TaskRequest};
use qsf_runtime::{Result, RuntimeError, WorkPart};

use crate::compute::ComputeArgs;
use crate::model_args::{ActivationArgs, DeviceArgs, KvArgs, ShortcutArgs, StreamArgs};
use crate::progress::VerbosityArgs;

/// Measures perplexity of a model on a text, and its distance from a base model.
#[derive(Debug, Parser)]
#[command(name = "qsf-eval", version, after_help = EXAMPLES)]
#[command(group(ArgGroup::new("input").required(true).args(["file", "golden", "join", "task"])))]
#[command(group(ArgGroup::new("written").args(["part_out", "save_base", "task_out"])))]
pub struct EvalArgs {
    /// QSF file; or HuggingFace directory or GGUF file (evaluated at full precision)
    #[arg(value_name = "MODEL", required_unless_present = "join")]
    pub(super) model: Option<PathBuf>,
    /// Text to evaluate on
    #[arg(short, long, value_name = "TEXT")]
    pub(super) file: Option<PathBuf>,
    /// Compare with logits of another implementation: a safetensors file with input_ids, logits_last8, nll and
    /// greedy_prompt20
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "chunks", "ctx_size", "head", "quality", "early_exit", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io"])]
    pub(super) golden: Option<PathBuf>,
    /// Base model (QSF file, directory or GGUF file) to measure the divergence from, run side by side; or what --save-base wrote
    /// of it
    #[arg(long, value_name = "MODEL2")]
    pub(super) base: Option<PathBuf>,
    /// Write the log-probabilities of MODEL to a file, which then is the --base of many models: two bytes for each scored position
    /// and token of the vocabulary
    #[arg(long, value_name = "OUT", requires = "file", conflicts_with_all = ["base", "part", "store", "memory_plan", "activations", "lora", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy"])]
    pub(super) save_base: Option<PathBuf>,
    /// Tokens per chunk, of which the second half is scored [default: 512]; with --task most tokens of a prompt, which longer ones
    /// are cut to on the left [default: what the model was made for]
    #[arg(short, long, visible_alias = "ctx", value_name = "N")]
    pub(super) ctx_size: Option<usize>,
    /// Chunks to evaluate [default: all of the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) chunks: Option<u32>,
    /// Put the result into MODEL, a QSF file that was made of the base, where qsf-inspect shows it. A new file is written, verified
    /// and renamed; one that is in the file already goes
    #[arg(long, requires_all = ["file", "base"], conflicts_with_all = ["part", "memory_plan", "activations", "lora", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "device"])]
    pub(super) store: bool,
    /// Evaluate only the I-th of N parts of the chunks, such as 1/4, and write its sums for --join
    #[arg(long, value_name = "I/N", requires_all = ["part_out", "file"], conflicts_with_all = ["memory_plan", "lora"])]
    pub(super) part: Option<WorkPart>,
    /// With --part: the file for the sums
    #[arg(long, value_name = "FILE", requires = "part")]
    pub(super) part_out: Option<PathBuf>,
    /// Score a task: hellaswag, winogrande, arc, piqa, mmlu, truthfulqa_mc or lambada, with prompts as lm-eval makes them
    #[arg(long, value_name = "TASK", requires = "task_file", conflicts_with_all = ["chunks", "store", "part", "save_base", "early_exit", "kv_window", "kv_policy"])]
    pub(super) task: Option<Task>,
    /// Items of the task: the hub's data set as Parquet or JSONL, or a file that llama-perplexity reads
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(super) task_file: Option<PathBuf>,
    /// Examples before each item, drawn as lm-eval draws them
    #[arg(long, value_name = "N", requires = "task", default_value_t = 0, hide_default_value = true, value_parser = few_shot)]
    pub(super) few_shot: usize,
    /// The file that examples are from, such as the training split; without it they are other items of --task-file
    #[arg(long, value_name = "FILE", requires = "few_shot")]
    pub(super) few_shot_file: Option<PathBuf>,
    /// Score the first N items only
    #[arg(long, value_name = "N", requires = "task", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
    /// Write what the model says of each item to a file, a line of JSON for each
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(super) task_out: Option<PathBuf>,
    /// With --part, --save-base or --task-out: replace the file if it exists
    #[arg(long, requires = "written")]
    pub(super) force: bool,
    /// Join all parts of an evaluation: the figures are those of one run, to the last bit
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["model", "file", "golden", "base", "save_base", "task", "ctx_size", "chunks", "part", "activations", "lora", "head", "quality", "early_exit", "ram_budget", "memory_plan", "io", "kv_type", "kv_window", "kv_policy", "device", "threads", "pin"])]
    pub(super) join: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) activations: ActivationArgs,
    #[command(flatten)]
    pub(super) shortcuts: ShortcutArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) kv: KvArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) output: VerbosityArgs,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    #[command(flatten)]
    pub(super) compute: ComputeArgs,
}

/// Most examples before an item. More would not fit a context.
const MOST_EXAMPLES: usize = 1000;

/// `--few-shot`.
fn few_shot(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= MOST_EXAMPLES);
    count.ok_or_else(|| format!("'{text}' is no number of examples from 0 to {MOST_EXAMPLES}"))
}

const EXAMPLES: &str = "Examples:
  qsf-eval model.qsf --file wiki.test.raw
  qsf-eval model.qsf --file text.txt --base ./model-dir --chunks 60 --json
  qsf-eval model.qsf --file text.txt --base ./model-dir --store
  qsf-eval ./model-dir --file text.txt --save-base base.logprobs
  qsf-eval model.qsf --file text.txt --base base.logprobs
  qsf-eval model.qsf --file text.txt --base ./model-dir --ram-budget 200
  qsf-eval model.qsf --file text.txt --part 1/4 --part-out 1.part
  qsf-eval --join 1.part 2.part 3.part 4.part
  qsf-eval model.qsf --task hellaswag --task-file hellaswag_val.jsonl --base ./model-dir
  qsf-eval model.qsf --task mmlu --task-file test.jsonl --few-shot 5 --few-shot-file dev.jsonl
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

    /// The task, where one is asked for.
    pub(super) fn task(&self) -> Option<TaskRequest<'_>> {
        Some(TaskRequest {
            task: self.task?,
            path: self.task_file.as_deref()?,
            few_shot: self.few_shot,
            examples: self.few_shot_file.as_deref(),
            limit: self.limit.map(|limit| limit as usize),
        })
    }

    pub(super) fn model(&self) -> Result<&Path> {
        self.model.as_deref().ok_or_else(|| RuntimeError::Request("no model given".into()))
    }
}
