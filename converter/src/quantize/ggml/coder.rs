//! A type of ggml under feedback and descent, 32 columns at a time: one group of columns, or two.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::super::coder::{Coder, DiagonalBlock, Room, UncodedBlock};
use super::super::levels::Levels;
use super::super::strips::STRIP;
use super::super::vectors::{ZEROS, inverse};
use super::scales::Units;
use super::search::{CANDIDATES, Grid, Group, NONE, Pair, pick};
use super::shape::{SUPER, ScaleForm, Shape};

/// Groups of 32 columns at most.
pub(super) const GROUPS: usize = 2;

/// The scales of one group in every row.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupScales {
    /// The whole number of a two-level type; the scale itself of another.
    pub scale: Lanes,
    pub min: Lanes,
    pub step: Lanes,
    pub offset: Lanes,
}

/// The scales of 32 columns in every row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip {
    pub groups: [GroupScales; GROUPS],
    pub start: usize,
}

/// Scales ready for arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Ready<V> {
    pairs: [Pair<V>; GROUPS],
    inverses: [V; GROUPS],
}

/// Codes rows whose 256 columns have these units.
pub(super) struct GgmlCoder<'a, L> {
    pub shape: Shape,
    pub levels: &'a L,
    pub units: Vec<Units>,
}

impl<L: Levels> GgmlCoder<'_, L> {
    /// What scales the 256 columns around `start` can have.
    #[inline(always)]
    fn grid<V: Vector>(&self, start: usize) -> Grid<V> {
        match self.shape.scales {
            ScaleForm::Half => Grid::Half,
            ScaleForm::Power => Grid::Powers,
            ScaleForm::Integer { .. } => {
                let units = &self.units[start / SUPER];
                Grid::Multiples { unit: V::from_lanes(&units.unit), min_unit: V::from_lanes(&units.min_unit) }
            }
        }
    }

    #[inline(always)]
    fn groups(&self) -> usize {
        STRIP / self.shape.group
    }

    /// The code of a value of row `lane`.
    #[inline(always)]
    pub(super) fn code(&self, strip: &Strip, lane: usize, column: usize, value: f32) -> u8 {
        let scales = &strip.groups[column / self.shape.group];
        let step = scales.step[lane];
        let inverse = if step == 0.0 { 0.0 } else { 1.0 / step };
        self.levels.code((value + scales.offset[lane]) * inverse)
    }

    #[inline(always)]
    fn make_ready<V: Vector>(pairs: [Pair<V>; GROUPS]) -> Ready<V> {
        Ready { inverses: [inverse(pairs[0].step), inverse(pairs[1].step)], pairs }
    }
}

