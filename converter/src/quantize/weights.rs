//! Column weights made ready for the searches: whole blocks, each scaled so that its largest weight is 1.

use qsf_format::BlockSize;
use qsf_runtime::cpu::lanes::{LANES, Lanes};

/// Weights of the columns of one row, block after block.
pub(super) struct ColumnWeights {
    lanes: Vec<Lanes>,
    per_block: usize,
}

impl ColumnWeights {
    /// `importance` holds one weight per column; `None` means equal weights.
    ///
    /// Only the ratios inside a block matter to its error, so a block is scaled to a largest weight of 1: sums stay in
    /// range whatever the unit of the importance. A block without any weight is treated as equally important
    /// throughout: its values still have to be near what they were. Fillers of the last block get 0.
    pub(super) fn new(block: BlockSize, cols: usize, importance: Option<&[f32]>) -> ColumnWeights {
        let per_block = block.get() / LANES;
        let mut lanes = vec![[0.0; LANES]; cols.div_ceil(block.get()) * per_block];
        let weights = &mut lanes.as_flattened_mut()[..cols];
        match importance {
            None => weights.fill(1.0),
            Some(importance) => {
                weights.copy_from_slice(importance);
                weights.chunks_mut(block.get()).for_each(scale_to_one);
            }
        }
        ColumnWeights { lanes, per_block }
    }

    /// The weights of a row, fillers included.
    pub(super) fn flat(&self) -> &[f32] {
        self.lanes.as_flattened()
    }

    /// The weights of each block of a row.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[Lanes]> {
        self.lanes.chunks_exact(self.per_block)
    }
}

fn scale_to_one(weights: &mut [f32]) {
    let largest = weights.iter().copied().fold(0.0, f32::max);
    if largest >= f32::MIN_POSITIVE && largest.is_finite() {
        weights.iter_mut().for_each(|w| *w /= largest);
    } else {
        weights.fill(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_calibration_never_saw_is_still_quantized_as_if_all_of_it_mattered() {
        let mut importance = vec![0.0; 40];
        importance[..32].fill(1e-30);
        importance[3] = 4e-30;
        let weights = ColumnWeights::new(BlockSize::new(32).unwrap(), 40, Some(&importance));
        let flat = weights.lanes.as_flattened();
        assert_eq!((flat[3], flat[0]), (1.0, 1e-30 / 4e-30));
        assert_eq!((&flat[32..40], &flat[40..]), ([1.0; 8].as_slice(), [0.0; 24].as_slice()));
    }
}
