//! Dot products of several weight rows against several tokens at once. Every single one has exactly the arithmetic of
//! [`lanes::dot`], so a result does not depend on which tile computed it.
//!
//! The accumulators are separate variables on purpose: 6 pairs of vector registers that the compiler keeps where they
//! are. As an array of arrays they are spilled in every step, which costs a factor of fifty.

use super::isa::{Isa, Vectorized};
use super::lanes::{LANES, dot, fma, load, sum};

/// Tokens of the large tile.
const TILE_TOKENS: usize = 3;

/// `[[a.x, a.y, a.z], [b.x, b.y, b.z]]`.
///
/// # Panics
/// When the lengths differ.
#[inline(always)]
pub fn dots_2x3(a: &[f32], b: &[f32], x: &[f32], y: &[f32], z: &[f32]) -> [[f32; 3]; 2] {
    let n = a.len();
    assert!(b.len() == n && x.len() == n && y.len() == n && z.len() == n);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (y, y_rest) = y.as_chunks::<LANES>();
    let (z, z_rest) = z.as_chunks::<LANES>();
    let zero = [0.0; LANES];
    let (mut ax, mut ay, mut az) = (zero, zero, zero);
    let (mut bx, mut by, mut bz) = (zero, zero, zero);
    for ((((a, b), x), y), z) in a.iter().zip(b).zip(x).zip(y).zip(z) {
        ax = fma(a, x, ax);
        ay = fma(a, y, ay);
        az = fma(a, z, az);
        bx = fma(b, x, bx);
        by = fma(b, y, by);
        bz = fma(b, z, bz);
    }
    if !a_rest.is_empty() {
        let (a, b) = (load(a_rest), load(b_rest));
        let (x, y, z) = (load(x_rest), load(y_rest), load(z_rest));
        ax = fma(&a, &x, ax);
        ay = fma(&a, &y, ay);
        az = fma(&a, &z, az);
        bx = fma(&b, &x, bx);
        by = fma(&b, &y, by);
        bz = fma(&b, &z, bz);
    }
    [[sum(ax), sum(ay), sum(az)], [sum(bx), sum(by), sum(bz)]]
}

/// `[a.x, b.x, c.x, d.x]`: four rows against one token, so that four chains of additions overlap.
///
/// # Panics
/// When the lengths differ.
#[inline(always)]
pub fn dots_4x1(a: &[f32], b: &[f32], c: &[f32], d: &[f32], x: &[f32]) -> [f32; 4] {
    let n = a.len();
    assert!(b.len() == n && c.len() == n && d.len() == n && x.len() == n);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let ((c, c_rest), (d, d_rest)) = (c.as_chunks::<LANES>(), d.as_chunks::<LANES>());
    let (x, x_rest) = x.as_chunks::<LANES>();
    let zero = [0.0; LANES];
    let (mut ax, mut bx, mut cx, mut dx) = (zero, zero, zero, zero);
    for ((((a, b), c), d), x) in a.iter().zip(b).zip(c).zip(d).zip(x) {
        ax = fma(a, x, ax);
        bx = fma(b, x, bx);
        cx = fma(c, x, cx);
        dx = fma(d, x, dx);
    }
    if !a_rest.is_empty() {
        let x = load(x_rest);
        ax = fma(&load(a_rest), &x, ax);
        bx = fma(&load(b_rest), &x, bx);
        cx = fma(&load(c_rest), &x, cx);
        dx = fma(&load(d_rest), &x, dx);
    }
    [sum(ax), sum(bx), sum(cx), sum(dx)]
}

/// `out[r * m + t] = rows[r] . x[t]` for `rows` and `x` row major with `k` columns, m tokens.
///
/// # Panics
/// When `k` is 0 or the lengths do not fit together.
pub fn matmul(isa: Isa, rows: &[f32], x: &[f32], k: usize, out: &mut [f32]) {
    assert!(k > 0 && rows.len().is_multiple_of(k) && x.len().is_multiple_of(k), "not rows of {k}");
    assert_eq!(out.len(), (rows.len() / k) * (x.len() / k), "output of another size");
    isa.vectorize(Matmul { rows, x, k, out });
}

struct Matmul<'a> {
    rows: &'a [f32],
    x: &'a [f32],
    k: usize,
    out: &'a mut [f32],
}

impl Vectorized for Matmul<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Matmul { rows, x, k, out } = self;
        match x.len() / k {
            0 => {}
            1 => matvec(rows, x, out),
            m => tiles(rows, x, k, m, out),
        }
    }
}

#[inline(always)]
fn matvec(rows: &[f32], x: &[f32], out: &mut [f32]) {
    let k = x.len();
    let mut fours = rows.chunks_exact(4 * k);
    let (out_fours, out_rest) = out.as_chunks_mut::<4>();
    for (four, out) in (&mut fours).zip(out_fours) {
        let ((a, b), (c, d)) = (four[..2 * k].split_at(k), four[2 * k..].split_at(k));
        *out = dots_4x1(a, b, c, d, x);
    }
    for (row, out) in fours.remainder().chunks_exact(k).zip(out_rest) {
        *out = dot(row, x);
    }
}

/// Tokens outside, rows inside: the rows are what was sized for the nearest cache.
#[inline(always)]
fn tiles(rows: &[f32], x: &[f32], k: usize, m: usize, out: &mut [f32]) {
    let count = rows.len() / k;
    for t in (0..m).step_by(TILE_TOKENS) {
        // Past the end the last token is computed again: cheaper than tiles of other shapes.
        let ts = [t, (t + 1).min(m - 1), (t + 2).min(m - 1)];
        let [x, y, z] = ts.map(|t| &x[t * k..][..k]);
        for r in (0..count).step_by(2) {
            let rs = [r, (r + 1).min(count - 1)];
            let [a, b] = rs.map(|r| &rows[r * k..][..k]);
            let dots = dots_2x3(a, b, x, y, z);
            for (r, dots) in rs.into_iter().zip(dots) {
                for (t, dot) in ts.into_iter().zip(dots) {
                    out[r * m + t] = dot;
                }
            }
        }
    }
}
