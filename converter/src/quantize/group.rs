//! Sixteen rows of a matrix, a row per lane: coded column by column with error feedback, then improved.

use std::ops::Range;

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::coder::{Coder, DiagonalBlock, MOST_COLUMNS, MOST_PER_CODE, Room, UncodedBlock, accumulate_row};
use super::feedback::Ordered;
use super::strips::{STRIP, Strips, accumulate};
use super::vectors::{ZEROS, inverse};

/// Rows of one matrix, column by column; rows past the last are zero, as are columns past the last.
#[derive(Debug, Clone)]
pub(super) struct RowGroup {
    /// The weights.
    pub originals: Vec<Lanes>,
    /// What a reader gets.
    pub values: Vec<Lanes>,
    /// `originals - values`; 0 in columns past the last.
    pub errors: Vec<Lanes>,
}

impl RowGroup {
    /// Takes at most 16 rows of `cols` values, padded to blocks of `block` columns.
    pub(super) fn new(cols: usize, block: usize, rows: &[f32]) -> RowGroup {
        let originals = lanes_of_rows(cols, block, rows);
        let values = vec![ZEROS; originals.len()];
        RowGroup { errors: originals.clone(), originals, values }
    }

    /// Codes all blocks. With a moment, errors are fed back and at most `descents` passes of descent follow; without, `importance`
    /// says what a column counts.
    #[inline(always)]
    pub(super) fn fit<V: Vector, C: Coder<V>>(
        &mut self,
        coder: &C,
        importance: &[f32],
        ordered: Option<&Ordered>,
        descents: usize,
    ) -> Vec<C::Block> {
        let Some(ordered) = ordered else { return self.code::<V, C>(coder, importance, None) };
        let mut blocks = self.code::<V, C>(coder, &ordered.pivots, Some(&ordered.upper));
        let mut pull = self.pull::<V>(&ordered.moment);
        for _ in 0..descents {
            if !self.descend::<V, C>(coder, &mut blocks, ordered, &mut pull) {
                break;
            }
        }
        blocks
    }

    /// Codes block after block, each against targets that make up for the errors of all columns before (LDLQ). `weights`
    /// holds the pivots of the moment, or without a moment the importance of each column; 0 past the last column.
    #[inline(always)]
    pub(super) fn code<V: Vector, C: Coder<V>>(
        &mut self,
        coder: &C,
        weights: &[f32],
        upper: Option<&Strips>,
    ) -> Vec<C::Block> {
        let columns = coder.columns();
        let mut blocks = Vec::with_capacity(self.originals.len() / columns);
        let mut room: Room = [ZEROS; MOST_COLUMNS];
        let mut targets: Room = [ZEROS; MOST_COLUMNS];
        for start in (0..self.originals.len()).step_by(columns) {
            let block = start..(start + columns).min(self.originals.len());
            let targets = &mut targets[..block.len()];
            targets.copy_from_slice(&self.originals[block.clone()]);
            if let Some(upper) = upper {
                for (strip, targets) in targets.chunks_mut(STRIP).enumerate() {
                    accumulate::<V>(targets, &self.errors[..start], upper.strip(start / STRIP + strip));
                }
            }
            let uncoded = UncodedBlock {
                start,
                originals: &self.originals[block.clone()],
                targets,
                weights: &weights[block.clone()],
                upper: upper.map(|upper| DiagonalBlock::new(upper, start)),
            };
            let chosen = coder.choose(&uncoded, &mut room);
            let ready = coder.ready(&chosen);
            let _: V = uncoded.walk(coder, &ready, &mut room, Some(&mut self.values[block.clone()]));
            self.set_errors(block, weights);
            blocks.push(chosen);
        }
        blocks
    }

    /// `errors` of some columns from `originals` and `values`.
    #[inline(always)]
    fn set_errors(&mut self, columns: Range<usize>, weights: &[f32]) {
        for j in columns {
            for i in 0..LANES {
                let error = self.originals[j][i] - self.values[j][i];
                self.errors[j][i] = if weights[j] == 0.0 { 0.0 } else { error };
            }
        }
    }

