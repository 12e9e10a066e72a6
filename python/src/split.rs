//! `qsf.calibrate`, `qsf.merge_statistics`, and what else `qsf.split` is made of: how much a part takes, and parts as a whole.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::{ConvertArgs, parse_named, statistics_json};
use qsf_cli::evaluate::{EvalArgs, Report};
use serde_json::json;

use crate::errors::raise;
use crate::values::{named_options, to_object};
use crate::work::{Work, report};

/// Run a calibration text through a model and write the statistics of its inputs, as qsf-convert --stats-only does.
///
/// model: a HuggingFace directory, a GGUF file, or a QSF file.
/// out: the statistics file to write, for convert(..., stats_in=out). One that is there already, of this model and text, stays.
/// progress: called as progress(stage, done, total) in the calling thread; what it raises stops the work.
/// options: calibration="text.txt" (or a list), calibration_tokens=20000, chat_template=True, force=True, threads=2;
/// stats_part="1/4" takes the first of four parts of the text, and merge_statistics adds the files up.
///
/// Returns a dict: "path", "tokens", "texts" (1) and "part".
#[pyfunction]
#[pyo3(signature = (model, out, *, progress = None, **options))]
pub fn calibrate<'py>(
    py: Python<'py>,
    model: PathBuf,
    out: PathBuf,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let args = statistics_args(py, &model, &out, options.as_ref())?;
    let work = Work::start(move |teller, cancel| {
        statistics_json(&args, || args.compute().start_in_library(), teller, cancel)
    })?;
    let found = work.wait(py, |event| report(py, event, progress.as_ref()))?;
    to_object(py, &json!(found))
}

/// Add up statistics files of one model, in this order, as qsf-convert --merge-stats does.
///
/// files: statistics files, such as those of all parts of a text.
/// out: the file to write; with force=True it may exist.
///
/// Returns a dict: "path", "tokens", "texts" (how many the files are of) and "part" (None).
#[pyfunction]
#[pyo3(signature = (files, out, *, force = false))]
pub fn merge_statistics<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    out: PathBuf,
    force: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut named: Vec<(&str, &Path)> = files.iter().map(|path| ("merge-stats", path.as_path())).collect();
    named.push(("stats-out", &out));
    let switches: &[&str] = if force { &["force"] } else { &[] };
    let args: ConvertArgs = parse_named(&[], switches, &named, &[]).map_err(raise(py))?;
    let work = Work::start(move |teller, cancel| {
        statistics_json(&args, || args.compute().start_in_library(), teller, cancel)
    })?;
    let found = work.wait(py, |event| report(py, event, None))?;
    to_object(py, &json!(found))
}

/// Bytes of memory that calibrate with these options takes, and tokens that go through the model.
#[pyfunction]
#[pyo3(signature = (model, out, **options))]
pub fn statistics_demand(
    py: Python<'_>,
    model: PathBuf,
    out: PathBuf,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<(u64, usize)> {
    let args = statistics_args(py, &model, &out, options.as_ref())?;
    let work = Work::start(move |teller, cancel| qsf_cli::convert::statistics_demand(&args, teller, cancel))?;
    let demand = work.wait(py, |event| report(py, event, None))?;
    Ok((demand.bytes, demand.tokens))
}

fn statistics_args(
    py: Python<'_>,
    model: &Path,
    out: &Path,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<ConvertArgs> {
    let given = named_options(options)?;
    parse_named(&given, &["stats-only"], &[("stats-out", out)], &[model]).map_err(raise(py))
}

/// Bytes of memory that evaluate with these options takes, and chunks that the text has.
#[pyfunction]
#[pyo3(signature = (model, text, base = None, **options))]
pub fn evaluation_demand(
    py: Python<'_>,
    model: PathBuf,
    text: PathBuf,
    base: Option<PathBuf>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<(u64, usize)> {
    let given = named_options(options.as_ref())?;
    let mut files = vec![("file", text.as_path())];
    files.extend(base.as_deref().map(|base| ("base", base)));
    let args: EvalArgs = parse_named(&given, &[], &files, &[&model]).map_err(raise(py))?;
    let work = Work::start(move |_, _| Ok(qsf_cli::evaluate::evaluation_demand(&args)?))?;
    let demand = work.wait(py, |event| report(py, event, None))?;
    Ok((demand.bytes, demand.chunks))
}

/// The evaluation that files are all parts of: for people, and what qsf-eval --join --json prints, as a dict.
#[pyfunction]
pub fn join_parts<'py>(py: Python<'py>, parts: Vec<PathBuf>) -> PyResult<(String, Bound<'py, PyAny>)> {
    let joined = Work::start(move |_, _| Ok(qsf_cli::evaluate::join_parts(&parts)?))?;
    let joined: Report = joined.wait(py, |event| report(py, event, None))?;
    let value = joined.to_json().map_err(raise(py))?;
    Ok((joined.to_text(), to_object(py, &value)?))
}
