//! Some queries over one chunk of positions.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::math::{exp_of_small, tanh};
use super::super::vector::Vector;
use super::codes::GROUP;
use super::join::set_state;
use super::key_codes::{KeyCodes, QueryGroup};
use super::packed::Packed;
use super::queries::{Attention, Queries};
use super::room::StepRoom;
use super::sizes::{CHUNK, STEP};
use super::stored::KEY_LANES;
use super::tile::{Ahead, ROW, ROW_LANES, add_products, by_rows};

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
        let (top, total) = weigh::<V>(queries, chunk, row, &mut scores[row * ROW_LANES..][..ROW_LANES]);
        part.fill([0.0; LANES]);
        set_state(part, top, total);
    }
    let mut steps = within.seen_steps(&rows).peekable();
    while let Some((step, seen)) = steps.next() {
        let ahead = match steps.peek() {
            Some((_, following)) => queries.kv.values_ahead(following.start),
            None => queries.kv.keys_ahead(next.map_or(seen.start, |next| next * CHUNK)),
        };
        let stored = queries.kv.values::<V>(seen, &mut room.values);
        let values = Step { positions: &step, stored, ahead };
        let mut row = rows.start;
        while row < rows.end {
            row += by_rows!(rows.end - row, add_values::<V>(within, row, values, scores, parts));
        }
    }
}

/// The scaled `q . k` of rows `rows`, each of which must see some of chunk `chunk`, with the positions that any of them sees.
#[inline(always)]
pub(super) fn score_chunk<V: Vector>(
    queries: &Queries<'_>,
    chunk: usize,
    rows: Range<usize>,
    packed: Packed<'_>,
    scores: &mut [Lanes],
    room: &mut StepRoom,
) {
    let within = Within { queries, chunk };
    let mut steps = within.seen_steps(&rows).peekable();
    let first = steps.peek().map_or(0, |(_, seen)| seen.start);
    while let Some((step, seen)) = steps.next() {
        let ahead = match steps.peek() {
            Some((_, following)) => queries.kv.keys_ahead(following.start),
            None => queries.kv.values_ahead(first),
        };
        let mut row = rows.start;
        match packed {
            Packed::Floats(packed) => {
                let stored = queries.kv.keys::<V>(seen, &mut room.keys);
                let keys = Step { positions: &step, stored, ahead };
                while row < rows.end {
                    row += by_rows!(rows.end - row, score::<V>(within, row, keys, packed, scores));
                }
            }
            Packed::Groups(packed) => {
                let Some(keys) = queries.kv.key_codes(seen) else { continue };
                while row < rows.end {
                    row += by_rows!(rows.end - row, score_codes::<V>(within, row, (&step, ahead), keys, packed, scores));
                }
            }
        }
    }
}

/// Positions of a chunk whose keys, or values, stay in the first-level cache while all rows use them.
#[inline(always)]
pub(super) fn steps() -> impl Iterator<Item = Range<usize>> {
    (0..CHUNK).step_by(STEP).map(|start| start..start + STEP)
}

/// Positions of a chunk, and their keys or values; what comes next.
#[derive(Clone, Copy)]
struct Step<'a> {
    positions: &'a Range<usize>,
    stored: &'a [Lanes],
    ahead: Ahead,
}

/// A chunk and what is asked of it.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub queries: &'a Queries<'a>,
    pub chunk: usize,
}

impl Within<'_> {
    /// Its first position.
    pub fn start(self) -> usize {
        self.chunk * CHUNK
    }

    /// What a row sees of the positions `step` of the chunk.
    #[inline(always)]
    pub fn seen(self, row: usize, step: &Range<usize>) -> Range<usize> {
        let Range { start, end } = self.queries.seen(row);
        let (start, end) = (start.saturating_sub(self.start()), end.saturating_sub(self.start()));
        start.max(step.start).min(step.end)..end.max(step.start).min(step.end)
    }

    /// Steps of the chunk that any of some rows sees, and what it sees of each.
    #[inline(always)]
    fn seen_steps(self, rows: &Range<usize>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        steps().filter_map(move |step| self.seen_by_any(rows, &step).map(|seen| (step, seen)))
    }

    /// What any of some rows sees of them, counted from the start of the text.
    #[inline(always)]
    pub fn seen_by_any(self, rows: &Range<usize>, step: &Range<usize>) -> Option<Range<usize>> {
        // Later rows begin and end later.
        let last = rows.end.checked_sub(1)?;
        let (start, end) = (self.seen(rows.start, step).start, self.seen(last, step).end);
        (start < end).then(|| self.start() + start..self.start() + end)
    }
}

