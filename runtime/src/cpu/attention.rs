//! Attention of one query over a row of keys and values.

use super::float_dot::matvec;
use super::isa::Isa;
use super::lanes::LANES;
use super::math::{softmax, tanh};
use super::vector::{self, Vector, VectorWork};

/// What becomes of `q . k` before the softmax.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// Multiplied.
    pub scale: f32,
    /// Then `cap * tanh(score / cap)`, where given.
    pub softcap: Option<f32>,
    /// Then, per position that the key is behind the query, less this (ALiBi, arXiv 2108.12409); 0 for none.
    pub slope: f32,
}

impl Scoring {
    /// Only scaled.
    pub const fn scaled(scale: f32) -> Scoring {
        Scoring { scale, softcap: None, slope: 0.0 }
    }

    #[inline(always)]
    fn apply(self, scores: &mut [f32]) {
        for score in scores.iter_mut() {
            *score *= self.scale;
        }
        if let Some(cap) = self.softcap {
            scores.iter_mut().for_each(|score| *score = cap * tanh(*score / cap));
        }
        if self.slope != 0.0 {
            let last = scores.len() - 1;
            for (position, score) in scores.iter_mut().enumerate() {
                *score -= self.slope * (last - position) as f32;
            }
        }
    }
}

/// `out = softmax(scoring(q . keys)) values` for one head: `keys` and `values` are positions x head_dim, row major, the
/// query's own position last; `head_dim` is the length of `q`. `scores` is a buffer; afterwards it holds the weight of
/// each position.
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
    scoring: Scoring,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    assert!(!q.is_empty() && keys.len().is_multiple_of(q.len()), "keys are not rows of {}", q.len());
    assert!(values.len() == keys.len() && out.len() == q.len(), "attention of different lengths");
    scores.clear();
    scores.resize(keys.len() / q.len(), 0.0);
    vector::run(isa, Attend { q, keys, values, scoring, scores, out });
}

struct Attend<'a> {
    q: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    scoring: Scoring,
    scores: &'a mut [f32],
    out: &'a mut [f32],
}

impl VectorWork for Attend<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Attend { q, keys, values, scoring, scores, out } = self;
        matvec::<V>(keys, q, scores);
        scoring.apply(scores);
        softmax(scores);
        let mut at = 0;
        while at < out.len() {
            // Most columns that there are whole registers for; the rest singly.
            at += match out.len() - at {
                COLUMNS_4.. => columns::<V, 4>(scores, values, out, at),
                LANES.. => columns::<V, 1>(scores, values, out, at),
                _ => last_columns::<V>(scores, values, out, at),
            };
        }
    }
}

const COLUMNS_4: usize = 4 * LANES;

/// Sums the `16 C` columns of `values` from `at` on, weighted, in ascending order of rows. Returns their number.
#[inline(always)]
fn columns<V: Vector, const C: usize>(weights: &[f32], values: &[f32], out: &mut [f32], at: usize) -> usize {
    let mut acc = [V::splat(0.0); C];
    for (w, row) in weights.iter().zip(values.chunks_exact(out.len())) {
        let w = V::splat(*w);
        let (chunks, _) = row[at..][..C * LANES].as_chunks::<LANES>();
        for (acc, chunk) in acc.iter_mut().zip(chunks) {
            *acc = acc.fma(w, V::from_lanes(chunk));
        }
    }
    for (out, acc) in out[at..].chunks_exact_mut(LANES).zip(acc) {
        out.copy_from_slice(&acc.to_lanes());
    }
    C * LANES
}

/// [`columns`] for the fewer than 16 at the end.
#[inline(always)]
fn last_columns<V: Vector>(weights: &[f32], values: &[f32], out: &mut [f32], at: usize) -> usize {
    let mut acc = V::splat(0.0);
    for (w, row) in weights.iter().zip(values.chunks_exact(out.len())) {
        acc = acc.fma(V::splat(*w), V::load(&row[at..]));
    }
    let rest = &mut out[at..];
    rest.copy_from_slice(&acc.to_lanes()[..rest.len()]);
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(seed: usize, len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
    }

    /// The formula in f64, position by position.
    fn naive(q: &[f32], keys: &[f32], values: &[f32], scoring: Scoring) -> Vec<f64> {
        let dim = q.len();
        let last = keys.len() / dim - 1;
        let weight = |(position, key): (usize, &[f32])| {
            let dot: f64 = key.iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
            let score = dot * f64::from(scoring.scale);
            let capped =
                scoring.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
            (capped - f64::from(scoring.slope) * (last - position) as f64).exp()
        };
        let weights: Vec<f64> = keys.chunks(dim).enumerate().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let column =
            |i| weights.iter().zip(values.chunks(dim)).map(|(w, v)| w / total * f64::from(v[i])).sum();
        (0..dim).map(column).collect()
    }

    #[test]
    fn attention_is_the_naive_formula_and_the_same_on_every_instruction_set() {
        for dim in [1, 31, 33, 63, 64, 65, 128, 200] {
            for positions in [1, 2, 5, 64, 131] {
                let (q, keys, values) =
                    (floats(1, dim), floats(2, dim * positions), floats(3, dim * positions));
                let scale = 1.0 / (dim as f32).sqrt();
                for scoring in [
                    Scoring::scaled(scale),
                    Scoring { softcap: Some(1.5), ..Scoring::scaled(scale) },
                    Scoring { slope: 0.25, ..Scoring::scaled(scale) },
                ] {
                    let (mut scores, mut expected) = (Vec::new(), vec![f32::NAN; dim]);
                    attend(Isa::SCALAR, &q, &keys, &values, scoring, &mut scores, &mut expected);
                    for (out, exact) in expected.iter().zip(naive(&q, &keys, &values, scoring)) {
                        let off = (f64::from(*out) - exact).abs();
                        assert!(off < 2e-5, "{dim} {positions} {scoring:?}: {out} {exact}");
                    }
                    for isa in Isa::available() {
                        let mut out = vec![f32::NAN; dim];
                        attend(isa, &q, &keys, &values, scoring, &mut scores, &mut out);
                        assert_eq!(out, expected, "{isa:?} {dim} {positions} {scoring:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_position_is_its_value() {
        let (mut scores, mut out) = (Vec::new(), [0.0; 3]);
        attend(
            Isa::best(),
            &[1.0, 2.0, 3.0],
            &[9.0; 3],
            &[4.0, 5.0, 6.0],
            Scoring::scaled(0.5),
            &mut scores,
            &mut out,
        );
        assert_eq!((out, scores), ([4.0, 5.0, 6.0], vec![1.0]));
    }
}
