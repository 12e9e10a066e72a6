//! The codes of one row of a trellis type: a search for the path of least loss through all states, feedback included.
//!
//! Trellis codes in the sense of QTIP (arXiv 2406.11235): the value of a step depends on the last 8 bits of the row, so that
//! neighbouring codes overlap and the best path is found by dynamic programming (Viterbi, IEEE Trans. Inf. Theory 13(2),
//! 1967). Here the targets of later steps hang on the errors of earlier ones, so every survivor carries what its own errors
//! do to the targets to come (per-survivor processing, Raheli et al., IEEE Trans. Commun. 43, 1995): the cost of a path is
//! its true loss. Sixteen steps are settled once sixteen more are known; from then on their errors move the targets of
//! the whole row, and survivors that disagree are given up.

use qsf_format::SumTables;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::feedback::Ordered;
use super::strips::{STRIP, Strips};
use super::vectors::ZEROS;

/// States, one per pattern of the last 8 bits.
const STATES: usize = 256;

/// Survivors of the type with fewest bits per step: a path per pattern of the bits that the next state keeps.
const MOST_SURVIVORS: usize = 64;

/// Groups of 16 steps that the feedback of an unsettled step reaches before it is settled.
const REACH: usize = 3;

/// Steps whose choices are remembered: those settled at once and those that are waited for.
const WINDOW: usize = 2 * LANES;

/// What a survivor's own errors add to the targets of the groups around.
type Carried = [[Lanes; REACH]; MOST_SURVIVORS];

/// Bits per step, and the shape of the trellis that follows. States are numbered `a Q + b Q / P + r` for a state of new bits
/// b, old bits `r P + a`: so the states that become one survivor are Q apart, and those that come from neighbouring
/// survivors are neighbours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<const BITS: usize>;

impl<const BITS: usize> Shape<BITS> {
    /// P: states after a survivor's next step, and states that compete to become one survivor.
    const BRANCHES: usize = 1 << BITS;

    /// Q.
    const SURVIVORS: usize = STATES >> BITS;

    /// Q / P.
    const RUN: usize = Self::SURVIVORS / Self::BRANCHES;

    /// The 8 bits of a state, oldest lowest, by its number here.
    const fn state(number: usize) -> usize {
        let (a, rest) = (number / Self::SURVIVORS, number % Self::SURVIVORS);
        let (b, r) = (rest / Self::RUN, rest % Self::RUN);
        b * Self::SURVIVORS + r * Self::BRANCHES + a
    }

    /// The survivor that a numbered state belongs to.
    #[inline(always)]
    const fn survivor(number: usize) -> usize {
        number % Self::SURVIVORS % Self::RUN * Self::BRANCHES + number / Self::SURVIVORS
    }

    /// The bits that the step into a numbered state added.
    const fn newest(number: usize) -> u8 {
        (number % Self::SURVIVORS / Self::RUN) as u8
    }

    /// Levels by the number of a state.
    pub(super) fn levels(sums: &SumTables) -> [f32; STATES] {
        std::array::from_fn(|number| f32::from(sums.level(Self::state(number) as u8)))
    }
}

/// A row on its way, with room for a search.
pub(super) struct Search<const BITS: usize> {
    /// Cost of the best path to each state.
    costs: [f32; STATES],
    /// Value of each state.
    values: [f32; STATES],
    carried: Box<[Carried; 2]>,
    /// The state that each survivor comes from, for the last steps.
    parents: Box<[[u8; MOST_SURVIVORS]; WINDOW]>,
    /// The state at the end of the last whole group that each survivor comes through.
    through: [[u8; MOST_SURVIVORS]; 2],
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

impl<const BITS: usize> Search<BITS> {
    /// Room for rows of `steps` steps.
    pub(super) fn new(steps: usize) -> Search<BITS> {
        Search {
            costs: [0.0; STATES],
            values: [0.0; STATES],
            carried: Box::new([[[ZEROS; REACH]; MOST_SURVIVORS]; 2]),
            parents: Box::new([[0; MOST_SURVIVORS]; WINDOW]),
            through: [[0; MOST_SURVIVORS]; 2],
            targets: vec![0.0; steps],
        }
    }

