//! Square matrices as the feedback loops read them, and products with them.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;
use rayon::prelude::*;

/// Columns of a strip, and of the blocks of every learned type.
pub(super) const STRIP: usize = 32;

/// Columns that the product holds in registers.
const HELD: usize = 8;

/// A square matrix of whole strips: 32 columns, one row after the other, then the next 32. A product walks down a strip,
/// and reads memory in one run.
#[derive(Debug)]
pub(super) struct Strips {
    size: usize,
    rows: Vec<[f32; STRIP]>,
}

impl Strips {
    /// The matrix of `size` rows and columns, a multiple of 32, with these entries.
    pub(super) fn new(size: usize, entry: impl Fn(usize, usize) -> f32 + Sync) -> Strips {
        let mut rows = vec![[0.0; STRIP]; size * (size / STRIP)];
        rows.par_chunks_mut(size.max(1)).enumerate().for_each(|(strip, rows)| {
            for (i, row) in rows.iter_mut().enumerate() {
                for (j, out) in row.iter_mut().enumerate() {
                    *out = entry(i, strip * STRIP + j);
                }
            }
        });
        Strips { size, rows }
    }

    /// Rows and columns.
    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// All rows of columns `32 * strip..32 * strip + 32`.
    #[inline(always)]
    pub(super) fn strip(&self, strip: usize) -> &[[f32; STRIP]] {
        &self.rows[strip * self.size..(strip + 1) * self.size]
    }

    /// One entry.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, col: usize) -> f32 {
        self.strip(col / STRIP)[row][col % STRIP]
    }
}

/// Rows of a strip that groups of rows take turns with: as many as stay in the first-level cache with a group's factors.
const TOGETHER: usize = 128;

/// [`accumulate`] for several groups of rows, whose `out` begins at column `at`: the strip is read once for all.
#[inline(always)]
pub(super) fn accumulate_groups<V: Vector>(
    out: &mut [Vec<Lanes>],
    at: usize,
    factors: &[Vec<Lanes>],
    strip: &[[f32; STRIP]],
) {
    for (part, strip) in strip.chunks(TOGETHER).enumerate() {
        for (out, factors) in out.iter_mut().zip(factors) {
            accumulate::<V>(&mut out[at..at + STRIP], &factors[part * TOGETHER..], strip);
        }
    }
}

/// Subtracts the products of 32 columns with the rows of a strip from columns before them: `group[i] -= sum_k group[at + k] *
/// strip[i][k]`, k ascending, for each i that the strip has. The count of these is a multiple of 32, and at most `at`.
#[inline(always)]
pub(super) fn subtract_rows<V: Vector>(groups: &mut [Vec<Lanes>], at: usize, strip: &[[f32; STRIP]]) {
    for (part, strip) in strip.chunks(TOGETHER).enumerate() {
        for group in &mut *groups {
            let (before, factors) = group.split_at_mut(at);
            let factors = &factors[..STRIP];
            let before = &mut before[part * TOGETHER..][..strip.len()];
            for (rows, out) in strip.as_chunks::<HELD>().0.iter().zip(before.as_chunks_mut::<HELD>().0) {
                let mut sums = [V::splat(0.0); HELD];
                for i in 0..HELD {
                    sums[i] = V::from_lanes(&out[i]);
                }
                for (k, factor) in factors.iter().enumerate() {
                    let factor = V::from_lanes(factor);
                    for i in 0..HELD {
                        sums[i] = sums[i].fma(factor, V::splat(-rows[i][k]));
                    }
                }
                for i in 0..HELD {
                    out[i] = sums[i].to_lanes();
                }
            }
        }
    }
}

/// Adds the product of a row per lane with a strip: `out[j] += sum_i factors[i] * strip[i][j]`, i ascending.
#[inline(always)]
pub(super) fn accumulate<V: Vector>(out: &mut [Lanes], factors: &[Lanes], strip: &[[f32; STRIP]]) {
    for (part, out) in out.as_chunks_mut::<HELD>().0.iter_mut().enumerate() {
        let mut sums = [V::splat(0.0); HELD];
        for j in 0..HELD {
            sums[j] = V::from_lanes(&out[j]);
        }
        for (factor, row) in factors.iter().zip(strip) {
            let factor = V::from_lanes(factor);
            let row: &[f32; HELD] = row[part * HELD..].first_chunk().unwrap_or(&[0.0; HELD]);
            for j in 0..HELD {
                sums[j] = sums[j].fma(factor, V::splat(row[j]));
            }
        }
        for j in 0..HELD {
            out[j] = sums[j].to_lanes();
        }
    }
}
