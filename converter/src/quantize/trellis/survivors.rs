//! The paths that survive each step of a search through a trellis.
//!
//! All of this runs for every step of every row, in code that is compiled for the vectors of the machine: plain loops, as sums and folds of
//! iterators may be compiled apart, and without these.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

use super::super::feedback::Ordered;
use super::super::strips::STRIP;
use super::code::Code;
use super::path::{MOST, Path};

/// Groups of 16 steps that the errors of a group reach before it is settled. A step is settled when at least 64 more are known: with 16,
/// the error of Gaussian weights is 6 % larger (`x2`, `x3`), with 112 less than half a percent smaller.
pub(super) const REACH: usize = 5;

/// A register's worth of floats, where registers like it.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Aligned(Lanes);

const ZEROS: Aligned = Aligned([0.0; LANES]);

/// A 1 in the lane of that number.
static ONE: [Aligned; LANES] = {
    let mut one = [ZEROS; LANES];
    let mut lane = 0;
    while lane < LANES {
        one[lane].0[lane] = 1.0;
        lane += 1;
    }
    one
};

/// Survivors of a step. What is behind the last of them counts as a path of infinite cost.
#[derive(Debug)]
pub(super) struct Survivors {
    len: usize,
    /// Cost of the path of each.
    pub costs: [f32; MOST],
    /// The last 16 bits of each, the oldest lowest.
    pub last: [u16; MOST],
    /// The context of the next step of each.
    pub contexts: [u8; MOST],
    /// What its own errors add to the target of the next step.
    pub offsets: [f32; MOST],
    /// Which survivor of the end of the last group each comes from.
    origins: [u16; MOST],
    /// Of the group of steps that the next step is in: for steps behind, the errors, and for steps ahead, what the errors of the path add to
    /// their targets.
    group: [Aligned; MOST],
}

/// What changes only with a group of 16 steps, for each survivor of its end.
#[derive(Debug)]
pub(super) struct GroupEnds {
    /// Which survivor of the end of each of the last groups each comes from, the newest group in the lowest 16
    /// bits.
    ways: [u128; MOST],
    /// What its errors add to the targets of the groups behind the next one.
    carried: [[Aligned; REACH - 1]; MOST],
}

impl Default for GroupEnds {
    fn default() -> GroupEnds {
        GroupEnds { ways: [0; MOST], carried: [[ZEROS; REACH - 1]; MOST] }
    }
}

impl Default for Survivors {
    fn default() -> Survivors {
        Survivors {
            len: 0,
            costs: [f32::INFINITY; MOST],
            last: [0; MOST],
            contexts: [0; MOST],
            offsets: [0.0; MOST],
            origins: [0; MOST],
            group: [ZEROS; MOST],
        }
    }
}

/// One step, for those who take it.
#[derive(Clone, Copy)]
pub(super) struct Step<'a, const BITS: usize> {
    pub code: &'a Code<BITS>,
    /// Values of the code's levels.
    pub values: &'a [f32; 256],
    /// The weight.
    pub original: f32,
    /// Its number in the row.
    pub number: usize,
    /// How its error moves later targets.
    pub ordered: Option<&'a Ordered>,
}

impl Survivors {
    /// One path of no steps, whose bits are 0.
    pub(super) fn restart(&mut self) {
        self.costs[..self.len].fill(f32::INFINITY);
        self.len = 1;
        (self.costs[0], self.last[0], self.contexts[0]) = (0.0, 0, 0);
        (self.offsets[0], self.origins[0], self.group[0]) = (0.0, 0, ZEROS);
    }

    /// Number of survivors.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The survivor of least cost, the first of several.
    #[inline(always)]
    pub(super) fn best(&self) -> usize {
        let mut best = 0;
        for g in 1..self.len {
            if self.costs[g] < self.costs[best] {
                best = g;
            }
        }
        best
    }

