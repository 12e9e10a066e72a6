//! Which of the paths that go on from the survivors of a step survive the next one.
//!
//! As in `survivors`, all of this runs for every step, in plain loops.

use qsf_runtime::cpu::lanes::LANES;
use qsf_runtime::cpu::vector::Vector;

use super::code::Code;
use super::survivors::{Choice, MOST, Survivors};

/// Futures of a path: bits that are left of 16 when the next step has at least 2.
const FUTURES: usize = 1 << 14;

/// Paths whose limits are compared at once.
const WORD: usize = 64;

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
    paths: Vec<[f32; MOST]>,
    /// A bit for each path that is cheap enough.
    cheap: Vec<[u64; MOST / WORD]>,
    /// Those, by their numbers.
    listed: Vec<u16>,
    /// By the future of a path: the step in which such a path was chosen, above 16 bits that are its place among the survivors.
    seen: Vec<u32>,
    /// Number of the step, from 1.
    step: u32,
    /// Costs of the chosen ones.
    pub costs: [f32; MOST],
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
            paths: vec![[0.0; MOST]; 16],
            cheap: vec![[0; MOST / WORD]; 16],
            listed: vec![0; 16 * MOST + 8],
            seen: vec![0; FUTURES],
            step: 0,
            costs: [0.0; MOST],
        }
    }

    /// Begins a row, of which about `aim` paths survive a step.
    pub(super) fn restart(&mut self, aim: usize) {
        (self.aim, self.gap) = (aim.clamp(1, MOST), 0.0);
    }

    /// The cheapest paths that go on from `before`: their number, with what they chose in `choices`. Of those with the same future, it is
    /// the cheapest one.
    #[inline(always)]
    pub(super) fn choose<V: Vector, const BITS: usize>(
        &mut self,
        before: &Survivors,
        aim: Aim,
        code: &Code<BITS>,
        choices: &mut [Choice; MOST],
    ) -> usize {
        let costs = self.go_on::<V, BITS>(before, aim, code);
        self.limit::<V>(&costs);
        self.step += 1;
        if self.step > 0xffff {
            self.seen.fill(0);
            self.step = 1;
        }
        let cheap = self.list(costs.branches);
        let mut chosen = 0;
        for &number in &self.listed[..cheap] {
            let (parent, new) = (number % MOST as u16, number / MOST as u16);
            let cost = self.paths[usize::from(new % 16)][usize::from(parent)];
            let last = Code::<BITS>::after(before.last[usize::from(parent)], new);
            let seen = &mut self.seen[usize::from(code.future(last)) % FUTURES];
            let mut place = chosen;
            if *seen >> 16 == self.step {
                place = (*seen & 0xffff) as usize;
                if cost >= self.costs[place] {
                    continue;
                }
            } else if chosen == MOST {
                continue;
            } else {
                *seen = self.step << 16 | chosen as u32;
                chosen += 1;
            }
            (choices[place % MOST], self.costs[place % MOST]) = (Choice { parent, new }, cost);
        }
        chosen
    }

    /// Lists the marked paths: the survivor that each follows, plus `MOST` times its new bits. Returns their number.
    #[inline(always)]
    fn list(&mut self, branches: usize) -> usize {
        let mut count = 0;
        for (new, words) in self.cheap[..branches].iter().enumerate() {
            for (word, &cheap) in words.iter().enumerate() {
                let base = (new * MOST + word * WORD) as u16;
                let (mut left, end) = (cheap, count + cheap.count_ones() as usize);
                // Eight at a time, so that the loop seldom ends where nobody expects it. What is too many is overwritten.
                while count < end {
                    let Some(room) = self.listed[count..].first_chunk_mut::<8>() else { break };
                    for out in room {
                        *out = base + (left.trailing_zeros() as u16);
                        left &= left.wrapping_sub(1);
                    }
                    count += 8;
                }
                count = end;
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
                let newest = if BITS == 4 {
                    V::splat(code.newest[new][0])
                } else {
                    V::lookup(&code.newest[new], contexts, 4)
                };
                let distance = target.sub(scale.mul(newest.add(oldest)));
                let cost = cost.fma(distance.mul(weight), distance);
                least = V::choose(least.larger(cost), cost, least);
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
        let limit = V::splat(limit);
        let mut count = 0;
        for new in 0..costs.branches {
            let parts = self.paths[new].as_chunks::<LANES>().0;
            let mut words = [0; MOST / WORD];
            for (part, paths) in parts.iter().enumerate().take(costs.survivors.div_ceil(LANES)) {
                let cheap = !V::bits(V::from_lanes(paths).larger(limit)) & 0xffff;
                words[part * LANES / WORD] |= u64::from(cheap) << (part * LANES % WORD);
            }
            for word in words {
                count += word.count_ones() as usize;
            }
            self.cheap[new] = words;
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
