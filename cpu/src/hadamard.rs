//! The rotation that spreads outliers of keys and values over their heads before they are stored in few bits
//! (QuaRot, arXiv 2404.00456): a Hadamard matrix, whose entries are all plus or minus one over the root of its size.

/// Most values that are rotated together.
const MAX_BLOCK: usize = 256;

/// Values of a head of `dim` that are rotated together: the largest power of two that divides it, up to 256. 1: none.
pub fn hadamard_block(dim: usize) -> usize {
    if dim == 0 { 1 } else { (1 << dim.trailing_zeros()).min(MAX_BLOCK) }
}

/// Rotates every `block` values, a power of two, in one fixed order of sums. Done twice, it is undone.
#[inline(always)]
pub(super) fn hadamard(values: &mut [f32], block: usize) {
    if block <= 1 {
        return;
    }
    let scale = (1.0 / (block as f64).sqrt()) as f32;
    for values in values.chunks_exact_mut(block) {
        let mut half = 1;
        while half < block {
            for pair in values.chunks_exact_mut(2 * half) {
                let (first, second) = pair.split_at_mut(half);
                for (a, b) in first.iter_mut().zip(second) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        for value in values {
            *value *= scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_divide_heads() {
        for (dim, block) in [(64, 64), (80, 16), (96, 32), (33, 1), (1, 1), (0, 1), (256, 256), (512, 256)] {
            assert_eq!(hadamard_block(dim), block, "{dim}");
        }
    }

    #[test]
    fn a_rotation_keeps_products_and_is_its_own_inverse() {
        let x: Vec<f32> = (0..96).map(|i| ((i * 37) % 19) as f32 - 9.0).collect();
        let y: Vec<f32> = (0..96).map(|i| ((i * 11) % 23) as f32 - 11.0).collect();
        let rotated = |v: &[f32], times: usize| {
            let mut v = v.to_vec();
            (0..times).for_each(|_| hadamard(&mut v, 32));
            v
        };
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        assert!((dot(&x, &y) - dot(&rotated(&x, 1), &rotated(&y, 1))).abs() < 1e-2);
        assert!(rotated(&x, 2).iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-4));
        let mut outlier = vec![0.0; 32];
        outlier[5] = 32.0;
        assert!(rotated(&outlier, 1).iter().all(|v| (v.abs() - 32.0 / 32f32.sqrt()).abs() < 1e-4));
    }
}
