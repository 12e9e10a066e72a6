//! The types with a grid: `d s (T[q] + c g)` with a row scale d, a signed integer scale s and a
//! grid bit g per block.
//!
//! Integer scales of a block are tried over the range where the optimum lies, with both signs and both grids; the best few
//! are judged by the true loss, with the feedback inside the block.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::coder::{Coder, DiagonalBlock, Room, UncodedBlock};
use super::half_scale::round_to_f16;
use super::levels::Levels;
use super::strips::STRIP;
use super::vectors::{ZEROS, clamp, inverse, largest, magnitude, round};

/// Largest integer scale that this encoder uses.
const LARGEST_SCALE: f32 = 63.0;

/// Row scale in the unit of a stored one.
const ROW_UNIT: f32 = qsf_format::GRID_UNIT;

/// Room that feedback gets beyond the scales that the weights themselves want.
const HEADROOM: f32 = 1.04;

/// Integer scales tried before the neighbours of the best.
const TRIALS: usize = 15;

/// Scales tried to find a block's best without rounding.
const FREE_TRIALS: usize = 9;

/// Block scales that are judged by the true loss.
const CANDIDATES: usize = 4;

/// An error that no candidate has: a finite number, for products with 0.
const NONE: f32 = f32::MAX;

/// Grid and shift of a type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid<L> {
    /// T.
    pub levels: L,
    /// c.
    pub shift: f32,
    /// The least scale worth trying, as a part of the one that clips nothing: fewer levels want more clipping.
    pub clipped: f32,
}

/// Blocks of rows with these row scales.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned<'a, L> {
    grid: &'a Grid<L>,
    /// R, binary16 values.
    row: Lanes,
    /// d.
    unit: Lanes,
}

/// Integer scale and grid bit of a block in every row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scales {
    /// s, an integer from -63 to 63.
    pub scale: Lanes,
    /// g, 0 or 1.
    pub second: Lanes,
}

/// Scales, and what divides by them.
#[derive(Clone, Copy)]
pub(super) struct Ready<V> {
    step: V,
    inverse: V,
    shift: V,
}

impl<V: Vector> Ready<V> {
    #[inline(always)]
    fn new(step: V, shift: V) -> Ready<V> {
        Ready { step, inverse: inverse(step), shift }
    }

    /// In the unit of the first grid.
    #[inline(always)]
    fn scaled(&self, value: V) -> V {
        V::splat(0.0).sub(self.shift).fma(value, self.inverse)
    }
}

impl<L: Levels> Grid<L> {
    /// The largest scale that any block wants, times the headroom, as a row scale. It is infinite beyond binary16.
    #[inline(always)]
    pub(super) fn row_scales<V: Vector>(&self, originals: &[Lanes], weights: &[f32]) -> Lanes {
        let mut largest = V::splat(0.0);
        for (values, weights) in originals.chunks(STRIP).zip(weights.chunks(STRIP)) {
            largest = largest.or_larger(self.free_scale(values, weights));
        }
        let mut rows = largest.to_lanes();
        for row in &mut rows {
            *row = round_to_f16(*row * (HEADROOM / LARGEST_SCALE / ROW_UNIT));
        }
        rows
    }

    /// Magnitude of the best scale of a block, of any size, with the first grid.
    #[inline(always)]
    fn free_scale<V: Vector>(&self, values: &[Lanes], weights: &[f32]) -> V {
        let whole = largest::<V>(values).div(V::splat(self.levels.largest()));
        let (mut least, mut best) = (V::splat(NONE), V::splat(0.0));
        for trial in 0..2 * FREE_TRIALS {
            let part = self.clipped + (trial / 2) as f32 * ((1.15 - self.clipped) / (FREE_TRIALS - 1) as f32);
            let sign = if trial % 2 == 0 { 1.0 } else { -1.0 };
            let ready = Ready::new(whole.mul(V::splat(sign * part)), V::splat(0.0));
            let error = self.error(&ready, values, weights);
            let better = least.larger(error);
            least = V::choose(better, error, least);
            best = V::choose(better, ready.step, best);
        }
        magnitude(best)
    }

    /// Weighted squares of the distances to the nearest levels.
    #[inline(always)]
    fn error<V: Vector>(&self, ready: &Ready<V>, values: &[Lanes], weights: &[f32]) -> V {
        let mut sum = V::splat(0.0);
        for (value, weight) in values.iter().zip(weights) {
            let y = ready.scaled(V::from_lanes(value));
            let distance = y.sub(self.levels.nearest(y));
            sum = sum.fma(distance.mul(V::splat(*weight)), distance);
        }
        sum.mul(ready.step).mul(ready.step)
    }
}

