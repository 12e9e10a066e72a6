//! `qsf.inspect`.

use std::path::PathBuf;

use pyo3::prelude::*;
use qsf_cli::inspect::inspect_json;

use crate::errors::to_python;
use crate::values::to_object;

/// Say what a QSF file holds, as qsf-inspect does.
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
