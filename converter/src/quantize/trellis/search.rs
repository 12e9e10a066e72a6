//! The codes of one row of a trellis type: a search for the path of least loss, feedback included.
//!
//! Trellis codes in the sense of QTIP (arXiv 2406.11235): the value of a step depends on the last bits of the row, so that
//! neighbouring codes overlap. There are too many states to keep a path for each, so the best paths of each step survive (the M-algorithm,
//! Anderson and Mohan, IEEE Trans. Commun. 32, 1984), one for each state. Here the targets of later steps hang on the errors of earlier
//! ones, so every survivor carries what its own errors do to the targets to come (per-survivor processing, Raheli et al., IEEE
//! Trans. Commun. 43, 1995): the cost of a path is its true loss. Sixteen steps are settled once 64 more are known; from then
//! on their errors move the targets of the whole row, and survivors that disagree are given up.

use std::ops::Range;

use qsf_runtime::cpu::lanes::LANES;
use qsf_runtime::cpu::vector::Vector;

use super::super::feedback::Ordered;
use super::super::strips::{STRIP, Strips};
use super::code::Code;
use super::cut::{Aim, Cut};
use super::path::{Choice, MOST};
use super::survivors::{GroupEnds, REACH, Step, Survivors};

/// Rows that take turns: as many as have room in a second-level cache.
pub(super) const ROWS_TOGETHER: usize = 8;

/// Steps whose choices are remembered.
const WINDOW: usize = REACH * LANES;

/// A row on its way, with room for a search.
pub(super) struct Search<'a, const BITS: usize> {
    code: &'a Code<BITS>,
    /// Values of the code's levels.
    values: [f32; 256],
    survivors: Box<Survivors>,
    /// Those of the step before.
    before: Box<Survivors>,
    ends: Box<GroupEnds>,
    /// Those of the group before.
    ends_before: Box<GroupEnds>,
    cut: Cut,
    /// What each survivor chose in the last steps.
    choices: Vec<[Choice; MOST]>,
    /// Targets that include the errors of settled steps.
    targets: Vec<f32>,
    /// Loss of the settled steps, and the last bits of these.
    total: f64,
    last: u16,
}

/// A row that is searched.
pub(super) struct Row<'a> {
    /// Weights in step order; 0 in steps past the last column.
    pub originals: &'a [f32],
    /// The value of level 1.
    pub scale: f32,
    /// The bits of every step, and their values.
    pub codes: &'a mut [u8],
    pub values: &'a mut [f32],
    /// What the path costs.
    pub loss: &'a mut f64,
}

/// What the steps of all rows have in common.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    /// What a squared distance from the target costs; 0 in steps past the last column.
    pub weights: &'a [f32],
    /// How errors move later targets.
    pub ordered: Option<&'a Ordered>,
    /// Whether a step codes a column.
    pub used: &'a [bool],
}

