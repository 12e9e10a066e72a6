//! What adapters add to a matrix: the product of two narrow ones, `up * (down * x)` (LoRA, arXiv 2106.09685). It is never
//! multiplied out, so the matrix itself may be of any type, and may come from disk.

use qsf_cpu::{Isa, add_scaled};

/// An update of low rank.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank {
    /// `rank` x inputs.
    down: Vec<f32>,
    /// `rank` x outputs: columns of the second matrix, so that each is added to a whole output.
    up: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl LowRank {
    /// `scale * up * down`: `down` is rank x `inputs`, `up` is `outputs` x rank, both row major.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    pub fn new(down: Vec<f32>, up: &[f32], [outputs, inputs]: [usize; 2], scale: f32) -> LowRank {
        let rank = down.len() / inputs.max(1);
        assert_eq!((down.len(), up.len()), (rank * inputs, outputs * rank), "matrices of another rank");
        let mut columns = vec![0.0; up.len()];
        for (output, row) in up.chunks_exact(rank.max(1)).enumerate() {
            for (r, value) in row.iter().enumerate() {
                columns[r * outputs + output] = scale * value;
            }
        }
        LowRank::of_columns(down, columns, [outputs, inputs])
    }

    /// `up * down`: `down` is rank x `inputs`, `up` rank x `outputs`, a column of the second matrix behind the other.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    pub fn of_columns(down: Vec<f32>, up: Vec<f32>, [outputs, inputs]: [usize; 2]) -> LowRank {
        let rank = down.len() / inputs.max(1);
        assert_eq!((down.len(), up.len()), (rank * inputs, rank * outputs), "matrices of another rank");
        LowRank { down, up, inputs, outputs }
    }

    /// Inputs that it is summed over.
    pub fn rank(&self) -> usize {
        self.down.len() / self.inputs.max(1)
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> [usize; 2] {
        [self.outputs, self.inputs]
    }

    /// For each input that it is summed over, the row of the first matrix and the column of the second.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        self.down.chunks_exact(self.inputs.max(1)).zip(self.up.chunks_exact(self.outputs.max(1)))
    }

    /// Adds to `row`, which is row `output` of the matrix, what the update has there.
    ///
    /// # Panics
    /// When there is no such row, or it has another length.
    pub fn add_to_row(&self, isa: Isa, output: usize, row: &mut [f32]) {
        for (down, up) in self.down.chunks_exact(self.inputs).zip(self.up.chunks_exact(self.outputs)) {
            add_scaled(isa, row, up[output], down);
        }
    }
}
