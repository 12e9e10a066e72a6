//! Products of several rows of factors with several vectors at once, as many as registers hold: what is loaded for one is
//! used for all, and their chains of multiply-adds hide each other's latency.

use super::super::lanes::LANES;
use super::super::vector::{LINE, Vector, prefetch_second};
use super::source::Source;

/// Factors of a row.
pub(super) const ROW: usize = 256;
/// Vectors from one row of factors to the next: one more than it has, for rows a power of two apart would meet in the same
/// few sets of a cache.
pub(super) const ROW_LANES: usize = ROW / LANES + 1;

/// Most rows that are taken together.
pub(super) const MOST_AT_ONCE: usize = 8;

/// How many of some rows are taken together.
#[inline(always)]
pub(super) const fn rows_at_once<V: Vector>(rows: usize) -> usize {
    match rows {
        MOST_AT_ONCE.. if V::MANY => MOST_AT_ONCE,
        6.. if !V::MANY => 6,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// Calls `$function::<V, ROWS, VECTORS>($($argument),*)` for `$rows` rows at most, and gives the number of rows that it was
/// called for, [`rows_at_once`]. `ROWS * VECTORS` accumulators, with what they need, fill 32 registers, or 16 that hold half a
/// vector.
macro_rules! by_rows {
    ($rows:expr, $function:ident::<$V:ident>($($argument:expr),*)) => {{
        let rows = $crate::attention::tile::rows_at_once::<$V>($rows);
        match rows {
            8 => $function::<$V, 8, 2>($($argument),*),
            6 => $function::<$V, 6, 1>($($argument),*),
            4 if $V::MANY => $function::<$V, 4, 4>($($argument),*),
            4 => $function::<$V, 4, 1>($($argument),*),
            2 => $function::<$V, 2, 2>($($argument),*),
            _ => $function::<$V, 1, 4>($($argument),*),
        }
        rows
    }};
}

pub(super) use by_rows;

/// What is fetched for later while vectors are used: as many of its vectors, in the same order.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub start: *const u8,
    /// Of what becomes a vector.
    pub bytes: usize,
}

impl Ahead {
    /// From a vector on.
    #[inline(always)]
    pub fn from(self, vector: usize) -> Ahead {
        Ahead { start: self.start.wrapping_add(vector * self.bytes), ..self }
    }

    /// Has the processor fetch a vector.
    #[inline(always)]
    pub fn fetch(self, vector: usize) {
        prefetch_second(self.start.wrapping_add(vector * self.bytes));
    }
}

/// `acc[r][c] += sum over i below count of factors[r][i] * vectors[c][i * step]`, a chain for each. Row r of `factors`
/// begins at vector `r * ROW_LANES`. What is `ahead` of `vectors[0]` and those behind is fetched for later.
///
/// # Panics
/// When there are fewer factors or vectors.
#[inline(always)]
pub(super) fn add_products<V: Vector, const R: usize, const C: usize>(
    factors: &[f32],
    vectors: [impl Source; C],
    count: usize,
    step: usize,
    ahead: Ahead,
    acc: &mut [[V; C]; R],
) {
    let Some(last) = count.checked_sub(1) else { return };
    assert!(factors.len() > last + (R - 1) * ROW_LANES * LANES, "too few factors");
    for vectors in vectors {
        assert!(vectors.has(last, step), "too few vectors");
    }
    let others = vectors.first().map_or(0, |vectors| vectors.others_step());
    let (ahead_step, mut fetched) = (step * ahead.bytes, ahead.start);
    // Of vectors that take less, several are in a line.
    let lines = if ahead.bytes > LINE / 2 { C } else { 1 };
    let (mut at, mut other) = (0, 0);
    for i in 0..count {
        for line in 0..lines {
            prefetch_second(fetched.wrapping_add(line * LINE));
        }
        let mut loaded = [V::splat(0.0); C];
        for (loaded, vectors) in loaded.iter_mut().zip(vectors) {
            // SAFETY: i is at most `last`, which is there.
            *loaded = unsafe { vectors.get::<V>(at, other) };
        }
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: as above, and r is below R.
            let factor = V::splat(unsafe { *factors.get_unchecked(r * ROW_LANES * LANES + i) });
            for (acc, loaded) in acc.iter_mut().zip(loaded) {
                *acc = acc.fma(factor, loaded);
            }
        }
        // The products of these are no instructions of the loop.
        (at, other, fetched) = (at + step, other + others, fetched.wrapping_add(ahead_step));
    }
}
