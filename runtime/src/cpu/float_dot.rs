//! Dot products of several weight rows against several tokens at once. Every single one has exactly the arithmetic of
//! [`lanes::dot`](super::lanes::dot), so a result does not depend on which tile computed it.

use super::isa::Isa;
use super::lanes::LANES;
use super::vector::{self, Vector, VectorWork};

/// Rows and tokens of the large tile: 12 accumulators of 8 lanes, which with their operands fill 16 registers.
const TILE_ROWS: usize = 2;
const TILE_TOKENS: usize = 3;
/// Rows against a single token: enough chains of additions to hide their latency.
const COLUMN_ROWS: usize = 4;

/// `out[r][t] = rows[r] . tokens[t]`.
///
/// # Panics
/// When the lengths differ.
#[inline(always)]
pub(super) fn dots<V: Vector, const R: usize, const T: usize>(
    rows: [&[f32]; R],
    tokens: [&[f32]; T],
) -> [[f32; T]; R] {
    let len = rows[0].len();
    assert!(rows.iter().chain(&tokens).all(|v| v.len() == len), "dot products of different lengths");
    let rows = rows.map(|row| row.as_chunks::<LANES>());
    let tokens = tokens.map(|token| token.as_chunks::<LANES>());
    let mut acc = [[V::splat(0.0); T]; R];
    for i in 0..len / LANES {
        let x = tokens.map(|(chunks, _)| V::from_lanes(&chunks[i]));
        for (acc, (chunks, _)) in acc.iter_mut().zip(&rows) {
            let w = V::from_lanes(&chunks[i]);
            for (acc, x) in acc.iter_mut().zip(x) {
                *acc = acc.fma(w, x);
            }
        }
    }
    if !len.is_multiple_of(LANES) {
        for (acc, (_, rest)) in acc.iter_mut().zip(&rows) {
            let w = V::load(rest);
            for (acc, (_, rest)) in acc.iter_mut().zip(&tokens) {
                *acc = acc.fma(w, V::load(rest));
            }
        }
    }
    acc.map(|acc| acc.map(V::sum))
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
        *out = dots::<V, COLUMN_ROWS, 1>([row(r), row(r + 1), row(r + 2), row(r + 3)], [x]).map(|[dot]| dot);
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
pub(super) fn matmul(isa: Isa, rows: &[f32], x: &[f32], k: usize, out: &mut [f32]) {
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
            m => tiles::<V>(rows, x, k, m, out),
        }
    }
}

/// Tokens outside, rows inside: the rows are what was sized for the nearest cache.
#[inline(always)]
fn tiles<V: Vector>(rows: &[f32], x: &[f32], k: usize, m: usize, out: &mut [f32]) {
    let count = rows.len() / k;
    for t in (0..m).step_by(TILE_TOKENS) {
        // Past the end the last token is computed again: cheaper than tiles of other shapes.
        let ts = [t, (t + 1).min(m - 1), (t + 2).min(m - 1)];
        let tokens = ts.map(|t| &x[t * k..][..k]);
        for r in (0..count).step_by(TILE_ROWS) {
            let rs = [r, (r + 1).min(count - 1)];
            let dots = dots::<V, TILE_ROWS, TILE_TOKENS>(rs.map(|r| &rows[r * k..][..k]), tokens);
            for (r, dots) in rs.into_iter().zip(dots) {
                for (t, dot) in ts.into_iter().zip(dots) {
                    out[r * m + t] = dot;
                }
            }
        }
    }
}
