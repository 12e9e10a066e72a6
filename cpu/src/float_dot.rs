//! Dot products of several weight rows against several tokens at once. Every single one has exactly the arithmetic of
//! [`lanes::dot`](super::lanes::dot), so a result does not depend on which tile computed it.

use super::isa::Isa;
use super::lanes::{LANES, Lanes};
use super::vector::{self, Vector, VectorWork};

/// Rows against a single token: enough chains of additions to hide their latency.
const COLUMN_ROWS: usize = 4;

/// `out[r][t] = rows[r] . tokens[t]`.
///
/// # Panics
/// When the lengths differ.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see the first comment inside")]
pub(super) fn dots<V: Vector, const R: usize, const T: usize>(
    rows: [&[f32]; R],
    tokens: [&[f32]; T],
) -> [[f32; T]; R] {
    let len = rows[0].len();
    for v in rows.iter().chain(&tokens) {
        assert_eq!(v.len(), len, "dot products of different lengths");
    }
    // Loops over indices: what a closure or an iterator over arrays does not fully unfold keeps the sums in memory, at three times
    // the time. All slices are cut to one length that the compiler sees, or each would be checked in the inner loop.
    let full = len / LANES;
    let mut row_chunks: [&[Lanes]; R] = [&[]; R];
    let mut token_chunks: [&[Lanes]; T] = [&[]; T];
    for r in 0..R {
        row_chunks[r] = &rows[r].as_chunks().0[..full];
    }
    for t in 0..T {
        token_chunks[t] = &tokens[t].as_chunks().0[..full];
    }
    let mut acc = [[V::splat(0.0); T]; R];
    for i in 0..full {
        let mut x = [V::splat(0.0); T];
        for t in 0..T {
            x[t] = V::from_lanes(&token_chunks[t][i]);
        }
        for r in 0..R {
            let w = V::from_lanes(&row_chunks[r][i]);
            for t in 0..T {
                acc[r][t] = acc[r][t].fma(w, x[t]);
            }
        }
    }
    if !len.is_multiple_of(LANES) {
        let rest = len - len % LANES;
        for r in 0..R {
            let w = V::load(&rows[r][rest..]);
            for t in 0..T {
                acc[r][t] = acc[r][t].fma(w, V::load(&tokens[t][rest..]));
            }
        }
    }
    let mut out = [[0.0; T]; R];
    for r in 0..R {
        for t in 0..T {
            out[r][t] = acc[r][t].sum();
        }
    }
    out
}

/// `out[r] = rows[r] . x` for `rows` row major with as many columns as `x`.
///
/// # Panics
/// When `x` is empty.
#[inline(always)]
pub(super) fn matvec<V: Vector>(rows: &[f32], x: &[f32], out: &mut [f32]) {
    let k = x.len();
    let row = |r: usize| &rows[r * k..][..k];
    let (columns, rest) = out.as_chunks_mut::<COLUMN_ROWS>();
    let tail = columns.len() * COLUMN_ROWS;
    for (i, out) in columns.iter_mut().enumerate() {
        let r = i * COLUMN_ROWS;
        let [[a], [b], [c], [d]] =
            dots::<V, COLUMN_ROWS, 1>([row(r), row(r + 1), row(r + 2), row(r + 3)], [x]);
        *out = [a, b, c, d];
    }
    for (i, out) in rest.iter_mut().enumerate() {
        let [[dot]] = dots::<V, 1, 1>([row(tail + i)], [x]);
        *out = dot;
    }
}

/// `out[r * m + t] = rows[r] . x[t]` for `rows` and `x` row major with `k` columns, m tokens.
///
/// # Panics
/// When `k` is 0 or the lengths do not fit together.
pub fn matmul(isa: Isa, rows: &[f32], x: &[f32], k: usize, out: &mut [f32]) {
    assert!(k > 0 && rows.len().is_multiple_of(k) && x.len().is_multiple_of(k), "not rows of {k}");
    assert_eq!(out.len(), (rows.len() / k) * (x.len() / k), "output of another size");
    vector::run(isa, Matmul { rows, x, k, out });
}

struct Matmul<'a> {
    rows: &'a [f32],
    x: &'a [f32],
    k: usize,
    out: &'a mut [f32],
}

impl VectorWork for Matmul<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Matmul { rows, x, k, out } = self;
        match x.len() / k {
            0 => {}
            1 => matvec::<V>(rows, x, out),
            // Accumulators for half of the registers, or three quarters of the fewer ones of AVX2: with more, operands are
            // spilled.
            m if V::MANY => tiles::<V, 4, 4>(rows, x, k, m, out),
            m => tiles::<V, 2, 3>(rows, x, k, m, out),
        }
    }
}

/// Tiles of `R` rows and `T` tokens. Tokens outside, rows inside: the rows are what was sized for the nearest cache.
#[inline(always)]
fn tiles<V: Vector, const R: usize, const T: usize>(
    rows: &[f32],
    x: &[f32],
    k: usize,
    m: usize,
    out: &mut [f32],
) {
    let count = rows.len() / k;
    // Past the end the last row or token is computed again: cheaper than tiles of other shapes.
    for t in (0..m).step_by(T) {
        let mut tokens: [&[f32]; T] = [&[]; T];
        for (i, token) in tokens.iter_mut().enumerate() {
            *token = &x[(t + i).min(m - 1) * k..][..k];
        }
        for r in (0..count).step_by(R) {
            let mut tile: [&[f32]; R] = [&[]; R];
            for (i, row) in tile.iter_mut().enumerate() {
                *row = &rows[(r + i).min(count - 1) * k..][..k];
            }
            let dots = dots::<V, R, T>(tile, tokens);
            for (r, dots) in (r..count).zip(dots) {
                for (t, dot) in (t..m).zip(dots) {
                    out[r * m + t] = dot;
                }
            }
        }
    }
}
