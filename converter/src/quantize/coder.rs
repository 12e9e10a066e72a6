//! What error feedback needs to know of a block type.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::strips::{STRIP, Strips};
use super::vectors::ZEROS;

/// Columns of the largest block.
pub(super) const MOST_COLUMNS: usize = 256;

/// Columns that the widest code stands for.
pub(super) const MOST_PER_CODE: usize = 8;

/// Codes that are tried for columns that are coded as one.
const ATTEMPTS: usize = 3;

/// Room for the targets of one block.
pub(super) type Room = [Lanes; MOST_COLUMNS];

/// How the blocks of 16 rows are coded, a row per lane: the part of a type that feedback and descent share.
pub(super) trait Coder<V: Vector> {
    /// Neighbouring columns that one code stands for.
    const PER_CODE: usize = 1;

    /// What is stored beside the codes of a block, for each row.
    type Block: Copy;

    /// What is chosen for a block, ready for arithmetic.
    type Ready: Copy;

    /// Columns of a block, a multiple of 32.
    fn columns(&self) -> usize;

    /// The best scales found for these targets, judged by what [`UncodedBlock::walk`] says.
    fn choose(&self, uncoded: &UncodedBlock<'_>, room: &mut Room) -> Self::Block;

    /// Prepares scales for use.
    fn ready(&self, block: &Self::Block) -> Self::Ready;

    /// The values that a reader gets for the codes nearest to `targets`, from column `column` of the block on. Slices are
    /// as long as a code is wide; `weights` say which columns of a wide one matter how much.
    fn nearest(
        &self,
        ready: &Self::Ready,
        column: usize,
        targets: &[Lanes],
        weights: &[f32],
        values: &mut [Lanes],
    );

    /// Better scales for the codes that `values` has, which are changed with them, if there are any. `pull` is the error
    /// times the moment, `moment` the block's own part of the moment.
    fn rescale(
        &self,
        block: &Self::Block,
        values: &mut [Lanes],
        pull: &[Lanes],
        moment: DiagonalBlock<'_>,
    ) -> Option<Self::Block>;
}

/// The part of a matrix that couples the columns of one block.
#[derive(Clone, Copy)]
pub(super) struct DiagonalBlock<'a> {
    matrix: &'a Strips,
    start: usize,
}

impl<'a> DiagonalBlock<'a> {
    /// The part from column `start` on.
    #[inline(always)]
    pub(super) fn new(matrix: &'a Strips, start: usize) -> DiagonalBlock<'a> {
        DiagonalBlock { matrix, start }
    }

    /// Row `row` of the block, in its columns `32 * strip..32 * strip + 32`.
    #[inline(always)]
    pub(super) fn row(&self, row: usize, strip: usize) -> &'a [f32; STRIP] {
        &self.matrix.strip(self.start / STRIP + strip)[self.start + row]
    }
}

/// A block that is to be coded.
#[derive(Clone, Copy)]
pub(super) struct UncodedBlock<'a> {
    /// Its first column.
    pub start: usize,
    /// What the values would be without any error so far.
    pub originals: &'a [Lanes],
    /// The values of the block, moved by the errors of earlier blocks.
    pub targets: &'a [Lanes],
    /// What a squared distance from the target costs, by column.
    pub weights: &'a [f32],
    /// How an error in the block moves its later targets.
    pub upper: Option<DiagonalBlock<'a>>,
}

impl UncodedBlock<'_> {
    /// Codes column after column, with the feedback inside the block; gives what that costs.
    #[inline(always)]
    pub(super) fn walk<V: Vector, C: Coder<V>>(
        &self,
        coder: &C,
        ready: &C::Ready,
        room: &mut Room,
        mut values: Option<&mut [Lanes]>,
    ) -> V {
        let targets = &mut room[..self.targets.len()];
        targets.copy_from_slice(self.targets);
        let mut loss = V::splat(0.0);
        let mut found = [ZEROS; MOST_PER_CODE];
        for j in 0..self.originals.len() {
            if j % C::PER_CODE == 0 {
                found = self.code_at(coder, ready, j, targets);
            }
            let target = V::from_lanes(&targets[j]);
            let value = V::from_lanes(&found[j % C::PER_CODE]);
            let distance = target.sub(value);
            loss = loss.fma(distance.mul(V::splat(self.weights[j])), distance);
            if let Some(values) = &mut values {
                values[j] = value.to_lanes();
            }
            let Some(upper) = self.upper else { continue };
            let error = V::from_lanes(&self.originals[j]).sub(value);
            let first = j / STRIP;
            for (strip, targets) in targets.chunks_mut(STRIP).enumerate().skip(first) {
                let from = if strip == first { j % STRIP + 1 } else { 0 };
                accumulate_row(&mut targets[from..], error, &upper.row(j, strip)[from..]);
            }
        }
        loss
    }

    /// The values of one code from column `first` on. The error of a column moves the targets of the next ones also within
    /// a code: what is nearest to targets that count with that is tried too.
    #[inline(always)]
    fn code_at<V: Vector, C: Coder<V>>(
        &self,
        coder: &C,
        ready: &C::Ready,
        first: usize,
        targets: &[Lanes],
    ) -> [Lanes; MOST_PER_CODE] {
        let code = first..first + C::PER_CODE;
        let weights = &self.weights[code.clone()];
        let mut best = [ZEROS; MOST_PER_CODE];
        let coupled = self.upper.filter(|_| C::PER_CODE > 1);
        let Some(upper) = coupled else {
            coder.nearest(ready, first, &targets[code], weights, &mut best[..C::PER_CODE]);
            return best;
        };
        let (mut least, mut found) = (V::splat(f32::MAX), best);
        let mut aims = [ZEROS; MOST_PER_CODE];
        aims[..C::PER_CODE].copy_from_slice(&targets[code.clone()]);
        for _ in 0..ATTEMPTS {
            coder.nearest(ready, first, &aims[..C::PER_CODE], weights, &mut found[..C::PER_CODE]);
            let mut loss = V::splat(0.0);
            aims[..C::PER_CODE].copy_from_slice(&targets[code.clone()]);
            for k in 0..C::PER_CODE {
                let j = first + k;
                let value = V::from_lanes(&found[k]);
                let distance = V::from_lanes(&aims[k]).sub(value);
                loss = loss.fma(distance.mul(V::splat(weights[k])), distance);
                let error = V::from_lanes(&self.originals[j]).sub(value);
                let row = &upper.row(j, j / STRIP)[j % STRIP + 1..];
                accumulate_row(&mut aims[k + 1..C::PER_CODE], error, row);
            }
            let better = least.larger(loss);
            least = V::choose(better, loss, least);
            for (best, found) in best.iter_mut().zip(&found) {
                *best = V::choose(better, V::from_lanes(found), V::from_lanes(best)).to_lanes();
            }
        }
        best
    }
}

/// `out[j] += factor * row[j]`.
#[inline(always)]
pub(super) fn accumulate_row<V: Vector>(out: &mut [Lanes], factor: V, row: &[f32]) {
    for (out, row) in out.iter_mut().zip(row) {
        *out = V::from_lanes(out).fma(factor, V::splat(*row)).to_lanes();
    }
}
