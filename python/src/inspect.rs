//! `qsf.inspect`, `qsf.diff` and `qsf.report`.

use std::path::PathBuf;

use pyo3::prelude::*;
use qsf_cli::inspect::{ReportArgs, difference_json, inspect_json, report_json};

use crate::errors::to_python;
use crate::values::to_object;
use crate::work::{Work, report as tell};

/// Say what a QSF file, a GGUF file or a HuggingFace directory holds, as qsf-inspect does.
///
/// path: the file.
/// tensors: list every tensor with its type, layout, shape (rows, cols), bytes and conversion error.
/// verify: check every checksum and every padding byte; BadInputError says where the first damage is.
/// allow_plain: with verify, accept a plain file, most of which is under no checksum.
///
/// Returns what qsf-inspect --json prints, as a dict: "file_bytes", "type", "block_size", "bits_per_weight", "config",
/// "provenance", "evaluation", "sections", "layers" and, if asked for, "tensors" and "verified".
#[pyfunction]
#[pyo3(signature = (path, *, tensors = false, verify = false, allow_plain = false))]
pub fn inspect(
    py: Python<'_>,
    path: PathBuf,
    tensors: bool,
    verify: bool,
    allow_plain: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(|| inspect_json(&path, tensors, verify, allow_plain));
    to_object(py, &found.map_err(|error| to_python(py, &error))?)
}

/// Compare two models, as qsf-inspect diff does: configuration, tokenizer, chat template, and every tensor by its values.
///
/// a, b: QSF files, GGUF files or HuggingFace directories.
/// progress: called as progress(stage, done, total) in the calling thread; what it raises stops the comparison.
///
/// Returns what qsf-inspect diff --json prints, as a dict: "equal", "tensors" and so on.
#[pyfunction]
#[pyo3(signature = (a, b, *, progress = None))]
pub fn diff<'py>(
    py: Python<'py>,
    a: PathBuf,
    b: PathBuf,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let work = Work::start(move |teller, cancel| difference_json(&a, &b, teller, cancel))?;
    let found = work.wait(py, |event| tell(py, event, progress.as_ref()))?;
    to_object(py, &found)
}

/// Write a page about QSF files, as qsf-inspect report does.
///
/// files: the files.
/// out: the page to write, one HTML file that loads nothing.
/// card: a model card to write, in the form of the HuggingFace hub; base_model and license are named on it.
/// force: replace page and card if they exist.
/// progress: called as progress(stage, done, total) in the calling thread; what it raises stops the work.
///
/// Returns what qsf-inspect report --json prints, as a dict.
#[pyfunction]
#[pyo3(signature = (files, out, *, card = None, base_model = None, license = None, force = false, progress = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn report<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    out: PathBuf,
    card: Option<PathBuf>,
    base_model: Option<String>,
    license: Option<String>,
    force: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let args = ReportArgs::new(files, out, force);
    let args = match card {
        Some(card) => args.with_card(card, base_model, license),
        None => args,
    };
    let work = Work::start(move |teller, cancel| report_json(&args, teller, cancel))?;
    let made = work.wait(py, |event| tell(py, event, progress.as_ref()))?;
    to_object(py, &made)
}
