//! Several tokens in bytes: what [`super::chunk`] does in floats. Sums of products are whole numbers, and what becomes of them is
//! computed as vectors of every processor do, so results have the same bits wherever bytes are multiplied.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::byte_products::{ByteProducts, COLUMNS, QUAD, ROWS, WholesOut};
use super::super::lanes::{LANES, Lanes};
use super::super::math::exp_of_small;
use super::super::vector::Vector;
use super::by_unit::{Unit, UnitBlock};
use super::byte_columns::{CHUNK_QUADS, quads, reference};
use super::byte_queries::pack;
use super::byte_room::{ByteColumns, ByteQuery, ByteTileRoom, CHUNK_LANES};
use super::byte_weights::{
    MOST, PATTERN, Rows, SECOND, TOO_LARGE, WEIGHT_BYTES, Weigh, WeighTwice, score_of,
};
use super::chunk::finish_scores;
use super::join::{clear, finish, raise_top};
use super::room::{StepRoom, grow};
use super::scratch::Scratch;
use super::sizes::{CHUNK, STEP};
use super::stored::KEY_LANES;
use super::within::Within;

/// Vectors from one row of scores to the next: one more than it has, for rows a power of two apart would meet in the same few sets of
/// a cache.
const SCORE_LANES: usize = CHUNK_LANES + 1;
const _: () = assert!(ROWS == LANES, "a lane for each row of a strip");
/// A weight needs its second byte where it is more than one of so many of the sum of all. What single bytes of 256 positions round away
/// adds up to some seven steps of 1/240 of the largest weight, and so to some 0.2 % of values.
const FEWEST: f32 = 16.0;

/// Attention in bytes by products of this kind.
pub(super) struct InBytes<P>(PhantomData<P>);

impl<P: ByteProducts> Unit for InBytes<P> {
    type Room = ByteTileRoom;

    #[inline(always)]
    unsafe fn new() -> InBytes<P> {
        InBytes(PhantomData)
    }

    fn room(scratch: &mut Scratch) -> (&mut ByteTileRoom, &mut StepRoom) {
        (&mut scratch.byte_tiles, &mut scratch.step)
    }

    fn row_bytes(dim: usize, value_dim: usize) -> usize {
        quads(dim) * QUAD + size_of::<ByteQuery>() + (value_dim.div_ceil(LANES) + 1) * size_of::<Lanes>()
    }

    #[inline(always)]
    fn attend<V: Vector>(self, block: UnitBlock<'_>, room: &mut ByteTileRoom) -> bool {
        let UnitBlock { queries, tokens, held, step, done } = block;
        let (dim, count) = (queries.kv.dim(), tokens * queries.heads);
        let (columns, row_lanes) = (queries.kv.columns(), queries.kv.columns() + 1);
        let row_bytes = quads(dim) * QUAD;
        let strips = count.div_ceil(ROWS);
        let ByteTileRoom {
            bytes,
            queries: of_rows,
            columns: of_chunk,
            scores,
            weights,
            sums,
            rows,
            reference: common,
        } = room;
        grow(bytes, strips * ROWS * row_bytes, 0);
        grow(of_rows, strips * ROWS, ByteQuery::default());
        grow(weights, 2 * ROWS * WEIGHT_BYTES, 0);
        let (weights, second) = weights.split_at_mut(ROWS * WEIGHT_BYTES);
        let scores = scores.lanes(ROWS * SCORE_LANES);
        let value_lanes = columns.next_multiple_of(KEY_LANES);
        let sums = sums.lanes(ROWS * value_lanes);
        let rows = rows.lanes(strips * ROWS * row_lanes);
        let common = &mut common.at_least(dim)[..dim];
        reference::<V>(&queries.kv, &held, step, common);
        let packed = (&mut bytes[..strips * ROWS * row_bytes], &mut of_rows[..strips * ROWS]);
        let (longest_query, largest_base) = pack::<V>(&queries, count, common, packed, &mut of_chunk.rotated);
        for (i, row) in rows.chunks_exact_mut(row_lanes).enumerate() {
            clear(row, if i < count { queries.sink(i) } else { None });
        }
        // SAFETY: the caller of `new` promised the processor's.
        let mut unit = unsafe { P::new() };
        let end = queries.position + tokens;
        for chunk in queries.seen(0).start / CHUNK..end.div_ceil(CHUNK) {
            let seeing = queries.seeing(chunk, tokens);
            let within = Within { queries: &queries, chunk };
            let start = within.start();
            let held = held.start.max(start)..held.end.min(start + CHUNK);
            let longest_key = of_chunk.fill::<V>(&queries.kv, start, held, common, step);
            // Not NaN.
            if !(longest_key * longest_query < TOO_LARGE && largest_base < TOO_LARGE) {
                return false;
            }
            for strip in seeing.start / ROWS..seeing.end.div_ceil(ROWS) {
                let part = seeing.start.max(strip * ROWS)..seeing.end.min((strip + 1) * ROWS);
                let all = 0..CHUNK;
                let (first, last) =
                    (within.seen(part.start, &all).start, within.seen(part.end - 1, &all).end);
                let positions = first / STEP * STEP..last.next_multiple_of(STEP);
                for block in positions.start / COLUMNS..positions.end / COLUMNS {
                    let out = WholesOut {
                        start: scores[block * COLUMNS / LANES..].as_mut_ptr().cast(),
                        stride: SCORE_LANES * LANES,
                    };
                    let keys = &of_chunk.keys[block * quads(dim)..][..quads(dim)];
                    // SAFETY: there are as many rows of scores.
                    unsafe { unit.multiply(&bytes[strip * ROWS * row_bytes..], row_bytes, keys, out) };
                }
                let rows = &mut rows[strip * ROWS * row_lanes..][..ROWS * row_lanes];
                let strip_rows = StripRows {
                    first: strip * ROWS,
                    part: part.clone(),
                    positions: positions.clone(),
                    queries: &of_rows[strip * ROWS..][..ROWS],
                };
                let (factors, twice) =
                    strip_rows.weigh::<V>(within, of_chunk, scores, (&mut *weights, &mut *second), rows);
                let passes = [(&*weights, 1.0), (&*second, SECOND)];
                for (weights, unit_of) in &passes[..if twice { 2 } else { 1 }] {
                    for block in 0..value_lanes / KEY_LANES {
                        let some = positions.start / QUAD..positions.end / QUAD;
                        let values = &of_chunk.values[block * CHUNK_QUADS..][some];
                        let out = WholesOut {
                            start: sums[block * KEY_LANES..].as_mut_ptr().cast(),
                            stride: value_lanes * LANES,
                        };
                        // SAFETY: these are as many rows.
                        unsafe { unit.multiply(&weights[positions.start..], WEIGHT_BYTES, values, out) };
                    }
                    for ((row, sums), factor) in
                        rows.chunks_exact_mut(row_lanes).zip(sums.chunks_exact(value_lanes)).zip(&factors)
                    {
                        let factor = V::splat(factor * unit_of);
                        for (row, sums) in row[..columns].iter_mut().zip(sums) {
                            *row = V::from_lanes(row).fma(V::from_integer_bits(sums), factor).to_lanes();
                        }
                    }
                }
            }
        }
        for (row, result) in rows.chunks_exact_mut(row_lanes).take(count).enumerate() {
            done(row, finish::<V>(result, queries.kv.value_dim(), queries.kv.rotated_values()));
        }
        true
    }
}

