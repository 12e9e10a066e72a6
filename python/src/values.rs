//! Options and results: between objects of Python and those of the command lines.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};
use qsf_cli::batch::manifest::Given;
use serde_json::Value;

/// The options that keyword arguments are. `None` is as good as none.
///
/// # Errors
/// For a path that is no text.
pub fn named_options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Given)>> {
    let Some(keywords) = keywords else { return Ok(Vec::new()) };
    let given = keywords.iter().filter(|(_, value)| !value.is_none());
    given.map(|(name, value)| Ok((name.extract()?, option(&value)?))).collect()
}

fn option(value: &Bound<'_, PyAny>) -> PyResult<Given> {
    // First of all: a bool is an int.
    if value.is_instance_of::<PyBool>() {
        return Ok(Given::Flag(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(Given::Number(value.str()?.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| option(&value?));
        return Ok(Given::List(values.collect::<PyResult<_>>()?));
    }
    // Texts, and `pathlib.Path` and its like.
    let Ok(path) = value.extract::<PathBuf>() else { return Ok(Given::Other("another type")) };
    let text = path.into_os_string().into_string();
    text.map(Given::Text).map_err(|path| PyTypeError::new_err(format!("{} is not UTF-8", path.display())))
}

/// A result as dicts, lists, texts and numbers.
///
/// # Errors
/// None that Python's parser has for our JSON.
pub fn to_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}
