//! Attention of one query over a row of keys and values.

use super::float_dot::dots_4x1;
use super::isa::{Isa, Vectorized};
use super::lanes::{LANES, Lanes, dot, fma, load};
use super::math::softmax;

/// `out = softmax(scale * q . keys) values` for one head: `keys` and `values` are positions x head_dim, row major, and
/// `head_dim` is the length of `q`. `scores` is a buffer; afterwards it holds the weight of each position.
///
/// A position's weight and its share in the sum do not depend on what else is computed at the same time.
///
/// # Panics
/// When `q` is empty or the lengths do not fit together.
pub fn attend(
    isa: Isa,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    scale: f32,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    assert!(!q.is_empty() && keys.len().is_multiple_of(q.len()), "keys are not rows of {}", q.len());
    assert!(values.len() == keys.len() && out.len() == q.len(), "attention of different lengths");
    scores.clear();
    scores.resize(keys.len() / q.len(), 0.0);
    isa.vectorize(Attend { q, keys, values, scale, scores, out });
}

struct Attend<'a> {
    q: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    scale: f32,
    scores: &'a mut [f32],
    out: &'a mut [f32],
}

impl Vectorized for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Attend { q, keys, values, scale, scores, out } = self;
        let dim = q.len();
        let mut fours = keys.chunks_exact(4 * dim);
        let (score_fours, score_rest) = scores.as_chunks_mut::<4>();
        for (four, scores) in (&mut fours).zip(score_fours) {
            let ((a, b), (c, d)) = (four[..2 * dim].split_at(dim), four[2 * dim..].split_at(dim));
            *scores = dots_4x1(a, b, c, d, q).map(|dot| dot * scale);
        }
        for (key, score) in fours.remainder().chunks_exact(dim).zip(score_rest) {
            *score = dot(key, q) * scale;
        }
        softmax(scores);
        weighted_sum(scores, values, dim, out);
    }
}

/// Sum of the rows of `values` times their weights, in ascending order for each column: 64 columns in registers at a time,
/// then 16, then what is left.
#[inline(always)]
fn weighted_sum(weights: &[f32], values: &[f32], dim: usize, out: &mut [f32]) {
    let mut at = 0;
    while at + 4 * LANES <= dim {
        let mut acc = ([0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for (w, row) in weights.iter().zip(values.chunks_exact(dim)) {
            let w = [*w; LANES];
            let (v, _) = row[at..at + 4 * LANES].as_chunks::<LANES>();
            acc.0 = fma(&w, &v[0], acc.0);
            acc.1 = fma(&w, &v[1], acc.1);
            acc.2 = fma(&w, &v[2], acc.2);
            acc.3 = fma(&w, &v[3], acc.3);
        }
        for (i, acc) in [acc.0, acc.1, acc.2, acc.3].iter().enumerate() {
            out[at + i * LANES..][..LANES].copy_from_slice(acc);
        }
        at += 4 * LANES;
    }
    while at < dim {
        let end = dim.min(at + LANES);
        let mut acc: Lanes = [0.0; LANES];
        for (w, row) in weights.iter().zip(values.chunks_exact(dim)) {
            acc = fma(&[*w; LANES], &load(&row[at..end]), acc);
        }
        out[at..end].copy_from_slice(&acc[..end - at]);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(seed: usize, len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
    }

    #[test]
    fn attention_is_the_naive_formula_and_the_same_on_every_instruction_set() {
        for dim in [1, 31, 33, 63, 64, 65, 128, 200] {
            for positions in [1, 2, 5, 64, 131] {
                let (q, keys, values) =
                    (floats(1, dim), floats(2, dim * positions), floats(3, dim * positions));
                let scale = 1.0 / (dim as f32).sqrt();
                let (mut scores, mut expected) = (Vec::new(), vec![f32::NAN; dim]);
                attend(Isa::SCALAR, &q, &keys, &values, scale, &mut scores, &mut expected);

                let score = |key: &[f32]| {
                    let dot: f64 = key.iter().zip(&q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                    (dot * f64::from(scale)).exp()
                };
                let weights: Vec<f64> = keys.chunks(dim).map(score).collect();
                let total: f64 = weights.iter().sum();
                for (i, out) in expected.iter().enumerate() {
                    let exact: f64 = weights
                        .iter()
                        .zip(values.chunks(dim))
                        .map(|(w, v)| w / total * f64::from(v[i]))
                        .sum();
                    assert!((f64::from(*out) - exact).abs() < 2e-5, "{dim} {positions}: {out} {exact}");
                }
                for isa in Isa::available() {
                    let mut out = vec![f32::NAN; dim];
                    attend(isa, &q, &keys, &values, scale, &mut scores, &mut out);
                    assert_eq!(out, expected, "{isa:?} {dim} {positions}");
                }
            }
        }
    }

    #[test]
    fn one_position_is_its_value() {
        let (mut scores, mut out) = (Vec::new(), [0.0; 3]);
        attend(Isa::best(), &[1.0, 2.0, 3.0], &[9.0; 3], &[4.0, 5.0, 6.0], 0.5, &mut scores, &mut out);
        assert_eq!((out, scores), ([4.0, 5.0, 6.0], vec![1.0]));
    }
}
