//! Some queries over one chunk of positions.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::math::{exp_of_small, tanh};
use super::super::vector::Vector;
use super::add_values::add_values_of_step;
use super::join::set_state;
use super::lines_ahead::{Fetch, NothingAhead};
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
    /// For each row as many vectors as values have, then its state: the results.
    pub parts: &'a mut [Lanes],
    pub step: &'a mut StepRoom,
}

/// Results of rows `rows` of `queries`, each of which must see some of chunk `chunk`. Those who call see the `next` chunk then.
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
    score_chunk::<V>(queries, chunk, rows.clone(), packed, scores, room);
    for row in rows.clone() {
        let part = &mut parts[row * row_lanes..][..row_lanes];
        let (top, total) =
            weigh::<V>(queries, chunk, row, &mut scores[row * ROW_LANES..][..ROW_LANES], &mut NothingAhead);
        part.fill([0.0; LANES]);
        set_state(part, top, total);
    }
    for (step, seen) in within.seen_steps(&rows) {
        let ahead = queries.kv.keys_ahead(next.map_or(seen.start, |next| next * CHUNK + step.start));
        add_values_of_step::<V>(within, rows.clone(), Seen { step, seen, ahead }, scores, parts, room);
    }
}

/// Replaces the scaled `q . k` of a row by weights, `e^(score - largest)`. Returns the largest score and the sum of weights.
///
/// Minus infinity has no weight; a NaN or plus infinity makes the sum NaN.
#[inline(always)]
pub(super) fn weigh<V: Vector>(
    queries: &Queries<'_>,
    chunk: usize,
    row: usize,
    scores: &mut [Lanes],
    ahead: &mut impl Fetch,
) -> (f32, f32) {
    let within = Within { queries, chunk };
    let seen = within.seen(row, &(0..CHUNK));
    let first = seen.start / LANES;
    let scores = &mut scores[first..seen.end.div_ceil(LANES)];
    finish_scores(within, row, first * LANES, seen, scores);
    let top = largest_score::<V>(scores);
    let mut totals = V::splat(0.0);
    for scores in scores.iter_mut() {
        ahead.fetch();
        let weights = exp_of_small(V::from_lanes(scores).sub(V::splat(top)));
        *scores = weights.to_lanes();
        totals = totals.add(weights);
    }
    (top, totals.sum())
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
    flat[..seen.start - first].fill(f32::NEG_INFINITY);
    flat[seen.end - first..].fill(f32::NEG_INFINITY);
}

/// The largest of scores, or the least number where none is above that.
#[inline(always)]
pub(super) fn largest_score<V: Vector>(scores: &[Lanes]) -> f32 {
    let mut tops = V::splat(f32::MIN);
    for scores in scores.iter() {
        tops = tops.or_larger(V::from_lanes(scores));
    }
    largest(tops.to_lanes())
}

/// The largest of numbers, none of them NaN.
#[inline(always)]
fn largest(mut lanes: Lanes) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            let (a, b) = (lanes[i], lanes[i + half]);
            lanes[i] = if b > a { b } else { a };
        }
        half /= 2;
    }
    lanes[0]
}
