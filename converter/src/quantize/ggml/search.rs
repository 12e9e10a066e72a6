//! The scale, and offset where the type has one, of one group of columns in 16 rows: from many starting points, each followed by
//! the least squares of its codes.

use qsf_format::QuantType;
use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::super::half_scale::{round_to_bf16, round_to_f16};
use super::super::levels::Levels;
use super::super::vectors::{ZEROS, clamp, inverse, largest, round};
use super::shape::{ScaleForm, Shape};

/// Scales that are judged by the true loss.
pub(in super::super) const CANDIDATES: usize = 4;
/// Starting points.
const TRIALS: usize = 8;
/// Whole numbers beside the best ones.
const NEIGHBOURS: [(f32, f32); 8] =
    [(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0), (1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)];
/// The least power of two that is a scale.
const LEAST_POWER: f32 = 1e-30;
/// An error that no candidate has: a finite number, for products with 0.
pub(in super::super) const NONE: f32 = f32::MAX;

/// Scale and offset of a group in every row: as stored, and as they multiply.
#[derive(Clone, Copy)]
pub(in super::super) struct Pair<V> {
    /// The whole number of a two-level type; the scale itself of another.
    pub scale: V,
    pub min: V,
    pub step: V,
    pub offset: V,
}

impl<V: Vector> Pair<V> {
    /// Nothing.
    #[inline(always)]
    pub fn zero() -> Pair<V> {
        let zero = V::splat(0.0);
        Pair { scale: zero, min: zero, step: zero, offset: zero }
    }

    /// The level nearest to a value.
    #[inline(always)]
    pub fn level(&self, levels: &impl Levels, inverse: V, value: V) -> V {
        levels.nearest(value.add(self.offset).mul(inverse))
    }
}

/// What scales can be stored.
#[derive(Clone, Copy)]
pub(in super::super) enum Grid<V> {
    /// Any number: to learn what a group wants.
    Free,
    /// Binary16.
    Half,
    /// The upper half of binary32.
    Brain,
    /// Floats of this type for scales; offsets are 0 to `top` times the scale.
    Zeros { scale: QuantType, top: f32 },
    /// Powers of two.
    Powers,
    /// Multiples of these.
    Multiples { unit: V, min_unit: V },
}

/// A group of columns that wants scales.
#[derive(Clone, Copy)]
pub(in super::super) struct Group<'a, L> {
    pub shape: &'a Shape,
    pub levels: &'a L,
    pub targets: &'a [Lanes],
    pub weights: &'a [f32],
}

/// The pairs of least error so far, best first.
pub(in super::super) struct Best<V> {
    pub errors: [V; CANDIDATES],
    pub pairs: [Pair<V>; CANDIDATES],
}

impl<V: Vector> Best<V> {
    #[inline(always)]
    pub fn new() -> Best<V> {
        Best { errors: [V::splat(NONE); CANDIDATES], pairs: [Pair::zero(); CANDIDATES] }
    }

    /// Takes a place before all that are worse, unless it is there already.
    #[inline(always)]
    pub fn insert(&mut self, mut error: V, mut pair: Pair<V>) {
        for place in 0..CANDIDATES {
            let known = self.errors[place];
            let (above, below) = (known.larger(error), error.larger(known));
            error = V::choose(above, error, V::choose(below, error, V::splat(NONE)));
        }
        for place in 0..CANDIDATES {
            let (other_error, other) = (self.errors[place], self.pairs[place]);
            let better = other_error.larger(error);
            self.errors[place] = V::choose(better, error, other_error);
            self.pairs[place] = pick(better, pair, other);
            error = V::choose(better, other_error, error);
            pair = pick(better, other, pair);
        }
    }
}

