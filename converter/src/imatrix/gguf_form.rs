//! The form of today: a GGUF file with two tensors for each entry, sums of squares and how many were added up.

use std::collections::HashMap;
use std::path::Path;

use qsf_format::printable::quote;
use qsf_runtime::RuntimeError;
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::gguf::{GgufFile, GgufTensor};

use super::entries::{Entry, Expected};
use crate::error::Result;

/// What the names of the two tensors end in.
pub(super) const SUMS: &str = ".in_sum2";
pub(super) const COUNTS: &str = ".counts";
/// What the file says of itself.
pub(super) const KIND: &str = "imatrix";

/// The entries of the file at `path` that are `expected`; others are passed over.
///
/// # Errors
/// When it is no such file, is damaged, or an entry has another length.
pub(super) fn read_gguf(path: &Path, expected: &HashMap<String, Expected>) -> Result<HashMap<String, Entry>> {
    let file = GgufFile::open(path)?;
    let kind = file.metadata.str("general.type")?;
    if kind != Some(KIND) {
        let found = kind.map_or_else(|| "no such key: this is a model".to_owned(), quote);
        return Err(RuntimeError::bad_input(path, "general.type", quote(KIND), found).into());
    }
    let by_name: HashMap<&str, &GgufTensor> =
        file.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut entries = HashMap::new();
    // In one order, so that of several errors the same one is told.
    let mut names: Vec<_> = expected.iter().collect();
    names.sort_by_key(|(name, _)| *name);
    for (name, shape) in names {
        let Some(sums) = by_name.get(format!("{name}{SUMS}").as_str()) else { continue };
        let counts = by_name.get(format!("{name}{COUNTS}").as_str()).ok_or_else(|| {
            let place = format!("tensor {}", quote(&format!("{name}{COUNTS}")));
            RuntimeError::bad_input(path, place, "one beside the sums", "none")
        })?;
        let counts = floats(path, &file, counts, shape.matrices, name, shape)?;
        let mut squares = floats(path, &file, sums, shape.values(), name, shape)?;
        for (squares, count) in squares.chunks_exact_mut(shape.cols.max(1)).zip(&counts) {
            // No token went through it: nothing is known.
            squares.iter_mut().for_each(|sum| *sum = if *count > 0.0 { *sum / count } else { 1.0 });
        }
        let tokens = counts.iter().map(|count| *count as u64).collect();
        entries.insert(name.clone(), Entry { mean_squares: squares, tokens }.check(path, name)?);
    }
    Ok(entries)
}

fn floats(
    path: &Path,
    file: &GgufFile,
    tensor: &GgufTensor,
    values: usize,
    name: &str,
    shape: &Expected,
) -> Result<Vec<f32>> {
    if tensor.known_type() != Some(GgmlType::F32) {
        let place = format!("tensor {}", quote(&tensor.name));
        let found = format!("type {}", tensor.type_id);
        return Err(RuntimeError::bad_input(path, place, "type F32", found).into());
    }
    let found: usize = tensor.shape.iter().product();
    if found != values {
        return Err(shape.other_length(path, name, found).into());
    }
    let (floats, _) = file.bytes(tensor).as_chunks::<4>();
    Ok(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
