//! A type of groups under feedback and descent, a group of 32 to 128 columns at a time.

use qsf_format::QuantType;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;
use qsf_runtime::grouped::{GroupType, GroupZero};

use super::super::coder::{Coder, DiagonalBlock, MOST_COLUMNS, Room, UncodedBlock};
use super::super::ggml::{CANDIDATES, Form, Grid, Group, Integers, NONE, Pair, ScaleForm, Shape, pick};
use super::super::levels::Levels;
use super::super::strips::STRIP;
use super::super::vectors::{ZEROS, inverse};

/// The scale and the offset of a group in every row.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupScales {
    pub step: Lanes,
    pub offset: Lanes,
}

/// Scales ready for arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Ready<V> {
    pair: Pair<V>,
    inverse: V,
}

/// Codes rows of groups.
pub(super) struct GroupCoder {
    ty: GroupType,
    shape: Shape,
    levels: Integers,
}

/// The least scale worth trying, as a part of the one that clips nothing: fewer levels want more clipping.
fn clipped(bits: u32) -> f32 {
    match bits {
        2 => 0.5,
        3 => 0.6,
        4 => 0.7,
        5 => 0.8,
        6 => 0.88,
        _ => 0.96,
    }
}

impl GroupCoder {
    pub(super) fn new(ty: GroupType) -> GroupCoder {
        let middle = (1u32 << (ty.bits - 1)) as f32;
        let low = if ty.zero == GroupZero::Middle { -middle } else { 0.0 };
        let levels = Integers { low, high: low + f32::from(ty.top()) };
        let shape = Shape {
            group: ty.group,
            form: Form::Integers { low: levels.low, high: levels.high },
            // Which numbers there are, the grid says. Where a code is 0, so is one of the values.
            scales: match ty.zero {
                GroupZero::Code => ScaleForm::Integer { low: 0.0, high: 0.0, offset: f32::from(ty.top()) },
                _ => ScaleForm::Half,
            },
            offset: ty.zero != GroupZero::Middle,
            clipped: clipped(ty.bits),
        };
        GroupCoder { ty, shape, levels }
    }

    /// What scales and offsets there are.
    #[inline(always)]
    fn grid<V: Vector>(&self) -> Grid<V> {
        match (self.ty.zero, self.ty.scale) {
            (GroupZero::Code, scale) => Grid::Zeros { scale, top: f32::from(self.ty.top()) },
            (_, QuantType::F16) => Grid::Half,
            (_, QuantType::Bf16) => Grid::Brain,
            _ => Grid::Free,
        }
    }

    /// The code of a value of row `lane`.
    #[inline(always)]
    pub(super) fn code(&self, scales: &GroupScales, lane: usize, value: f32) -> u8 {
        let step = scales.step[lane];
        let inverse = if step == 0.0 { 0.0 } else { 1.0 / step };
        self.levels.code((value + scales.offset[lane]) * inverse)
    }

    #[inline(always)]
    fn make_ready<V: Vector>(pair: Pair<V>) -> Ready<V> {
        Ready { inverse: inverse(pair.step), pair }
    }
}

#[inline(always)]
fn stored<V: Vector>(pair: Pair<V>) -> GroupScales {
    GroupScales { step: pair.step.to_lanes(), offset: pair.offset.to_lanes() }
}

#[inline(always)]
fn loaded<V: Vector>(scales: &GroupScales) -> Pair<V> {
    let (step, offset) = (V::from_lanes(&scales.step), V::from_lanes(&scales.offset));
    Pair { scale: step, min: offset, step, offset }
}

impl<V: Vector> Coder<V> for GroupCoder {
    type Block = GroupScales;
    type Ready = Ready<V>;

    #[inline(always)]
    fn columns(&self) -> usize {
        self.ty.group
    }

    #[inline(always)]
    fn choose(&self, uncoded: &UncodedBlock<'_>, room: &mut Room) -> GroupScales {
        let grid = self.grid::<V>();
        let (targets, weights) = (uncoded.targets, uncoded.weights);
        let best = Group { shape: &self.shape, levels: &self.levels, targets, weights }.search(&grid);
        let mut kept = best.pairs[0];
        if uncoded.upper.is_some() {
            let mut least = V::splat(NONE);
            for candidate in 0..CANDIDATES {
                let pair = best.pairs[candidate];
                let loss: V = uncoded.walk(self, &Self::make_ready(pair), room, None);
                let loss = V::choose(V::splat(NONE).larger(best.errors[candidate]), loss, V::splat(NONE));
                let better = least.larger(loss);
                least = V::choose(better, loss, least);
                kept = pick(better, pair, kept);
            }
        }
        stored(kept)
    }

