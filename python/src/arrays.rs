//! Arrays of NumPy: over bytes that are made for them, over values that were computed, or over the bytes of a file.

use std::os::raw::{c_int, c_void};
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};
use qsf_runtime::source;

/// The bytes of a tensor as they are stored, which Python reads in place (the buffer protocol), and cannot change. They stay
/// as long as anything refers to them.
#[pyclass(frozen, module = "qsf")]
pub struct StoredBytes {
    tensor: source::Tensor,
}

impl StoredBytes {
    /// Those of a tensor; of one in a foreign type none.
    pub fn of(tensor: source::Tensor) -> StoredBytes {
        StoredBytes { tensor }
    }

    fn bytes(&self) -> &[u8] {
        self.tensor.native().map_or(&[], source::NativeRows::bytes)
    }
}

#[pymethods]
impl StoredBytes {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    /// # Safety
    /// `view` is what the interpreter passes, to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().bytes();
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // A slice is never longer.
        let len = bytes.len() as ffi::Py_ssize_t;
        // SAFETY: the interpreter checks `view`, and keeps `slf` alive as long as it is in use. The bytes belong to `slf`, which
        // is frozen: they neither move nor change. They are handed out as read-only (1), so that nobody writes to them.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Values that were computed, which NumPy reads and writes in place (the buffer protocol). They stay as long as anything refers to
/// them. Rust neither reads nor writes them any more.
#[pyclass(frozen, module = "qsf")]
pub struct ComputedValues {
    /// From `Box::into_raw` of a slice of `len` values.
    start: NonNull<f32>,
    len: usize,
}

// SAFETY: floats may be freed by any thread, and only Python refers to them, whose users take care of each other.
unsafe impl Send for ComputedValues {}
// SAFETY: what can be done with a reference is to hand out the address.
unsafe impl Sync for ComputedValues {}

impl ComputedValues {
    /// Takes them over.
    fn new(values: Vec<f32>) -> ComputedValues {
        let values = Box::leak(values.into_boxed_slice());
        let len = values.len();
        ComputedValues { start: NonNull::from(values).cast(), len }
    }
}

impl Drop for ComputedValues {
    fn drop(&mut self) {
        let values = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: `new` took these out of a box, and this is the only time that they go back.
        drop(unsafe { Box::from_raw(values) });
    }
}

#[pymethods]
impl ComputedValues {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// `view` is what the interpreter passes, to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let values = slf.get();
        let start = values.start.as_ptr().cast::<c_void>();
        // A slice is never longer.
        let len = (values.len * size_of::<f32>()) as ffi::Py_ssize_t;
        // SAFETY: the interpreter checks `view`, and keeps `slf` alive as long as it is in use. The values belong to `slf` and stay
        // where they are. They may be written to (0), as nothing here refers to them.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// An array of `shape` over computed values, which are not copied.
///
/// # Errors
/// As [`array`].
pub fn computed_array<'py>(
    py: Python<'py>,
    shape: &[usize],
    values: Vec<f32>,
) -> PyResult<Bound<'py, PyAny>> {
    let buffer = Bound::new(py, ComputedValues::new(values))?;
    array(py, buffer.into_any(), "float32", shape, None)
}

/// An array of `shape` over `buffer`, from byte `offset` on, `strides` bytes apart; without strides one value behind the other.
///
/// # Errors
/// When there is no NumPy, or the buffer is too small.
pub fn array<'py>(
    py: Python<'py>,
    buffer: Bound<'py, PyAny>,
    dtype: &str,
    shape: &[usize],
    place: Option<(usize, (usize, usize))>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("numpy")?.getattr("ndarray")?;
    let shape = PyTuple::new(py, shape)?;
    match place {
        Some((offset, strides)) => class.call1((shape, dtype, buffer, offset, strides)),
        None => class.call1((shape, dtype, buffer)),
    }
}

/// A new array whose bytes `fill` writes, without the interpreter's lock.
///
/// # Errors
/// `MemoryError` when there is no room; else as [`array`].
pub fn new_array<'py>(
    py: Python<'py>,
    dtype: &str,
    shape: &[usize],
    value_bytes: usize,
    fill: impl FnOnce(&mut [u8]) + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let len = shape.iter().try_fold(value_bytes, |len, n| len.checked_mul(*n));
    let len = len.filter(|len| isize::try_from(*len).is_ok());
    let len = len.ok_or_else(|| pyo3::exceptions::PyMemoryError::new_err(format!("{shape:?} values")))?;
    let buffer = PyByteArray::new_with(py, len, |bytes| {
        py.detach(|| fill(bytes));
        Ok(())
    })?;
    array(py, buffer.into_any(), dtype, shape, None)
}