/// `q . k`, scaled, of R rows with the keys at those positions of `step` that any of them sees, and others in the same
/// vectors.
#[inline(always)]
fn score<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    keys: Step<'_>,
    packed: &[Lanes],
    scores: &mut [Lanes],
) {
    // Later rows begin and end later.
    let step = keys.positions;
    let (first, last) = (within.seen(first_row, step), within.seen(first_row + R - 1, step));
    let (mut vector, end) = (first.start / LANES, last.end.div_ceil(LANES));
    let first_vector = step.start / LANES;
    while vector < end {
        let at = vector;
        vector += if vector + C <= end {
            score_vectors::<V, R, C>(within, first_row, first_vector, at, keys, packed, scores)
        } else {
            score_vectors::<V, R, 1>(within, first_row, first_vector, at, keys, packed, scores)
        };
    }
}

/// [`score`] with keys in codes.
#[inline(always)]
fn score_codes<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    (step, ahead): (&Range<usize>, Ahead),
    keys: KeyCodes<'_>,
    packed: &[QueryGroup],
    scores: &mut [Lanes],
) {
    // Later rows begin and end later.
    let (first, last) = (within.seen(first_row, step), within.seen(first_row + R - 1, step));
    let (mut vector, end) = (first.start / LANES, last.end.div_ceil(LANES));
    let packed = &packed[first_row * within.queries.kv.dim().div_ceil(GROUP)..];
    while vector < end {
        let (at, scores) = (vector - step.start / LANES, &mut scores[first_row * ROW_LANES + vector..]);
        vector += if vector + C <= end {
            keys.score::<V, R, C>(packed, at, ahead, scores);
            C
        } else {
            keys.score::<V, R, 1>(packed, at, ahead, scores);
            1
        };
    }
}

/// [`score`] for the C vectors of 16 positions from `vector` on; `keys` begin at `first_vector`.
#[inline(always)]
fn score_vectors<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    first_vector: usize,
    vector: usize,
    step: Step<'_>,
    packed: &[Lanes],
    scores: &mut [Lanes],
) -> usize {
    let dim = within.queries.kv.dim();
    let rows = packed.len() / (dim.div_ceil(ROW) * ROW_LANES);
    let mut keys: [&[Lanes]; C] = [&[]; C];
    let place = |vector: usize| vector / KEY_LANES * KEY_LANES * dim + vector % KEY_LANES;
    for (vector, keys) in (vector - first_vector..).zip(&mut keys) {
        *keys = &step.stored[place(vector)..];
    }
    let ahead = step.ahead.from(place(vector - first_vector));
    let scale = V::splat(within.queries.attention.scale);
    let mut acc = [[V::splat(0.0); C]; R];
    let mut piece = 0;
    while piece * ROW < dim {
        let count = (dim - piece * ROW).min(ROW);
        let q = &packed[(piece * rows + first_row) * ROW_LANES..];
        let mut keys_of_piece: [&[Lanes]; C] = [&[]; C];
        for (of_piece, keys) in keys_of_piece.iter_mut().zip(keys) {
            *of_piece = &keys[piece * ROW * KEY_LANES..];
        }
        let ahead = ahead.from(piece * ROW * KEY_LANES);
        add_products(q.as_flattened(), keys_of_piece, count, KEY_LANES, ahead, &mut acc);
        piece += 1;
    }
    for (row, acc) in (first_row..).zip(acc) {
        let scores = &mut scores[row * ROW_LANES + vector..][..C];
        for (scores, acc) in scores.iter_mut().zip(acc) {
            *scores = acc.mul(scale).to_lanes();
        }
    }
    C
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
) -> (f32, f32) {
    let within = Within { queries, chunk };
    let Attention { softcap, slopes, .. } = *within.queries.attention;
    let seen = within.seen(row, &(0..CHUNK));
    let first = seen.start / LANES;
    let scores = &mut scores[first..seen.end.div_ceil(LANES)];
    let flat = scores.as_flattened_mut();
    if let Some(cap) = softcap {
        for score in flat.iter_mut() {
            *score = cap * tanh(*score / cap);
        }
    }
    if let Some(&slope) = slopes.get(within.queries.head(row)) {
        let own = within.queries.seen(row).end - 1;
        let behind = own as i32 - (within.start() + first * LANES) as i32;
        for (i, score) in flat.iter_mut().enumerate() {
            *score -= slope * (behind - i as i32) as f32;
        }
    }
    // What the row does not see, and whatever was computed there.
    flat[..seen.start % LANES].fill(f32::NEG_INFINITY);
    flat[seen.end - first * LANES..].fill(f32::NEG_INFINITY);
    let mut tops = V::splat(f32::MIN);
    for scores in scores.iter() {
        tops = tops.or_larger(V::from_lanes(scores));
    }
    let top = tops.to_lanes().into_iter().fold(f32::MIN, |a, b| if b > a { b } else { a });
    let mut totals = V::splat(0.0);
    for scores in scores.iter_mut() {
        let weights = exp_of_small(V::from_lanes(scores).sub(V::splat(top)));
        *scores = weights.to_lanes();
        totals = totals.add(weights);
    }
    (top, totals.sum())
}

