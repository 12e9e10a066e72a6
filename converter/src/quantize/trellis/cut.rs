//! Which of the paths that go on from the survivors of a step survive the next one.
//!
//! As in `survivors`, all of this runs for every step, in plain loops.

use std::hint::select_unpredictable;

use qsf_runtime::cpu::lanes::LANES;
use qsf_runtime::cpu::vector::Vector;

use super::code::Code;
use super::path::{Choice, MOST, Path};
use super::survivors::Survivors;

/// Futures of a path: bits that are left of 16 when the next step has at least 2.
const FUTURES: usize = 1 << 14;

/// Most bits that a step adds, as a number of different ones.
const MOST_BRANCHES: usize = 16;

/// Bits of a place among the survivors and one behind them.
const PLACE_BITS: u32 = (MOST + 1).next_power_of_two().ilog2();

/// Most paths that can go on.
const PATHS: usize = MOST_BRANCHES * MOST;

/// Which bits of a byte are set, the lowest first, and then anything.
const SET_BITS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut count, mut bit) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][count] = bit as u8;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// The number of survivors may be off by its part of this: finding a limit that fits takes time.
const SLACK: usize = 8;

/// Trials of a limit at most.
const TRIALS: usize = 12;

/// The paths that go on, and the choice among them.
#[derive(Debug)]
pub(super) struct Cut {
    /// About how many are to survive.
    aim: usize,
    /// How much more than the least a path may cost, found in the last step.
    gap: f32,
    /// Costs by the new bits, and then by the survivor that they follow.
    paths: Box<[[f32; MOST]; MOST_BRANCHES]>,
    /// A bit for each path that is cheap enough.
    cheap: Vec<[u16; MOST / LANES]>,
    /// Those, with room for what [`SET_BITS`] says too much.
    listed: Vec<u16>,
    /// Those of them that are cheaper than all of the same future; behind the last that may survive one that does not count.
    chosen: [Path; MOST + 1],
    /// By the future of a path: the step in which such a path was chosen, above the bits that are its place among the survivors.
    seen: Box<[u16; FUTURES]>,
    /// Number of the step, from 1 to the largest that fits into `seen`.
    step: u16,
}

/// The costs of the paths of one step.
struct Costs {
    /// Different new bits.
    branches: usize,
    /// Survivors that they follow.
    survivors: usize,
    least: f32,
}

/// What a step asks of a path.
#[derive(Clone, Copy)]
pub(super) struct Aim {
    /// Without what the errors of each path add.
    pub target: f32,
    /// What a squared distance from the target costs.
    pub weight: f32,
    /// The value of level 1.
    pub scale: f32,
    /// Whether the step codes a column; if not, its bits are 0.
    pub used: bool,
}

impl Cut {
    /// With room for all.
    pub(super) fn new() -> Cut {
        Cut {
            aim: 1,
            gap: 0.0,
            paths: Box::new([[0.0; MOST]; MOST_BRANCHES]),
            cheap: vec![[0; MOST / LANES]; MOST_BRANCHES],
            listed: vec![0; PATHS + 8],
            chosen: [Path::NONE; MOST + 1],
            seen: Box::new([0; FUTURES]),
            step: 0,
        }
    }

    /// Begins a row, of which about `aim` paths survive a step.
    pub(super) fn restart(&mut self, aim: usize) {
        (self.aim, self.gap) = (aim.clamp(1, MOST), 0.0);
    }

    /// The cheapest paths that go on from `before`, with their costs. Of those with the same future, it is the cheapest one.
    #[inline(always)]
    pub(super) fn choose<V: Vector, const BITS: usize>(
        &mut self,
        before: &Survivors,
        aim: Aim,
        code: &Code<BITS>,
    ) -> &[Path] {
        let costs = self.go_on::<V, BITS>(before, aim, code);
        self.limit::<V>(&costs);
        self.step += 1;
        if self.step > u16::MAX >> PLACE_BITS {
            self.seen.fill(0);
            self.step = 1;
        }
        let cheap = self.list(&costs);
        let (step, listed, chosen) = (self.step, &self.listed[..cheap], &mut self.chosen);
        let (paths, seen) = (self.paths.as_flattened(), &mut *self.seen);
        let future = code.future();
        let mut count = 0;
        // Without branches: whether a future was seen is what no processor can guess.
        for &number in listed {
            let choice = Choice(number);
            let path = Path::new(choice, paths[usize::from(number) % PATHS]);
            let last = Code::<BITS>::after(before.last[choice.parent()], choice.bits());
            let seen = &mut seen[usize::from(last >> future) % FUTURES];
            let fresh = *seen >> PLACE_BITS != step;
            let place = select_unpredictable(fresh, count, usize::from(*seen % (1 << PLACE_BITS))).min(MOST);
            *seen = step << PLACE_BITS | place as u16;
            let other = select_unpredictable(fresh, Path::NONE, chosen[place]);
            chosen[place] = select_unpredictable(path < other, path, other);
            count += usize::from(fresh);
        }
        &chosen[..count.min(MOST)]
    }

