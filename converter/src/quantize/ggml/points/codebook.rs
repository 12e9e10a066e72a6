//! The point of a grid that is nearest to weighted values, in 16 rows at once.
//!
//! All points are looked at. What a point costs is the sum of what its two halves cost, and there are few different
//! halves: with three levels at most 81, with eight at most 64. So that a point costs one addition.

use std::collections::HashMap;

use qsf_runtime::cpu::vector::Vector;
use qsf_runtime::ggml::{GgmlType, points};

use super::shape::WIDTH;

/// Different halves of points at most.
const HALVES: usize = 81;
/// Levels at most.
const LEVELS: usize = 8;
/// Points that are compared at once: a comparison need not wait for the one before.
const STREAMS: usize = 4;
/// More than any point costs.
const NONE: f32 = f32::MAX;

/// The grid of a type.
pub(in super::super) struct Codebook {
    /// Values of a point: 4 or 8.
    dims: usize,
    levels: Vec<f32>,
    points: Vec<[f32; WIDTH]>,
    /// Places in `levels` of the different first and second halves.
    halves: [Vec<Vec<u8>>; 2],
    /// Places of the halves of each point, filled to whole streams with the last point.
    order: Vec<[Entry; STREAMS]>,
    codes: HashMap<[i8; WIDTH], usize>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    halves: [u8; 2],
    point: f32,
}

/// What was found in every row.
#[derive(Clone, Copy)]
pub(super) struct Found<V> {
    /// The weighted square of the distance, less that of the values from 0.
    pub cost: V,
    /// Place of the point.
    pub point: V,
}

/// Costs of the halves.
struct Costs<V>([[V; HALVES]; 2]);

impl Codebook {
    /// The grid of a type that has one.
    pub(in super::super) fn new(ty: GgmlType) -> Codebook {
        let points = points(ty);
        let dims = if points.iter().all(|point| point[4..] == [0; 4]) { 4 } else { WIDTH };
        let mut levels: Vec<i8> = points.iter().flat_map(|point| &point[..dims]).copied().collect();
        levels.sort_unstable();
        levels.dedup();
        let place = |level: &i8| levels.iter().position(|known| known == level).unwrap_or(0) as u8;
        let mut halves = [Vec::new(), Vec::new()];
        let mut entries: Vec<Entry> = points
            .iter()
            .enumerate()
            .map(|(i, point)| {
                let mut of = |half: usize| {
                    let width = dims / 2;
                    let levels: Vec<u8> = point[half * width..(half + 1) * width].iter().map(place).collect();
                    let known = &mut halves[half];
                    known.iter().position(|other| *other == levels).unwrap_or_else(|| {
                        known.push(levels);
                        known.len() - 1
                    }) as u8
                };
                Entry { halves: [of(0), of(1)], point: i as f32 }
            })
            .collect();
        if let Some(last) = entries.last().copied() {
            entries.resize(entries.len().next_multiple_of(STREAMS), last);
        }
        Codebook {
            dims,
            levels: levels.iter().map(|level| f32::from(*level)).collect(),
            codes: points.iter().enumerate().map(|(i, point)| (*point, i)).collect(),
            points: points.iter().map(|point| point.map(f32::from)).collect(),
            halves,
            order: entries.as_chunks().0.to_vec(),
        }
    }

    /// Values of a point.
    #[inline(always)]
    pub(super) fn dims(&self) -> usize {
        self.dims
    }

    /// The largest magnitude of a level.
    pub(super) fn largest(&self) -> f32 {
        self.levels.iter().fold(0.0, |largest, level| level.abs().max(largest))
    }

    /// A point by its place.
    #[inline(always)]
    pub(super) fn point(&self, place: f32) -> &[f32; WIDTH] {
        &self.points[place as usize]
    }

    /// The code of a point.
    pub(super) fn code(&self, point: &[i8; WIDTH]) -> Option<usize> {
        self.codes.get(point).copied()
    }

    /// The nearest point to `values`, as many as a point has. With `flips`, one value must be taken for its negative, and is
    /// the one where that costs least: `flips` holds four times weight times value, or 0 in every place of a row where
    /// nothing is turned.
    #[inline(always)]
    pub(super) fn nearest<V: Vector>(&self, values: &[V], weights: &[f32], flips: Option<&[V]>) -> Found<V> {
        let costs = self.costs(values, weights);
        let Some(flips) = flips else {
            return self.least(
                #[inline(always)]
                |[first, second]| costs.0[0][first].add(costs.0[1][second]),
            );
        };
        let mut least = [[V::splat(NONE); HALVES]; 2];
        for (half, least) in least.iter_mut().enumerate() {
            let flips = &flips[half * self.dims / 2..];
            for (places, least) in self.halves[half].iter().zip(least) {
                for (place, flip) in places.iter().zip(flips) {
                    *least = smaller(*least, flip.mul(V::splat(self.levels[usize::from(*place)])));
                }
            }
        }
        self.least(
            #[inline(always)]
            |[first, second]| {
                let flip = smaller(least[0][first], least[1][second]);
                costs.0[0][first].add(costs.0[1][second]).add(flip)
            },
        )
    }

    #[inline(always)]
    fn costs<V: Vector>(&self, values: &[V], weights: &[f32]) -> Costs<V> {
        let mut terms = [[V::splat(0.0); LEVELS]; WIDTH];
        for ((terms, value), weight) in terms.iter_mut().zip(values).zip(weights) {
            let twice = value.add(*value);
            for (term, level) in terms.iter_mut().zip(&self.levels) {
                *term = V::splat(*level).sub(twice).mul(V::splat(*level * weight));
            }
        }
        let mut costs = [[V::splat(0.0); HALVES]; 2];
        for (half, costs) in costs.iter_mut().enumerate() {
            let terms = &terms[half * self.dims / 2..];
            for (places, cost) in self.halves[half].iter().zip(costs) {
                for (place, terms) in places.iter().zip(terms) {
                    *cost = cost.add(terms[usize::from(*place)]);
                }
            }
        }
        Costs(costs)
    }

    #[inline(always)]
    fn least<V: Vector>(&self, cost_of: impl Fn([usize; 2]) -> V) -> Found<V> {
        let mut found = [Found { cost: V::splat(NONE), point: V::splat(0.0) }; STREAMS];
        for entries in &self.order {
            for (found, entry) in found.iter_mut().zip(entries) {
                let cost = cost_of(entry.halves.map(usize::from));
                *found = found.or_better(Found { cost, point: V::splat(entry.point) });
            }
        }
        let [a, b, c, d] = found;
        a.or_better(b).or_better(c.or_better(d))
    }
}

impl<V: Vector> Found<V> {
    /// `other` where it costs less.
    #[inline(always)]
    fn or_better(self, other: Found<V>) -> Found<V> {
        let better = self.cost.larger(other.cost);
        Found {
            cost: V::choose(better, other.cost, self.cost),
            point: V::choose(better, other.point, self.point),
        }
    }
}

#[inline(always)]
fn smaller<V: Vector>(a: V, b: V) -> V {
    V::choose(a.larger(b), b, a)
}