/// Rows of a strip.
struct StripRows<'a> {
    first: usize,
    /// Those that see some of the chunk.
    part: Range<usize>,
    /// Positions of the chunk that any of them sees, whole steps.
    positions: Range<usize>,
    queries: &'a [ByteQuery],
}

impl StripRows<'_> {
    /// Makes sums of products weights. Returns what sums of products of those with values are multiplied with, and whether any row has
    /// second bytes.
    #[inline(always)]
    fn weigh<V: Vector>(
        &self,
        within: Within<'_>,
        columns: &ByteColumns,
        scores: &mut [Lanes],
        (weights, second): (&mut [u8], &mut [u8]),
        rows: &mut [Lanes],
    ) -> (Lanes, bool) {
        let StripRows { first, part, positions, queries } = self;
        let scales = &columns.scales;
        let lanes = positions.start / LANES..positions.end / LANES;
        let row_lanes = rows.len() / queries.len();
        let whole = within.all_plain(part, positions);
        let of_keys = [&scales.keys[lanes.clone()], &scales.offsets[lanes.clone()]];
        let given = [&scales.values[lanes.clone()], &PATTERN[lanes.clone()]];
        let (mut in_part, mut of_scores, mut bases) = ([false; LANES], [1.0; LANES], [0.0; LANES]);
        for (i, query) in queries.iter().enumerate() {
            in_part[i] = part.contains(&(first + i));
            if whole {
                (of_scores[i], bases[i]) = (query.scale, query.base);
            }
        }
        if !whole {
            for (i, (scores, query)) in scores.chunks_exact_mut(SCORE_LANES).zip(*queries).enumerate() {
                let scores = &mut scores[lanes.clone()];
                let (scale, base) = (V::splat(query.scale), V::splat(query.base));
                for (score, (keys, offsets)) in scores.iter_mut().zip(of_keys[0].iter().zip(of_keys[1])) {
                    *score = base.fma(score_of::<V, true>(score, keys, offsets), scale).to_lanes();
                }
                if in_part[i] {
                    let seen = within.seen(first + i, positions);
                    finish_scores(within, first + i, positions.start, seen, scores);
                }
            }
        }
        let of_keys = whole.then_some(of_keys);
        let all =
            Rows { scores: &scores[lanes.start..], stride: SCORE_LANES, of_keys, scales: &of_scores, given };
        let bytes = &mut weights[positions.start..];
        // Of each row the largest score, and the sum of weights relative to that.
        let (mut largest, mut totals) = ([f32::MIN; LANES], [0.0; LANES]);
        V::apart(Weigh {
            rows: all,
            wanted: &in_part,
            bytes: &mut *bytes,
            largest: &mut largest,
            totals: &mut totals,
        });
        let mut tops =
            V::from_lanes(&bases).fma(V::from_lanes(&largest), V::from_lanes(&of_scores)).to_lanes();
        let mut origins = [0.0; LANES];
        for (i, row) in rows.chunks_exact_mut(row_lanes).enumerate() {
            // A row may see none.
            if in_part[i] && largest[i] > f32::MIN {
                origins[i] = raise_top::<V>(row, tops[i]);
            } else {
                (tops[i], totals[i]) = (f32::MIN, 0.0);
            }
        }
        // Nothing of rows that see none.
        let factors =
            exp_of_small(V::from_lanes(&tops).sub(V::from_lanes(&origins))).mul(V::splat(1.0 / MOST));
        let factors = factors.to_lanes();
        let mut wanted = [false; LANES];
        for (i, row) in rows.chunks_exact_mut(row_lanes).enumerate() {
            if let Some(state) = row.last_mut() {
                state[1] += totals[i] * factors[i];
                wanted[i] = MOST * factors[i] * FEWEST > state[1] * scales.mean_value;
            }
        }
        let twice = wanted.contains(&true);
        if twice {
            let second = &mut second[positions.start..];
            V::apart(WeighTwice { rows: all, wanted: &wanted, bytes, largest: &largest, second });
        }
        (factors.map(|factor| factor * scales.largest_value), twice)
    }
}