    /// The errors times the moment: half the downward slope of the loss in every value.
    #[inline(always)]
    pub(super) fn pull<V: Vector>(&self, moment: &Strips) -> Vec<Lanes> {
        product::<V>(&self.errors, moment)
    }

    /// `e H e'` of every row.
    #[inline(always)]
    pub(super) fn losses<V: Vector>(&self, pull: &[Lanes]) -> V {
        let mut losses = V::splat(0.0);
        for (error, pull) in self.errors.iter().zip(pull) {
            losses = losses.fma(V::from_lanes(error), V::from_lanes(pull));
        }
        losses
    }

    /// Coordinate descent: moves every code, then every block's scales, to where they are best with all others as they
    /// are. Never makes the loss larger, up to rounding. Says whether anything moved.
    #[inline(always)]
    pub(super) fn descend<V: Vector, C: Coder<V>>(
        &mut self,
        coder: &C,
        blocks: &mut [C::Block],
        ordered: &Ordered,
        pull: &mut [Lanes],
    ) -> bool {
        let columns = coder.columns();
        let mut any = false;
        let mut gained: Room = [ZEROS; MOST_COLUMNS];
        for (b, chosen) in blocks.iter_mut().enumerate() {
            let start = b * columns;
            let block = start..(start + columns).min(self.originals.len());
            let gained = &mut gained[..block.len()];
            gained.copy_from_slice(&self.values[block.clone()]);
            self.descend_codes(coder, &coder.ready(chosen), ordered, block.clone(), pull);
            let local = DiagonalBlock::new(&ordered.moment, start);
            let scaled = coder.rescale(chosen, &mut self.values[block.clone()], &pull[block.clone()], local);
            if let Some(better) = scaled {
                *chosen = better;
            }
            // What the errors of the block gained in all is passed on to all other columns at once.
            let mut moved = false;
            for (gained, value) in gained.iter_mut().zip(&self.values[block.clone()]) {
                for i in 0..LANES {
                    gained[i] -= value[i];
                    moved |= gained[i] != 0.0;
                }
            }
            if !moved {
                continue;
            }
            any = true;
            self.set_errors(block.clone(), &ordered.pivots);
            for (strip, pull) in pull.chunks_mut(STRIP).enumerate() {
                let rows = ordered.moment.strip(strip);
                if !block.contains(&(strip * STRIP)) {
                    accumulate::<V>(pull, gained, &rows[block.clone()]);
                } else if scaled.is_some() {
                    pull.fill(ZEROS);
                    accumulate::<V>(pull, &self.errors, rows);
                }
            }
        }
        any
    }

    /// The codes of one block; keeps `pull` right inside the block.
    #[inline(always)]
    fn descend_codes<V: Vector, C: Coder<V>>(
        &mut self,
        coder: &C,
        ready: &C::Ready,
        ordered: &Ordered,
        block: Range<usize>,
        pull: &mut [Lanes],
    ) {
        let start = block.start;
        let local = DiagonalBlock::new(&ordered.moment, start);
        let pull = &mut pull[block.clone()];
        let mut found = [ZEROS; MOST_PER_CODE];
        for first in (0..block.len()).step_by(C::PER_CODE) {
            let code = first..first + C::PER_CODE;
            // Columns past the last are a block of their own at the end, or none of a wide code.
            if code.clone().any(|j| ordered.pivots[start + j] == 0.0) {
                continue;
            }
            let (mut targets, mut weights) = ([ZEROS; MOST_PER_CODE], [0.0; MOST_PER_CODE]);
            for (k, j) in code.clone().enumerate() {
                weights[k] = local.row(j, j / STRIP)[j % STRIP];
                let value = V::from_lanes(&self.values[start + j]);
                targets[k] = value.fma(V::from_lanes(&pull[j]), V::splat(1.0 / weights[k])).to_lanes();
            }
            let found = &mut found[..C::PER_CODE];
            coder.nearest(ready, first, &targets[..C::PER_CODE], &weights[..C::PER_CODE], found);
            if C::PER_CODE > 1 {
                self.keep_where_worse::<V>(found, start, first, pull, local);
            }
            for (j, better) in code.zip(&*found) {
                let gained = V::from_lanes(&self.values[start + j]).sub(V::from_lanes(better));
                self.values[start + j] = *better;
                if gained.to_lanes() == ZEROS {
                    continue;
                }
                for (strip, pull) in pull.chunks_mut(STRIP).enumerate() {
                    accumulate_row(pull, gained, local.row(j, strip));
                }
            }
        }
    }

