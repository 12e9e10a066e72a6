//! Finds the state dict in an unpickled object, and the values of its tensors in the file.

use std::ops::Range;
use std::path::Path;

use qsf_format::printable::quote;
use safetensors::Dtype;

use super::advice::RESAVE;
use super::unpickle::{Storage, TensorCall, Unpickled, Value};
use super::zip::Archive;
use crate::error::{Result, RuntimeError};

/// A tensor of a checkpoint, its values in row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::source::huggingface) struct PickledTensor {
    /// Its name in the state dict.
    pub name: String,
    /// Type of the values.
    pub dtype: Dtype,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Bytes in the file, inside of it. Tied tensors have the same.
    pub range: Range<usize>,
}

/// What training programs call the state dict when they save more than that.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

/// More dimensions than any tensor of a model has.
const MAX_DIMS: usize = 16;

/// The tensors of the state dict that `object` is or has in it, by name. `folder` is where `archive` keeps everything.
///
/// # Errors
/// There is no state dict or more than one; it has something else in it; the values of a tensor are not where it says, or not
/// row by row.
pub(super) fn tensors(
    path: &Path,
    archive: &Archive,
    folder: &str,
    object: &Unpickled,
) -> Result<Vec<PickledTensor>> {
    let mut named = Vec::new();
    for (key, value) in object.pairs(find(path, object)?).into_iter().flatten() {
        let Some(name) = object.text(key) else {
            let found = object.describe(key);
            return Err(RuntimeError::bad_input(path, "the state dict", "names of tensors as keys", found));
        };
        match (value, object.tensor(value)) {
            (_, Some(call)) => named.push((name, call)),
            // Counters and versions that some programs save beside the weights.
            (Value::None | Value::Bool(_) | Value::Int(_) | Value::Other | Value::Text(_), None) => {}
            (other, None) => {
                let found = object.describe(other);
                return Err(RuntimeError::bad_input(path, quote(name), "a tensor", found));
            }
        }
    }
    named.sort_unstable_by_key(|(name, _)| *name);
    if let Some(two) = named.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(RuntimeError::bad_input(path, tensor(two[0].0), "one tensor of this name", "two"));
    }
    let placer = Placer { path, archive, folder, object };
    named.into_iter().map(|(name, call)| placer.place(name, call)).collect()
}

fn tensor(name: &str) -> String {
    format!("tensor {}", quote(name))
}

/// The dictionary with the tensors: in a wrapper, or the object itself.
fn find(path: &Path, object: &Unpickled) -> Result<Value> {
    let wrong = |found: String| {
        let expected = format!("a state dict, bare or as one of {}", WRAPPERS.join(", "));
        Err(RuntimeError::bad_input(path, "data.pkl", expected, found))
    };
    let Some(pairs) = object.pairs(object.root) else { return wrong(object.describe(object.root)) };
    let wrapped: Vec<Value> = pairs
        .filter(|&(key, value)| {
            object.text(key).is_some_and(|key| WRAPPERS.contains(&key)) && has_tensors(object, value)
        })
        .map(|(_, value)| value)
        .take(2)
        .collect();
    match wrapped[..] {
        [one] => Ok(one),
        [] if has_tensors(object, object.root) => Ok(object.root),
        [] => wrong("a dictionary without tensors".to_owned()),
        _ => wrong("several".to_owned()),
    }
}

fn has_tensors(object: &Unpickled, value: Value) -> bool {
    object.pairs(value).is_some_and(|mut pairs| pairs.any(|(_, value)| matches!(value, Value::Tensor(_))))
}

struct Placer<'a> {
    path: &'a Path,
    archive: &'a Archive<'a>,
    folder: &'a str,
    object: &'a Unpickled<'a>,
}

