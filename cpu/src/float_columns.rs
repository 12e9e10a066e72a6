//! Columns of float types, each as often as a factor says, added to outputs: decoded in registers. What each output gets is one chain
//! of fused additions, in the order of the columns.

use qsf_format::QuantType;

use super::float_matvec::{floats, halves};
use super::isa::Isa;
use super::lanes::LANES;
use super::vector::{self, Vector, VectorWork};

/// Vectors of outputs that stay in registers while all columns are added to them.
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
    /// `out[i] += factors[0] * column 0 [i] + factors[1] * column 1 [i] + ...`
    ///
    /// # Panics
    /// When the type is another, or a column has fewer values than `out`.
    pub fn add(&self, isa: Isa, factors: &[f32], out: &mut [f32]) {
        vector::run(isa, Add { columns: *self, factors, out });
    }
}

struct Add<'a> {
    columns: FloatColumns<'a>,
    factors: &'a [f32],
    out: &'a mut [f32],
}

impl VectorWork for Add<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.columns.quant {
            QuantType::F16 => self.add::<V, { 2 * LANES }>(|bytes| V::from_halves(&halves(bytes))),
            QuantType::F32 => self.add::<V, { 4 * LANES }>(|bytes| V::from_lanes(&floats(bytes))),
            other => panic!("columns of {other}"),
        }
    }
}

impl Add<'_> {
    /// With `read`, which makes 16 numbers of so many bytes. Loops over indices, as in [`float_dot`](super::float_dot).
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
    fn add<V: Vector, const BYTES: usize>(self, read: impl Fn(&[u8; BYTES]) -> V) {
        let Add { columns, factors, out } = self;
        let width = BYTES / LANES;
        let (blocks, rest) = out.as_chunks_mut::<{ VECTORS * LANES }>();
        let in_blocks = blocks.len() * VECTORS * LANES;
        for (at, block) in blocks.iter_mut().enumerate() {
            let (lanes, _) = block.as_chunks_mut::<LANES>();
            let mut sums = [V::splat(0.0); VECTORS];
            for v in 0..VECTORS {
                sums[v] = V::from_lanes(&lanes[v]);
            }
            for r in 0..factors.len() {
                let factor = V::splat(factors[r]);
                let column = &columns.bytes[r * columns.stride + at * VECTORS * BYTES..][..VECTORS * BYTES];
                let column = &column.as_chunks::<BYTES>().0[..VECTORS];
                for v in 0..VECTORS {
                    sums[v] = sums[v].fma(factor, read(&column[v]));
                }
            }
            for v in 0..VECTORS {
                lanes[v] = sums[v].to_lanes();
            }
        }
        for (at, values) in rest.chunks_mut(LANES).enumerate() {
            let mut sum = V::load(values);
            for r in 0..factors.len() {
                let first = r * columns.stride + (in_blocks + at * LANES) * width;
                let mut bytes = [0; BYTES];
                bytes[..values.len() * width]
                    .copy_from_slice(&columns.bytes[first..][..values.len() * width]);
                sum = sum.fma(V::splat(factors[r]), read(&bytes));
            }
            values.copy_from_slice(&sum.to_lanes()[..values.len()]);
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
                    FloatColumns { quant, bytes, stride: bytes.len() / columns }.add(isa, &factors, &mut out);
                    assert_eq!(out, expected, "{isa:?} {quant} {len}");
                }
            }
        }
    }
}
