//! The codes of one row of a trellis type: a search for the path of least loss, feedback included.
//!
//! Trellis codes in the sense of QTIP (arXiv 2406.11235): the value of a step depends on the last bits of the row, so that
//! neighbouring codes overlap. There are too many states to keep a path for each, so the best paths of each step survive (the M-algorithm,
//! Anderson and Mohan, IEEE Trans. Commun. 32, 1984), one for each state. Here the targets of later steps hang on the errors of earlier
//! ones, so every survivor carries what its own errors do to the targets to come (per-survivor processing, Raheli et al., IEEE
//! Trans. Commun. 43, 1995): the cost of a path is its true loss. Sixteen steps are settled once sixteen more are known; from then
//! on their errors move the targets of the whole row, and survivors that disagree are given up.

use qsf_format::{SumTables, TrellisState};
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::feedback::Ordered;
use super::strips::{STRIP, Strips};
use super::survivors::{Choice, Cut, REACH, Rows, Survivors};

/// Steps whose choices are remembered.
const WINDOW: usize = (REACH - 1) * LANES;

/// The code of a trellis type with `BITS` bits a step.
#[derive(Debug, Clone)]
pub(super) struct Code<const BITS: usize> {
    /// Which bits count.
    state: TrellisState,
    /// Levels by context, which is the folded state without the newest bits, and then by these.
    levels: [f32; 256],
}

impl<const BITS: usize> Code<BITS> {
    /// Paths that go on from a survivor.
    const BRANCHES: usize = 1 << BITS;

    /// With these tables.
    pub(super) fn new(state: TrellisState, sums: &SumTables) -> Code<BITS> {
        let level = |i: usize| {
            let (context, newest) = (i >> BITS, i % Self::BRANCHES);
            f32::from(sums.level((newest << (8 - BITS) | context) as u8))
        };
        Code { state, levels: std::array::from_fn(level) }
    }

    /// All levels.
    pub(super) const fn levels(&self) -> &[f32; 256] {
        &self.levels
    }

    /// Where the levels of the steps that may follow the bits `last` begin.
    #[inline(always)]
    fn branches(&self, last: u16) -> usize {
        usize::from(self.state.fold(last >> BITS)) << BITS
    }

    /// The last 16 bits after a step.
    #[inline(always)]
    const fn after(last: u16, newest: u8) -> u16 {
        last >> BITS | (newest as u16) << (16 - BITS)
    }

    /// What later levels hang on, of the last 16 bits: survivors in which it is the same have the same future, but for their errors.
    #[inline(always)]
    const fn future(&self, last: u16) -> u16 {
        match self.state {
            TrellisState::Byte => last >> (8 + BITS),
            TrellisState::TwoBytes => last >> BITS,
        }
    }
}

/// A row on its way, with room for a search.
pub(super) struct Search<'a, const BITS: usize> {
    code: &'a Code<BITS>,
    /// Values of the code's levels.
    values: [f32; 256],
    survivors: Survivors,
    /// Those of the step before.
    before: Survivors,
    cut: Cut,
    /// Costs of all paths that go on.
    costs: Vec<f32>,
    /// What each survivor chose in the last steps.
    choices: [Vec<Choice>; WINDOW],
    /// Targets that include the errors of settled steps.
    targets: Vec<f32>,
}