    /// Takes back the values that a wide code would have where the true loss, with what couples its columns, does not gain.
    #[inline(always)]
    fn keep_where_worse<V: Vector>(
        &self,
        found: &mut [Lanes],
        start: usize,
        first: usize,
        pull: &[Lanes],
        local: DiagonalBlock<'_>,
    ) {
        let now = &self.values[start + first..];
        let mut moves = [V::splat(0.0); MOST_PER_CODE];
        for ((step, found), now) in moves.iter_mut().zip(&*found).zip(now) {
            *step = V::from_lanes(found).sub(V::from_lanes(now));
        }
        let moves = &moves[..found.len()];
        let mut gain = V::splat(0.0);
        for (k, step) in moves.iter().enumerate() {
            let j = first + k;
            let row = &local.row(j, j / STRIP)[first % STRIP..];
            let slope = V::from_lanes(&pull[j]);
            let mut left = slope.add(slope);
            for (step, factor) in moves.iter().zip(row) {
                left = left.sub(step.mul(V::splat(*factor)));
            }
            gain = gain.fma(*step, left);
        }
        let better = gain.larger(V::splat(0.0));
        for (found, now) in found.iter_mut().zip(now) {
            *found = V::choose(better, V::from_lanes(found), V::from_lanes(now)).to_lanes();
        }
    }

    /// What times every row is best, with all codes held: 1 where nothing is gained.
    #[inline(always)]
    pub(super) fn best_factor<V: Vector>(&self, moment: &Strips, pull: &[Lanes]) -> Lanes {
        let curved = product::<V>(&self.values, moment);
        let (mut along, mut curve) = (V::splat(0.0), V::splat(0.0));
        for ((value, pull), curved) in self.values.iter().zip(pull).zip(&curved) {
            along = along.fma(V::from_lanes(value), V::from_lanes(pull));
            curve = curve.fma(V::from_lanes(value), V::from_lanes(curved));
        }
        V::splat(1.0).fma(along, inverse(curve)).to_lanes()
    }

    /// Takes other values for the rows where they lose less; says which.
    #[inline(always)]
    pub(super) fn accept<V: Vector>(
        &mut self,
        values: Vec<Lanes>,
        ordered: &Ordered,
        pull: &mut [Lanes],
    ) -> [bool; LANES] {
        let mut other = self.clone();
        other.values = values;
        other.set_errors(0..other.values.len(), &ordered.pivots);
        let other_pull = other.pull::<V>(&ordered.moment);
        let here: V = self.losses(pull);
        let there: V = other.losses(&other_pull);
        let (here, there) = (here.to_lanes(), there.to_lanes());
        let mut accepted = [false; LANES];
        for i in 0..LANES {
            accepted[i] = there[i] < here[i];
        }
        for j in 0..self.values.len() {
            for i in 0..LANES {
                if accepted[i] {
                    self.values[j][i] = other.values[j][i];
                    self.errors[j][i] = other.errors[j][i];
                    pull[j][i] = other_pull[j][i];
                }
            }
        }
        accepted
    }
}

/// At most 16 rows of `cols` values, a row per lane, padded with zeros to blocks of `block` columns.
pub(super) fn lanes_of_rows(cols: usize, block: usize, rows: &[f32]) -> Vec<Lanes> {
    let mut columns = vec![ZEROS; cols.next_multiple_of(block)];
    for (lane, row) in rows.chunks_exact(cols).enumerate() {
        for (out, value) in columns.iter_mut().zip(row) {
            out[lane] = *value;
        }
    }
    columns
}

/// A row per lane times a symmetric matrix.
#[inline(always)]
pub(super) fn product<V: Vector>(factors: &[Lanes], matrix: &Strips) -> Vec<Lanes> {
    let mut out = vec![ZEROS; matrix.size()];
    for (strip, out) in out.chunks_exact_mut(STRIP).enumerate() {
        accumulate::<V>(out, factors, matrix.strip(strip));
    }
    out
}
