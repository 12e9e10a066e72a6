//! The weights that queries give to positions, without what they are for: values.

use super::super::lanes::{LANES, Lanes};
use super::super::math::exp_of_small;
use super::super::vector::Vector;
use super::chunk::{Totals, weigh};
use super::fetch::NothingAhead;
use super::packed::pack;
use super::queries::Queries;
use super::room::QueryRoom;
use super::room::StepRoom;
use super::score::score_chunk;
use super::scratch::{Scratch, with_scratch};
use super::sizes::CHUNK;
use super::tile::ROW_LANES;
use super::within::Within;

/// The weights of some queries, and where they are computed.
pub(super) struct Weighing<'a> {
    queries: Queries<'a>,
    tokens: usize,
    /// Chunks that any of them sees.
    chunks: std::ops::Range<usize>,
    packed: &'a mut QueryRoom,
    /// For each chunk those of all queries.
    scores: &'a mut [Lanes],
    /// Alike, the largest score and the sum of weights.
    states: &'a mut [Lanes],
    step: &'a mut StepRoom,
}

/// Calls `work` with the weighing of the queries of the first `tokens` tokens.
pub(super) fn with_weighing(queries: Queries<'_>, tokens: usize, work: impl FnOnce(Weighing<'_>)) {
    let count = tokens * queries.heads;
    let chunks = queries.seen(0).start / CHUNK..(queries.position + tokens).div_ceil(CHUNK);
    with_scratch(|Scratch { packed, scores, parts, step, .. }| {
        let scores = scores.lanes(chunks.len() * count * ROW_LANES);
        let states = parts.lanes(chunks.len() * count);
        work(Weighing { queries, tokens, chunks, packed, scores, states, step });
    });
}

impl Weighing<'_> {
    /// Gives of each row, in their order, and of each chunk that it sees: the number of the row, the first of the positions that it sees
    /// there, and of each of them `e^(score - s)` for some s, and what to multiply these with.
    #[inline(always)]
    pub fn each<V: Vector>(self, mut give: impl FnMut(usize, usize, &[f32], f32)) {
        let Weighing { queries, tokens, chunks, packed, scores, states, step } = self;
        let (count, first_chunk) = (tokens * queries.heads, chunks.start);
        let packed = pack::<V>(&queries, count, packed);
        states.fill([f32::MIN; LANES]);
        for chunk in chunks {
            let at = (chunk - first_chunk) * count;
            let scores = &mut scores[at * ROW_LANES..][..count * ROW_LANES];
            let seeing = queries.seeing(chunk, tokens);
            score_chunk::<V>(&queries, chunk, seeing.clone(), packed, scores, (step, &mut NothingAhead));
            let within = Within { queries: &queries, chunk };
            weigh::<V, false>(
                within,
                seeing,
                scores,
                &mut NothingAhead,
                &mut States(&mut states[at..at + count]),
            );
        }
        for row in 0..count {
            let seen = queries.seen(row);
            let chunks = seen.start / CHUNK..seen.end.div_ceil(CHUNK);
            let of_row = |chunk: usize| (chunk - first_chunk) * count + row;
            let (sink, mut top) = (queries.sink(row), f32::MIN);
            if let Some(sink) = sink {
                top = sink;
            }
            for chunk in chunks.clone() {
                top = top.max(states[of_row(chunk)][0]);
            }
            // No iterators, whose closures are compiled apart, and without the vectors.
            let mut total = 0.0;
            for chunk in chunks.clone() {
                let state = &mut states[of_row(chunk)];
                state[0] = weight::<V>(state[0] - top);
                total += state[1] * state[0];
            }
            total += if let Some(sink) = sink { weight::<V>(sink - top) } else { 0.0 };
            for chunk in chunks {
                let start = chunk * CHUNK;
                let (first, end) = (seen.start.max(start), seen.end.min(start + CHUNK));
                let weights = scores[of_row(chunk) * ROW_LANES..][..ROW_LANES].as_flattened();
                give(row, first, &weights[first - start..end - start], states[of_row(chunk)][0] / total);
            }
        }
    }
}

/// The largest score and the sum of weights of each row.
struct States<'a>(&'a mut [Lanes]);

impl Totals for States<'_> {
    #[inline(always)]
    fn origin<V: Vector>(&mut self, row: usize, largest: f32) -> f32 {
        self.0[row][0] = largest;
        largest
    }

    #[inline(always)]
    fn add(&mut self, row: usize, total: f32) {
        self.0[row][1] = total;
    }
}

/// `e^score`, of a score that is not above 0.
#[inline(always)]
fn weight<V: Vector>(score: f32) -> f32 {
    exp_of_small(V::splat(score)).to_lanes()[0]
}
