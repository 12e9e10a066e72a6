//! Checkpoints in floats of 8 bits with scales: a store that joins each matrix with the tensor of its scales.
//!
//! DeepSeek, Qwen and others ("fp8" in `quantization_config`) have one scale per block of 128 x 128 values, named
//! `..._scale_inv` although the values are multiplied with it. Others have one `weight_scale` for a matrix or for
//! each of its rows. Scales of activations do not concern us: activations are not quantized to 8-bit floats here.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use qsf_format::printable::quote;

use crate::error::{Result, RuntimeError};
use crate::source::mapping::{TensorStore, no_such_tensor};
use crate::tensor::{ForeignRows, ForeignType, StoredType, Tensor, TensorBytes};
use qsf_cpu::Isa;

/// Rows and columns that have a scale in common, in the models that do not say.
pub(super) const DEFAULT_BLOCK: [usize; 2] = [128, 128];

/// What the name of a matrix becomes in that of its scales.
const SCALE_ENDS: [(&str, &str); 3] =
    [(".weight", ".weight_scale_inv"), (".weight", ".weight_scale"), ("_proj", "_proj_scale_inv")];

/// Ends of names of scales of activations.
const ACTIVATION_SCALES: [&str; 2] = [".input_scale", ".activation_scale"];

/// The type of a matrix whose scales are applied as it is decoded.
const SCALED: StoredType = StoredType::Foreign(ForeignType { name: "F8 with scales", quantized: true });

/// A store whose matrices in floats of 8 bits are joined with their scales.
#[derive(Debug)]
pub(super) struct Float8Store {
    inner: Box<dyn TensorStore>,
    /// Names of matrices, and of their scales.
    scales: BTreeMap<String, String>,
    hidden: HashSet<String>,
    block: [usize; 2],
}

impl Float8Store {
    /// `inner` itself when it has no such matrices. `block`: rows and columns with a scale in common.
    pub fn wrap(inner: Box<dyn TensorStore>, block: [usize; 2]) -> Box<dyn TensorStore> {
        let mut scales = BTreeMap::new();
        let mut hidden = HashSet::new();
        for name in inner.names() {
            for (end, scale_end) in SCALE_ENDS {
                let Some(stem) = name.strip_suffix(end) else { continue };
                let scale = format!("{stem}{scale_end}");
                let is_float8 = inner.describe(name).is_some_and(|(_, stored)| is_float8(stored));
                if is_float8 && inner.describe(&scale).is_some() && !scales.contains_key(name) {
                    hidden.insert(scale.clone());
                    hidden.extend(ACTIVATION_SCALES.map(|end| format!("{stem}{end}")));
                    scales.insert(name.to_owned(), scale);
                }
            }
        }
        if scales.is_empty() { inner } else { Box::new(Float8Store { inner, scales, hidden, block }) }
    }
}

fn is_float8(stored: StoredType) -> bool {
    matches!(stored, StoredType::Foreign(ForeignType { name: "F8_E4M3" | "F8_E5M2", .. }))
}

impl TensorStore for Float8Store {
    fn file_of(&self, name: &str) -> &Path {
        self.inner.file_of(name)
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        if self.hidden.contains(name) {
            return None;
        }
        let (shape, stored) = self.inner.describe(name)?;
        Some((shape, if self.scales.contains_key(name) { SCALED } else { stored }))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.inner.names().filter(|&name| !self.hidden.contains(name)))
    }

    fn check(&self, name: &str) -> Result<()> {
        if self.scales.contains_key(name) { self.load(name).map(drop) } else { self.inner.check(name) }
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let values = self.inner.load(name)?;
        let Some(scale) = self.scales.get(name) else { return Ok(values) };
        let Some((scale_shape, _)) = self.inner.describe(scale) else {
            return Err(no_such_tensor(self.inner.file_of(name), scale));
        };
        let shape = self.inner.describe(name).map_or(&[][..], |(shape, _)| shape);
        let grid = Grid::new(shape, scale_shape, self.block).ok_or_else(|| {
            let expected = format!(
                "one scale, one per row, or one per block of {} x {} of shape {shape:?}",
                self.block[0], self.block[1]
            );
            let place = format!("tensor {}", quote(scale));
            RuntimeError::bad_input(
                self.inner.file_of(scale),
                place,
                expected,
                format!("shape {scale_shape:?}"),
            )
        })?;
        // A few numbers for thousands of values.
        let scales = self.inner.load(scale)?.to_f32();
        let (rows, cols) = (values.rows(), values.cols());
        Ok(Tensor::foreign(rows, cols, Arc::new(Scaled { values, scales, grid })))
    }

    fn raw(&self, name: &str) -> Result<TensorBytes> {
        self.inner.raw(name)
    }

    fn adds_nothing(&self, name: &str) -> bool {
        self.inner.adds_nothing(name)
    }

    fn release(&self, names: &[&str]) {
        self.inner.release(names);
    }
}