    /// The best path found for levels times `scale`: the bits of every step into `codes`, their values into `values`. Returns
    /// the loss.
    #[inline(always)]
    pub(super) fn run<V: Vector>(
        &mut self,
        steps: &Steps<'_>,
        levels: &[f32; STATES],
        scale: f32,
        codes: &mut [u8],
        values: &mut [f32],
    ) -> f64 {
        for (value, level) in self.values.iter_mut().zip(levels) {
            *value = scale * level;
        }
        self.targets.copy_from_slice(steps.originals);
        self.carried[0] = [[ZEROS; REACH]; MOST_SURVIVORS];
        let count = steps.originals.len();
        let mut total = 0.0;
        for t in 0..count {
            let mut least = [f32::INFINITY; MOST_SURVIVORS];
            let mut targets = [self.targets[t]; MOST_SURVIVORS];
            if t == 0 {
                // The bits before the row are 0.
                least[0] = 0.0;
            } else {
                self.survive::<V>(steps, t, &mut least, &mut targets);
            }
            self.branch::<V>(steps.weights[t], &least, &targets);
            if !steps.used[t] {
                self.forbid_bits();
            }
            if t % LANES == LANES - 1 && t + 1 >= WINDOW {
                let best = self.best();
                total += f64::from(self.costs[best]);
                let last = t + 1 == count;
                let settled = if last { t + 1 - WINDOW..t + 1 } else { t + 1 - WINDOW..t + 1 - LANES };
                self.trace(t, best, settled.clone(), codes, values);
                if !last {
                    self.give_up(best);
                    if let Some(ordered) = steps.ordered {
                        self.pass_on::<V>(settled.start, steps.originals, values, &ordered.upper);
                    }
                }
            }
        }
        total
    }

    /// From the states of step t - 1: the best of those that agree in the bits that step t keeps, their costs and targets.
    #[inline(always)]
    fn survive<V: Vector>(
        &mut self,
        steps: &Steps<'_>,
        t: usize,
        least: &mut [f32; MOST_SURVIVORS],
        targets: &mut [f32; MOST_SURVIVORS],
    ) {
        let parity = t % 2;
        let first = t.is_multiple_of(LANES);
        let mut from = [0.0f32; MOST_SURVIVORS];
        for part in 0..Shape::<BITS>::SURVIVORS / LANES {
            let at = part * LANES;
            let mut cost = V::load(&self.costs[at..]);
            let mut branch = V::splat(0.0);
            for a in 1..Shape::<BITS>::BRANCHES {
                let other = V::load(&self.costs[a * Shape::<BITS>::SURVIVORS + at..]);
                let better = cost.larger(other);
                cost = V::choose(better, other, cost);
                branch = V::choose(better, V::splat(a as f32), branch);
            }
            least[at..at + LANES].copy_from_slice(&cost.to_lanes());
            from[at..at + LANES].copy_from_slice(&branch.to_lanes());
        }
        let parents = &mut self.parents[t % WINDOW];
        let [through_even, through_odd] = &mut self.through;
        let (through_old, through) =
            if parity == 0 { (through_odd, through_even) } else { (through_even, through_odd) };
        for g in 0..Shape::<BITS>::SURVIVORS {
            let branch = from[g] as usize;
            let parent = branch * Shape::<BITS>::SURVIVORS + g;
            let old = g % Shape::<BITS>::RUN * Shape::<BITS>::BRANCHES + branch;
            parents[g] = parent as u8;
            through[g] = if first { parent as u8 } else { through_old[old % MOST_SURVIVORS] };
        }
        let Some(ordered) = steps.ordered else { return };

        // The errors of step t - 1 reach its own group and the two after.
        let group = (t - 1) / LANES;
        let mut rows = [V::splat(0.0); REACH];
        for ahead in 0..REACH {
            let column = (group + ahead) * LANES;
            if column < ordered.upper.size() {
                let row = &ordered.upper.strip(column / STRIP)[t - 1];
                rows[(group + ahead) % REACH] = V::load(&row[column % STRIP..]);
            }
        }
        if first {
            // The group that ends here is no longer looked at; its place is that of one which nothing has reached yet.
            rows[group % REACH] = V::splat(0.0);
        }
        let keep = V::splat(if first { 0.0 } else { 1.0 });
        let [even, odd] = &mut *self.carried;
        let (old, new) = if parity == 0 { (&*odd, even) } else { (&*even, odd) };
        let (slot, lane) = (t / LANES % REACH, t % LANES);
        let original = steps.originals[t - 1];
        for g in 0..Shape::<BITS>::SURVIVORS {
            let parent = usize::from(parents[g]);
            let error = V::splat(original - self.values[parent]);
            let source = &old[(g % Shape::<BITS>::RUN * Shape::<BITS>::BRANCHES
                + parent / Shape::<BITS>::SURVIVORS)
                % MOST_SURVIVORS];
            let out = &mut new[g];
            for place in 0..REACH {
                let mut carried = V::from_lanes(&source[place]);
                if place == group % REACH {
                    carried = carried.mul(keep);
                }
                out[place] = carried.fma(error, rows[place]).to_lanes();
            }
            targets[g] += out[slot][lane];
        }
    }