/// The power of two nearest to a magnitude, by ratio; 0 for what is too small to matter.
#[inline(always)]
fn as_power<V: Vector>(v: V) -> V {
    let mut lanes = v.to_lanes();
    for lane in &mut lanes {
        // The largest one has twelve times as much within binary32.
        let scaled = (lane.abs() * std::f32::consts::SQRT_2).min(1e37);
        let power = f32::from_bits(scaled.to_bits() & 0x7F80_0000);
        *lane = if power >= LEAST_POWER { power } else { 0.0 };
    }
    V::from_lanes(&lanes)
}

/// A number as binary16 holds it.
#[inline(always)]
fn as_half<V: Vector>(v: V) -> V {
    let mut lanes = v.to_lanes();
    for lane in &mut lanes {
        *lane = round_to_f16(*lane);
    }
    V::from_lanes(&lanes)
}

/// A number as the upper half of binary32 holds it.
#[inline(always)]
fn as_brain<V: Vector>(v: V) -> V {
    let mut lanes = v.to_lanes();
    for lane in &mut lanes {
        *lane = round_to_bf16(*lane);
    }
    V::from_lanes(&lanes)
}

impl<V: Vector> Grid<V> {
    /// The stored pair nearest to a scale and an offset.
    #[inline(always)]
    pub fn nearest(&self, shape: &Shape, step: V, offset: V) -> Pair<V> {
        match *self {
            Grid::Free => Pair { scale: step, min: offset, step, offset },
            Grid::Half => {
                let (step, offset) = (as_half(step), as_half(offset));
                Pair { scale: step, min: offset, step, offset }
            }
            Grid::Brain => {
                let (step, offset) = (as_brain(step), as_brain(offset));
                Pair { scale: step, min: offset, step, offset }
            }
            Grid::Zeros { scale, top } => {
                let step = match scale {
                    QuantType::F16 => as_half(step),
                    QuantType::Bf16 => as_brain(step),
                    _ => step,
                };
                let zeros = round(clamp(offset.mul(inverse(step)), 0.0, top));
                let offset = step.mul(zeros);
                Pair { scale: step, min: offset, step, offset }
            }
            Grid::Powers => {
                let step = as_power(step);
                Pair { scale: step, min: offset, step, offset }
            }
            Grid::Multiples { unit, min_unit } => {
                self.of_integers(shape, round(step.mul(inverse(unit))), round(offset.mul(inverse(min_unit))))
            }
        }
    }

    /// The pair of these whole numbers, within their ranges.
    #[inline(always)]
    fn of_integers(&self, shape: &Shape, scale: V, min: V) -> Pair<V> {
        let (&Grid::Multiples { unit, min_unit }, ScaleForm::Integer { low, high, offset }) =
            (self, shape.scales)
        else {
            return Pair { scale, min, step: scale, offset: min };
        };
        let (scale, min) = (clamp(scale, low, high), clamp(min, 0.0, offset));
        Pair { scale, min, step: unit.mul(scale), offset: min_unit.mul(min) }
    }
}