impl<'a, L: Levels> Learned<'a, L> {
    /// Rows with row scales `row`, as binary16 holds them.
    #[inline(always)]
    pub(super) fn new(grid: &'a Grid<L>, row: Lanes) -> Learned<'a, L> {
        let mut unit = row;
        for unit in &mut unit {
            *unit *= ROW_UNIT;
        }
        Learned { grid, row, unit }
    }

    /// The blocks of rows with other row scales.
    #[inline(always)]
    pub(super) fn with_row(&self, row: Lanes) -> Learned<'a, L> {
        Learned::new(self.grid, row)
    }

    /// R of every row.
    #[inline(always)]
    pub(super) fn row(&self) -> &Lanes {
        &self.row
    }

    /// A value with the same code under the row scales of `other`.
    #[inline(always)]
    pub(super) fn moved_to<V: Vector>(&self, other: &Learned<'_, L>, block: &Scales, value: V) -> V {
        let level = self.level(&self.prepare(block), value);
        other.prepare::<V>(block).step.mul(level)
    }

    /// `d s` in row `lane`.
    #[inline(always)]
    pub(super) fn step(&self, block: &Scales, lane: usize) -> f32 {
        self.unit[lane] * block.scale[lane]
    }

    /// The code of a value of row `lane`, 0 in a block of scale 0.
    #[inline(always)]
    pub(super) fn code(&self, block: &Scales, lane: usize, value: f32) -> u8 {
        let step = self.step(block, lane);
        if step == 0.0 {
            return 0;
        }
        self.grid.levels.code(value.mul_add(1.0 / step, -(self.grid.shift * block.second[lane])))
    }

    /// The integer that the scale is multiplied with, grid shift included.
    #[inline(always)]
    fn level<V: Vector>(&self, ready: &Ready<V>, value: V) -> V {
        self.grid.levels.nearest(ready.scaled(value)).add(ready.shift)
    }

    #[inline(always)]
    fn prepare<V: Vector>(&self, block: &Scales) -> Ready<V> {
        let step = V::from_lanes(&self.unit).mul(V::from_lanes(&block.scale));
        Ready::new(step, V::from_lanes(&block.second).mul(V::splat(self.grid.shift)))
    }

    /// Tries scales of every magnitude between what clips much and what clips nothing, then the integers beside the best.
    #[inline(always)]
    fn search<V: Vector>(&self, targets: &[Lanes], weights: &[f32]) -> Best<V> {
        let unit = V::from_lanes(&self.unit);
        let whole = largest::<V>(targets).mul(inverse(unit.mul(V::splat(self.grid.levels.largest()))));
        let limit = |v: V| clamp(v, 1.0, LARGEST_SCALE);
        let half = V::splat(0.5);
        let first = limit(round(limit(whole.mul(V::splat(self.grid.clipped))).sub(half)));
        let last = limit(round(limit(whole.mul(V::splat(1.2))).add(half)));
        let stride = last.sub(first).mul(V::splat(1.0 / (TRIALS - 1) as f32));
        let mut best = Best { errors: [V::splat(NONE); CANDIDATES], bytes: [V::splat(0.0); CANDIDATES] };
        let mut before = V::splat(0.0);
        for trial in 0..TRIALS {
            let scale = round(first.fma(V::splat(trial as f32), stride));
            let new = scale.larger(before);
            before = scale;
            for kind in 0..4 {
                let (sign, second) = (1.0 - 2.0 * (kind % 2) as f32, (kind / 2) as f32);
                let signed = scale.mul(V::splat(sign));
                let ready = Ready::new(unit.mul(signed), V::splat(self.grid.shift * second));
                let error = self.grid.error(&ready, targets, weights);
                // A scale that has been tried already would take the place of another.
                let error = V::choose(new, error, V::splat(NONE));
                best.insert(error, signed.add(signed).add(V::splat(second)));
            }
        }
        let (middle, second) = best.scales(0);
        for offset in [-2.0f32, -1.0, 1.0, 2.0] {
            let scale = middle.add(V::splat(offset));
            let ready = Ready::new(unit.mul(scale), second.mul(V::splat(self.grid.shift)));
            let error = self.grid.error(&ready, targets, weights);
            let error = V::choose(stride.larger(V::splat(offset.abs())), error, V::splat(NONE));
            let error = V::choose(magnitude(scale).larger(V::splat(0.0)), error, V::splat(NONE));
            let error =
                V::choose(V::splat(LARGEST_SCALE + 1.0).larger(magnitude(scale)), error, V::splat(NONE));
            best.insert(error, scale.add(scale).add(second));
        }
        best
    }
}