    #[inline(always)]
    fn ready(&self, block: &GroupScales) -> Ready<V> {
        Self::make_ready(loaded(block))
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
        let level = ready.pair.level(&self.levels, ready.inverse, V::from_lanes(&targets[0]));
        values[0] = ready.pair.step.mul(level).sub(ready.pair.offset).to_lanes();
    }

    /// Scale, then offset: the loss is a square of either with the codes held, and its minimum is rounded.
    #[inline(always)]
    fn rescale(
        &self,
        block: &GroupScales,
        values: &mut [Lanes],
        pull: &[Lanes],
        moment: DiagonalBlock<'_>,
    ) -> Option<GroupScales> {
        let grid = self.grid::<V>();
        let count = values.len();
        let start: Pair<V> = loaded(block);
        let inverted = inverse(start.step);
        let (mut slope, mut levels) = ([ZEROS; MOST_COLUMNS], [ZEROS; MOST_COLUMNS]);
        slope[..count].copy_from_slice(pull);
        for (level, value) in levels.iter_mut().zip(&*values) {
            *level = start.level(&self.levels, inverted, V::from_lanes(value)).to_lanes();
        }
        let zero = V::splat(0.0);
        let mut now = start;
        let mut any = false;
        // The offset of a type whose zero is a code is a multiple of its scale: it moves alone by whole steps, and with the scale.
        let with_scale = self.ty.zero == GroupZero::Code;
        for is_offset in [false, true] {
            if is_offset && !self.shape.offset {
                break;
            }
            let zeros = if with_scale { now.offset.mul(inverse(now.step)) } else { zero };
            let mut direction = [ZEROS; MOST_COLUMNS];
            for (out, level) in direction[..count].iter_mut().zip(&levels) {
                *out = if is_offset { [-1.0; LANES] } else { V::from_lanes(level).sub(zeros).to_lanes() };
            }
            let (along, curve): (V, V) = along(&direction[..count], &slope, moment);
            let move_by = along.mul(inverse(curve));
            let wanted = match (is_offset, with_scale) {
                (true, _) => grid.nearest(&self.shape, now.step, now.offset.add(move_by)),
                (false, false) => grid.nearest(&self.shape, now.step.add(move_by), now.offset),
                (false, true) => {
                    let step = now.step.add(move_by);
                    grid.nearest(&self.shape, step, step.mul(zeros))
                }
            };
            let moved = if is_offset { wanted.offset.sub(now.offset) } else { wanted.step.sub(now.step) };
            let gain = moved.mul(along.add(along).sub(moved.mul(curve)));
            // A group of scale 0 has no codes that another scale could suit.
            let gain = V::choose(now.step.mul(now.step).larger(zero), gain, zero);
            let gain = V::choose(wanted.step.mul(wanted.step).larger(zero), gain, zero);
            let kept = pick(gain.larger(zero), wanted, now);
            let moved = if is_offset { kept.offset.sub(now.offset) } else { kept.step.sub(now.step) };
            if moved.to_lanes() == ZEROS {
                continue;
            }
            any = true;
            now = kept;
            for j in 0..count {
                let value = now.step.mul(V::from_lanes(&levels[j])).sub(now.offset);
                values[j] = value.to_lanes();
                let change = moved.mul(V::from_lanes(&direction[j]));
                for (strip, slope) in slope[..count].chunks_mut(STRIP).enumerate() {
                    for (slope, factor) in slope.iter_mut().zip(moment.row(j, strip)) {
                        *slope = V::from_lanes(slope).sub(change.mul(V::splat(*factor))).to_lanes();
                    }
                }
            }
        }
        any.then(|| stored(now))
    }
}

/// Slope and curvature of the loss along a direction.
#[inline(always)]
fn along<V: Vector>(direction: &[Lanes], slope: &[Lanes], moment: DiagonalBlock<'_>) -> (V, V) {
    let (mut along, mut curve) = (V::splat(0.0), V::splat(0.0));
    for (j, own) in direction.iter().enumerate() {
        let mut product = V::splat(0.0);
        for (strip, direction) in direction.chunks(STRIP).enumerate() {
            for (other, factor) in direction.iter().zip(moment.row(j, strip)) {
                product = product.fma(V::from_lanes(other), V::splat(*factor));
            }
        }
        let own = V::from_lanes(own);
        along = along.fma(own, V::from_lanes(&slope[j]));
        curve = curve.fma(own, product);
    }
    (along, curve)
}