impl<L: Levels> Group<'_, L> {
    /// The best pairs that the search finds. One loop for all that is tried: whatever is in it is compiled once.
    #[inline(always)]
    pub fn search<V: Vector>(&self, grid: &Grid<V>) -> Best<V> {
        let mut best: Best<V> = Best::new();
        let (low, high) = self.range::<V>();
        let whole = largest::<V>(self.targets).div(V::splat(self.levels.largest()));
        let starts = if self.shape.offset { TRIALS } else { 2 * TRIALS };
        let neighbours = if matches!(grid, Grid::Multiples { .. }) { NEIGHBOURS.len() } else { 0 };
        let mut better = (V::splat(0.0), V::splat(0.0));
        let mut middle = Pair::zero();
        for i in 0..2 * starts + neighbours {
            let pair = if i >= 2 * starts {
                if i == 2 * starts {
                    middle = best.pairs[0];
                }
                let (scale, min) = NEIGHBOURS[i - 2 * starts];
                grid.of_integers(self.shape, middle.scale.add(V::splat(scale)), middle.min.add(V::splat(min)))
            } else if i % 2 == 0 {
                let (step, offset) = self.start(i / 2, whole, low, high);
                grid.nearest(self.shape, step, offset)
            } else {
                grid.nearest(self.shape, better.0, better.1)
            };
            let (error, step, offset) = self.evaluate(&pair);
            better = (step, offset);
            best.insert(error, pair);
        }
        best
    }

    /// Starting point number `i`.
    #[inline(always)]
    fn start<V: Vector>(&self, i: usize, whole: V, low: V, high: V) -> (V, V) {
        let clipped = self.shape.clipped;
        let part = clipped + (i % TRIALS) as f32 * ((1.08 - clipped) / (TRIALS - 1) as f32);
        if self.shape.offset {
            let span = high.sub(low);
            let cut = span.mul(V::splat(0.5 * (1.0 - part)));
            (span.mul(V::splat(part / self.levels.largest())), V::splat(0.0).sub(low.add(cut)))
        } else {
            (whole.mul(V::splat(if i < TRIALS { part } else { -part })), V::splat(0.0))
        }
    }

    /// Least and largest value; the least is at most 0 where offsets cannot raise it.
    #[inline(always)]
    fn range<V: Vector>(&self) -> (V, V) {
        let first = V::from_lanes(self.targets.first().unwrap_or(&ZEROS));
        let (mut low, mut high) = (first, first);
        for value in self.targets {
            let value = V::from_lanes(value);
            high = high.or_larger(value);
            low = V::choose(low.larger(value), value, low);
        }
        let zero = V::splat(0.0);
        match self.shape.scales {
            ScaleForm::Half | ScaleForm::Power => (low, high),
            ScaleForm::Integer { .. } => (V::choose(low.larger(zero), zero, low), high.or_larger(zero)),
        }
    }

    /// Weighted squares of the distances to the nearest values, and the scale and offset that are best for their codes.
    #[inline(always)]
    fn evaluate<V: Vector>(&self, pair: &Pair<V>) -> (V, V, V) {
        let zero = V::splat(0.0);
        let inverted = inverse(pair.step);
        let (mut error, mut w, mut x, mut l, mut xl, mut ll) = (zero, zero, zero, zero, zero, zero);
        for (value, weight) in self.targets.iter().zip(self.weights) {
            let (value, weight) = (V::from_lanes(value), V::splat(*weight));
            let level = pair.level(self.levels, inverted, value);
            let distance = value.sub(pair.step.mul(level).sub(pair.offset));
            error = error.fma(distance.mul(weight), distance);
            let weighted = level.mul(weight);
            w = w.add(weight);
            x = x.fma(value, weight);
            l = l.add(weighted);
            xl = xl.fma(value, weighted);
            ll = ll.fma(level, weighted);
        }
        let alone = xl.mul(inverse(ll));
        if !self.shape.offset {
            return (error, alone, zero);
        }
        let determinant = w.mul(ll).sub(l.mul(l));
        let step = w.mul(xl).sub(x.mul(l)).mul(inverse(determinant));
        let offset = step.mul(l).sub(x).mul(inverse(w));
        if matches!(self.shape.scales, ScaleForm::Half) {
            return (error, step, offset);
        }
        let negative = zero.larger(offset);
        (error, V::choose(negative, alone, step), V::choose(negative, zero, offset))
    }

    /// Weighted squares of the distances to the nearest values.
    #[inline(always)]
    pub fn error<V: Vector>(&self, pair: &Pair<V>) -> V {
        self.evaluate(pair).0
    }
}

/// `a` where the mask is true, else `b`.
#[inline(always)]
pub(in super::super) fn pick<V: Vector>(mask: V::Mask, a: Pair<V>, b: Pair<V>) -> Pair<V> {
    Pair {
        scale: V::choose(mask, a.scale, b.scale),
        min: V::choose(mask, a.min, b.min),
        step: V::choose(mask, a.step, b.step),
        offset: V::choose(mask, a.offset, b.offset),
    }
}
