//! Vectors of length 1.

#![expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]

use crate::isa::Isa;
use crate::lanes::LANES;
use crate::vector::{Vector, VectorWork, run};

/// Added to the square of the length before the root, as in every model that does this.
const EPSILON: f32 = 1e-6;

/// `x = x / sqrt(sum(x^2) + 1e-6) * length`, for each `x` of `width` values.
pub fn scale_to_length(isa: Isa, vectors: &mut [f32], width: usize, length: f32) {
    run(isa, ScaleToLength { vectors, width, length });
}

struct ScaleToLength<'a> {
    vectors: &'a mut [f32],
    width: usize,
    length: f32,
}

impl VectorWork for ScaleToLength<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let ScaleToLength { vectors, width, length } = self;
        let factors = V::splat(length);
        for i in 0..vectors.len() / width {
            let (whole, rest) = vectors[i * width..][..width].as_chunks_mut::<LANES>();
            let mut squares = V::splat(0.0);
            for at in 0..whole.len() {
                let x = V::from_lanes(&whole[at]);
                squares = squares.fma(x, x);
            }
            let x = V::load(rest);
            let factor = 1.0 / (squares.fma(x, x).sum() + EPSILON).sqrt();
            for at in 0..whole.len() {
                whole[at] = V::from_lanes(&whole[at]).mul(V::splat(factor)).mul(factors).to_lanes();
            }
            for at in 0..rest.len() {
                rest[at] = rest[at] * factor * length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_get_the_length_on_every_instruction_set_and_zeros_stay() {
        for n in [1, 12, 16, 37, 128] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 4.0).collect();
            let mut expected = x.clone();
            scale_to_length(Isa::SCALAR, &mut expected, n, 0.25);
            let length = expected.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            assert!((length - 0.25).abs() < 1e-6, "{n}: {length}");
            for isa in Isa::available() {
                let mut found = x.clone();
                scale_to_length(isa, &mut found, n, 0.25);
                assert_eq!(found, expected, "{isa:?} {n}");
            }
        }
        let mut zeros = [0.0; 5];
        scale_to_length(Isa::best(), &mut zeros, 5, 1.0);
        assert_eq!(zeros, [0.0; 5]);
    }
}
