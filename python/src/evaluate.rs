//! `qsf.evaluate` and `qsf.evaluate_task`.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::parse_named;
use qsf_cli::evaluate::{EvalArgs, evaluation_json};

use crate::errors::raise;
use crate::values::{named_options, to_object};
use crate::work::{Work, report};

/// Measure the perplexity of a model on a text, and its distance from a base model, as qsf-eval does.
///
/// model: a QSF file, HuggingFace directory or GGUF file.
/// text: a UTF-8 file (its path, not the text itself).
/// base: the model to compare with, such as the original; run side by side. Or a file that save_base="base.logprobs" wrote of
/// it, on the same text: then one run of the base serves for many models.
/// progress: called as progress(stage, done, total) in the calling thread; what it raises stops the evaluation.
/// options: those of the command line by their names with "_" for "-": ctx=512 (tokens per chunk), chunks=10,
/// activations="f32", kv_type="8bit,4bit", ram_budget="200MB", threads=2.
///
/// part="1/4" evaluates the first of four parts of the chunks only, writes part_out="1.part", and returns what it is of;
/// join_evaluation makes one of all parts.
///
/// Returns what qsf-eval --json prints, as a dict: "ppl" (perplexity) and "ppl_stderr"; "tokens" (positions scored),
/// "chunks" and "seconds"; with a base also "base_ppl", "kld" (a dict, in nats per token: "mean", "stderr", "p50", "p99"
/// and so on), "top1" and "delta_p" (in per cent).
#[pyfunction]
#[pyo3(signature = (model, text, base = None, *, progress = None, **options))]
pub fn evaluate<'py>(
    py: Python<'py>,
    model: PathBuf,
    text: PathBuf,
    base: Option<PathBuf>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut files = vec![("file", text.as_path())];
    files.extend(base.as_deref().map(|base| ("base", base)));
    run(py, &model, &files, progress, options)
}

/// Measure how often a model finds the right one of several continuations, as qsf-eval --task does.
///
/// model, base: as for evaluate; with a base the answers of both are compared.
/// task: "hellaswag", "winogrande", "arc", "piqa", "mmlu", "truthfulqa_mc" or "lambada".
/// task_file: the hub's data set as Parquet or JSONL, or a file that llama-perplexity reads.
/// progress: as for evaluate.
/// options: those of the command line by their names with "_" for "-": few_shot=5, few_shot_file="dev.jsonl", limit=100,
/// task_out="items.jsonl" (a line for each item), threads=2.
///
/// Returns what qsf-eval --json prints, as a dict: "measures" (a list of dicts: "name", "value" as a part of one, "stderr", and
/// with a base also "base_value", "difference" and so on), "groups" (the same for each subject), "items" and "seconds".
#[pyfunction]
#[pyo3(signature = (model, task, task_file, base = None, *, progress = None, **options))]
pub fn evaluate_task<'py>(
    py: Python<'py>,
    model: PathBuf,
    task: String,
    task_file: PathBuf,
    base: Option<PathBuf>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut files = vec![("task", Path::new(&task)), ("task-file", task_file.as_path())];
    files.extend(base.as_deref().map(|base| ("base", base)));
    run(py, &model, &files, progress, options)
}

/// Evaluates by the command line of qsf-eval. `flags` are those with a value that is given as an argument of its own.
fn run<'py>(
    py: Python<'py>,
    model: &Path,
    flags: &[(&str, &Path)],
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = named_options(options.as_ref())?;
    let args: EvalArgs = parse_named(&given, &[], flags, &[model]).map_err(raise(py))?;
    let work = Work::start(move |teller, cancel| {
        let cpu = args.compute().start_in_library()?;
        evaluation_json(&args, &cpu, teller, cancel)
    })?;
    let found = work.wait(py, |event| report(py, event, progress.as_ref()))?;
    to_object(py, &found)
}
