//! Rows into the plain block types with error feedback: each type's own search finds the scales of a block, on targets that
//! make up for the errors of the blocks before.

use qsf_format::BlockSize;
use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};

use super::block::{Block, MAX_LANES};
use super::coder::{Coder, DiagonalBlock, Room, UncodedBlock};
use super::feedback::Feedback;
use super::group::RowGroup;
use super::half_scale::ScaleOverflow;
use super::lane_groups::encode_groups;
use super::rows::BlockType;
use super::strips::STRIP;
use super::vectors::{ZEROS, clamp, inverse, round};

/// Bytes of rows of a plain block type.
pub(super) struct PlainRows<'a, T> {
    pub isa: Isa,
    pub block: BlockSize,
    pub block_bytes: usize,
    pub cols: usize,
    pub feedback: &'a Feedback,
    /// Passes of descent over codes at most.
    pub descents: usize,
    pub block_type: T,
}

/// The scales of a block in every row; `None` where they would leave binary16.
#[derive(Clone, Copy)]
pub(super) struct PlainScales<S> {
    scales: [Option<S>; LANES],
    step: Lanes,
    min: Lanes,
}

/// The scales of a block in every row, ready for arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Line<V> {
    step: V,
    min: V,
    inverse: V,
}

impl<T: BlockType> PlainRows<'_, T> {
    pub(super) fn encode(&self, values: &[f32]) -> Result<Vec<u8>, ScaleOverflow> {
        let row_bytes = self.cols.div_ceil(self.block.get()) * self.block_bytes;
        encode_groups(values, self.cols, row_bytes, |values, out| {
            let mut result = Ok(());
            vector::run(self.isa, OneGroup { rows: self, values, out, row_bytes, result: &mut result });
            result
        })
    }

    /// Writes the block from column `start` on of row `lane`.
    #[inline(always)]
    fn write(
        &self,
        group: &RowGroup,
        lane: usize,
        start: usize,
        scales: &PlainScales<T::Scales>,
        out: &mut [u8],
    ) -> Result<(), ScaleOverflow> {
        let end = (start + self.block.get()).min(self.cols);
        let mut values = [0.0; MAX_LANES * LANES];
        for (value, lanes) in values.iter_mut().zip(&group.values[start..end]) {
            *value = lanes[lane];
        }
        let mut room = [ZEROS; MAX_LANES];
        let weights = [ZEROS; MAX_LANES];
        let lanes = self.block.get() / LANES;
        let block = Block::new(self.block, &values[..end - start], &weights[..lanes], &mut room);
        let mut codes = [0; 256];
        self.block_type.write(&block, scales.scales[lane].ok_or(ScaleOverflow)?, &mut codes, out);
        Ok(())
    }
}

/// The work on at most 16 rows.
struct OneGroup<'a, T> {
    rows: &'a PlainRows<'a, T>,
    values: &'a [f32],
    out: &'a mut [u8],
    row_bytes: usize,
    result: &'a mut Result<(), ScaleOverflow>,
}

impl<T: BlockType> VectorWork for OneGroup<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let rows = self.rows;
        let mut group = RowGroup::new(rows.cols, STRIP, self.values);
        let ordered = rows.feedback.natural();
        let blocks = group.fit::<V, _>(rows, &[], Some(ordered), rows.descents);
        for (lane, out) in self.out.chunks_exact_mut(self.row_bytes).enumerate() {
            for (b, out) in out.chunks_exact_mut(rows.block_bytes).enumerate() {
                if let Err(overflow) = rows.write(&group, lane, b * rows.block.get(), &blocks[b], out) {
                    *self.result = Err(overflow);
                }
            }
        }
    }
}

impl<V: Vector, T: BlockType> Coder<V> for PlainRows<'_, T> {
    type Block = PlainScales<T::Scales>;
    type Ready = Line<V>;

    #[inline(always)]
    fn columns(&self) -> usize {
        self.block.get()
    }

    #[inline(always)]
    fn choose(&self, uncoded: &UncodedBlock<'_>, _room: &mut Room) -> Self::Block {
        // Weights of used columns are positive.
        let used = uncoded.weights.iter().take_while(|weight| **weight > 0.0).count();
        let lanes = self.block.get() / LANES;
        let mut weights = [ZEROS; MAX_LANES];
        weights.as_flattened_mut()[..used].copy_from_slice(&uncoded.weights[..used]);
        let mut room = [ZEROS; MAX_LANES];
        let mut chosen = PlainScales { scales: [None; LANES], step: ZEROS, min: ZEROS };
        let mut values = [0.0; MAX_LANES * LANES];
        for lane in 0..LANES {
            for (value, target) in values.iter_mut().zip(&uncoded.targets[..used]) {
                *value = target[lane];
            }
            let block = Block::new(self.block, &values[..used], &weights[..lanes], &mut room);
            if let Ok(scales) = self.block_type.fit(&block) {
                chosen.scales[lane] = Some(scales);
                (chosen.step[lane], chosen.min[lane]) = self.block_type.line(scales);
            }
        }
        chosen
    }

    #[inline(always)]
    fn ready(&self, block: &Self::Block) -> Line<V> {
        let step = V::from_lanes(&block.step);
        Line { step, min: V::from_lanes(&block.min), inverse: inverse(step) }
    }

    #[inline(always)]
    fn nearest(
        &self,
        line: &Line<V>,
        _column: usize,
        targets: &[Lanes],
        _weights: &[f32],
        values: &mut [Lanes],
    ) {
        let (low, high) = T::CODES;
        let target = V::from_lanes(&targets[0]);
        let code = round(clamp(target.sub(line.min).mul(line.inverse), low, high));
        values[0] = line.min.fma(code, line.step).to_lanes();
    }

    /// Scales stay as the type's own search has found them.
    #[inline(always)]
    fn rescale(
        &self,
        _block: &Self::Block,
        _values: &mut [Lanes],
        _pull: &[Lanes],
        _moment: DiagonalBlock<'_>,
    ) -> Option<Self::Block> {
        None
    }
}
