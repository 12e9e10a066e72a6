//! `Model.attention`: where a model looks, as NumPy arrays.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::kept_model::KeptModel;

use crate::arrays::computed_array;
use crate::outputs::Text;
use crate::work::{Work, report};

/// A dict of arrays by the names that they have in files of `qsf-run --attention`.
pub fn attention<'py>(
    py: Python<'py>,
    model: &Arc<KeptModel>,
    text: &Bound<'py, PyAny>,
    layers: Option<Vec<u32>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (text, model) = (Text::of(text)?, model.clone());
    let work = Work::start(move |_, cancel| {
        Ok(model.attention(&text.tokens(&model)?, layers.as_deref(), cancel)?)
    })?;
    let arrays = PyDict::new(py);
    for (array, values) in work.wait(py, |event| report(py, event, None))? {
        arrays.set_item(array.name(), computed_array(py, &array.shape, values)?)?;
    }
    Ok(arrays)
}
