//! Eight columns as signed and shifted points: what a reader multiplies with the scale of the group.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::super::super::vectors::{ZEROS, magnitude};
use super::codebook::{Codebook, Found};
use super::shape::{PointShape, SHIFT, Shift, Signs, WIDTH};

/// What the points of a type are chosen from.
#[derive(Clone, Copy)]
pub(in super::super) struct Points<'a> {
    pub shape: PointShape,
    pub book: &'a Codebook,
}

/// One search in the grid.
#[derive(Clone, Copy)]
struct Attempt {
    /// The first of the columns.
    first: usize,
    /// Whether one value is turned where the number of minus signs is odd.
    flipped: bool,
    /// Whether the shift is down, where there are two.
    down: bool,
}

const ONLY: Attempt = Attempt { first: 0, flipped: false, down: false };

impl Points<'_> {
    /// What is searched for: everything through one loop, so that the search is compiled once.
    #[inline(always)]
    fn attempts(&self) -> &'static [Attempt] {
        const SECOND: Attempt = Attempt { first: 4, ..ONLY };
        match (self.shape.signs, self.shape.shift, self.book.dims()) {
            (_, Shift::Eight, _) => &[ONLY, Attempt { down: true, ..ONLY }],
            (Signs::Free, _, 4) => &[ONLY, SECOND],
            (Signs::Even, _, 4) => {
                &[ONLY, SECOND, Attempt { flipped: true, ..ONLY }, Attempt { flipped: true, ..SECOND }]
            }
            (Signs::Even, ..) => &[Attempt { flipped: true, ..ONLY }],
            _ => &[ONLY],
        }
    }

    /// The levels nearest to `targets` divided by the scale, whose inverse this is, in eight columns. Exact: no other
    /// levels of the type are nearer.
    #[inline(always)]
    pub fn nearest<V: Vector>(
        &self,
        inverse: V,
        shift: V,
        targets: &[Lanes; WIDTH],
        weights: &[f32; WIDTH],
    ) -> [Lanes; WIDTH] {
        let zero = V::splat(0.0);
        let own_signs = self.shape.signs == Signs::OfPoints;
        let mut values = [zero; WIDTH];
        let mut odd = zero;
        for (value, target) in values.iter_mut().zip(targets) {
            *value = V::from_lanes(target).mul(inverse);
            odd = V::choose(zero.larger(*value), V::splat(1.0).sub(odd), odd);
        }
        let mut flips = [zero; WIDTH];
        for ((flip, value), weight) in flips.iter_mut().zip(&values).zip(weights) {
            *flip = magnitude(*value).mul(V::splat(4.0 * weight)).mul(odd);
        }
        let (dims, attempts) = (self.book.dims(), self.attempts());
        let mut found = [Found { cost: zero, point: zero }; 4];
        for (found, attempt) in found.iter_mut().zip(attempts) {
            let moved_by = match self.shape.shift {
                Shift::Eight => V::splat(if attempt.down { -SHIFT } else { SHIFT }),
                _ => shift,
            };
            let mut sizes = [zero; WIDTH];
            for (size, value) in sizes.iter_mut().zip(&values[attempt.first..]) {
                *size = if own_signs { value.sub(moved_by) } else { magnitude(*value) };
            }
            let flips = attempt.flipped.then_some(&flips[attempt.first..]);
            *found = self.book.nearest(&sizes[..dims], &weights[attempt.first..], flips);
            if self.shape.shift == Shift::Eight {
                found.cost = found.cost.add(left_out(&sizes, weights));
            }
        }
        if own_signs {
            return self.shifted(&found, shift);
        }
        self.with_signs(&found, &values, &flips, odd)
    }

    /// Levels of points that have signs.
    #[inline(always)]
    fn shifted<V: Vector>(&self, found: &[Found<V>; 4], shift: V) -> [Lanes; WIDTH] {
        let [up, down, ..] = found;
        let (point, shift) = match self.shape.shift {
            Shift::Eight => {
                let better = up.cost.larger(down.cost);
                let shift = V::choose(better, V::splat(-SHIFT), V::splat(SHIFT));
                (V::choose(better, down.point, up.point), shift)
            }
            _ => (up.point, shift),
        };
        let mut levels = self.levels(&[point]);
        for level in &mut levels {
            *level = V::from_lanes(level).add(shift).to_lanes();
        }
        levels
    }

    /// Levels of points with the signs of the values, one of them turned in rows that are `odd`.
    #[inline(always)]
    fn with_signs<V: Vector>(
        &self,
        found: &[Found<V>; 4],
        values: &[V; WIDTH],
        flips: &[V; WIDTH],
        odd: V,
    ) -> [Lanes; WIDTH] {
        let zero = V::splat(0.0);
        let [first, second, turned_first, turned_second] = found;
        let (even, whole) = (self.shape.signs == Signs::Even, self.book.dims() == WIDTH);
        // Which half the value to be turned is in, where they have points of their own.
        let in_second = first.cost.add(turned_second.cost);
        let in_second = turned_first.cost.add(second.cost).larger(in_second);
        let mut levels = match (even, whole) {
            (_, true) => self.levels(&[first.point]),
            (false, false) => self.levels(&[first.point, second.point]),
            (true, false) => self.levels(&[
                V::choose(in_second, first.point, turned_first.point),
                V::choose(in_second, turned_second.point, second.point),
            ]),
        };
        for (level, value) in levels.iter_mut().zip(values) {
            let size = V::from_lanes(level);
            *level = V::choose(zero.larger(*value), zero.sub(size), size).to_lanes();
        }
        if even {
            let in_second = V::choose(in_second, V::splat(1.0), zero).to_lanes();
            let (odd, mut lanes) = (odd.to_lanes(), [ZEROS; WIDTH]);
            for (lanes, flips) in lanes.iter_mut().zip(flips) {
                *lanes = flips.to_lanes();
            }
            for lane in (0..LANES).filter(|lane| odd[*lane] == 1.0) {
                let columns = match (whole, in_second[lane] == 1.0) {
                    (true, _) => 0..WIDTH,
                    (false, false) => 0..WIDTH / 2,
                    (false, true) => WIDTH / 2..WIDTH,
                };
                let (mut least, mut turned) = (f32::INFINITY, columns.start);
                for k in columns {
                    let cost = lanes[k][lane] * levels[k][lane].abs();
                    if cost < least {
                        (least, turned) = (cost, k);
                    }
                }
                levels[turned][lane] = -levels[turned][lane];
            }
        }
        levels
    }

    /// The levels of points by their places: of one, or of two with four values each.
    #[inline(always)]
    fn levels<V: Vector>(&self, places: &[V]) -> [Lanes; WIDTH] {
        let mut levels = [ZEROS; WIDTH];
        let dims = WIDTH / places.len();
        for (places, levels) in places.iter().zip(levels.chunks_exact_mut(dims)) {
            for (lane, place) in places.to_lanes().into_iter().enumerate() {
                for (level, value) in levels.iter_mut().zip(self.book.point(place)) {
                    level[lane] = *value;
                }
            }
        }
        levels
    }
}

/// What a search leaves out of its costs: the weighted squares of the values.
#[inline(always)]
fn left_out<V: Vector>(values: &[V; WIDTH], weights: &[f32; WIDTH]) -> V {
    let mut sum = V::splat(0.0);
    for (value, weight) in values.iter().zip(weights) {
        sum = sum.fma(value.mul(V::splat(*weight)), *value);
    }
    sum
}
