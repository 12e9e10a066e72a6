//! Columns of float types, each as often as a factor says, added to outputs: decoded in registers. What each output gets is one chain
//! of fused additions, in the order of the columns.

use qsf_format::QuantType;

use super::float_matvec::{floats, halves};
use super::isa::Isa;
use super::lanes::LANES;
use super::vector::{self, Vector, VectorWork};

/// Vectors of outputs of a token that stay in registers while all columns are added to them. Several tokens share what is read of
/// the columns.
const VECTORS: usize = 4;

/// Some values of columns.
#[derive(Debug, Clone, Copy)]
pub struct FloatColumns<'a> {
    /// F16 or F32.
    pub quant: QuantType,
    /// The values of all columns. The first column is in front.
    pub bytes: &'a [u8],
    /// Bytes from a column to the next.
    pub stride: usize,
}

impl FloatColumns<'_> {
    /// For each of `T` tokens `out[i] += factors[0] * column 0 [i] + factors[1] * column 1 [i] + ...`
    ///
    /// # Panics
    /// When the type is another, a column has fewer values than an output, or tokens have other lengths than the first.
    pub fn add<const T: usize>(&self, isa: Isa, factors: [&[f32]; T], out: [&mut [f32]; T]) {
        let lengths = (factors[0].len(), out[0].len());
        for (factors, out) in factors.iter().zip(&out) {
            assert_eq!((factors.len(), out.len()), lengths, "tokens of another length");
        }
        vector::run(isa, Add { columns: *self, factors, out });
    }
}

struct Add<'a, const T: usize> {
    columns: FloatColumns<'a>,
    factors: [&'a [f32]; T],
    out: [&'a mut [f32]; T],
}

impl<const T: usize> VectorWork for Add<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.columns.quant {
            QuantType::F16 => self.add::<V, { 2 * LANES }>(|bytes| V::from_halves(&halves(bytes))),
            QuantType::F32 => self.add::<V, { 4 * LANES }>(|bytes| V::from_lanes(&floats(bytes))),
            other => panic!("columns of {other}"),
        }
    }
}

impl<const T: usize> Add<'_, T> {
    /// With `read`, which makes 16 numbers of so many bytes.
    #[inline(always)]
    fn add<V: Vector, const BYTES: usize>(self, read: impl Fn(&[u8; BYTES]) -> V) {
        if V::MANY {
            return self.in_blocks::<V, BYTES>(read);
        }
        // Several tokens at a time take more registers than there are.
        let Add { columns, factors, out } = self;
        for (factors, out) in factors.into_iter().zip(out) {
            Add { columns, factors: [factors], out: [out] }.in_blocks::<V, BYTES>(&read);
        }
    }

    /// Some vectors at a time. Loops over indices, as in [`float_dot`](super::float_dot).
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
    fn in_blocks<V: Vector, const BYTES: usize>(self, read: impl Fn(&[u8; BYTES]) -> V) {
        const N: usize = VECTORS;
        let Add { columns, factors, out: outs } = self;
        let (rank, width) = (factors[0].len(), BYTES / LANES);
        let (len, block) = (outs[0].len(), N * LANES);
        let in_blocks = len - len % block;
        for first in (0..in_blocks).step_by(block) {
            let mut sums = [[V::splat(0.0); N]; T];
            for t in 0..T {
                let lanes = &outs[t][first..][..block].as_chunks::<LANES>().0[..N];
                for v in 0..N {
                    sums[t][v] = V::from_lanes(&lanes[v]);
                }
            }
            for r in 0..rank {
                let column = &columns.bytes[r * columns.stride + first * width..][..N * BYTES];
                let column = &column.as_chunks::<BYTES>().0[..N];
                let mut by = [V::splat(0.0); T];
                for t in 0..T {
                    by[t] = V::splat(factors[t][r]);
                }
                for v in 0..N {
                    let values = read(&column[v]);
                    for t in 0..T {
                        sums[t][v] = sums[t][v].fma(by[t], values);
                    }
                }
            }
            for t in 0..T {
                let lanes = &mut outs[t][first..][..block].as_chunks_mut::<LANES>().0[..N];
                for v in 0..N {
                    lanes[v] = sums[t][v].to_lanes();
                }
            }
        }
        for first in (in_blocks..len).step_by(LANES) {
            let count = LANES.min(len - first);
            let mut sums = [V::splat(0.0); T];
            for t in 0..T {
                sums[t] = V::load(&outs[t][first..][..count]);
            }
            for r in 0..rank {
                let mut bytes = [0; BYTES];
                let column = &columns.bytes[r * columns.stride + first * width..][..count * width];
                bytes[..count * width].copy_from_slice(column);
                let values = read(&bytes);
                for t in 0..T {
                    sums[t] = sums[t].fma(V::splat(factors[t][r]), values);
                }
            }
            for t in 0..T {
                outs[t][first..][..count].copy_from_slice(&sums[t].to_lanes()[..count]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_all_lengths_are_chains_of_fused_additions_with_the_same_bits_everywhere() {
        for len in [1, 15, 16, 63, 64, 65, 200] {
            let columns = 5;
            let value = |i: usize| half::f16::from_f32((i as f32 * 0.37).sin());
            let halves: Vec<u8> = (0..columns * len).flat_map(|i| value(i).to_le_bytes()).collect();
            let floats: Vec<u8> = (0..columns * len).flat_map(|i| value(i).to_f32().to_le_bytes()).collect();
            let factors: Vec<f32> = (0..columns).map(|r| 1.5 - r as f32 * 0.7).collect();
            let before: Vec<f32> = (0..len).map(|i| (i as f32).cos()).collect();
            let mut expected = before.clone();
            for (r, factor) in factors.iter().enumerate() {
                for (i, out) in expected.iter_mut().enumerate() {
                    *out = factor.mul_add(value(r * len + i).to_f32(), *out);
                }
            }
            for isa in Isa::available() {
                for (quant, bytes) in [(QuantType::F16, &halves), (QuantType::F32, &floats)] {
                    let mut out = before.clone();
                    let stored = FloatColumns { quant, bytes, stride: bytes.len() / columns };
                    stored.add(isa, [&factors], [&mut out]);
                    assert_eq!(out, expected, "{isa:?} {quant} {len}");
                    // Beside another token, which is not changed where its factors are 0.
                    let (mut one, mut other) = (before.clone(), before.clone());
                    stored.add(isa, [&factors, &[0.0; 5]], [&mut one, &mut other]);
                    assert_eq!((one, other), (expected.clone(), before.clone()), "{isa:?} {quant} {len}");
                }
            }
        }
    }
}
