//! Attention over keys and values in codes of 8 bits by a matrix unit, eight rows at once. Sums are those of [`KeyCodes::score`] and
//! [`ValueCodes::add`], which are exact, so results have the same bits.
//!
//! The unit multiplies bytes. Weights are whole numbers of 16 bits, so each is two: what is 256 times the one and the other is it.
//! Products of a step are under way while sums of the step before are read.

use std::ops::Range;

use super::super::byte_unit::{AnyByteUnit, BYTES, ByteRows, ROWS};
use super::super::lanes::{LANES, Lanes};
use super::super::vector::{Vector, VectorWork};
use super::chunk::{SpanSums, weigh};
use super::codes::Coding;
use super::fetch::Fetch;
use super::key_codes::{KeyCodes, PART, QueryPart};
use super::lines_ahead::LinesAhead;
use super::packed::Packed;
use super::queries::Queries;
use super::room::ByteRoom;
use super::sizes::{CHUNK, STEP};
use super::stored::QUAD;
use super::tile::ROW_LANES;
use super::value_codes::{COLUMNS, VECTORS, Weights, only};
use super::within::Within;
use super::{KvType, KvTypes};

/// Rows of weights that are multiplied at once, each as two rows of bytes. Queries are one.
const WEIGHTS_AT_ONCE: usize = ROWS / 2;
/// Of fewer rows, most of the unit's work would be for rows that are not there.
const FEWEST_ROWS: usize = 3;

/// Lines that are fetched before the unit is asked for products, which takes as long as so many may; and more for each row that is
/// missing, for lines are also fetched as rows are worked on.
const FETCHED_BEFORE: usize = 12;
const FETCHED_FOR_ROWS: usize = 8;
/// Lines that are fetched while weights of a row become whole numbers.
const FETCHED_FOR_WEIGHTS: usize = 6;

/// Dimensions that share a scale.
const GROUP: usize = Coding::Eight.group();
const GROUP_PARTS: usize = GROUP / PART;
const _: () = assert!(BYTES == GROUP && BYTES == STEP && GROUP == COLUMNS * LANES, "rows are full");

/// A unit, set up for this thread, and its room.
pub(super) struct Bytes<'a> {
    pub unit: &'a mut AnyByteUnit,
    pub room: &'a mut ByteRoom,
}

/// Some queries whose keys and values the unit takes.
pub(super) struct ByteQueries<'a> {
    queries: &'a Queries<'a>,
    parts: &'a [QueryPart],
    room: &'a mut ByteRoom,
    unit: &'a mut AnyByteUnit,
    ahead: LinesAhead<'a>,
}

impl<'a> ByteQueries<'a> {
    /// Those of `packed`, if the unit takes what they read, the positions `seen`.
    #[inline(always)]
    pub fn new(
        queries: &'a Queries<'a>,
        packed: Packed<'a>,
        seen: Range<usize>,
        bytes: Option<Bytes<'a>>,
    ) -> Option<ByteQueries<'a>> {
        let (Packed::Parts(parts), Some(Bytes { unit, room })) = (packed, bytes) else { return None };
        let dim = queries.kv.dim();
        let rows = parts.len() / dim.div_ceil(PART);
        if !takes(queries.kv.types()) || !dim.is_multiple_of(GROUP) || rows < FEWEST_ROWS {
            return None;
        }
        bytes_of_queries(parts, dim / PART, &mut room.queries);
        Some(ByteQueries { queries, parts, room, unit, ahead: LinesAhead::new(queries.kv, seen) })
    }

    /// What [`attend_chunk`](super::chunk::attend_chunk) does.
    #[inline(always)]
    pub fn attend_chunk<V: Vector>(
        &mut self,
        chunk: usize,
        rows: Range<usize>,
        scores: &mut [Lanes],
        parts: &mut [Lanes],
    ) {
        let within = Within { queries: self.queries, chunk };
        let Some(seen) = within.seen_by_any(&rows, &(0..CHUNK)) else { return };
        let first = within.start() / STEP;
        let steps = seen.start / STEP - first..seen.end.div_ceil(STEP) - first;
        self.ahead.catch_up(chunk);
        let ByteQueries { parts: queries, room, unit, ahead, .. } = self;
        let row_lanes = within.queries.kv.columns() + 1;
        let work = Work { within, rows: rows.clone(), steps: steps.clone(), room, unit: &mut **unit, ahead };
        V::apart(Score { work, parts: queries, scores: &mut *scores });
        weigh::<V, true>(within, rows.clone(), scores, ahead, &mut SpanSums { parts, row_lanes });
        let work = Work { within, rows, steps, room, unit: &mut **unit, ahead };
        V::apart(Add { work, weights: scores, parts });
    }
}

