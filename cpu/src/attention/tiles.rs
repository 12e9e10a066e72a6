//! Several tokens by a matrix unit: what [`super::chunk`] does in floats, with products in bfloat16. Scores and sums of values are
//! floats. Weights of a row are relative to the largest of its first scores, so that sums grow in place. Later ones may be larger,
//! up to [`MOST`]: then they, and all before, become relative to the largest of these. So no pass looks for the largest score.

use std::ops::Range;

use super::super::bf16_unit::{
    Bf16Unit, ColumnLine, Columns, NO_COLUMNS, RowLine, STEP as FACTORS, SumsOut, rounded,
};
use super::super::hadamard::hadamard;
use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;
use super::by_unit::{Unit, UnitBlock};
use super::chunk::{finish_scores, largest_score};
use super::join::{add_totals, clear, finish, origin, rescale};
use super::queries::Queries;
use super::room::{StepRoom, TileRoom, grow};
use super::scratch::Scratch;
use super::sizes::{CHUNK, STEP};
use super::stored::KEY_LANES;
use super::tile::ROW;
use super::within::{Within, steps};

/// Lines of a row of weights: one more than it has, as in [`ROW_LANES`].
const WEIGHT_LINES: usize = CHUNK / FACTORS + 1;
/// Products of a chunk with keys, and steps of one with values.
const BLOCKS: usize = CHUNK / FACTORS;
/// Those whose scores become weights at a time: in the nearest cache.
const AT_ONCE: usize = 4;
/// Vectors from one row of scores to the next.
const SCORE_LANES: usize = AT_ONCE * FACTORS / LANES + 1;
/// The largest sum of weights in a lane that stays relative to the score before: e^41. Floats go on to e^88, and between these is room
/// for every text, and for values.
const MOST: f32 = (1u64 << 60) as f32;
/// The bits of the smallest magnitude that is rounded to infinity; those of infinity and NaN are above.
const TOO_LARGE: u32 = 0x7F7F_8000;

/// Attention in bfloat16 by such a unit.
pub(super) struct InBf16<U>(U);

impl<U: Bf16Unit> Unit for InBf16<U> {
    type Room = TileRoom;

    #[inline(always)]
    unsafe fn new() -> InBf16<U> {
        // SAFETY: the caller's promise.
        InBf16(unsafe { U::new() })
    }

    fn room(scratch: &mut Scratch) -> (&mut TileRoom, &mut StepRoom) {
        (&mut scratch.tiles, &mut scratch.step)
    }

    fn row_bytes(dim: usize, value_dim: usize) -> usize {
        let lines = dim.div_ceil(FACTORS) * size_of::<RowLine>();
        lines + (value_dim.div_ceil(LANES) + 1) * size_of::<Lanes>()
    }

