//! The paths that survive each step of a search through a trellis.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::vectors::ZEROS;

/// Groups of 16 steps that the errors of an unsettled step reach: its own and those until it is settled.
pub(super) const REACH: usize = 3;

/// Most paths that can survive: their numbers fit a byte.
const MOST: usize = 256;

/// How a survivor came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The survivor of the step before.
    pub parent: u8,
    /// The bits that the step added.
    pub newest: u8,
}

/// The survivors of a step.
pub(super) struct Survivors {
    /// Cost of the path of each.
    pub costs: Vec<f32>,
    /// The last 16 bits of each, the oldest lowest.
    pub last: Vec<u16>,
    /// What the errors of each add to the targets of the groups around.
    pub carried: Vec<[Lanes; REACH]>,
    /// Room for those of the next step.
    next: Vec<[Lanes; REACH]>,
    next_last: Vec<u16>,
    next_costs: Vec<f32>,
}

impl Survivors {
    /// Room for so many.
    pub(super) fn new(most: usize) -> Survivors {
        let most = most.clamp(1, MOST);
        let (costs, last, carried) =
            (Vec::with_capacity(most), Vec::with_capacity(most), Vec::with_capacity(most));
        Survivors {
            next: carried.clone(),
            next_last: last.clone(),
            next_costs: costs.clone(),
            costs,
            last,
            carried,
        }
    }

    /// One path of no steps.
    pub(super) fn restart(&mut self) {
        (self.costs, self.last, self.carried) = (vec![0.0], vec![0], vec![[ZEROS; REACH]]);
    }

    /// Number of survivors.
    pub(super) const fn len(&self) -> usize {
        self.costs.len()
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

    /// Goes on to those that `choices` names. `step` tells the last bits and the error of each, from its parent's last bits. Errors times
    /// `rows` are added to what is carried, and the group `emptied` begins anew.
    #[inline(always)]
    pub(super) fn go_on<V: Vector>(
        &mut self,
        choices: &[Choice],
        step: impl Fn(&Choice, u16, &mut f32) -> (u16, f32),
        rows: &[V; REACH],
        emptied: Option<usize>,
    ) {
        self.next.resize(choices.len(), [ZEROS; REACH]);
        self.next_last.resize(choices.len(), 0);
        self.next_costs.resize(choices.len(), 0.0);
        for (g, choice) in choices.iter().enumerate() {
            let parent = usize::from(choice.parent);
            let (last, error) = step(choice, self.last[parent], &mut self.next_costs[g]);
            self.next_last[g] = last;
            let error = V::splat(error);
            let (from, to) = (&self.carried[parent], &mut self.next[g]);
            for place in 0..REACH {
                to[place] = V::from_lanes(&from[place]).fma(error, rows[place]).to_lanes();
            }
            if let Some(place) = emptied {
                to[place] = ZEROS;
            }
        }
        std::mem::swap(&mut self.next, &mut self.carried);
        std::mem::swap(&mut self.next_last, &mut self.last);
        std::mem::swap(&mut self.next_costs, &mut self.costs);
    }

    /// Keeps these, in ascending order, with so much less cost.
    pub(super) fn keep(&mut self, kept: &[usize], less: f32) {
        for (to, from) in kept.iter().enumerate() {
            self.costs[to] = self.costs[*from] - less;
            self.last[to] = self.last[*from];
            self.carried[to] = self.carried[*from];
        }
        self.costs.truncate(kept.len());
        self.last.truncate(kept.len());
        self.carried.truncate(kept.len());
    }
}

/// Chooses the cheapest paths.
pub(super) struct Cut {
    most: usize,
    /// How much more than the least a path may cost, found in the last step.
    gap: f32,
    /// By what the future of a path hangs on: the step in which such a path was chosen, and its place among the survivors.
    seen: Vec<(u32, u32)>,
    step: u32,
}

impl Cut {
    /// At most so many.
    pub(super) fn new(most: usize) -> Cut {
        Cut { most: most.clamp(1, MOST), gap: 0.0, seen: vec![(0, 0); 1 << 14], step: 0 }
    }

    /// The cheapest of the paths with these costs, in the order of their numbers, but of those with the same `future` one. Of each
    /// survivor `1 << bits` go on.
    #[inline(always)]
    pub(super) fn choose(
        &mut self,
        costs: &[f32],
        bits: usize,
        choices: &mut Vec<Choice>,
        future: impl Fn(Choice) -> u16,
    ) {
        let limit = self.limit(costs);
        self.step += 1;
        choices.clear();
        let mut places = [0usize; MOST];
        for (group, part) in costs.chunks(16).enumerate() {
            let any = part.iter().fold(false, |any, cost| any | (*cost <= limit));
            if !any {
                continue;
            }
            for (i, cost) in part.iter().enumerate() {
                if *cost > limit {
                    continue;
                }
                let at = 16 * group + i;
                let choice = Choice { parent: (at >> bits) as u8, newest: (at & ((1 << bits) - 1)) as u8 };
                let seen = &mut self.seen[usize::from(future(choice))];
                if seen.0 == self.step {
                    let place = seen.1 as usize;
                    if *cost < costs[places[place]] {
                        (choices[place], places[place]) = (choice, at);
                    }
                } else if choices.len() < self.most {
                    *seen = (self.step, choices.len() as u32);
                    places[choices.len()] = at;
                    choices.push(choice);
                }
            }
        }
    }

    /// A cost that nearly as many paths reach as may survive.
    #[inline(always)]
    fn limit(&mut self, costs: &[f32]) -> f32 {
        if costs.len() <= self.most {
            return f32::MAX;
        }
        let least = costs.iter().fold(f32::INFINITY, |least, cost| if *cost < least { *cost } else { least });
        let (mut low, mut high) = (0.0f32, f32::INFINITY);
        let mut gap = self.gap;
        for _ in 0..12 {
            let reached = costs.iter().map(|cost| u32::from(*cost <= least + gap)).sum::<u32>() as usize;
            if reached > self.most {
                high = gap;
            } else {
                low = gap;
                if reached >= self.most - self.most / 8 {
                    break;
                }
            }
            gap = if high == f32::INFINITY { 2.0 * gap + f32::MIN_POSITIVE } else { 0.5 * (low + high) };
        }
        self.gap = low;
        least + low
    }
}