impl<V: Vector, L: Levels> Coder<V> for Learned<'_, L> {
    type Block = Scales;
    type Ready = Ready<V>;

    #[inline(always)]
    fn columns(&self) -> usize {
        STRIP
    }

    #[inline(always)]
    fn choose(&self, uncoded: &UncodedBlock<'_>, room: &mut Room) -> Scales {
        let best: Best<V> = self.search(uncoded.targets, uncoded.weights);
        let (mut scale, mut second) = best.scales(0);
        if uncoded.upper.is_some() {
            let mut least = V::splat(NONE);
            for candidate in 0..CANDIDATES {
                let (other, grid) = best.scales(candidate);
                let step = V::from_lanes(&self.unit).mul(other);
                let ready = Ready::new(step, grid.mul(V::splat(self.grid.shift)));
                let loss: V = uncoded.walk(self, &ready, room, None);
                let loss = V::choose(V::splat(NONE).larger(best.errors[candidate]), loss, V::splat(NONE));
                let better = least.larger(loss);
                least = V::choose(better, loss, least);
                scale = V::choose(better, other, scale);
                second = V::choose(better, grid, second);
            }
        }
        // An all-zero block is scale 0 and its codes are 0.
        let some = largest::<V>(uncoded.targets).mul(V::from_lanes(&self.unit)).larger(V::splat(0.0));
        let zero = V::splat(0.0);
        Scales {
            scale: V::choose(some, scale, zero).to_lanes(),
            second: V::choose(some, second, zero).to_lanes(),
        }
    }

    #[inline(always)]
    fn ready(&self, block: &Scales) -> Ready<V> {
        self.prepare(block)
    }

    #[inline(always)]
    fn nearest(
        &self,
        ready: &Ready<V>,
        _column: usize,
        targets: &[Lanes],
        _weights: &[f32],
        values: &mut [Lanes],
    ) {
        values[0] = ready.step.mul(self.level(ready, V::from_lanes(&targets[0]))).to_lanes();
    }

    /// The loss is a square of the scale with the codes held; its minimum, rounded to an integer.
    #[inline(always)]
    fn rescale(
        &self,
        block: &Scales,
        values: &mut [Lanes],
        pull: &[Lanes],
        moment: DiagonalBlock<'_>,
    ) -> Option<Scales> {
        let ready = self.prepare::<V>(block);
        let mut levels = [ZEROS; STRIP];
        for (level, value) in levels.iter_mut().zip(&*values) {
            *level = self.level(&ready, V::from_lanes(value)).to_lanes();
        }
        let (mut along, mut curve) = (V::splat(0.0), V::splat(0.0));
        for (j, (level, pull)) in levels.iter().zip(pull).enumerate() {
            let mut product = V::splat(0.0);
            for (other, factor) in levels.iter().zip(moment.row(j, 0)) {
                product = product.fma(V::from_lanes(other), V::splat(*factor));
            }
            along = along.fma(V::from_lanes(level), V::from_lanes(pull));
            curve = curve.fma(V::from_lanes(level), product);
        }
        let unit = V::from_lanes(&self.unit);
        let old = V::from_lanes(&block.scale);
        let wanted = old.fma(along, inverse(curve.mul(unit)));
        let new = round(clamp(wanted, -LARGEST_SCALE, LARGEST_SCALE));
        let step = new.sub(old).mul(unit);
        let gain = step.mul(along.add(along).sub(step.mul(curve)));
        let zero = V::splat(0.0);
        let new = V::choose(gain.larger(zero), new, old);
        let new = V::choose(magnitude(new).larger(zero), new, old);
        // A block of scale 0 has no codes that another scale could suit.
        let new = V::choose(magnitude(old).larger(zero), new, old);
        let better = Scales { scale: new.to_lanes(), second: block.second };
        if better.scale == block.scale {
            return None;
        }
        let step = unit.mul(new);
        for (value, level) in values.iter_mut().zip(&levels) {
            *value = step.mul(V::from_lanes(level)).to_lanes();
        }
        Some(better)
    }
}

/// The block scales of least error so far, best first.
struct Best<V> {
    errors: [V; CANDIDATES],
    /// `2 * scale + grid bit`.
    bytes: [V; CANDIDATES],
}

impl<V: Vector> Best<V> {
    /// Takes a place before all that are worse.
    #[inline(always)]
    fn insert(&mut self, mut error: V, mut byte: V) {
        for place in 0..CANDIDATES {
            let (other_error, other_byte) = (self.errors[place], self.bytes[place]);
            let better = other_error.larger(error);
            self.errors[place] = V::choose(better, error, other_error);
            self.bytes[place] = V::choose(better, byte, other_byte);
            error = V::choose(better, other_error, error);
            byte = V::choose(better, other_byte, byte);
        }
    }

    /// Scale and grid bit.
    #[inline(always)]
    fn scales(&self, place: usize) -> (V, V) {
        let byte = self.bytes[place];
        // Halves are rounded down: an odd byte is a quarter below its half.
        let scale = round(byte.mul(V::splat(0.5)).sub(V::splat(0.25)));
        (scale, byte.sub(scale.add(scale)))
    }
}