    #[inline(always)]
    fn attend<V: Vector>(self, block: UnitBlock<'_>, room: &mut TileRoom) -> bool {
        let (InBf16(mut unit), UnitBlock { queries, tokens, step, done, .. }) = (self, block);
        let (dim, count) = (queries.kv.dim(), tokens * queries.heads);
        let (row_lanes, lines) = (queries.kv.columns() + 1, dim.div_ceil(FACTORS));
        let strips = count.div_ceil(U::ROWS);
        grow(&mut room.queries, strips * U::ROWS * lines, RowLine::ZERO);
        grow(&mut room.keys, BLOCKS * lines, NO_COLUMNS);
        grow(&mut room.values, BLOCKS * queries.kv.value_dim().div_ceil(FACTORS), NO_COLUMNS);
        grow(&mut room.weights, U::ROWS * WEIGHT_LINES, RowLine::ZERO);
        let scores = room.scores.lanes((U::ROWS * SCORE_LANES).max(2 * lines));
        let rows = room.rows.lanes(strips * U::ROWS * row_lanes);
        let totals = room.totals.lanes(strips * U::ROWS);
        totals.fill([0.0; LANES]);
        let origins = room.origins.lanes((strips * U::ROWS).div_ceil(LANES)).as_flattened_mut();
        let packed = &mut room.queries[..strips * U::ROWS * lines];
        let finite = pack::<V>(&queries, count, lines, packed, &mut scores[..2 * lines]);
        for (i, row) in rows.chunks_exact_mut(row_lanes).enumerate() {
            clear(row, if i < count { queries.sink(i) } else { None });
            origins[i] = origin(row);
        }
        if !finite {
            return false;
        }
        let end = queries.position + tokens;
        for chunk in queries.seen(0).start / CHUNK..end.div_ceil(CHUNK) {
            let seeing = queries.seeing(chunk, tokens);
            let within = Within { queries: &queries, chunk };
            if !columns_of_chunk::<V>(within, &seeing, &mut room.keys, &mut room.values, step) {
                return false;
            }
            for strip in seeing.start / U::ROWS..seeing.end.div_ceil(U::ROWS) {
                let part = seeing.start.max(strip * U::ROWS)..seeing.end.min((strip + 1) * U::ROWS);
                let all = 0..CHUNK;
                let (first, last) =
                    (within.seen(part.start, &all).start, within.seen(part.end - 1, &all).end);
                let blocks = first / FACTORS..last.div_ceil(FACTORS);
                for start in blocks.clone().step_by(AT_ONCE) {
                    let some = start..blocks.end.min(start + AT_ONCE);
                    for (i, block) in some.clone().enumerate() {
                        let keys = &room.keys[block * lines..][..lines];
                        let out = sums_out(&mut scores[i * FACTORS / LANES..], SCORE_LANES);
                        // SAFETY: there are as many rows of scores.
                        unsafe {
                            unit.multiply::<false>(
                                &room.queries[strip * U::ROWS * lines..],
                                lines,
                                keys,
                                out,
                            );
                        }
                    }
                    let positions = some.start * FACTORS..some.end * FACTORS;
                    let whole = within.all_plain(&part, &positions);
                    let weights = room.weights.chunks_exact_mut(WEIGHT_LINES);
                    for ((i, lines), scores) in
                        weights.take(U::ROWS).enumerate().zip(scores.chunks_exact_mut(SCORE_LANES))
                    {
                        let row = strip * U::ROWS + i;
                        if part.contains(&row) {
                            let scores = &mut scores[..positions.len() / LANES];
                            let weighed = Weighed {
                                lines: &mut lines[blocks.start..some.end],
                                result: &mut rows[row * row_lanes..][..row_lanes],
                                totals: &mut totals[row],
                                origin: &mut origins[row],
                            };
                            if !whole {
                                let seen = within.seen(row, &positions);
                                finish_scores(within, row, positions.start, seen, scores);
                            }
                            weigh_row::<V>(scores, weighed, &mut unit);
                        } else {
                            lines[some.clone()].fill(RowLine::ZERO);
                        }
                    }
                }
                let rows = &mut rows[strip * U::ROWS * row_lanes..][..U::ROWS * row_lanes];
                for columns in 0..row_lanes / 2 {
                    let values = &room.values[columns * BLOCKS..][blocks.clone()];
                    // Two vectors at a time, the last perhaps the state: that has values of zero.
                    let out = sums_out(&mut rows[columns * FACTORS / LANES..], row_lanes);
                    // SAFETY: these are as many rows.
                    unsafe {
                        unit.multiply::<true>(&room.weights[blocks.start..], WEIGHT_LINES, values, out);
                    }
                }
            }
        }
        for (row, result) in rows.chunks_exact_mut(row_lanes).take(count).enumerate() {
            add_totals::<V>(result, &totals[row]);
            done(row, finish::<V>(result, queries.kv.value_dim(), queries.kv.rotated_values()));
        }
        true
    }
}

/// The first of rows that are `stride` vectors apart.
#[inline(always)]
fn sums_out(rows: &mut [Lanes], stride: usize) -> SumsOut {
    SumsOut { start: rows.as_mut_ptr().cast(), stride: stride * LANES }
}

/// Rounds queries, rotated as keys are, times the scale of scores; rows of zeros fill the last strip. Whether all are finite.
#[inline(always)]
fn pack<V: Vector>(
    queries: &Queries<'_>,
    count: usize,
    lines: usize,
    packed: &mut [RowLine],
    room: &mut [Lanes],
) -> bool {
    let mut largest = 0;
    let flat = room.as_flattened_mut();
    for (row, packed) in packed.chunks_exact_mut(lines).enumerate() {
        flat.fill(0.0);
        if row < count {
            let values = &mut flat[..queries.kv.dim()];
            values.copy_from_slice(queries.query(row));
            for piece in values.chunks_mut(ROW) {
                hadamard::<V>(piece, queries.kv.rotated_keys());
            }
        }
        for (line, values) in packed.iter_mut().zip(flat.as_chunks::<FACTORS>().0) {
            for (to, value) in line.0.iter_mut().zip(values) {
                let value = value * queries.attention.scale;
                largest = value.abs().to_bits().max(largest);
                *to = (rounded(value) >> 16) as u16;
            }
        }
    }
    largest < TOO_LARGE
}

