//! The paths that survive each step of a search through a trellis.
//!
//! All of this runs for every step of every row, in code that is compiled for the vectors of the machine: plain loops, as sums and folds of
//! iterators may be compiled apart, and without these.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

/// Groups of 16 steps that the errors of an unsettled step reach: its own and those until it is settled. A step is settled when at
/// least 64 more are known: with 16, the error of Gaussian weights is 6 % larger (`x2`, `x3`), with 112 less than half a percent
/// smaller.
pub(super) const REACH: usize = 6;

/// Most paths that can survive: their numbers fit a byte.
const MOST: usize = 256;

/// Futures of a path: bits that are left of 16 when the next step has at least 2.
const FUTURES: usize = 1 << 14;

/// How a survivor came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The survivor of the step before.
    pub parent: u8,
    /// The bits that the step added.
    pub newest: u8,
}

/// What the errors of a path add to the targets of the groups around.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Carried([Lanes; REACH]);

const NOTHING: Carried = Carried([[0.0; LANES]; REACH]);

/// Survivors of a step.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    /// Cost of the path of each.
    pub costs: Vec<f32>,
    /// The last 16 bits of each, the oldest lowest.
    pub last: Vec<u16>,
    /// Which survivor of the end of each of the last groups each comes from, the newest group in the lowest byte.
    ways: Vec<u64>,
    /// What its own errors add to the target of the next step.
    pub offsets: Vec<f32>,
    carried: Vec<Carried>,
}

impl Survivors {
    /// One path of no steps.
    pub(super) fn restart(&mut self) {
        self.resize(1);
        (self.costs[0], self.last[0], self.ways[0]) = (0.0, 0, 0);
        (self.offsets[0], self.carried[0]) = (0.0, NOTHING);
    }

    fn resize(&mut self, len: usize) {
        self.costs.resize(len, 0.0);
        self.last.resize(len, 0);
        self.ways.resize(len, 0);
        self.offsets.resize(len, 0.0);
        self.carried.resize(len, NOTHING);
    }

    /// Number of survivors.
    pub(super) const fn len(&self) -> usize {
        self.costs.len()
    }

    /// Which survivor of the end of a group each comes from, `groups` whole groups before the newest step.
    pub(super) fn way(&self, g: usize, groups: usize) -> u8 {
        (self.ways[g] >> (8 * groups)) as u8
    }

    /// The survivor of least cost, the first of several.
    #[inline(always)]
    pub(super) fn best(&self) -> usize {
        let mut best = 0;
        for g in 1..self.costs.len() {
            if self.costs[g] < self.costs[best] {
                best = g;
            }
        }
        best
    }

    /// Those that `choices` names, who come from the survivors `before`. `step` tells the last bits and the error of each, from its
    /// parent's last bits. Errors times `rows` are added to what is carried.
    #[inline(always)]
    pub(super) fn come_from<V: Vector>(
        &mut self,
        before: &Survivors,
        choices: &[Choice],
        step: impl Fn(Choice, u16) -> (u16, f32),
        rows: &Rows<V>,
    ) {
        self.resize(choices.len());
        for (g, &choice) in choices.iter().enumerate() {
            let parent = usize::from(choice.parent);
            let (last, error) = step(choice, before.last[parent]);
            self.last[g] = last;
            let error = V::splat(error);
            let (from, to) = (&before.carried[parent].0, &mut self.carried[g].0);
            for place in 0..REACH {
                to[place] = V::from_lanes(&from[place]).fma(error, rows.values[place]).to_lanes();
            }
            self.ways[g] = before.ways[parent];
            if let Some(place) = rows.emptied {
                to[place] = [0.0; LANES];
                self.ways[g] = self.ways[g] << 8 | g as u64;
            }
            self.offsets[g] = to[rows.next.0][rows.next.1];
        }
    }

    /// Keeps these, in ascending order, with so much less cost.
    pub(super) fn keep(&mut self, kept: &[usize], less: f32) {
        for (to, from) in kept.iter().enumerate() {
            self.costs[to] = self.costs[*from] - less;
            self.last[to] = self.last[*from];
            self.ways[to] = self.ways[*from];
            self.offsets[to] = self.offsets[*from];
            self.carried[to] = self.carried[*from];
        }
        self.resize(kept.len());
    }
}