/// Adds the values at those positions of `step` that a row sees, times its weights, to the parts of R rows.
#[inline(always)]
fn add_values<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    values: Step<'_>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) {
    let step = values.positions;
    let (first, last) = (within.seen(first_row, step), within.seen(first_row + R - 1, step));
    if first == last {
        return add_rows::<V, R, C>(within, first_row, values, first, weights, parts);
    }
    // Rows of several tokens. What not all of them see is added to each by itself: a weight of zero would not do, for zero
    // times infinity is NaN.
    let common = if last.start < first.end { last.start..first.end } else { step.end..step.end };
    for row in first_row..first_row + R {
        let seen = within.seen(row, step);
        let before = seen.start..seen.end.min(common.start);
        add_rows::<V, 1, 4>(within, row, values, before, weights, parts);
    }
    add_rows::<V, R, C>(within, first_row, values, common.clone(), weights, parts);
    for row in first_row..first_row + R {
        let seen = within.seen(row, step);
        let behind = seen.start.max(common.end)..seen.end;
        add_rows::<V, 1, 4>(within, row, values, behind, weights, parts);
    }
}

/// [`add_values`] for positions that all R rows see.
#[inline(always)]
fn add_rows<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    values: Step<'_>,
    positions: Range<usize>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) {
    if positions.is_empty() {
        return;
    }
    let columns = within.queries.kv.columns();
    let first = (positions.start - values.positions.start) * columns;
    let values = Step { stored: &values.stored[first..], ahead: values.ahead.from(first), ..values };
    let mut column = 0;
    while column < columns {
        column += if column + C <= columns {
            add_columns::<V, R, C>(first_row, columns, column, values, positions.clone(), weights, parts)
        } else {
            add_columns::<V, R, 1>(first_row, columns, column, values, positions.clone(), weights, parts)
        };
    }
}

/// [`add_rows`] for C of the vectors that the values at each of `positions` have.
#[inline(always)]
fn add_columns<V: Vector, const R: usize, const C: usize>(
    first_row: usize,
    columns: usize,
    column: usize,
    values: Step<'_>,
    positions: Range<usize>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) -> usize {
    let mut vectors: [&[Lanes]; C] = [&[]; C];
    for (i, vectors) in vectors.iter_mut().enumerate() {
        *vectors = &values.stored[column + i..];
    }
    let factors = &weights[first_row * ROW_LANES..].as_flattened()[positions.start..];
    let part = |row: usize| row * (columns + 1) + column;
    let mut acc = [[V::splat(0.0); C]; R];
    for (row, acc) in (first_row..).zip(&mut acc) {
        for (acc, part) in acc.iter_mut().zip(&parts[part(row)..][..C]) {
            *acc = V::from_lanes(part);
        }
    }
    add_products(factors, vectors, positions.len(), columns, values.ahead.from(column), &mut acc);
    for (row, acc) in (first_row..).zip(acc) {
        for (part, acc) in parts[part(row)..][..C].iter_mut().zip(acc) {
            *part = acc.to_lanes();
        }
    }
    C
}
