//! The scores that queries give to the positions of a chunk.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::vector::{Vector, VectorWork};
use super::fetch::Fetch;
use super::key_codes::{KeyCodes, PART, QueryPart};
use super::packed::Packed;
use super::queries::Queries;
use super::room::StepRoom;
use super::source::Source;
use super::stored::KEY_LANES;
use super::tile::{Ahead, ROW, ROW_LANES, add_products, by_rows};
use super::within::Within;

/// The scaled `q . k` of rows `rows`, each of which must see some of chunk `chunk`, with the positions that any of them sees.
#[inline(always)]
pub(super) fn score_chunk<V: Vector>(
    queries: &Queries<'_>,
    chunk: usize,
    rows: Range<usize>,
    packed: Packed<'_>,
    scores: &mut [Lanes],
    (room, lines): (&mut StepRoom, &mut impl Fetch),
) {
    let within = Within { queries, chunk };
    for (step, seen) in within.seen_steps(&rows) {
        match packed {
            Packed::Floats(packed) => {
                let (rows, scores) = (rows.clone(), &mut *scores);
                let (positions, ahead) = (&step, queries.kv.values_ahead(seen.start));
                match queries.kv.halves_of_keys(&seen).filter(|_| within.in_place::<V>(&rows)) {
                    Some(stored) => {
                        let keys = Step { positions, stored, ahead };
                        V::apart(ScoreRows { within, rows, keys, packed, scores });
                    }
                    None => {
                        let keys =
                            Step { positions, stored: queries.kv.keys::<V>(seen, &mut room.keys), ahead };
                        V::apart(ScoreRows { within, rows, keys, packed, scores });
                    }
                }
            }
            Packed::Parts(packed) => {
                if let Some(stored) = queries.kv.key_codes(&seen) {
                    let keys = CodeStep { positions: &step, stored };
                    let (lines, scores) = (&mut *lines, &mut *scores);
                    V::apart(ScoreCodes { within, rows: rows.clone(), keys, packed, lines, scores });
                }
            }
        }
    }
}

/// Scores of rows with keys as floats.
struct ScoreRows<'a, S> {
    within: Within<'a>,
    rows: Range<usize>,
    keys: Step<'a, S>,
    packed: &'a [Lanes],
    scores: &'a mut [Lanes],
}

impl<S: Source> VectorWork for ScoreRows<'_, S> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let ScoreRows { within, rows, keys, packed, scores } = self;
        let mut row = rows.start;
        while row < rows.end {
            row += by_rows!(rows.end - row, score::<V>(within, row, keys, packed, scores));
        }
    }
}

/// Scores of rows with keys in codes.
struct ScoreCodes<'a, F> {
    within: Within<'a>,
    rows: Range<usize>,
    keys: CodeStep<'a>,
    packed: &'a [QueryPart],
    lines: &'a mut F,
    scores: &'a mut [Lanes],
}

impl<F: Fetch> VectorWork for ScoreCodes<'_, F> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let ScoreCodes { within, rows, keys, packed, lines, scores } = self;
        let mut row = rows.start;
        while row < rows.end {
            row += by_rows!(rows.end - row, score_codes::<V>(within, row, keys, packed, lines, scores));
        }
    }
}

/// Positions of a chunk, and their keys in codes.
#[derive(Clone, Copy)]
struct CodeStep<'a> {
    positions: &'a Range<usize>,
    stored: KeyCodes<'a>,
}

/// Positions of a chunk, and their keys or values; what comes next.
#[derive(Clone, Copy)]
struct Step<'a, S> {
    positions: &'a Range<usize>,
    stored: S,
    ahead: Ahead,
}

/// `q . k`, scaled, of R rows with the keys at those positions of `step` that any of them sees, and others in the same
/// vectors.
#[inline(always)]
fn score<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    keys: Step<'_, impl Source>,
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
    keys: CodeStep<'_>,
    packed: &[QueryPart],
    lines: &mut impl Fetch,
    scores: &mut [Lanes],
) {
    // Later rows begin and end later.
    let CodeStep { positions: step, stored } = keys;
    let (first, last) = (within.seen(first_row, step), within.seen(first_row + R - 1, step));
    let (mut vector, end) = (first.start / LANES, last.end.div_ceil(LANES));
    let packed = &packed[first_row * within.queries.kv.dim().div_ceil(PART)..];
    while vector < end {
        let (at, scores) = (vector - step.start / LANES, &mut scores[first_row * ROW_LANES + vector..]);
        vector += if vector + C <= end {
            stored.score::<V, R, C>(packed, at, lines, scores);
            C
        } else {
            stored.score::<V, R, 1>(packed, at, lines, scores);
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
    step: Step<'_, impl Source>,
    packed: &[Lanes],
    scores: &mut [Lanes],
) -> usize {
    let dim = within.queries.kv.dim();
    let rows = packed.len() / (dim.div_ceil(ROW) * ROW_LANES);
    let place = |vector: usize| vector / KEY_LANES * KEY_LANES * dim + vector % KEY_LANES;
    let mut keys = [step.stored; C];
    for (vector, keys) in (vector - first_vector..).zip(&mut keys) {
        *keys = keys.from(place(vector));
    }
    let ahead = step.ahead.from(place(vector - first_vector));
    let scale = V::splat(within.queries.attention.scale);
    let mut acc = [[V::splat(0.0); C]; R];
    let mut piece = 0;
    while piece * ROW < dim {
        let count = (dim - piece * ROW).min(ROW);
        let q = &packed[(piece * rows + first_row) * ROW_LANES..];
        let keys_of_piece = keys.map(|keys| keys.from(piece * ROW * KEY_LANES));
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