/// Whether the unit takes keys and values of these types.
pub(super) fn takes(types: KvTypes) -> bool {
    types == KvTypes::from(KvType::Q8)
}

/// Sets `out` to the bytes of queries, of which each row has `row_parts` parts.
fn bytes_of_queries(parts: &[QueryPart], row_parts: usize, out: &mut Vec<ByteRows>) {
    out.clear();
    for rows in parts.chunks(ROWS * row_parts) {
        for group in 0..row_parts / GROUP_PARTS {
            let mut bytes = ByteRows::ZERO;
            for (row, of_row) in rows.chunks_exact(row_parts).enumerate() {
                let of_group = of_row[group * GROUP_PARTS..][..GROUP_PARTS].iter();
                let quads = of_group.flat_map(|part| &part.quads);
                for (bytes, quad) in bytes.0[row].as_chunks_mut::<QUAD>().0.iter_mut().zip(quads) {
                    *bytes = quad.bytes.to_le_bytes();
                }
            }
            out.push(bytes);
        }
    }
}

/// What the unit does for some steps of a chunk.
struct Work<'a, 'k> {
    within: Within<'a>,
    rows: Range<usize>,
    steps: Range<usize>,
    room: &'a mut ByteRoom,
    unit: &'a mut AnyByteUnit,
    ahead: &'a mut LinesAhead<'k>,
}

/// Computes the scores that rows give to the positions of steps.
struct Score<'a, 'k> {
    work: Work<'a, 'k>,
    parts: &'a [QueryPart],
    scores: &'a mut [Lanes],
}

impl VectorWork for Score<'_, '_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Score { work: Work { within, rows, steps, room, unit, ahead }, parts, scores } = self;
        let ByteRoom { queries, scores: sums, .. } = room;
        let kv = within.queries.kv;
        let row_groups = kv.dim() / GROUP;
        let row_parts = row_groups * GROUP_PARTS;
        let all = parts.len() / row_parts;
        let items = steps.len() * row_groups;
        for block in rows.start / ROWS..rows.end.div_ceil(ROWS) {
            let first = block * ROWS;
            let count = (all - first).min(ROWS);
            let mut before: Option<KeyCodes<'_>> = None;
            for item in 0..=items {
                let position = within.start() + (steps.start + item / row_groups) * STEP;
                let keys = if item < items { kv.key_codes(&(position..position + STEP)) } else { None };
                if let Some(keys) = keys {
                    let group = item % row_groups;
                    let mut columns = [&[[0; LANES]; BYTES]; VECTORS];
                    for (vector, columns) in columns.iter_mut().enumerate() {
                        *columns = &keys.of_vector(vector).as_chunks().0[group];
                    }
                    for _ in 0..FETCHED_BEFORE + WEIGHTS_AT_ONCE.saturating_sub(count) * FETCHED_FOR_ROWS {
                        ahead.fetch();
                    }
                    unit.multiply(&queries[block * row_groups + group], columns, &mut sums[item % 2]);
                }
                if let Some(keys) = before {
                    let item = item - 1;
                    let (step, group) = (steps.start + item / row_groups, item % row_groups);
                    let mut scales = [V::splat(0.0); VECTORS];
                    for (vector, scale) in scales.iter_mut().enumerate() {
                        *scale = keys.scale::<V>(Coding::Eight, vector, group);
                    }
                    for row in 0..count {
                        let row_scale =
                            V::splat(parts[(first + row) * row_parts + group * GROUP_PARTS].scale);
                        let scores = &mut scores[(first + row) * ROW_LANES + step * VECTORS..][..VECTORS];
                        for (vector, score) in scores.iter_mut().enumerate() {
                            ahead.fetch();
                            let sum = V::wholes(&sums[item % 2][vector].0[row]);
                            let so_far = if group == 0 { V::splat(0.0) } else { V::from_lanes(score) };
                            let scale = scales[vector].mul(row_scale);
                            *score = so_far.fma(V::from_wholes(sum), scale).to_lanes();
                        }
                    }
                }
                before = keys;
            }
        }
    }
}

/// Adds the values at the positions of steps, times the weights of rows, to their parts.
struct Add<'a, 'k> {
    work: Work<'a, 'k>,
    weights: &'a [Lanes],
    parts: &'a mut [Lanes],
}

