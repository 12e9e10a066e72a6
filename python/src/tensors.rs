//! `qsf.open`: the tensors of a model as NumPy arrays.

use std::path::PathBuf;
use std::sync::Arc;

use half::f16;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use qsf_format::{CodedRows, Layout, TensorId};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{self, WeightSource};
use rayon::prelude::*;

use crate::arrays::{StoredBytes, array, new_array};
use crate::errors::raise;
use crate::values::to_object;

/// Three arrays.
type Triple<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Open a model: a QSF file, a HuggingFace directory or a GGUF file.
///
/// All of a QSF file that a model needs is checked at once, so that no damaged value can be read later. The result maps names
/// to tensors: file["layer 0 attn_q"]. Files stay mapped as long as it or one of its tensors is in use.
#[pyfunction]
pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<TensorFile> {
    let source = py.detach(|| source::open(&path)).map_err(raise(py))?;
    Ok(TensorFile { source: source.into() })
}

/// The tensors of a model, by name. See qsf.open.
#[pyclass(frozen, mapping, module = "qsf")]
pub struct TensorFile {
    source: Arc<dyn WeightSource>,
}

impl TensorFile {
    fn id(&self, name: &str) -> Option<TensorId> {
        let id = name.parse().ok()?;
        self.source.tensors().iter().any(|info| info.id == id).then_some(id)
    }
}

#[pymethods]
impl TensorFile {
    /// The file or directory.
    #[getter]
    fn path(&self) -> PyResult<String> {
        Ok(self.source.path().display().to_string())
    }

    /// The architecture, as in the section META: layers, heads, sizes (a dict).
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let config = serde_json::to_value(self.source.config());
        to_object(py, &config.map_err(raise(py))?)
    }

    /// The names of all tensors, in file order.
    fn keys(&self) -> Vec<String> {
        self.source.tensors().iter().map(|info| info.id.to_string()).collect()
    }

    fn __len__(&self) -> usize {
        self.source.tensors().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.id(name).is_some()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys().into_pyobject(py)?.try_iter()
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        let id = self.id(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let tensor = py.detach(|| self.source.load(id)).map_err(raise(py))?;
        Ok(Tensor { id, tensor, path: self.source.path().to_owned() })
    }

    fn __repr__(&self) -> String {
        format!("qsf.open({:?}): {} tensors", self.source.path().display().to_string(), self.__len__())
    }
}

/// A tensor as it is stored. numpy.asarray(tensor) or tensor.values() decodes it.
///
/// Of the types 2bit-sym, 2bit, 3bit, 4bit, 8bit and ternary, a value in row r and column c is scales()[r, c // block_size] *
/// codes()[r, c], plus mins()[r, c // block_size] where the type has mins, plus what outliers() has for it; in float32.
#[pyclass(frozen, module = "qsf")]
pub struct Tensor {
    id: TensorId,
    tensor: source::Tensor,
    path: PathBuf,
}

impl Tensor {
    /// The rows of a tensor whose blocks have scales and codes of their own.
    fn coded(&self, py: Python<'_>) -> PyResult<CodedRows<'_>> {
        let native = self.tensor.native().filter(|native| CodedRows::suits(native.quant()));
        let native = native.ok_or_else(|| {
            raise(py)(RuntimeError::Unsupported {
                path: self.path.clone(),
                what: format!("taking apart {} of type {}", self.id, self.tensor.stored_type()),
                supported: "there are scales and codes of 2bit-sym, 2bit, 3bit, 4bit, 8bit and ternary; values() and raw() \
                            are there for every type of QSF files"
                    .into(),
            })
        })?;
        Ok(CodedRows {
            quant: native.quant(),
            block: native.block(),
            cols: self.tensor.cols(),
            panel_rows: native.panel_rows(),
            bytes: native.bytes(),
        })
    }

    /// Number `field` of every block: without a copy where the rows are stored one behind the other.
    fn field<'py>(&self, py: Python<'py>, field: usize) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.coded(py)?;
        let shape = [self.tensor.rows(), rows.blocks()];
        let block_bytes = rows.quant.block_bytes(rows.block);
        if rows.panel_rows == 0 {
            let stored = Bound::new(py, StoredBytes::of(self.tensor.clone()))?.into_any();
            let strides = (block_bytes * rows.blocks(), block_bytes);
            return array(py, stored, "<f2", &shape, Some((2 * field, strides)));
        }
        new_array(py, "<f2", &shape, 2, |out| {
            let mut row_values = vec![f16::ZERO; rows.blocks()];
            for (row, out) in out.chunks_exact_mut(2 * rows.blocks()).enumerate() {
                rows.field(field, row, &mut row_values);
                for (out, value) in out.chunks_exact_mut(2).zip(&row_values) {
                    out.copy_from_slice(&value.to_le_bytes());
                }
            }
        })
    }
}

#[pymethods]
impl Tensor {
    /// What it is called: "layer 0 attn_q", "final_norm".
    #[getter]
    fn name(&self) -> String {
        self.id.to_string()
    }