    /// Those at the ends of `paths`, which go on from the survivors `before`.
    #[inline(always)]
    pub(super) fn come_from<V: Vector, const BITS: usize>(
        &mut self,
        before: &Survivors,
        paths: &[Path],
        step: &Step<'_, BITS>,
    ) {
        self.costs[paths.len()..self.len.max(paths.len())].fill(f32::INFINITY);
        self.len = paths.len();
        let lane = step.number % LANES;
        let next = (lane + 1) % LANES;
        let here = V::from_lanes(&ONE[lane].0).larger(V::splat(0.0));
        let row = step.ordered.map(|ordered| {
            let column = step.number - lane;
            V::load(&ordered.upper.strip(column / STRIP)[step.number][column % STRIP..])
        });
        let row_next = row.map_or(0.0, |row| row.to_lanes()[next]);
        for (g, path) in paths.iter().enumerate().take(MOST) {
            let (parent, new) = (path.choice().parent(), path.choice().bits());
            self.costs[g] = path.cost();
            let last = Code::<BITS>::after(before.last[parent], new);
            self.last[g] = last;
            self.contexts[g] = step.code.context(last);
            self.origins[g] = before.origins[parent];
            if let Some(row) = row {
                let value = step.values[Code::<BITS>::place(before.contexts[parent], new)];
                let step_error = step.original - value;
                let error = V::splat(step_error);
                let group = V::from_lanes(&before.group[parent].0).fma(error, row);
                self.group[g].0 = V::choose(here, error, group).to_lanes();
                self.offsets[g] = step_error.mul_add(row_next, before.group[parent].0[next]);
            }
        }
    }

    /// A group ends with step `end - 1`: what the survivors' errors in it add to the targets of groups ahead.
    #[inline(always)]
    #[allow(
        clippy::needless_range_loop,
        reason = "iterators over arrays that are not unfolded keep sums in memory"
    )]
    pub(super) fn end_group<V: Vector>(
        &mut self,
        end: usize,
        ordered: Option<&Ordered>,
        before: &GroupEnds,
        ends: &mut GroupEnds,
    ) {
        // How the errors of each step reach each group.
        let mut reach = [[V::splat(0.0); LANES]; REACH];
        if let Some(ordered) = ordered {
            for (ahead, rows) in reach.iter_mut().enumerate() {
                let column = end + ahead * LANES;
                if column < ordered.upper.size() {
                    let strip = &ordered.upper.strip(column / STRIP)[end - LANES..end];
                    for (row, from) in rows.iter_mut().zip(strip) {
                        *row = V::load(&from[column % STRIP..]);
                    }
                }
            }
        }
        for g in 0..self.len.min(MOST) {
            let origin = usize::from(self.origins[g]);
            ends.ways[g] = before.ways[origin] << 16 | g as u128;
            self.origins[g] = g as u16;
            if ordered.is_none() {
                continue;
            }
            let mut sums = [V::splat(0.0); REACH];
            for ahead in 0..REACH - 1 {
                sums[ahead] = V::from_lanes(&before.carried[origin][ahead].0);
            }
            for (i, error) in self.group[g].0.iter().enumerate() {
                let error = V::splat(*error);
                for ahead in 0..REACH {
                    sums[ahead] = sums[ahead].fma(error, reach[ahead][i]);
                }
            }
            self.group[g].0 = sums[0].to_lanes();
            self.offsets[g] = self.group[g].0[0];
            for ahead in 1..REACH {
                ends.carried[g][ahead - 1].0 = sums[ahead].to_lanes();
            }
        }
    }

    /// Those of the end of a group that came the way of survivor `best` until `groups` groups before, in ascending order; their costs are what
    /// they cost more. Calls `moved` with the new and the old number of each.
    pub(super) fn give_up(
        &mut self,
        best: usize,
        groups: usize,
        ends: &mut GroupEnds,
        mut moved: impl FnMut(usize, usize),
    ) {
        let way = |ways: u128| (ways >> (16 * groups)) as u16;
        let (right, least) = (way(ends.ways[best]), self.costs[best]);
        let mut to = 0;
        for from in 0..self.len {
            if way(ends.ways[from]) == right {
                self.costs[to] = self.costs[from] - least;
                self.last[to] = self.last[from];
                self.contexts[to] = self.contexts[from];
                self.offsets[to] = self.offsets[from];
                self.origins[to] = to as u16;
                self.group[to] = self.group[from];
                ends.ways[to] = ends.ways[from];
                ends.carried[to] = ends.carried[from];
                moved(to, from);
                to += 1;
            }
        }
        self.costs[to..self.len].fill(f32::INFINITY);
        self.len = to;
    }
}

impl GroupEnds {
    /// Before the first group.
    pub(super) fn restart(&mut self) {
        (self.ways[0], self.carried[0]) = (0, [ZEROS; REACH - 1]);
    }
}
