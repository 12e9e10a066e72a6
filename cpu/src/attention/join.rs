//! The results of spans, joined to the result of a query.
//!
//! Such a result is a row of vectors: the weighted sum of values, and in the last vector its state, the largest score and
//! the sum of weights.

use super::super::hadamard::hadamard;
use super::super::lanes::{LANES, Lanes};
use super::super::math::exp_of_small;
use super::super::vector::{Vector, VectorWork};

/// Sets the state of a row.
#[inline(always)]
pub(super) fn set_state(row: &mut [Lanes], top: f32, total: f32) {
    if let Some(state) = row.last_mut() {
        (state[0], state[1]) = (top, total);
    }
}

/// Largest score and sum of weights.
#[inline(always)]
fn state(row: &[Lanes]) -> (f32, f32) {
    row.last().map_or((f32::MIN, 0.0), |state| (state[0], state[1]))
}

/// Makes `row` the result of no positions; of a score without a value, where there is a `sink`.
#[inline(always)]
pub(super) fn clear(row: &mut [Lanes], sink: Option<f32>) {
    row.fill([0.0; LANES]);
    match sink {
        Some(score) => set_state(row, score, 1.0),
        None => set_state(row, f32::MIN, 0.0),
    }
}

/// Makes the sums of `row` relative to `score`, if none so far was larger, and returns what they are relative to.
#[inline(always)]
pub(super) fn raise_top<V: Vector>(row: &mut [Lanes], score: f32) -> f32 {
    let (top, _) = state(row);
    if score > top {
        let keep = exp_of_small(V::splat(top - score));
        for sums in row.iter_mut() {
            *sums = V::from_lanes(sums).mul(keep).to_lanes();
        }
        if let Some(state) = row.last_mut() {
            state[0] = score;
        }
        return score;
    }
    top
}

/// Joins the result of the span that follows to `row`.
#[inline(always)]
pub(super) fn join<V: Vector>(row: &mut [Lanes], part: &[Lanes]) {
    let ((top, _), (part_top, _)) = (state(row), state(part));
    let grows = part_top > top;
    // The other factor is 1.
    let factor = exp_of_small(V::splat(if grows { top - part_top } else { part_top - top }));
    let (keep, add) = if grows { (factor, V::splat(1.0)) } else { (V::splat(1.0), factor) };
    for (row, part) in row.iter_mut().zip(part) {
        *row = V::from_lanes(row).mul(keep).fma(V::from_lanes(part), add).to_lanes();
    }
    // The sums of weights were joined like the values.
    if let Some(state) = row.last_mut() {
        state[0] = if grows { part_top } else { top };
    }
}

/// The score that sums of a `row` without any scores are relative to: that of its sink, or the least number.
#[cfg(any(test, target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn origin(row: &[Lanes]) -> f32 {
    state(row).0
}

/// Multiplies sums of `row` and of its weights, `totals`, with `e^scores`, which is returned.
#[cfg(any(test, target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn rescale<V: Vector>(row: &mut [Lanes], totals: &mut Lanes, scores: f32) -> f32 {
    let keep = exp_of_small(V::splat(scores));
    for sums in row.iter_mut().chain([totals]) {
        *sums = V::from_lanes(sums).mul(keep).to_lanes();
    }
    keep.to_lanes()[0]
}

/// Adds sums of weights to that of `row`.
#[cfg(any(test, target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn add_totals<V: Vector>(row: &mut [Lanes], totals: &Lanes) {
    if let Some(state) = row.last_mut() {
        state[1] += V::from_lanes(totals).sum();
    }
}

/// Makes the sum of values of `row` their mean, which is what attention gives, and returns its `dim` values. Every `rotated`
/// of them are turned back to what they were before they were stored.
#[inline(always)]
pub(super) fn finish<V: Vector>(row: &mut [Lanes], dim: usize, rotated: usize) -> &[f32] {
    let (_, total) = state(row);
    let sums = &mut row.as_flattened_mut()[..dim];
    for sum in sums.iter_mut() {
        *sum /= total;
    }
    hadamard::<V>(sums, rotated);
    sums
}

/// Joins all spans of one query: `parts` begins with the first, and the next follows after `step` vectors.
pub(super) struct JoinAll<'a> {
    pub parts: &'a [Lanes],
    pub step: usize,
    pub row: &'a mut [Lanes],
    pub out: &'a mut [f32],
    /// As of [`clear`].
    pub sink: Option<f32>,
    /// As of [`finish`].
    pub rotated: usize,
}

impl VectorWork for JoinAll<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        clear(self.row, self.sink);
        for parts in self.parts.chunks(self.step) {
            join::<V>(self.row, &parts[..self.row.len()]);
        }
        let dim = self.out.len();
        self.out.copy_from_slice(finish::<V>(self.row, dim, self.rotated));
    }
}