    /// Rows and columns. A vector has one row.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.tensor.rows(), self.tensor.cols())
    }

    /// How values are stored: "4bit", "f16" and so on; of other files than QSF by their own names.
    #[getter]
    #[pyo3(name = "type")]
    fn stored_type(&self) -> String {
        self.tensor.stored_type().to_string()
    }

    /// Order of the blocks: "rows" or "panels"; None in other files than QSF.
    #[getter]
    fn layout(&self) -> Option<&'static str> {
        self.tensor.native().map(|native| native.layout().name())
    }

    /// Values per scale; None for floats and foreign types.
    #[getter]
    fn block_size(&self) -> Option<usize> {
        let native = self.tensor.native().filter(|native| !native.quant().is_float());
        native.map(|native| native.block().get())
    }

    /// Bytes as stored, with what is stored apart from the blocks.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.stored_bytes()
    }

    /// The values of rows start to stop - 1 (all by default): a new float32 array, rows x cols. The same bits on every
    /// machine.
    #[pyo3(signature = (start = 0, stop = None))]
    fn values<'py>(&self, py: Python<'py>, start: usize, stop: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, cols) = self.shape();
        let stop = stop.unwrap_or(rows);
        if start > stop || stop > rows {
            return Err(PyIndexError::new_err(format!("rows {start} to {stop} of {rows}")));
        }
        new_array(py, "<f4", &[stop - start, cols], size_of::<f32>(), |out| {
            // Without columns there is nothing to fill.
            let row_bytes = (size_of::<f32>() * cols).max(1);
            let (isa, scratch) = (Isa::best(), || vec![0.0_f32; cols]);
            out.par_chunks_mut(row_bytes).enumerate().for_each_init(scratch, |values, (row, out)| {
                self.tensor.decode_row(isa, start + row, values);
                for (out, value) in out.chunks_exact_mut(size_of::<f32>()).zip(values) {
                    out.copy_from_slice(&value.to_le_bytes());
                }
            });
        })
    }

    /// For numpy.asarray: values() in `dtype`.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err(
                "a tensor is decoded into a new array: copy=False is not possible",
            ));
        }
        let values = self.values(py, 0, None)?;
        match dtype {
            Some(dtype) => values.call_method1("astype", (dtype,)),
            None => Ok(values),
        }
    }

    /// The codes: a new int8 array, rows x cols. 2bit, 3bit, 4bit: 0 to 3, 7, 15; 2bit-sym: -3, -1, 1, 3; ternary: -1, 0, 1;
    /// 8bit: -127 to 127. They are unpacked, so this is always a copy. UnsupportedModelError for other types.
    fn codes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.coded(py)?;
        let (count, cols) = self.shape();
        new_array(py, "i1", &[count, cols], 1, |out| {
            let scratch = || vec![0; cols];
            out.par_chunks_mut(cols.max(1)).enumerate().for_each_init(
                scratch,
                |levels: &mut Vec<i8>, (row, out)| {
                    rows.levels(row, levels);
                    for (out, level) in out.iter_mut().zip(levels) {
                        *out = level.to_le_bytes()[0];
                    }
                },
            );
        })
    }

    /// The scale of each block: float16, rows x ceil(cols / block_size). Of a tensor in rows it shows the bytes of the file
    /// (read-only, no copy); of one in panels it is a copy. UnsupportedModelError as for codes().
    fn scales<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, 0)
    }

    /// The min of each block, like scales(); None for types without (2bit-sym, ternary, 8bit).
    fn mins<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rows = self.coded(py)?;
        let has_mins = CodedRows::fields(rows.quant) > 1;
        has_mins.then(|| self.field(py, 1)).transpose()
    }

    /// The weights stored apart from the blocks, to be added to what these decode to: rows (int64), columns (int64) and
    /// values (float32), of one length.
    fn outliers<'py>(&self, py: Python<'py>) -> PyResult<Triple<'py>> {
        let mut found: Vec<(i64, i64, f32)> = Vec::new();
        for (index, row) in (0..self.tensor.rows()).zip(0_i64..) {
            let (cols, values) = self.tensor.outliers(index);
            found.extend(cols.iter().zip(values).map(|(col, value)| (row, i64::from(*col), *value)));
        }
        let of_ints = |part: fn(&(i64, i64, f32)) -> i64| {
            let found = &found;
            new_array(py, "<i8", &[found.len()], 8, move |out| {
                for (out, entry) in out.chunks_exact_mut(8).zip(found) {
                    out.copy_from_slice(&part(entry).to_le_bytes());
                }
            })
        };
        let values = new_array(py, "<f4", &[found.len()], size_of::<f32>(), |out| {
            for (out, entry) in out.chunks_exact_mut(size_of::<f32>()).zip(&found) {
                out.copy_from_slice(&entry.2.to_le_bytes());
            }
        })?;
        Ok((of_ints(|entry| entry.0)?, of_ints(|entry| entry.1)?, values))
    }

    /// The stored bytes in the order of the layout (SPEC.md section 6): a uint8 array that shows the bytes of the file
    /// (read-only; no copy, unless the file is compressed). None for foreign types.
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(native) = self.tensor.native() else { return Ok(None) };
        let len = native.bytes().len();
        let stored = Bound::new(py, StoredBytes::of(self.tensor.clone()))?.into_any();
        array(py, stored, "u1", &[len], None).map(Some)
    }

    fn __len__(&self) -> usize {
        self.tensor.rows()
    }

    fn __repr__(&self) -> String {
        let (rows, cols) = self.shape();
        let panels = self.tensor.native().is_some_and(|native| native.layout() == Layout::Panels16);
        let layout = if panels { " in panels" } else { "" };
        format!("<qsf.Tensor {}: {rows} x {cols} of {}{layout}>", self.id, self.stored_type())
    }
}