impl<'a, const BITS: usize> Search<'a, BITS> {
    /// Room for rows of `steps` steps.
    pub(super) fn new(code: &'a Code<BITS>, steps: usize) -> Search<'a, BITS> {
        Search {
            code,
            values: [0.0; 256],
            survivors: Box::default(),
            before: Box::default(),
            ends: Box::default(),
            ends_before: Box::default(),
            cut: Cut::new(),
            choices: vec![[Choice::default(); MOST]; WINDOW],
            targets: vec![0.0; steps],
            total: 0.0,
            last: 0,
        }
    }

    /// The best path found for levels times the scale of each row, with about `most` survivors. Rows go on in turns, so that what errors
    /// do to targets is read from memory once for all of them.
    #[inline(always)]
    pub(super) fn run<V: Vector>(
        searches: &mut [Search<'a, BITS>],
        rows: &mut [Row<'_>],
        steps: &Steps<'_>,
        most: usize,
    ) {
        let (count, mut settled) = (steps.weights.len(), 0);
        for (search, row) in searches.iter_mut().zip(&*rows) {
            search.begin(row, most);
        }
        for first in (0..count).step_by(LANES) {
            let known = first + LANES;
            let at_end = known >= count;
            let settles = at_end || known - settled == WINDOW;
            let end = if at_end { count } else { settled + LANES };
            for (search, row) in searches.iter_mut().zip(&mut *rows) {
                for t in first..known.min(count) {
                    search.take::<V>(t, row, steps);
                }
                if settles {
                    search.settle(known.min(count) - 1, settled..end, at_end, row);
                }
            }
            if settles {
                if let Some(ordered) = steps.ordered.filter(|_| !at_end) {
                    pass_on::<V, BITS>(searches, rows, settled, &ordered.upper);
                }
                settled = end;
            }
        }
        for (search, row) in searches.iter().zip(rows) {
            *row.loss = search.total;
        }
    }

    fn begin(&mut self, row: &Row<'_>, most: usize) {
        for (value, level) in self.values.iter_mut().zip(self.code.levels()) {
            *value = row.scale * level;
        }
        self.targets.copy_from_slice(row.originals);
        self.survivors.restart();
        self.ends.restart();
        self.cut.restart(most);
        (self.total, self.last) = (0.0, 0);
    }

    /// Step `t` is known: settles `steps`, and gives up the survivors that disagree.
    #[inline(always)]
    fn settle(&mut self, t: usize, steps: Range<usize>, at_end: bool, row: &mut Row<'_>) {
        let best = self.survivors.best();
        self.total += f64::from(self.survivors.costs[best]);
        self.trace(t, best, steps, row);
        if !at_end {
            let choices = &mut self.choices[t % WINDOW];
            // Of the groups that are remembered, one is settled.
            self.survivors.give_up(best, REACH - 1, &mut self.ends, |to, from| {
                choices[to] = choices[from];
            });
        }
    }

    /// Step `t`: the survivors go on, and the best of their paths become the survivors.
    #[inline(always)]
    fn take<V: Vector>(&mut self, t: usize, row: &Row<'_>, steps: &Steps<'_>) {
        std::mem::swap(&mut self.survivors, &mut self.before);
        let (target, weight) = (self.targets[t], steps.weights[t]);
        let aim = Aim { target, weight, scale: row.scale, used: steps.used[t] };
        let chosen = self.cut.choose::<V, BITS>(&self.before, aim, self.code);
        for (choice, path) in self.choices[t % WINDOW].iter_mut().zip(chosen) {
            *choice = path.choice();
        }
        let (code, values, ordered) = (self.code, &self.values, steps.ordered);
        let step = Step { code, values, original: row.originals[t], number: t, ordered };
        self.survivors.come_from::<V, BITS>(&self.before, chosen, &step);
        if t % LANES == LANES - 1 {
            std::mem::swap(&mut self.ends, &mut self.ends_before);
            self.survivors.end_group::<V>(t + 1, ordered, &self.ends_before, &mut self.ends);
        }
    }

    /// Walks back from survivor `best` of step `t` and writes the steps `settled`.
    fn trace(&mut self, t: usize, best: usize, settled: Range<usize>, row: &mut Row<'_>) {
        let mut at = best;
        for i in (settled.start..=t).rev() {
            let choice = self.choices[i % WINDOW][at];
            if settled.contains(&i) {
                row.codes[i] = choice.bits() as u8;
            }
            at = choice.parent();
        }
        for i in settled {
            let new = u16::from(row.codes[i]);
            row.values[i] = self.values[Code::<BITS>::place(self.code.context(self.last), new)];
            self.last = Code::<BITS>::after(self.last, new);
        }
    }
}

/// Moves the targets of all rows that the errors of sixteen settled steps have not reached yet.
#[inline(always)]
fn pass_on<V: Vector, const BITS: usize>(
    searches: &mut [Search<'_, BITS>],
    rows: &[Row<'_>],
    first: usize,
    upper: &Strips,
) {
    let (mut at, count) = (0, searches.len());
    while at < count {
        let (searches, rows) = (&mut searches[at..], &rows[at..]);
        at += match count - at {
            ROWS_TOGETHER.. => pass_on_together::<V, BITS, ROWS_TOGETHER>(searches, rows, first, upper),
            4.. => pass_on_together::<V, BITS, 4>(searches, rows, first, upper),
            _ => pass_on_together::<V, BITS, 1>(searches, rows, first, upper),
        };
    }
}

/// Those of the first `N` rows. Returns `N`.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays that are not unfolded keep sums in memory"
)]
fn pass_on_together<V: Vector, const BITS: usize, const N: usize>(
    searches: &mut [Search<'_, BITS>],
    rows: &[Row<'_>],
    first: usize,
    upper: &Strips,
) -> usize {
    let mut errors = [[0.0; LANES]; N];
    for n in 0..N {
        for i in 0..LANES {
            errors[n][i] = rows[n].originals[first + i] - rows[n].values[first + i];
        }
    }
    for column in (first + WINDOW + LANES..searches[0].targets.len()).step_by(LANES) {
        let strip = &upper.strip(column / STRIP)[first..first + LANES];
        let mut sums = [V::splat(0.0); N];
        for n in 0..N {
            sums[n] = V::load(&searches[n].targets[column..]);
        }
        for i in 0..LANES {
            let row = V::load(&strip[i][column % STRIP..]);
            for n in 0..N {
                sums[n] = sums[n].fma(V::splat(errors[n][i]), row);
            }
        }
        for n in 0..N {
            searches[n].targets[column..column + LANES].copy_from_slice(&sums[n].to_lanes());
        }
    }
    N
}