impl Placer<'_> {
    /// Finds the values of a tensor: its storage, the first value in it, sizes, strides in values.
    fn place(&self, name: &str, call: &TensorCall) -> Result<PickledTensor> {
        let wrong = |expected: String, found: String| {
            RuntimeError::bad_input(self.path, tensor(name), expected, found)
        };
        let malformed = || wrong("a storage, an offset, a size and strides".to_owned(), "others".to_owned());
        let (&[storage, offset, size, strides], rest) =
            self.object.items(call.args).split_first_chunk().ok_or_else(malformed)?;
        let storage = self.object.storage(storage).ok_or_else(malformed)?;
        let (shape, strides) = self.sizes(size).zip(self.sizes(strides)).ok_or_else(malformed)?;
        let Value::Int(offset) = offset else { return Err(malformed()) };
        // Then: whether it is trained, and hooks; for a typed one its type; last, signs that are still to be applied.
        let (dtype, metadata) = match (call.typed, rest) {
            (false, [_, _, metadata @ ..]) => (storage.dtype, metadata),
            (true, &[_, _, Value::Global(super::globals::Global::Dtype(dtype)), ref metadata @ ..]) => {
                (Some(dtype), metadata)
            }
            _ => return Err(malformed()),
        };
        let dtype = dtype.ok_or_else(|| wrong("a type of values".to_owned(), "bytes".to_owned()))?;
        if !metadata.iter().all(|&metadata| self.is_empty(metadata)) {
            let what = format!("a negated or conjugated view as {}", tensor(name));
            return Err(RuntimeError::unsupported(self.path, what, RESAVE.to_owned()));
        }
        if shape.len() != strides.len() {
            let found = format!("{} strides", strides.len());
            return Err(wrong(format!("{} strides, one for each dimension", shape.len()), found));
        }
        let stored = self.stored(name, storage)?;
        let range = if shape.contains(&0) {
            stored.start..stored.start
        } else {
            if !is_row_major(&shape, &strides) {
                let what =
                    format!("a layout other than row by row (strides {strides:?} of {})", tensor(name));
                let advice = format!("{RESAVE}; torch makes it so with tensor.contiguous()");
                return Err(RuntimeError::unsupported(self.path, what, advice));
            }
            let claim = || format!("values {shape:?} at offset {offset}");
            values(&stored, offset, &shape, dtype)
                .ok_or_else(|| wrong(format!("{} bytes of {dtype:?} values", stored.len()), claim()))?
        };
        Ok(PickledTensor { name: name.to_owned(), dtype, shape, range })
    }

    /// The bytes of a storage in the file.
    fn stored(&self, name: &str, storage: &Storage) -> Result<Range<usize>> {
        let entry = format!("{}/data/{}", self.folder, storage.key);
        let wrong = |found: String| {
            let expected = format!("{} values of its storage in {}", storage.count, quote(&entry));
            RuntimeError::bad_input(self.path, tensor(name), expected, found)
        };
        let range = &self.archive.find(&entry).ok_or_else(|| wrong("no such entry".to_owned()))?.range;
        let bytes = usize::try_from(storage.count)
            .ok()
            .and_then(|count| count.checked_mul(storage.dtype.map_or(1, value_bytes)))
            .filter(|&bytes| bytes <= range.len())
            .ok_or_else(|| wrong(format!("{} bytes", range.len())))?;
        Ok(range.start..range.start + bytes)
    }

    /// A tuple of numbers of 0 or more.
    fn sizes(&self, value: Value) -> Option<Vec<usize>> {
        let items = self.object.tuple(value).filter(|items| items.len() <= MAX_DIMS)?;
        let size =
            |&item: &Value| if let Value::Int(size) = item { usize::try_from(size).ok() } else { None };
        items.iter().map(size).collect()
    }

    fn is_empty(&self, metadata: Value) -> bool {
        metadata == Value::None || self.object.pairs(metadata).is_some_and(|mut pairs| pairs.next().is_none())
    }
}

/// Bytes of a value. All types of torch that are read have whole bytes.
fn value_bytes(dtype: Dtype) -> usize {
    dtype.bitsize() / 8
}

/// Whether the values follow each other without gap. The stride of a dimension of 1 means nothing.
fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = Some(1usize);
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || expected == Some(stride);
        expected = expected.and_then(|expected| expected.checked_mul(size));
        fits
    })
}

/// The bytes of a tensor in its storage, `None` when they are not all in it.
fn values(stored: &Range<usize>, offset: i64, shape: &[usize], dtype: Dtype) -> Option<Range<usize>> {
    let width = value_bytes(dtype);
    let first = usize::try_from(offset).ok()?.checked_mul(width)?;
    let bytes = shape.iter().try_fold(width, |bytes, &size| bytes.checked_mul(size))?;
    let end = first.checked_add(bytes).filter(|&end| end <= stored.len())?;
    Some(stored.start + first..stored.start + end)
}
