//! The nearest level of a grid, for 16 rows at once.

use qsf_runtime::cpu::vector::Vector;

use super::block;
use super::vectors::{clamp, round};

/// Levels in ascending order, in the unit of a table.
pub(super) trait Levels: Sync {
    /// The level nearest to each lane.
    fn nearest<V: Vector>(&self, y: V) -> V;

    /// The code of the level nearest to `y`.
    fn code(&self, y: f32) -> u8;

    /// The largest magnitude.
    fn largest(&self) -> f32;
}

/// Any levels, one more than `N`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<const N: usize> {
    first: f32,
    middles: [f32; N],
    gaps: [f32; N],
    largest: f32,
}

impl<const N: usize> Table<N> {
    /// The levels of a table in ascending order.
    pub(super) fn new(table: &[i8]) -> Table<N> {
        assert!(table.len() == N + 1 && table.is_sorted(), "a grid in ascending order");
        let level = |i: usize| f32::from(table[i]);
        Table {
            first: level(0),
            middles: std::array::from_fn(|i| 0.5 * (level(i) + level(i + 1))),
            gaps: std::array::from_fn(|i| level(i + 1) - level(i)),
            largest: table.iter().fold(0.0, |largest, v| f32::from(v.unsigned_abs()).max(largest)),
        }
    }
}

impl<const N: usize> Levels for Table<N> {
    /// A comparison and an addition per gap, without a branch. The sums are of small integers, and exact in any order; four
    /// of them, so that an addition need not wait for the one before.
    #[inline(always)]
    fn nearest<V: Vector>(&self, y: V) -> V {
        let zero = V::splat(0.0);
        let mut sums = [V::splat(self.first), zero, zero, zero];
        for k in 0..N {
            let above = y.larger(V::splat(self.middles[k]));
            sums[k % 4] = V::choose(above, sums[k % 4].add(V::splat(self.gaps[k])), sums[k % 4]);
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3]))
    }

    #[inline(always)]
    fn code(&self, y: f32) -> u8 {
        self.middles.iter().map(|middle| u8::from(y > *middle)).sum()
    }

    #[inline(always)]
    fn largest(&self) -> f32 {
        self.largest
    }
}

/// The 64 even levels from -64 to 62.
#[derive(Debug, Clone, Copy)]
pub(super) struct Even;

impl Levels for Even {
    #[inline(always)]
    fn nearest<V: Vector>(&self, y: V) -> V {
        let code = round(clamp(y.add(V::splat(64.0)).mul(V::splat(0.5)), 0.0, 63.0));
        code.add(code).sub(V::splat(64.0))
    }

    #[inline(always)]
    fn code(&self, y: f32) -> u8 {
        block::round(block::clamp((y + 64.0) * 0.5, 0.0, 63.0)) as u8
    }

    #[inline(always)]
    fn largest(&self) -> f32 {
        64.0
    }
}