/// Which scale each value of a matrix has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    /// Rows of one matrix; of one expert where several lie one below another.
    rows: usize,
    /// Rows and columns of a block.
    block: [usize; 2],
    /// Scales of one matrix, down and across.
    scales: [usize; 2],
}

impl Grid {
    /// `None` when the scales fit no such matrix.
    fn new(shape: &[usize], scales: &[usize], block: [usize; 2]) -> Option<Grid> {
        let (&cols, outer) = shape.split_last()?;
        let (&rows, experts) = outer.split_last()?;
        if rows == 0 || cols == 0 || block.contains(&0) {
            return None;
        }
        match scales {
            [] | [1] | [1, 1] if experts.is_empty() => {
                Some(Grid { rows, block: [rows, cols], scales: [1, 1] })
            }
            [n] | [n, 1] if experts.is_empty() && *n == rows => {
                Some(Grid { rows, block: [1, cols], scales: [rows, 1] })
            }
            [before @ .., down, across]
                if before == experts
                    && *down == rows.div_ceil(block[0])
                    && *across == cols.div_ceil(block[1]) =>
            {
                Some(Grid { rows, block, scales: [*down, *across] })
            }
            _ => None,
        }
    }

    /// The scales of a row, one for each `block[1]` columns.
    fn of_row(self, row: usize, scales: &[f32]) -> &[f32] {
        let (matrix, row) = (row / self.rows, row % self.rows);
        let [down, across] = self.scales;
        &scales[(matrix * down + row / self.block[0]) * across..][..across]
    }
}

#[derive(Debug)]
struct Scaled {
    values: Tensor,
    scales: Vec<f32>,
    grid: Grid,
}

impl ForeignRows for Scaled {
    fn stored_type(&self) -> StoredType {
        SCALED
    }

    fn row_bytes(&self) -> usize {
        self.values.cols()
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.values.decode_row(isa, row, out);
        let scales = self.grid.of_row(row, &self.scales);
        for (out, scale) in out.chunks_mut(self.grid.block[1]).zip(scales) {
            out.iter_mut().for_each(|value| *value *= scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_of_a_block_is_found_for_sizes_off_the_block_and_for_experts() {
        let grid = Grid::new(&[3, 5], &[2, 3], [2, 2]).unwrap();
        let scales = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(grid.of_row(1, &scales), [1.0, 2.0, 3.0]);
        assert_eq!(grid.of_row(2, &scales), [4.0, 5.0, 6.0]);
        let experts = Grid::new(&[2, 3, 2], &[2, 2, 1], [2, 2]).unwrap();
        let first: Vec<f32> = (0..6).map(|row| experts.of_row(row, &[1.0, 2.0, 3.0, 4.0])[0]).collect();
        assert_eq!(first, [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
        let row = Grid::new(&[3, 5], &[3, 1], [128, 128]).unwrap();
        assert_eq!(row.of_row(2, &[1.0, 2.0, 3.0]), [3.0]);
        for scales in [&[][..], &[1], &[1, 1]] {
            assert_eq!(Grid::new(&[3, 5], scales, [2, 2]).unwrap().of_row(2, &[7.0]), [7.0]);
        }
    }

    #[test]
    fn scales_of_another_shape_fit_nothing() {
        for (shape, scales) in [
            (&[3, 5][..], &[2, 2][..]),
            (&[3, 5], &[3, 2]),
            (&[3, 5], &[5]),
            (&[2, 3, 2], &[3, 2, 1]),
            (&[2, 3, 2], &[1]),
            (&[5], &[1]),
            (&[0, 5], &[0, 3]),
        ] {
            assert_eq!(Grid::new(shape, scales, [2, 2]), None, "{shape:?} {scales:?}");
        }
        assert_eq!(Grid::new(&[3, 5], &[2, 3], [0, 2]), None);
    }
}
