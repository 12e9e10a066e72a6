//! The codes of one row of a trellis type: a search for the path of least loss, feedback included.
//!
//! Trellis codes in the sense of QTIP (arXiv 2406.11235): the value of a step depends on the last bits of the row, so that
//! neighbouring codes overlap. There are too many states to keep a path for each, so the best paths of each step survive (the M-algorithm,
//! Anderson and Mohan, IEEE Trans. Commun. 32, 1984), one for each state. Here the targets of later steps hang on the errors of earlier
//! ones, so every survivor carries what its own errors do to the targets to come (per-survivor processing, Raheli et al., IEEE
//! Trans. Commun. 43, 1995): the cost of a path is its true loss. Sixteen steps are settled once 64 more are known; from then
//! on their errors move the targets of the whole row, and survivors that disagree are given up.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::super::feedback::Ordered;
use super::super::strips::{STRIP, Strips};
use super::code::Code;
use super::cut::{Aim, Cut};
use super::path::{Choice, MOST};
use super::survivors::{GroupEnds, REACH, Step, Survivors};

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
            survivors: Box::default(),
            before: Box::default(),
            ends: Box::default(),
            ends_before: Box::default(),
            cut: Cut::new(),
            choices: vec![[Choice::default(); MOST]; WINDOW],
            targets: vec![0.0; steps],
        }
    }

    /// The best path found for levels times `scale`, with about `most` survivors: the bits of every step into `codes`, their values into
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
        self.survivors.restart();
        self.ends.restart();
        self.cut.restart(most);
        let count = steps.originals.len();
        let (mut total, mut settled, mut last_settled) = (0.0, 0, 0);
        for t in 0..count {
            self.take::<V>(t, scale, steps);
            let at_end = t + 1 == count;
            if at_end || (t % LANES == LANES - 1 && t + 1 - settled == WINDOW) {
                let best = self.survivors.best();
                total += f64::from(self.survivors.costs[best]);
                let end = if at_end { count } else { settled + LANES };
                self.trace(t, best, settled..end, &mut last_settled, codes, values);
                if !at_end {
                    let choices = &mut self.choices[t % WINDOW];
                    // Of the groups that are remembered, one is settled.
                    self.survivors.give_up(best, REACH - 1, &mut self.ends, |to, from| {
                        choices[to] = choices[from];
                    });
                    if let Some(ordered) = steps.ordered {
                        self.pass_on::<V>(settled, steps.originals, values, &ordered.upper);
                    }
                }
                settled = end;
            }
        }
        total
    }

    /// Step `t`: the survivors go on, and the best of their paths become the survivors.
    #[inline(always)]
    fn take<V: Vector>(&mut self, t: usize, scale: f32, steps: &Steps<'_>) {
        std::mem::swap(&mut self.survivors, &mut self.before);
        let (target, weight) = (self.targets[t], steps.weights[t]);
        let aim = Aim { target, weight, scale, used: steps.used[t] };
        let chosen = self.cut.choose::<V, BITS>(&self.before, aim, self.code);
        for (choice, path) in self.choices[t % WINDOW].iter_mut().zip(chosen) {
            *choice = path.choice();
        }
        let (code, values, ordered) = (self.code, &self.values, steps.ordered);
        let step = Step { code, values, original: steps.originals[t], number: t, ordered };
        self.survivors.come_from::<V, BITS>(&self.before, chosen, &step);
        if t % LANES == LANES - 1 {
            std::mem::swap(&mut self.ends, &mut self.ends_before);
            self.survivors.end_group::<V>(t + 1, ordered, &self.ends_before, &mut self.ends);
        }
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
                codes[i] = choice.bits() as u8;
            }
            at = choice.parent();
        }
        for i in settled {
            values[i] = self.values[Code::<BITS>::place(self.code.context(*last), u16::from(codes[i]))];
            *last = Code::<BITS>::after(*last, u16::from(codes[i]));
        }
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
        for column in (first + WINDOW + LANES..self.targets.len()).step_by(LANES) {
            let rows = &upper.strip(column / STRIP)[first..first + LANES];
            let mut sum = V::load(&self.targets[column..]);
            for (error, row) in errors.iter().zip(rows) {
                sum = sum.fma(V::splat(*error), V::load(&row[column % STRIP..]));
            }
            self.targets[column..column + LANES].copy_from_slice(&sum.to_lanes());
        }
    }
}