impl<V: Vector, L: Levels> Coder<V> for GgmlCoder<'_, L> {
    type Block = Strip;
    type Ready = Ready<V>;

    #[inline(always)]
    fn columns(&self) -> usize {
        STRIP
    }

    #[inline(always)]
    fn choose(&self, uncoded: &UncodedBlock<'_>, room: &mut Room) -> Strip {
        let grid = self.grid::<V>(uncoded.start);
        let mut chosen = [Pair::zero(); GROUPS];
        let mut found = [None, None];
        for g in 0..self.groups() {
            let columns = g * self.shape.group..(g + 1) * self.shape.group;
            let (targets, weights) = (&uncoded.targets[columns.clone()], &uncoded.weights[columns]);
            let group = Group { shape: &self.shape, levels: self.levels, targets, weights };
            let best = group.search(&grid);
            chosen[g] = best.pairs[0];
            found[g] = Some(best);
        }
        if uncoded.upper.is_some() {
            for (g, best) in found.iter().enumerate() {
                let Some(best) = best else { continue };
                let (mut least, mut kept) = (V::splat(NONE), chosen[g]);
                for candidate in 0..CANDIDATES {
                    let mut pairs = chosen;
                    pairs[g] = best.pairs[candidate];
                    let loss: V = uncoded.walk(self, &Self::make_ready(pairs), room, None);
                    let loss = V::choose(V::splat(NONE).larger(best.errors[candidate]), loss, V::splat(NONE));
                    let better = least.larger(loss);
                    least = V::choose(better, loss, least);
                    kept = pick(better, pairs[g], kept);
                }
                chosen[g] = kept;
            }
        }
        Strip { groups: [stored(chosen[0]), stored(chosen[1])], start: uncoded.start }
    }

    #[inline(always)]
    fn ready(&self, block: &Strip) -> Ready<V> {
        Self::make_ready([loaded(&block.groups[0]), loaded(&block.groups[1])])
    }

    #[inline(always)]
    fn nearest(
        &self,
        ready: &Ready<V>,
        column: usize,
        targets: &[Lanes],
        _weights: &[f32],
        values: &mut [Lanes],
    ) {
        let g = column / self.shape.group;
        let pair = &ready.pairs[g];
        let level = pair.level(self.levels, ready.inverses[g], V::from_lanes(&targets[0]));
        values[0] = pair.step.mul(level).sub(pair.offset).to_lanes();
    }

    /// Scale, then offset of each group: the loss is a square of either with the codes held, and its minimum is rounded.
    #[inline(always)]
    fn rescale(
        &self,
        block: &Strip,
        values: &mut [Lanes],
        pull: &[Lanes],
        moment: DiagonalBlock<'_>,
    ) -> Option<Strip> {
        let grid = self.grid::<V>(block.start);
        let mut slope = [ZEROS; STRIP];
        slope.copy_from_slice(pull);
        let mut better = *block;
        let mut any = false;
        for g in 0..self.groups() {
            let columns = g * self.shape.group..(g + 1) * self.shape.group;
            let pair: Pair<V> = loaded(&better.groups[g]);
            let inverted = inverse(pair.step);
            let mut levels = [ZEROS; STRIP];
            for j in columns.clone() {
                levels[j] = pair.level(self.levels, inverted, V::from_lanes(&values[j])).to_lanes();
            }
            let mut ones = [ZEROS; STRIP];
            ones[columns.clone()].fill([-1.0; LANES]);
            let directions: &[(&[Lanes; STRIP], bool)] =
                if self.shape.offset { &[(&levels, false), (&ones, true)] } else { &[(&levels, false)] };
            for (direction, is_offset) in directions {
                let now: Pair<V> = loaded(&better.groups[g]);
                let (along, curve): (V, V) = along(direction, columns.clone(), &slope, moment);
                let move_by = along.mul(inverse(curve));
                let wanted = if *is_offset {
                    grid.nearest(&self.shape, now.step, now.offset.add(move_by))
                } else {
                    grid.nearest(&self.shape, now.step.add(move_by), now.offset)
                };
                let moved =
                    if *is_offset { wanted.offset.sub(now.offset) } else { wanted.step.sub(now.step) };
                let gain = moved.mul(along.add(along).sub(moved.mul(curve)));
                // A group of scale 0 has no codes that another scale could suit.
                let zero = V::splat(0.0);
                let gain =
                    V::choose(now.step.larger(zero), gain, V::choose(zero.larger(now.step), gain, zero));
                let vanishes = wanted.step.mul(wanted.step);
                let gain = V::choose(vanishes.larger(zero), gain, zero);
                let kept = pick(gain.larger(zero), wanted, now);
                let moved = if *is_offset { kept.offset.sub(now.offset) } else { kept.step.sub(now.step) };
                if moved.to_lanes() == ZEROS {
                    continue;
                }
                any = true;
                better.groups[g] = stored(kept);
                for j in columns.clone() {
                    let level = V::from_lanes(&levels[j]);
                    values[j] = kept.step.mul(level).sub(kept.offset).to_lanes();
                    let change = moved.mul(V::from_lanes(&direction[j]));
                    for (slope, factor) in slope.iter_mut().zip(moment.row(j, 0)) {
                        *slope = V::from_lanes(slope).sub(change.mul(V::splat(*factor))).to_lanes();
                    }
                }
            }
        }
        any.then_some(better)
    }
}

/// Slope and curvature of the loss along a direction within some columns.
#[inline(always)]
pub(super) fn along<V: Vector>(
    direction: &[Lanes; STRIP],
    columns: std::ops::Range<usize>,
    slope: &[Lanes; STRIP],
    moment: DiagonalBlock<'_>,
) -> (V, V) {
    let (mut along, mut curve) = (V::splat(0.0), V::splat(0.0));
    for j in columns.clone() {
        let mut product = V::splat(0.0);
        let row = moment.row(j, 0);
        for k in columns.clone() {
            product = product.fma(V::from_lanes(&direction[k]), V::splat(row[k]));
        }
        let own = V::from_lanes(&direction[j]);
        along = along.fma(own, V::from_lanes(&slope[j]));
        curve = curve.fma(own, product);
    }
    (along, curve)
}

#[inline(always)]
pub(super) fn stored<V: Vector>(pair: Pair<V>) -> GroupScales {
    GroupScales {
        scale: pair.scale.to_lanes(),
        min: pair.min.to_lanes(),
        step: pair.step.to_lanes(),
        offset: pair.offset.to_lanes(),
    }
}

#[inline(always)]
pub(super) fn loaded<V: Vector>(scales: &GroupScales) -> Pair<V> {
    Pair {
        scale: V::from_lanes(&scales.scale),
        min: V::from_lanes(&scales.min),
        step: V::from_lanes(&scales.step),
        offset: V::from_lanes(&scales.offset),
    }
}
