//! The values of a chunk, times the weights that queries give them.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::vector::{Vector, VectorWork};
use super::fetch::Fetch;
use super::room::StepRoom;
use super::source::Source;
use super::tile::{Ahead, ROW_LANES, add_products, by_rows, rows_at_once};
use super::value_codes::{ValueCodes, WeightRoom, WeightRows};
use super::within::{Seen, Within};

/// Adds the values at those positions of a step that a row sees, times its weights, to the parts of rows `rows`.
#[inline(always)]
pub(super) fn add_values_of_step<V: Vector>(
    within: Within<'_>,
    rows: Range<usize>,
    step: Seen,
    weights: &[Lanes],
    parts: &mut [Lanes],
    (room, lines): (&mut StepRoom, &mut impl Fetch),
) {
    let Seen { step, seen, next } = step;
    let kv = &within.queries.kv;
    if let Some(stored) = kv.value_codes(&seen) {
        let values = CodeStep { positions: &step, stored };
        return V::apart(AddCodes { within, rows, values, weights, parts, room: &mut room.weights, lines });
    }
    let ahead = kv.keys_ahead(next);
    match kv.halves_of_values(&seen).filter(|_| within.in_place::<V>(&rows)) {
        Some(stored) => {
            let values = Step { positions: &step, stored, ahead };
            V::apart(AddValues { within, rows, values, weights, parts });
        }
        None => {
            let values = Step { positions: &step, stored: kv.values::<V>(seen, &mut room.values), ahead };
            V::apart(AddValues { within, rows, values, weights, parts });
        }
    }
}

/// [`add_values_of_step`] with values in codes.
struct AddCodes<'a, F> {
    within: Within<'a>,
    rows: Range<usize>,
    values: CodeStep<'a>,
    weights: &'a [Lanes],
    parts: &'a mut [Lanes],
    room: &'a mut WeightRoom,
    lines: &'a mut F,
}

impl<F: Fetch> VectorWork for AddCodes<'_, F> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let AddCodes { within, rows, values, weights, parts, room, lines } = self;
        let mut row = rows.start;
        while row < rows.end {
            row += by_rows!(
                rows.end - row,
                add_codes::<V>(within, row, values, weights, parts, (&mut *room, &mut *lines))
            );
        }
    }
}

/// Positions of a chunk, and their values in codes.
#[derive(Clone, Copy)]
struct CodeStep<'a> {
    positions: &'a Range<usize>,
    stored: ValueCodes<'a>,
}

/// Adds values in codes, times the weights of R rows, to their parts.
#[inline(always)]
fn add_codes<V: Vector, const R: usize, const C: usize>(
    within: Within<'_>,
    first_row: usize,
    values: CodeStep<'_>,
    weights: &[Lanes],
    parts: &mut [Lanes],
    (room, lines): (&mut WeightRoom, &mut impl Fetch),
) {
    let CodeStep { positions: step, stored } = values;
    let seen = if within.all_see(&(first_row..first_row + R), step) {
        None
    } else {
        Some(std::array::from_fn(|row| {
            let seen = within.seen(first_row + row, step);
            seen.start - step.start..seen.end - step.start
        }))
    };
    let rows =
        WeightRows { weights: &weights[first_row * ROW_LANES + step.start / LANES..], stride: ROW_LANES };
    let parts = &mut parts[first_row * (within.queries.kv.columns() + 1)..];
    stored.add::<V, R, C>(rows, seen, lines, parts, room);
}

/// [`add_values_of_step`] with values in some form.
struct AddValues<'a, S> {
    within: Within<'a>,
    rows: Range<usize>,
    values: Step<'a, S>,
    weights: &'a [Lanes],
    parts: &'a mut [Lanes],
}

impl<S: Source> VectorWork for AddValues<'_, S> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let AddValues { within, rows, values, weights, parts } = self;
        add_uncommon::<V>(
            within,
            &rows,
            values,
            |seen, common| seen.start..seen.end.min(common.start),
            weights,
            parts,
        );
        let mut row = rows.start;
        while row < rows.end {
            let common = common(within, row, rows_at_once::<V>(rows.end - row), values.positions);
            row +=
                by_rows!(rows.end - row, add_rows::<V>(within, row, values, common.clone(), weights, parts));
        }
        add_uncommon::<V>(
            within,
            &rows,
            values,
            |seen, common| seen.start.max(common.end)..seen.end,
            weights,
            parts,
        );
    }
}

/// What all of `count` rows see of a step.
#[inline(always)]
fn common(within: Within<'_>, first_row: usize, count: usize, step: &Range<usize>) -> Range<usize> {
    // Later rows begin and end later.
    let (first, last) = (within.seen(first_row, step), within.seen(first_row + count - 1, step));
    if last.start < first.end { last.start..first.end } else { step.end..step.end }
}

/// Adds to each row by itself what a row sees and not all do that are taken together with it; `part` says which part of that. A
/// weight of zero for others would not do, for zero times infinity is NaN.
#[inline(always)]
fn add_uncommon<V: Vector>(
    within: Within<'_>,
    rows: &Range<usize>,
    values: Step<'_, impl Source>,
    part: impl Fn(Range<usize>, &Range<usize>) -> Range<usize>,
    weights: &[Lanes],
    parts: &mut [Lanes],
) {
    let step = values.positions;
    if within.seen(rows.start, step) == within.seen(rows.end - 1, step) {
        return;
    }
    let mut first = rows.start;
    while first < rows.end {
        let count = rows_at_once::<V>(rows.end - first);
        let common = common(within, first, count, step);
        for row in first..first + count {
            let positions = part(within.seen(row, step), &common);
            add_rows::<V, 1, 4>(within, row, values, positions, weights, parts);
        }
        first += count;
    }
}

/// Positions of a chunk, and their keys or values; what comes next.
#[derive(Clone, Copy)]
struct Step<'a, S> {
    positions: &'a Range<usize>,
    stored: S,
    ahead: Ahead,
}

/// Adds the values at `positions`, times the weights of R rows, which all see them, to their parts.
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