    /// Lists the marked paths as [`Choice`]s. Returns their number.
    #[inline(always)]
    fn list(&mut self, costs: &Costs) -> usize {
        let parts = costs.survivors.div_ceil(LANES);
        let mut count = 0;
        for (new, marks) in self.cheap[..costs.branches].iter().enumerate() {
            for (part, marks) in marks.iter().enumerate().take(parts) {
                for half in 0..2 {
                    let marks = (marks >> (8 * half)) as u8;
                    let first = (new * MOST + part * LANES + 8 * half) as u16;
                    let Some(room) = self.listed[count..].first_chunk_mut::<8>() else { break };
                    let places = &SET_BITS[usize::from(marks)];
                    for i in 0..8 {
                        room[i] = first + u16::from(places[i]);
                    }
                    count += marks.count_ones() as usize;
                }
            }
        }
        count
    }

    /// The costs of all paths that go on.
    #[inline(always)]
    fn go_on<V: Vector, const BITS: usize>(
        &mut self,
        before: &Survivors,
        aim: Aim,
        code: &Code<BITS>,
    ) -> Costs {
        let branches = if aim.used { Code::<BITS>::BRANCHES } else { 1 };
        let (weight, scale, target) = (V::splat(aim.weight), V::splat(aim.scale), V::splat(aim.target));
        let mut least = V::splat(f32::INFINITY);
        let parts = before.costs.as_chunks::<LANES>().0.iter().zip(before.offsets.as_chunks::<LANES>().0);
        let parts = parts.zip(before.contexts.as_chunks::<LANES>().0);
        for (part, ((costs, offsets), contexts)) in parts.enumerate().take(before.len().div_ceil(LANES)) {
            let (cost, target) = (V::from_lanes(costs), target.add(V::from_lanes(offsets)));
            let oldest = V::lookup(&code.oldest, contexts, 0);
            for new in 0..branches {
                let newest = match BITS {
                    4 => V::splat(code.newest[new][0]),
                    _ => V::lookup_of_four(&code.newest[new], contexts, 4),
                };
                let distance = target.sub(scale.mul(newest.add(oldest)));
                let cost = cost.fma(distance.mul(weight), distance);
                least = least.or_smaller(cost);
                if let Some(out) = self.paths[new].as_chunks_mut::<LANES>().0.get_mut(part) {
                    *out = cost.to_lanes();
                }
            }
        }
        let lanes = least.to_lanes();
        let mut least = lanes[0];
        for lane in lanes {
            least = least.min(lane);
        }
        Costs { branches, survivors: before.len(), least }
    }

    /// Marks the paths that cost at most `limit` and returns their number.
    #[inline(always)]
    fn mark<V: Vector>(&mut self, costs: &Costs, limit: f32) -> usize {
        let (limit, parts) = (V::splat(limit), costs.survivors.div_ceil(LANES));
        let mut count = 0;
        for new in 0..costs.branches {
            let paths = self.paths[new].as_chunks::<LANES>().0;
            for (paths, marks) in paths.iter().zip(&mut self.cheap[new]).take(parts) {
                let cheap = !V::bits(V::from_lanes(paths).larger(limit)) as u16;
                *marks = cheap;
                count += cheap.count_ones() as usize;
            }
        }
        count
    }

    /// Marks the cheapest paths, about as many as shall survive where there are so many.
    #[inline(always)]
    fn limit<V: Vector>(&mut self, costs: &Costs) {
        if costs.survivors * costs.branches <= self.aim {
            self.mark::<V>(costs, f32::MAX);
            return;
        }
        if self.gap == 0.0 {
            // Nothing is known: a guess that the search corrects.
            let mut largest = costs.least;
            for paths in &self.paths[..costs.branches] {
                for cost in &paths[..costs.survivors] {
                    largest = if *cost < f32::INFINITY { largest.max(*cost) } else { largest };
                }
            }
            self.gap = (largest - costs.least) / 8.0;
        }
        let (enough, most) = (self.aim - self.aim / SLACK, (self.aim + self.aim / SLACK).min(MOST));
        // Mostly a gap reaches a few more paths than the same gap did one step before.
        let (mut low, mut high, mut gap) = ((0.0, 0.0), (f32::INFINITY, 0.0), 0.9 * self.gap);
        for _ in 0..TRIALS {
            let count = self.mark::<V>(costs, costs.least + gap);
            let (reached, wanted) = (count as f32, self.aim as f32);
            if count > most {
                high = (gap, reached);
            } else {
                low = (gap, reached);
                if count >= enough {
                    self.gap = gap;
                    return;
                }
            }
            gap = if high.0 < f32::INFINITY && low.0 > 0.0 {
                low.0 + (high.0 - low.0) * (wanted - low.1) / (high.1 - low.1)
            } else {
                // Paths grow with about the 1.5th power of the gap.
                let root = (wanted / reached.max(1.0)).sqrt();
                // A gap that reaches all of them may be much too large.
                let most = if count == costs.survivors * costs.branches { 0.5 } else { 2.0 };
                gap * (root * root.sqrt()).clamp(0.5, most)
            };
        }
        // Rather too many than hardly any.
        self.gap = if low.0 > 0.0 || high.0 == f32::INFINITY { low.0 } else { high.0 };
        self.mark::<V>(costs, costs.least + self.gap);
    }
}