/// How the error of a step moves the targets of the groups around.
pub(super) struct Rows<V> {
    /// Per place of a group.
    pub values: [V; REACH],
    /// The place of a group that ends with the step: it becomes that of one which nothing has reached yet.
    pub emptied: Option<usize>,
    /// Place and lane of the next step.
    pub next: (usize, usize),
}

/// Chooses the cheapest paths.
pub(super) struct Cut {
    /// How many may survive.
    most: usize,
    /// How much more than the least a path may cost, found in the last step.
    gap: f32,
    /// By the future of a path: the step in which such a path was chosen, above 8 bits that are its place among the survivors.
    seen: Vec<u16>,
    /// Number of the step, from 1 to 255.
    step: u16,
    /// Costs of the chosen ones.
    pub costs: Vec<f32>,
}

impl Cut {
    /// With room for all.
    pub(super) fn new() -> Cut {
        Cut { most: 1, gap: 0.0, seen: vec![0; FUTURES], step: 0, costs: Vec::new() }
    }

    /// Begins a row, of which at most `most` paths survive.
    pub(super) fn restart(&mut self, most: usize) {
        (self.most, self.gap) = (most.clamp(1, MOST), 0.0);
    }

    /// The cheapest of the paths with these costs, whose number is a multiple of 16, in the order of their numbers, but of those with the
    /// same `future` one. From each survivor `1 << bits` go on.
    #[inline(always)]
    pub(super) fn choose<V: Vector>(
        &mut self,
        costs: &[f32],
        bits: usize,
        choices: &mut Vec<Choice>,
        future: impl Fn(Choice) -> u16,
    ) {
        let limit = self.limit::<V>(costs);
        self.step += 1;
        if self.step > 255 {
            self.seen.fill(0);
            self.step = 1;
        }
        choices.clear();
        self.costs.clear();
        let parts = costs.as_chunks::<LANES>().0;
        for (group, part) in parts.iter().enumerate() {
            let dear = V::bits(V::from_lanes(part).larger(V::splat(limit)));
            let mut cheap = !dear & ((1 << LANES) - 1);
            while cheap != 0 {
                let lane = cheap.trailing_zeros() as usize;
                cheap &= cheap - 1;
                let (at, cost) = (LANES * group + lane, part[lane]);
                let choice = Choice { parent: (at >> bits) as u8, newest: (at & ((1 << bits) - 1)) as u8 };
                let seen = &mut self.seen[usize::from(future(choice)) % FUTURES];
                if *seen >> 8 == self.step {
                    let place = usize::from(*seen & 255);
                    if cost < self.costs[place] {
                        (choices[place], self.costs[place]) = (choice, cost);
                    }
                } else if choices.len() < self.most {
                    *seen = self.step << 8 | choices.len() as u16;
                    choices.push(choice);
                    self.costs.push(cost);
                }
            }
        }
    }

    /// A cost that nearly as many paths reach as may survive.
    #[inline(always)]
    fn limit<V: Vector>(&mut self, costs: &[f32]) -> f32 {
        let parts = costs.as_chunks::<LANES>().0;
        if costs.len() <= self.most {
            return f32::MAX;
        }
        let mut least = V::splat(f32::INFINITY);
        for part in parts {
            let part = V::from_lanes(part);
            least = V::choose(least.larger(part), part, least);
        }
        let least = least.to_lanes().iter().fold(f32::INFINITY, |least, cost| least.min(*cost));
        if self.gap == 0.0 {
            // Nothing is known: a guess that the search corrects.
            let finite = costs.iter().filter(|cost| cost.is_finite());
            self.gap = (finite.fold(least, |largest, cost| largest.max(*cost)) - least) / 8.0;
        }
        let enough = self.most - self.most / 8;
        let (mut low, mut high, mut gap) = (0.0, f32::INFINITY, self.gap);
        for _ in 0..12 {
            let (limit, mut counts) = (V::splat(least + gap), V::splat(0.0));
            for part in parts {
                let dear = V::from_lanes(part).larger(limit);
                counts = counts.add(V::choose(dear, V::splat(0.0), V::splat(1.0)));
            }
            let reached = counts.to_lanes().iter().sum::<f32>() as usize;
            if reached > self.most {
                high = gap;
            } else {
                low = gap;
                if reached >= enough {
                    break;
                }
            }
            gap = if high < f32::INFINITY { 0.5 * (low + high) } else { 2.0 * gap };
        }
        self.gap = low;
        least + low
    }
}
