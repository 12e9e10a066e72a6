//! The values of a chunk, times the weights that queries give them.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;
use super::chunk::{Seen, Within};
use super::room::StepRoom;
use super::source::{InPlace, Source};
use super::tile::{Ahead, ROW_LANES, add_products, by_rows};

/// Adds the values at those positions of a step that a row sees, times its weights, to the parts of rows `rows`.
#[inline(always)]
pub(super) fn add_values_of_step<V: Vector>(
    within: Within<'_>,
    rows: Range<usize>,
    step: Seen,
    weights: &[Lanes],
    parts: &mut [Lanes],
    room: &mut StepRoom,
) {
    let Seen { step, seen, ahead } = step;
    let kv = &within.queries.kv;
    let in_place = if within.in_one_pass::<V>(&rows) { kv.values_in_place::<V>(&seen, &mut room.scales) } else { None };
    match in_place {
        Some(InPlace::Halves(stored)) => {
            let values = Step { positions: &step, stored, ahead };
            add_in_one_pass::<V>(within, rows, values, weights, parts);
        }
        Some(InPlace::Bytes(stored)) => {
            let values = Step { positions: &step, stored, ahead };
            add_in_one_pass::<V>(within, rows, values, weights, parts);
        }
        None => {
            let values = Step { positions: &step, stored: kv.values::<V>(seen, &mut room.values), ahead };
            let mut row = rows.start;
            while row < rows.end {
                row += by_rows!(rows.end - row, add_values::<V>(within, row, values, weights, parts));
            }
        }
    }
}

/// [`add_values_of_step`] for rows that all see the same.
#[inline(always)]
fn add_in_one_pass<V: Vector>(
    within: Within<'_>,
    rows: Range<usize>,
    values: Step<'_, impl Source>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) {
    let seen = within.seen(rows.start, values.positions);
    let mut row = rows.start;
    while row < rows.end {
        row += by_rows!(rows.end - row, add_rows::<V>(within, row, values, seen.clone(), weights, parts));
    }
}

/// Positions of a chunk, and their keys or values; what comes next.
#[derive(Clone, Copy)]
struct Step<'a, S> {
    positions: &'a Range<usize>,
    stored: S,
    ahead: Ahead,
}

/// Adds the values at those positions of `step` that a row sees, times its weights, to the parts of R rows.
#[inline(always)]
fn add_values<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    values: Step<'_, impl Source>,
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
    values: Step<'_, impl Source>,
    positions: Range<usize>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) {
    if positions.is_empty() {
        return;
    }
    let columns = within.queries.kv.columns();
    let first = (positions.start - values.positions.start) * columns;
    let values = Step { stored: values.stored.from(first), ahead: values.ahead.from(first), ..values };
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
    values: Step<'_, impl Source>,
    positions: Range<usize>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) -> usize {
    let mut vectors = [values.stored; C];
    for (i, vectors) in vectors.iter_mut().enumerate() {
        *vectors = vectors.from(column + i);
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