    /// The costs of all states after a step with these targets.
    #[inline(always)]
    fn branch<V: Vector>(
        &mut self,
        weight: f32,
        least: &[f32; MOST_SURVIVORS],
        targets: &[f32; MOST_SURVIVORS],
    ) {
        let weight = V::splat(weight);
        for a in 0..Shape::<BITS>::BRANCHES {
            // Survivors r P + a for all r, over and over until the lanes are full.
            let (mut cost, mut target) = (ZEROS, ZEROS);
            for lane in 0..LANES {
                let g = (lane % Shape::<BITS>::RUN * Shape::<BITS>::BRANCHES + a) % MOST_SURVIVORS;
                cost[lane] = least[g];
                target[lane] = targets[g];
            }
            let (cost, target) = (V::from_lanes(&cost), V::from_lanes(&target));
            for part in 0..Shape::<BITS>::SURVIVORS / LANES {
                let at = a * Shape::<BITS>::SURVIVORS + part * LANES;
                let distance = target.sub(V::load(&self.values[at..]));
                let costs = cost.fma(distance.mul(weight), distance);
                self.costs[at..at + LANES].copy_from_slice(&costs.to_lanes());
            }
        }
    }

    /// Leaves only the states whose newest bits are 0.
    fn forbid_bits(&mut self) {
        for number in 0..STATES {
            if Shape::<BITS>::newest(number) != 0 {
                self.costs[number] = f32::INFINITY;
            }
        }
    }

    /// The state of least cost, the first of several.
    #[inline(always)]
    fn best(&self) -> usize {
        let mut best = 0;
        for number in 1..STATES {
            if self.costs[number] < self.costs[best] {
                best = number;
            }
        }
        best
    }

    /// Walks back from state `best` of step `t` and writes the steps `settled`.
    fn trace(
        &self,
        t: usize,
        best: usize,
        settled: std::ops::Range<usize>,
        codes: &mut [u8],
        values: &mut [f32],
    ) {
        let mut number = best;
        for i in (settled.start..=t).rev() {
            if settled.contains(&i) {
                codes[i] = Shape::<BITS>::newest(number);
                values[i] = self.values[number];
            }
            number = usize::from(self.parents[i % WINDOW][Shape::<BITS>::survivor(number)]);
        }
    }

    /// Gives up survivors that did not come the way of `best`, and makes its cost the zero of all others.
    #[inline(always)]
    fn give_up(&mut self, best: usize) {
        // The survivors of the newest step are in the half that `survive` wrote last: that of an odd step.
        let through = &self.through[1];
        let way = through[Shape::<BITS>::survivor(best)];
        let least = self.costs[best];
        for number in 0..STATES {
            let same = through[Shape::<BITS>::survivor(number)] == way;
            self.costs[number] = if same { self.costs[number] - least } else { f32::INFINITY };
        }
    }

    /// Moves the targets that the errors of sixteen settled steps have not reached yet.
    #[inline(always)]
    fn pass_on<V: Vector>(&mut self, first: usize, originals: &[f32], values: &[f32], upper: &Strips) {
        let mut errors = ZEROS;
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
