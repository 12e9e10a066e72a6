//! `qsf.convert`, and the programs as they are.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::convert::{ConvertArgs, convert_json, parse_named};
use qsf_cli::own_process::OwnProcess;

use crate::errors::raise;
use crate::values::{named_options, to_object};
use crate::work::{Work, report};

/// Convert a model into one QSF file, as qsf-convert does.
///
/// model: a HuggingFace directory, a GGUF file, or a QSF file (str or os.PathLike).
/// out: the file to write. It is written under another name, verified, and only then renamed.
/// progress: called as progress(stage, done, total) in the calling thread; what it raises stops the conversion.
/// options: those of the command line by their names with "_" for "-": quant="4bit", target_size="24MB",
/// tensor_type=["ffn_down=8bit"], calibration="text.txt", force=True. None is as good as leaving one out.
///
/// Returns what qsf-convert --json prints, as a dict: "file_bytes", "bits_per_weight", "seconds", and for each tensor in
/// "tensors" its type, shape (rows, cols), cosine with and relative error against the original.
///
/// Equal inputs give the bytes that the command line gives, on every machine.
#[pyfunction]
#[pyo3(signature = (model, out, *, progress = None, **options))]
pub fn convert<'py>(
    py: Python<'py>,
    model: PathBuf,
    out: PathBuf,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = named_options(options.as_ref())?;
    let args: ConvertArgs = parse_named(&given, &[], &[], &[&model, &out]).map_err(raise(py))?;
    let work = Work::start(move |teller, cancel| {
        let cpu = args.compute().start_in_library()?;
        convert_json(&args, &cpu, teller, cancel)
    })?;
    let made = work.wait(py, |event| report(py, event, progress.as_ref()))?;
    to_object(py, &made)
}

/// Is one of the programs, in a process that is for nothing else; gives the exit code.
///
/// name: convert, inspect, eval or run.
/// words: those behind the name of the program.
/// again: the command that does the same with other words behind it.
#[pyfunction]
pub fn run_program(py: Python<'_>, name: &str, words: Vec<OsString>, again: Vec<OsString>) -> PyResult<u8> {
    let program: fn() -> u8 = match name {
        "convert" => qsf_cli::convert::program,
        "inspect" => qsf_cli::inspect::program,
        "eval" => qsf_cli::evaluate::program,
        "run" => qsf_cli::run::program,
        _ => return Err(PyValueError::new_err(format!("there is no program {name}"))),
    };
    if again.is_empty() {
        return Err(PyValueError::new_err("a program has a name"));
    }
    let mut again = again;
    let first = again.split_off(1);
    OwnProcess { path: again.remove(0).into(), first, words }.tell();
    Ok(py.detach(program))
}
