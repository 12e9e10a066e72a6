//! Some queries over one chunk of positions.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::math::{exp_of_small, short_exp_of_small, tanh};
use super::super::vector::Vector;
use super::add_values::add_values_of_step;
use super::fetch::{Fetch, NothingAhead};
use super::join::raise_top;
use super::lines_ahead::ChunkLines;
use super::packed::Packed;
use super::queries::{Attention, Queries};
use super::room::StepRoom;
use super::score::score_chunk;
use super::sizes::CHUNK;
use super::tile::ROW_LANES;
use super::within::{Seen, Within};

/// Buffers of [`attend_chunk`].
pub(super) struct ChunkBuffers<'a> {
    /// Of [`pack`](super::packed::pack).
    pub packed: Packed<'a>,
    /// [`ROW_LANES`] for each row.
    pub scores: &'a mut [Lanes],
    /// For each row as many vectors as values have, then its state: the results of its span so far, to which those of the chunk are added.
    pub parts: &'a mut [Lanes],
    pub step: &'a mut StepRoom,
}

/// Adds chunk `chunk` to the results of rows `rows` of `queries`, each of which must see some of it. Those who call see the `next` chunk
/// then.
#[inline(always)]
pub(super) fn attend_chunk<V: Vector>(
    queries: &Queries<'_>,
    chunk: usize,
    next: Option<usize>,
    rows: Range<usize>,
    buffers: ChunkBuffers<'_>,
) {
    let ChunkBuffers { packed, scores, parts, step: room } = buffers;
    let row_lanes = queries.kv.columns() + 1;
    let within = Within { queries, chunk };
    if let Some(next) = next {
        queries.kv.fetch_place(next * CHUNK);
    }
    let Some(seen) = within.seen_by_any(&rows, &(0..CHUNK)) else { return };
    let lines = &mut ChunkLines::new(queries.kv, seen);
    score_chunk::<V>(queries, chunk, rows.clone(), packed, scores, (room, lines));
    let sums = &mut SpanSums { parts, row_lanes };
    if queries.kv.has_value_codes() {
        weigh::<V, true>(within, rows.clone(), scores, lines, sums);
    } else {
        weigh::<V, false>(within, rows.clone(), scores, &mut NothingAhead, sums);
    }
    if let Some(next) = next {
        lines.follow(queries.kv, next * CHUNK..(next + 1) * CHUNK);
    }
    for (step, seen) in within.seen_steps(&rows) {
        let next = next.map_or(seen.start, |next| next * CHUNK + step.start);
        let seen = Seen { step, seen, next };
        add_values_of_step::<V>(within, rows.clone(), seen, scores, parts, (room, lines));
    }
}

/// Rows whose largest scores are known before any of their weights: what one row waits for is for all of them.
const TOGETHER: usize = 8;

/// What weights of rows are relative to, and what becomes of their sums. A trait, for closures are compiled apart, and without the
/// vectors.
pub(super) trait Totals {
    /// The score that weights of a row are relative to, where the largest of those that follow is `largest`.
    fn origin<V: Vector>(&mut self, row: usize, largest: f32) -> f32;

    /// Takes the sum of these weights.
    fn add(&mut self, row: usize, total: f32);
}

/// The results of spans so far, `row_lanes` vectors each.
pub(super) struct SpanSums<'a> {
    pub parts: &'a mut [Lanes],
    pub row_lanes: usize,
}

impl Totals for SpanSums<'_> {
    #[inline(always)]
    fn origin<V: Vector>(&mut self, row: usize, largest: f32) -> f32 {
        raise_top::<V>(&mut self.parts[row * self.row_lanes..][..self.row_lanes], largest)
    }

    #[inline(always)]
    fn add(&mut self, row: usize, total: f32) {
        self.parts[(row + 1) * self.row_lanes - 1][1] += total;
    }
}

/// Replaces the scaled `q . k` of rows by weights, `e^(score - origin)`, and gives the sum of those of each row.
///
/// Minus infinity has no weight, or with `SHORT` next to none; a NaN or plus infinity makes the sum NaN. `SHORT` is for values in codes,
/// where weights become whole numbers: what they are wrong by is less than what is rounded away then.
#[inline(always)]
pub(super) fn weigh<V: Vector, const SHORT: bool>(
    within: Within<'_>,
    rows: Range<usize>,
    scores: &mut [Lanes],
    ahead: &mut impl Fetch,
    sums: &mut impl Totals,
) {
    for first in rows.clone().step_by(TOGETHER) {
        let mut tops = [const { (0.0, 0..0) }; TOGETHER];
        let count = (rows.end - first).min(TOGETHER);
        for (row, (top, lanes)) in (first..).zip(&mut tops[..count]) {
            let seen = within.seen(row, &(0..CHUNK));
            let start = seen.start / LANES;
            *lanes = row * ROW_LANES + start..row * ROW_LANES + seen.end.div_ceil(LANES);
            let scores = &mut scores[lanes.clone()];
            finish_scores(within, row, start * LANES, seen, scores);
            *top = largest_score::<V>(scores);
        }
        for (row, (top, _)) in (first..).zip(&mut tops[..count]) {
            *top = sums.origin::<V>(row, *top);
        }
        for (row, (top, lanes)) in (first..).zip(&tops[..count]) {
            let mut totals = V::splat(0.0);
            for (i, scores) in scores[lanes.clone()].iter_mut().enumerate() {
                if i % 2 == 0 {
                    ahead.fetch();
                }
                let score = V::from_lanes(scores).sub(V::splat(*top));
                let weights = if SHORT { short_exp_of_small(score) } else { exp_of_small(score) };
                *scores = weights.to_lanes();
                totals = totals.add(weights);
            }
            sums.add(row, totals.sum());
        }
    }
}

/// Makes scaled products of a row with the keys from position `first` of a chunk on its scores: minus infinity where it sees
/// none, whatever was computed there.
#[inline(always)]
pub(super) fn finish_scores(
    within: Within<'_>,
    row: usize,
    first: usize,
    seen: Range<usize>,
    scores: &mut [Lanes],
) {
    let Attention { softcap, slopes, .. } = *within.queries.attention;
    let flat = scores.as_flattened_mut();
    if let Some(cap) = softcap {
        for score in flat.iter_mut() {
            *score = cap * tanh(*score / cap);
        }
    }
    if !slopes.is_empty() {
        let slope = slopes[within.queries.head(row)];
        let own = within.queries.seen(row).end - 1;
        let behind = own as i32 - (within.start() + first) as i32;
        for (i, score) in flat.iter_mut().enumerate() {
            *score -= slope * (behind - i as i32) as f32;
        }
    }
    // Mostly there is nothing to fill, and each call that says so to a function costs.
    if seen.start > first {
        flat[..seen.start - first].fill(f32::NEG_INFINITY);
    }
    if seen.end - first < flat.len() {
        flat[seen.end - first..].fill(f32::NEG_INFINITY);
    }
}

/// The largest of scores, or the least number where none is above that.
#[inline(always)]
pub(super) fn largest_score<V: Vector>(scores: &[Lanes]) -> f32 {
    let mut tops = V::splat(f32::MIN);
    for scores in scores.iter() {
        tops = tops.or_larger(V::from_lanes(scores));
    }
    tops.largest()
}