/// Rounds the keys and values of a chunk that any of `rows` sees; other values become zeros. Whether all are finite.
#[inline(always)]
fn columns_of_chunk<V: Vector>(
    within: Within<'_>,
    rows: &Range<usize>,
    keys: &mut [Columns],
    values: &mut [Columns],
    room: &mut StepRoom,
) -> bool {
    let kv = &within.queries.kv;
    let (dim, columns) = (kv.dim(), kv.columns());
    let lines = dim.div_ceil(FACTORS);
    let mut largest = [0; LANES];
    for step in steps() {
        let Some(seen) = within.seen_by_any(rows, &step) else {
            continue;
        };
        let first_block = step.start / FACTORS;
        let stored = kv.keys::<V>(seen.clone(), &mut room.keys);
        let start = within.start() + step.start;
        let blocks = keys[first_block * lines..].chunks_exact_mut(lines).take(STEP / FACTORS);
        for (i, (block, stored)) in blocks.zip(stored.chunks_exact(KEY_LANES * dim)).enumerate() {
            // What no row sees may be anything, and must not matter.
            let counted = |half: usize, lane: usize| {
                let position = start + i * FACTORS + half * LANES + lane;
                if seen.contains(&position) { u32::MAX } else { 0 }
            };
            let counted: [[u32; LANES]; KEY_LANES] =
                std::array::from_fn(|half| std::array::from_fn(|lane| counted(half, lane)));
            for (i, (half, line)) in halves(block) {
                let key = |j: usize| stored.get((i + j) * KEY_LANES + half).unwrap_or(&[0.0; LANES]);
                *line = pair(key(0), key(1), &counted[half], &mut largest);
            }
        }
        let stored = kv.values::<V>(seen.clone(), &mut room.values);
        for (column, values) in
            values.chunks_exact_mut(BLOCKS).take(kv.value_dim().div_ceil(FACTORS)).enumerate()
        {
            for (i, (half, line)) in halves(&mut values[first_block..][..STEP / FACTORS]) {
                // As weights lie: those of a block's first half and second in turn.
                let i = i / FACTORS * FACTORS + i % FACTORS / 2;
                let column = KEY_LANES * column + half;
                let value = |j: usize| match seen.contains(&(start + j)) && column < columns {
                    true => &stored[j * columns + column],
                    false => &[0.0; LANES],
                };
                *line = pair(value(i), value(i + FACTORS / 2), &[u32::MAX; LANES], &mut largest);
            }
        }
    }
    largest.into_iter().fold(0, u32::max) < TOO_LARGE
}

/// The lines of steps that follow each other, with the first of the two factors that each has, and the half of the columns.
#[inline(always)]
fn halves(steps: &mut [Columns]) -> impl Iterator<Item = (usize, (usize, &mut ColumnLine))> {
    steps.iter_mut().enumerate().flat_map(|(step, columns)| {
        columns.iter_mut().enumerate().flat_map(move |(half, lines)| {
            lines.iter_mut().enumerate().map(move |(i, line)| (step * FACTORS + 2 * i, (half, line)))
        })
    })
}

/// Two factors of 16 columns, rounded; `largest` becomes the largest magnitudes of those `counted`, as bits.
#[inline(always)]
fn pair(first: &Lanes, second: &Lanes, counted: &[u32; LANES], largest: &mut [u32; LANES]) -> ColumnLine {
    let mut line = ColumnLine([0; LANES]);
    for (i, to) in line.0.iter_mut().enumerate() {
        let (a, b) = (first[i], second[i]);
        largest[i] = largest[i].max(a.abs().to_bits().max(b.abs().to_bits()) & counted[i]);
        *to = rounded(b) & 0xFFFF_0000 | rounded(a) >> 16;
    }
    line
}

/// What scores of a row go into.
struct Weighed<'a> {
    /// Weights of this chunk so far, and room for those of the scores.
    lines: &'a mut [RowLine],
    result: &'a mut [Lanes],
    /// Sums of weights.
    totals: &'a mut Lanes,
    /// The score that all of these are relative to.
    origin: &'a mut f32,
}

/// Makes scores of a row weights.
#[inline(always)]
fn weigh_row<V: Vector>(scores: &[Lanes], weighed: Weighed<'_>, unit: &mut impl Bf16Unit) {
    let Weighed { lines, result, totals, origin } = weighed;
    let (before, lines) = lines.split_at_mut(lines.len() - scores.len() * LANES / FACTORS);
    if *origin == f32::MIN {
        *origin = largest_score::<V>(scores);
    }
    let mut sums = unit.weigh(scores, *origin, lines);
    // Not NaN.
    if !sums.iter().all(|sum| *sum <= MOST) {
        let top = largest_score::<V>(scores).max(*origin);
        let keep = rescale::<V>(result, totals, *origin - top);
        for weight in before.iter_mut().flat_map(|line| &mut line.0) {
            *weight = (rounded(f32::from_bits(u32::from(*weight) << 16) * keep) >> 16) as u16;
        }
        *origin = top;
        sums = unit.weigh(scores, top, lines);
    }
    *totals = V::from_lanes(totals).add(V::from_lanes(&sums)).to_lanes();
}
