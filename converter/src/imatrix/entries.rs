//! What an importance matrix has for a model: an entry for each matrix that multiplies something, and the statistics that follow.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use qsf_calibration::{LayerStats, Moments};
use qsf_format::TensorId;
use qsf_format::printable::quote;
use qsf_runtime::RuntimeError;
use qsf_runtime::source::gguf::GgufNames;
use qsf_runtime::source::{TensorInfo, WeightSource};

use crate::error::Result;
use crate::inputs::{OwnInputs, input_of};
use crate::plan::experts_of;

/// The shape of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Columns of the matrix.
    pub cols: usize,
    /// Matrices: experts, or 1.
    pub matrices: usize,
}

impl Expected {
    /// Values of an entry.
    pub fn values(&self) -> usize {
        self.cols.saturating_mul(self.matrices)
    }

    /// The error that an entry has so many `values`.
    pub(super) fn other_length(&self, path: &Path, name: &str, values: impl ToString) -> RuntimeError {
        let Expected { cols, matrices } = self;
        let expected =
            format!("{} values, {cols} for each of {matrices} matrices of this model", self.values());
        let found = format!("{}: it is of another model", values.to_string());
        RuntimeError::bad_input(path, format!("entry {}", quote(name)), expected, found)
    }
}

/// What is known of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Mean square of each column, matrix after matrix.
    pub mean_squares: Vec<f32>,
    /// Tokens that went through each matrix; 0: nothing is known of it.
    pub tokens: Vec<u64>,
}

impl Entry {
    /// Refuses values that are no mean squares.
    pub(super) fn check(self, path: &Path, name: &str) -> Result<Entry> {
        let wrong = self.mean_squares.iter().position(|square| !square.is_finite() || *square < 0.0);
        match wrong {
            None => Ok(self),
            Some(at) => {
                let found = format!("{} as value {at}", self.mean_squares[at]);
                let place = format!("entry {}", quote(name));
                Err(RuntimeError::bad_input(path, place, "numbers that are not below 0", found).into())
            }
        }
    }
}

/// The entries that a model has matrices for, by name.
pub(super) fn expected_entries(
    source: &dyn WeightSource,
    names: &GgufNames,
) -> HashMap<String, (Expected, Vec<TensorId>)> {
    let mut expected: HashMap<String, (Expected, Vec<TensorId>)> = HashMap::new();
    for TensorInfo { id, cols, .. } in source.tensors() {
        if !id.kind.is_matrix() {
            continue;
        }
        let Some(name) = names.of_tensor(*id) else { continue };
        let matrices = experts_of(source.config(), *id).unwrap_or(1) as usize;
        let shape = Expected { cols: *cols, matrices };
        expected.entry(name.name).or_insert((shape, Vec::new())).1.push(*id);
    }
    expected
}

/// The statistics of all layers, and of the head, that entries say.
pub(super) fn statistics(
    source: &dyn WeightSource,
    entries: &[(Vec<TensorId>, Expected, Entry)],
) -> Result<Vec<LayerStats>> {
    let mut layers: BTreeMap<Option<u32>, LayerStats> = BTreeMap::new();
    for (ids, expected, entry) in entries {
        for &id in ids {
            let stats = layers.entry(id.layer).or_default();
            stats.layer = id.layer;
            let stacked = experts_of(source.config(), id).is_some();
            for (matrix, squares) in entry.mean_squares.chunks_exact(expected.cols.max(1)).enumerate() {
                let Some(input) = input_of(id.kind, stacked.then_some(matrix as u32), OwnInputs::default())
                else {
                    continue;
                };
                let tokens = entry.tokens.get(matrix).copied().unwrap_or(0);
                // Matrices that read the same have the same entry.
                if tokens > 0 && !stats.inputs.contains_key(&input) {
                    let squares = squares.iter().map(|square| f64::from(*square)).collect();
                    stats.inputs.insert(input, Moments::of_mean_squares(tokens, squares));
                }
            }
        }
    }
    Ok(layers.into_values().collect())
}
