//! Weight rows of float types times a single token: decoded in registers on their way from memory, which is the limit then.
//! The arithmetic is that of [`lanes::dot`](super::lanes::dot) on the decoded row.

use qsf_format::QuantType;

use super::isa::Isa;
use super::lanes::LANES;
use super::stored_floats::{Bf16s, Halves, Singles, StoredFloats};
use super::vector::{self, CacheLevel, Vector, VectorWork, prefetch_lines};

/// Rows at a time: enough chains of additions to hide their latency.
const ROWS: usize = 4;

/// `out[r] = row r . x` for rows of `x.len()` numbers of the float type `quant`, one behind the other in `bytes`.
///
/// # Panics
/// When `quant` is no float type, or `bytes` are not as many rows as `out` has values.
pub fn matvec(isa: Isa, quant: QuantType, bytes: &[u8], x: &[f32], out: &mut [f32]) {
    assert!(quant.is_float(), "{quant} is no float type");
    let width = if quant == QuantType::F32 { 4 } else { 2 };
    assert_eq!(bytes.len(), out.len() * x.len() * width, "bytes of another matrix");
    vector::run(isa, Matvec { quant, bytes, x, out });
}

struct Matvec<'a> {
    quant: QuantType,
    bytes: &'a [u8],
    x: &'a [f32],
    out: &'a mut [f32],
}

impl VectorWork for Matvec<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.quant {
            QuantType::F16 => self.rows::<V, Halves, { 2 * LANES }>(),
            QuantType::Bf16 => self.rows::<V, Bf16s, { 2 * LANES }>(),
            _ => self.rows::<V, Singles, { 4 * LANES }>(),
        }
    }
}

impl Matvec<'_> {
    #[inline(always)]
    fn rows<V: Vector, F: StoredFloats<BYTES>, const BYTES: usize>(self) {
        let Matvec { bytes, x, out, .. } = self;
        let row_bytes = x.len() * (BYTES / LANES);
        let last = out.len().saturating_sub(1);
        for (i, out) in out.chunks_mut(ROWS).enumerate() {
            let mut rows: [&[u8]; ROWS] = [&[]; ROWS];
            for (r, row) in rows.iter_mut().enumerate() {
                // Past the end the last row is computed again.
                *row = &bytes[(i * ROWS + r).min(last) * row_bytes..][..row_bytes];
            }
            let dots = dots::<V, F, BYTES>(rows, x);
            out.copy_from_slice(&dots[..out.len()]);
        }
    }
}

/// `rows[r] . x`. Meanwhile as many rows behind these are fetched: the processor's own prefetching does not keep up with several rows
/// at a time.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
fn dots<V: Vector, F: StoredFloats<BYTES>, const BYTES: usize>(
    rows: [&[u8]; ROWS],
    x: &[f32],
) -> [f32; ROWS] {
    let full = x.len() / LANES;
    let row_bytes = rows[0].len();
    let x_chunks = &x.as_chunks::<LANES>().0[..full];
    let mut chunks: [&[[u8; BYTES]]; ROWS] = [&[]; ROWS];
    for r in 0..ROWS {
        chunks[r] = &rows[r].as_chunks().0[..full];
    }
    let behind = rows[0].as_ptr().wrapping_add(ROWS * row_bytes);
    let mut acc = [V::splat(0.0); ROWS];
    for i in 0..full {
        let x = V::from_lanes(&x_chunks[i]);
        prefetch_lines(behind.wrapping_add(i * ROWS * BYTES), ROWS * BYTES, CacheLevel::Second);
        for r in 0..ROWS {
            acc[r] = acc[r].fma(F::read(&chunks[r][i]), x);
        }
    }
    if !x.len().is_multiple_of(LANES) {
        let x = V::load(&x[full * LANES..]);
        for r in 0..ROWS {
            let mut last = [0; BYTES];
            let rest = &rows[r][full * BYTES..];
            last[..rest.len()].copy_from_slice(rest);
            acc[r] = acc[r].fma(F::read(&last), x);
        }
    }
    let mut out = [0.0; ROWS];
    for r in 0..ROWS {
        out[r] = acc[r].sum();
    }
    out
}