impl VectorWork for Add<'_, '_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Add { work: Work { within, rows, steps, room, unit, ahead }, weights, parts } = self;
        let ByteRoom { weights: room, values: sums, .. } = room;
        let kv = within.queries.kv;
        let columns = kv.columns();
        let groups = kv.value_dim().div_ceil(GROUP);
        let items = steps.len() * groups;
        for first in rows.clone().step_by(WEIGHTS_AT_ONCE) {
            let count = (rows.end - first).min(WEIGHTS_AT_ONCE);
            let mut scales = [[0.0; WEIGHTS_AT_ONCE]; 2];
            for item in 0..=items {
                let step = (steps.start + item / groups) * STEP;
                let position = within.start() + step;
                let values = if item < items { kv.value_codes(&(position..position + STEP)) } else { None };
                if let Some(values) = values {
                    let group = item % groups;
                    let of_all = values.factors::<V>(Coding::Eight, group, &(0..STEP));
                    for row in 0..count {
                        for _ in 0..FETCHED_FOR_WEIGHTS {
                            ahead.fetch();
                        }
                        let of_row = &weights[(first + row) * ROW_LANES + step / LANES..][..VECTORS];
                        let seen = within.seen(first + row, &(step..step + STEP));
                        let seen = seen.start - step..seen.end - step;
                        let weights = if seen == (0..STEP) {
                            Weights::of(of_row, &of_all, Coding::Eight)
                        } else {
                            // What a row does not see may be NaN.
                            let factors = values.factors::<V>(Coding::Eight, group, &seen);
                            Weights::of(&only(of_row, &seen), &factors, Coding::Eight)
                        };
                        scales[item % 2][row] = weights.scale;
                        [room.0[2 * row], room.0[2 * row + 1]] = bytes_of(&weights.pairs);
                    }
                    for _ in 0..FETCHED_BEFORE + (WEIGHTS_AT_ONCE - count) * FETCHED_FOR_ROWS {
                        ahead.fetch();
                    }
                    let first_column = group * COLUMNS;
                    let last = columns - 1 - first_column;
                    let mut of_unit = [&[[0; LANES]; BYTES]; COLUMNS];
                    for (i, of_unit) in of_unit.iter_mut().enumerate() {
                        // In the place of columns that are not there is the last.
                        *of_unit = &values.of_column(first_column + i.min(last)).as_chunks().0[0];
                    }
                    unit.multiply(room, of_unit, &mut sums[item % 2]);
                }
                if item > 0 {
                    let item = item - 1;
                    let (scales, sums) = (&scales[item % 2], &sums[item % 2]);
                    let first_column = item % groups * COLUMNS;
                    let some = (columns - first_column).min(COLUMNS);
                    for (row, scale) in scales[..count].iter().enumerate() {
                        let parts = &mut parts[(first + row) * (columns + 1) + first_column..][..some];
                        for (i, part) in parts.iter_mut().enumerate() {
                            if i % 2 == 0 {
                                ahead.fetch();
                            }
                            let sum = V::wholes_of_bytes(&sums[i].0[2 * row], &sums[i].0[2 * row + 1]);
                            *part = V::from_lanes(part).fma(V::from_wholes(sum), V::splat(*scale)).to_lanes();
                        }
                    }
                }
            }
        }
    }
}

/// The low and the high bytes of whole numbers that are not below 0, as those of quads lie. Of weights that are NaN they may be
/// anything: then the scale is, or the sum of weights.
#[inline(always)]
fn bytes_of(pairs: &[[i32; LANES]; 2]) -> [[u8; STEP]; 2] {
    const EVERY_SECOND: i32 = 0x00FF_00FF;
    let (mut low, mut high) = ([[0; QUAD]; LANES], [[0; QUAD]; LANES]);
    for i in 0..LANES {
        let (first, second) = (pairs[0][i], pairs[1][i]);
        low[i] = (first & EVERY_SECOND | (second & EVERY_SECOND) << 8).to_le_bytes();
        // The low byte counts with its sign.
        let (first, second) = (first.wrapping_add(0x0080_0080), second.wrapping_add(0x0080_0080));
        high[i] = (first >> 8 & EVERY_SECOND | second & EVERY_SECOND << 8).to_le_bytes();
    }
    let mut bytes = [[0; STEP]; 2];
    bytes[0].copy_from_slice(low.as_flattened());
    bytes[1].copy_from_slice(high.as_flattened());
    bytes
}