/// The steps of one row.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    /// Weights in step order; 0 in steps past the last column.
    pub originals: &'a [f32],
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
            survivors: Survivors::default(),
            before: Survivors::default(),
            cut: Cut::new(),
            costs: Vec::new(),
            choices: [const { Vec::new() }; WINDOW],
            targets: vec![0.0; steps],
        }
    }

    /// The best path found for levels times `scale`, with at most `most` survivors: the bits of every step into `codes`, their values into
    /// `values`. Returns the loss.
    #[inline(always)]
    pub(super) fn run<V: Vector>(
        &mut self,
        steps: &Steps<'_>,
        scale: f32,
        most: usize,
        codes: &mut [u8],
        values: &mut [f32],
    ) -> f64 {
        for (value, level) in self.values.iter_mut().zip(self.code.levels()) {
            *value = scale * level;
        }
        self.targets.copy_from_slice(steps.originals);
        // The bits before the row are 0.
        self.survivors.restart();
        self.cut.restart(most);
        let count = steps.originals.len();
        let (mut total, mut settled, mut last_settled) = (0.0, 0, 0);
        for t in 0..count {
            self.branch::<V>(t, steps);
            self.survive::<V>(t, steps);
            let at_end = t + 1 == count;
            if at_end || (t % LANES == LANES - 1 && t + 1 - settled == WINDOW) {
                let best = self.survivors.best();
                total += f64::from(self.survivors.costs[best]);
                let end = if at_end { count } else { settled + LANES };
                self.trace(t, best, settled..end, &mut last_settled, codes, values);
                if !at_end {
                    self.give_up(t, best);
                    if let Some(ordered) = steps.ordered {
                        self.pass_on::<V>(settled, steps.originals, values, &ordered.upper);
                    }
                }
                settled = end;
            }
        }
        total
    }

    /// The costs of all paths that go on from the survivors by step `t`, and infinite ones up to a multiple of 16.
    #[inline(always)]
    fn branch<V: Vector>(&mut self, t: usize, steps: &Steps<'_>) {
        let branches = Code::<BITS>::BRANCHES;
        let (target, weight) = (self.targets[t], steps.weights[t]);
        let survivors = &self.survivors;
        let paths = survivors.len() * branches;
        self.costs.resize(paths.next_multiple_of(LANES), 0.0);
        let weight = V::splat(weight);
        let together = LANES / branches;
        for (part, out) in self.costs.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let (mut costs, mut targets, mut values) = ([f32::INFINITY; LANES], [0.0; LANES], [0.0; LANES]);
            for i in 0..together {
                let g = part * together + i;
                if g < survivors.len() {
                    let at = i * branches;
                    costs[at..at + branches].fill(survivors.costs[g]);
                    targets[at..at + branches].fill(target + survivors.offsets[g]);
                    let first = self.code.branches(survivors.last[g]);
                    values[at..at + branches].copy_from_slice(&self.values[first..first + branches]);
                }
            }
            let distance = V::from_lanes(&targets).sub(V::from_lanes(&values));
            *out = V::from_lanes(&costs).fma(distance.mul(weight), distance).to_lanes();
        }
        if !steps.used[t] {
            for (path, cost) in self.costs.iter_mut().enumerate() {
                *cost = if path % branches == 0 { *cost } else { f32::INFINITY };
            }
        }
    }

    /// The best of these paths become the survivors.
    #[inline(always)]
    fn survive<V: Vector>(&mut self, t: usize, steps: &Steps<'_>) {
        std::mem::swap(&mut self.survivors, &mut self.before);
        let (code, values, before) = (self.code, &self.values, &self.before);
        let choices = &mut self.choices[t % WINDOW];
        self.cut.choose::<V>(&self.costs, BITS, choices, |choice| {
            code.future(Code::<BITS>::after(before.last[usize::from(choice.parent)], choice.newest))
        });
        // The errors of step t reach its own group and the next ones.
        let (group, next) = (t / LANES, t + 1);
        let mut rows = Rows {
            values: [V::splat(0.0); REACH],
            emptied: next.is_multiple_of(LANES).then_some(group % REACH),
            next: (next / LANES % REACH, next % LANES),
        };
        if let Some(ordered) = steps.ordered {
            for ahead in 0..REACH {
                let column = (group + ahead) * LANES;
                if column < ordered.upper.size() {
                    let row = &ordered.upper.strip(column / STRIP)[t];
                    rows.values[(group + ahead) % REACH] = V::load(&row[column % STRIP..]);
                }
            }
        }
        let original = steps.originals[t];
        let step = |choice: Choice, last| {
            let value = values[code.branches(last) + usize::from(choice.newest)];
            (Code::<BITS>::after(last, choice.newest), original - value)
        };
        self.survivors.come_from::<V>(before, choices, step, &rows);
        std::mem::swap(&mut self.survivors.costs, &mut self.cut.costs);
    }

    /// Walks back from survivor `best` of step `t` and writes the steps `settled`, before which the bits are `last`.
    fn trace(
        &self,
        t: usize,
        best: usize,
        settled: std::ops::Range<usize>,
        last: &mut u16,
        codes: &mut [u8],
        values: &mut [f32],
    ) {
        let mut at = best;
        for i in (settled.start..=t).rev() {
            let choice = self.choices[i % WINDOW][at];
            if settled.contains(&i) {
                codes[i] = choice.newest;
            }
            at = usize::from(choice.parent);
        }
        for i in settled {
            values[i] = self.values[self.code.branches(*last) + usize::from(codes[i])];
            *last = Code::<BITS>::after(*last, codes[i]);
        }
    }

    /// Gives up survivors of step `t` that did not come the way of `best` through the settled steps, and makes its cost the zero of
    /// all others.
    #[inline(always)]
    fn give_up(&mut self, t: usize, best: usize) {
        // Of the groups that are remembered, one is settled.
        let way = |g: usize| self.survivors.way(g, WINDOW / LANES - 1);
        let right = way(best);
        let kept: Vec<usize> = (0..self.survivors.len()).filter(|g| way(*g) == right).collect();
        let least = self.survivors.costs[best];
        self.survivors.keep(&kept, least);
        let choices = &mut self.choices[t % WINDOW];
        for (to, from) in kept.iter().enumerate() {
            choices[to] = choices[*from];
        }
        choices.truncate(kept.len());
    }

    /// Moves the targets that the errors of sixteen settled steps have not reached yet.
    #[inline(always)]
    fn pass_on<V: Vector>(&mut self, first: usize, originals: &[f32], values: &[f32], upper: &Strips) {
        let mut errors: Lanes = [0.0; LANES];
        for (error, (original, value)) in
            errors.iter_mut().zip(originals[first..].iter().zip(&values[first..]))
        {
            *error = original - value;
        }
        for column in (first + REACH * LANES..self.targets.len()).step_by(LANES) {
            let rows = &upper.strip(column / STRIP)[first..first + LANES];
            let mut sum = V::load(&self.targets[column..]);
            for (error, row) in errors.iter().zip(rows) {
                sum = sum.fma(V::splat(*error), V::load(&row[column % STRIP..]));
            }
            self.targets[column..column + LANES].copy_from_slice(&sum.to_lanes());
        }
    }
}
