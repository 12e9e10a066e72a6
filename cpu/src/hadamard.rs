//! The rotation that spreads outliers of keys and values over their heads before they are stored in few bits
//! (QuaRot, arXiv 2404.00456): a Hadamard matrix, whose entries are all plus or minus one over the root of its size.

use super::lanes::{LANES, Lanes};
use super::vector::Vector;

/// Most values that are rotated together.
const MAX_BLOCK: usize = 256;

/// Values of a head of `dim` that are rotated together: the largest power of two that divides it, up to 256. 1: none.
pub fn hadamard_block(dim: usize) -> usize {
    if dim == 0 { 1 } else { (1 << dim.trailing_zeros()).min(MAX_BLOCK) }
}

/// Rotates every `block` values, a power of two, in one fixed order of sums. Done twice, it is undone.
#[inline(always)]
pub(super) fn hadamard<V: Vector>(values: &mut [f32], block: usize) {
    if block <= 1 {
        return;
    }
    let scale = (1.0 / (block as f64).sqrt()) as f32;
    for values in values.chunks_exact_mut(block) {
        // Of the two one is empty: a block is whole vectors, or less than one.
        let (vectors, few) = values.as_chunks_mut::<LANES>();
        let mut half = 1;
        while half < few.len() {
            for pair in few.chunks_exact_mut(2 * half) {
                let (first, second) = pair.split_at_mut(half);
                for (a, b) in first.iter_mut().zip(second) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        few.iter_mut().for_each(|value| *value *= scale);
        for vector in vectors.iter_mut() {
            let mut x = V::from_lanes(vector);
            for partners in &PARTNERS {
                x = V::lookup(&x.to_lanes(), &partners.lanes, 0).fma(x, V::from_lanes(&partners.signs));
            }
            *vector = x.to_lanes();
        }
        hadamard_across::<V>(vectors);
        let scale = V::splat(scale);
        for vector in vectors {
            *vector = V::from_lanes(vector).mul(scale).to_lanes();
        }
    }
}

/// Sums and differences of whole vectors, as many as a power of two, without the scale.
#[inline(always)]
pub(super) fn hadamard_across<V: Vector>(vectors: &mut [Lanes]) {
    let mut half = 1;
    while half < vectors.len() {
        for pair in vectors.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (a, b) in first.iter_mut().zip(second) {
                let (x, y) = (V::from_lanes(a), V::from_lanes(b));
                (*a, *b) = (x.add(y).to_lanes(), x.sub(y).to_lanes());
            }
        }
        half *= 2;
    }
}

/// What each lane is added to: its partner, plus or minus itself.
struct Partners {
    lanes: [u8; LANES],
    signs: Lanes,
}

/// Partners 1, 2, 4 and 8 lanes apart. Of two, the first gets the sum and the second the difference.
const PARTNERS: [Partners; 4] = [partners(1), partners(2), partners(4), partners(8)];

const fn partners(apart: usize) -> Partners {
    let mut partners = Partners { lanes: [0; LANES], signs: [1.0; LANES] };
    let mut lane = 0;
    while lane < LANES {
        partners.lanes[lane] = (lane ^ apart) as u8;
        if lane & apart != 0 {
            partners.signs[lane] = -1.0;
        }
        lane += 1;
    }
    partners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::vector::{self, VectorWork};

    struct Rotate<'a>(&'a mut [f32], usize);

    impl VectorWork for Rotate<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            hadamard::<V>(self.0, self.1);
        }
    }

    fn rotated(isa: Isa, x: &[f32], block: usize) -> Vec<f32> {
        let mut x = x.to_vec();
        vector::run(isa, Rotate(&mut x, block));
        x
    }

    #[test]
    fn blocks_divide_heads() {
        for (dim, block) in [(64, 64), (80, 16), (96, 32), (33, 1), (1, 1), (0, 1), (256, 256), (512, 256)] {
            assert_eq!(hadamard_block(dim), block, "{dim}");
        }
    }

    #[test]
    fn a_rotation_is_the_product_with_the_matrix() {
        for block in [2, 4, 8, 16, 32, 64, 128, 256] {
            // Small whole numbers, whose sums are exact.
            let x: Vec<f32> = (0..2 * block).map(|i| ((i * 37) % 19) as f32 - 9.0).collect();
            let scale = (1.0 / (block as f64).sqrt()) as f32;
            for isa in Isa::available() {
                for (i, found) in rotated(isa, &x, block).iter().enumerate() {
                    let sign =
                        |j: usize| if ((i % block) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                    let sum: f32 = (0..block).map(|j| sign(j) * x[i / block * block + j]).sum();
                    assert_eq!(*found, sum * scale, "value {i} of blocks of {block}, {isa:?}");
                }
            }
        }
    }

    #[test]
    fn a_rotation_keeps_products_and_is_its_own_inverse() {
        let x: Vec<f32> = (0..96).map(|i| ((i * 37) % 19) as f32 - 9.0).collect();
        let y: Vec<f32> = (0..96).map(|i| ((i * 11) % 23) as f32 - 11.0).collect();
        let rotated =
            |v: &[f32], times: usize| (0..times).fold(v.to_vec(), |v, _| rotated(Isa::best(), &v, 32));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        assert!((dot(&x, &y) - dot(&rotated(&x, 1), &rotated(&y, 1))).abs() < 1e-2);
        assert!(rotated(&x, 2).iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-4));
        let mut outlier = vec![0.0; 32];
        outlier[5] = 32.0;
        assert!(rotated(&outlier, 1).iter().all(|v| (v.abs() - 32.0 / 32f32.sqrt()).abs() < 1e-4));
    }
}
