//! Columns of float types, each as often as a factor says, added to outputs: decoded in registers. What each output gets is one chain
//! of fused additions, in the order of the columns.

use std::slice;

use qsf_format::QuantType;

use super::isa::Isa;
use super::kernels::PanelOut;
use super::lanes::LANES;
use super::stored_floats::{Halves, Singles, StoredFloats};
use super::vector::{self, Vector, VectorWork};

/// Some values of columns.
#[derive(Debug, Clone, Copy)]
pub struct FloatColumns<'a> {
    /// F16 or F32.
    pub quant: QuantType,
    /// The values of all columns. The first column is in front.
    pub bytes: &'a [u8],
    /// Bytes from a column to the next.
    pub stride: usize,
    /// How many columns there are.
    pub columns: usize,
}

impl FloatColumns<'_> {
    /// `out[t][i] += factors[t][0] * column 0 [i] + factors[t][1] * column 1 [i] + ...` for `i` below `len`. There is a `t` for so many
    /// factors as there are columns, and `out[t]` begins at `t * stride` of `out`.
    ///
    /// # Panics
    /// When the type is another, there are no columns, or a column has fewer values than `len`.
    ///
    /// # Safety
    /// Behind `start` there must be room for all of these outputs, which no other thread uses meanwhile.
    pub unsafe fn add(&self, isa: Isa, factors: &[f32], len: usize, out: PanelOut) {
        assert!(factors.len().is_multiple_of(self.columns), "factors of other columns");
        vector::run(isa, Add { columns: *self, factors, len, out });
    }
}

struct Add<'a> {
    columns: FloatColumns<'a>,
    factors: &'a [f32],
    len: usize,
    /// With room for all outputs, which is the caller's own.
    out: PanelOut,
}

impl VectorWork for Add<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.columns.quant {
            QuantType::F16 => self.add::<V, Halves, { 2 * LANES }>(),
            QuantType::F32 => self.add::<V, Singles, { 4 * LANES }>(),
            other => panic!("columns of {other}"),
        }
    }
}

impl Add<'_> {
    /// Columns stay in registers while all tokens pass by: a quarter of the registers, so that sums of several tokens fit beside them.
    #[inline(always)]
    fn add<V: Vector, F: StoredFloats<BYTES>, const BYTES: usize>(self) {
        let count = self.columns.columns;
        let mut first = 0;
        if V::MANY {
            while first + 8 <= count {
                self.some::<V, F, BYTES, 8>(first);
                first += 8;
            }
        }
        while first + 4 <= count {
            self.some::<V, F, BYTES, 4>(first);
            first += 4;
        }
        while first < count {
            self.some::<V, F, BYTES, 1>(first);
            first += 1;
        }
    }

    /// The columns from `first` on. Loops over indices, as in [`float_dot`](super::float_dot).
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
    fn some<V: Vector, F: StoredFloats<BYTES>, const BYTES: usize, const C: usize>(&self, first: usize) {
        let FloatColumns { bytes, stride, columns, .. } = self.columns;
        let width = BYTES / LANES;
        for at in (0..self.len).step_by(LANES) {
            let len = LANES.min(self.len - at);
            let mut values = [V::splat(0.0); C];
            for c in 0..C {
                let stored = &bytes[(first + c) * stride + at * width..][..len * width];
                values[c] = if let Some(stored) = stored.first_chunk::<BYTES>() {
                    F::read(stored)
                } else {
                    let mut last = [0; BYTES];
                    last[..stored.len()].copy_from_slice(stored);
                    F::read(&last)
                };
            }
            for (token, factors) in self.factors.chunks_exact(columns).enumerate() {
                let Some(factors) = factors[first..].first_chunk::<C>() else { break };
                // SAFETY: `FloatColumns::add` is promised that these are there, and that they are the caller's own.
                let out = unsafe {
                    slice::from_raw_parts_mut(self.out.start.add(token * self.out.stride + at), len)
                };
                // Not for both: a copy of an unknown length is a call.
                if let Some(out) = out.first_chunk_mut::<LANES>() {
                    *out = plus(V::from_lanes(out), factors, &values).to_lanes();
                } else {
                    out.copy_from_slice(&plus(V::load(out), factors, &values).to_lanes()[..len]);
                }
            }
        }
    }
}

/// `sum + factors[0] * values[0] + factors[1] * values[1] + ...`
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
fn plus<V: Vector, const C: usize>(mut sum: V, factors: &[f32; C], values: &[V; C]) -> V {
    for c in 0..C {
        sum = sum.fma(V::splat(factors[c]), values[c]);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_all_lengths_are_chains_of_fused_additions_with_the_same_bits_everywhere() {
        for len in [1, 15, 16, 63, 64, 65, 200] {
            let (columns, tokens, stride) = (13, 3, len + 7);
            let value = |i: usize| half::f16::from_f32((i as f32 * 0.37).sin());
            let halves: Vec<u8> = (0..columns * len).flat_map(|i| value(i).to_le_bytes()).collect();
            let floats: Vec<u8> = (0..columns * len).flat_map(|i| value(i).to_f32().to_le_bytes()).collect();
            let factors: Vec<f32> = (0..tokens * columns).map(|r| 1.5 - r as f32 * 0.07).collect();
            let before: Vec<f32> = (0..tokens * stride).map(|i| (i as f32).cos()).collect();
            let mut expected = before.clone();
            for (out, factors) in expected.chunks_exact_mut(stride).zip(factors.chunks_exact(columns)) {
                for (r, factor) in factors.iter().enumerate() {
                    for (i, out) in out[..len].iter_mut().enumerate() {
                        *out = factor.mul_add(value(r * len + i).to_f32(), *out);
                    }
                }
            }
            for isa in Isa::available() {
                for (quant, bytes) in [(QuantType::F16, &halves), (QuantType::F32, &floats)] {
                    let mut out = before.clone();
                    let stored = FloatColumns { quant, bytes, stride: bytes.len() / columns, columns };
                    let place = PanelOut { start: out.as_mut_ptr(), stride };
                    // SAFETY: there are as many outputs as factors for them, and no other thread.
                    unsafe { stored.add(isa, &factors, len, place) };
                    assert_eq!(out, expected, "{isa:?} {quant} {len}");
                }
            }
        }
    }
}
