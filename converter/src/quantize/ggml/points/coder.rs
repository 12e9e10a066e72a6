//! A type with a grid under feedback and descent, 32 columns at a time.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::super::super::coder::{Coder, DiagonalBlock, Room, UncodedBlock};
use super::super::super::strips::STRIP;
use super::super::super::vectors::{ZEROS, inverse, round};
use super::super::coder::{GROUPS, Strip, along, loaded, stored};
use super::super::search::{NONE, Pair, pick};
use super::super::shape::SUPER;
use super::search::{Group, Steps};
use super::shape::WIDTH;
use super::signed::Points;

/// Scales of a group that are judged by the true loss.
const JUDGED: usize = 3;
/// Levels are whole numbers of these.
const EIGHTHS: f32 = 8.0;

/// Codes rows whose 256 columns have these units.
pub(super) struct PointCoder<'a> {
    pub points: Points<'a>,
    pub units: Vec<Lanes>,
}

/// Scales ready for arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Ready<V> {
    pairs: [Pair<V>; GROUPS],
    inverses: [V; GROUPS],
}

impl PointCoder<'_> {
    #[inline(always)]
    fn steps<V: Vector>(&self, start: usize) -> Steps<V> {
        Steps(V::from_lanes(&self.units[start / SUPER]))
    }

    #[inline(always)]
    fn groups(&self) -> usize {
        STRIP / self.points.shape.group
    }

    #[inline(always)]
    fn make_ready<V: Vector>(pairs: [Pair<V>; GROUPS]) -> Ready<V> {
        Ready { inverses: [inverse(pairs[0].step), inverse(pairs[1].step)], pairs }
    }
}

/// Exactly the levels that values are a scale times.
#[inline(always)]
fn levels_of<V: Vector>(value: &Lanes, inverse: V) -> V {
    round(V::from_lanes(value).mul(inverse).mul(V::splat(EIGHTHS))).mul(V::splat(1.0 / EIGHTHS))
}

impl<V: Vector> Coder<V> for PointCoder<'_> {
    const PER_CODE: usize = WIDTH;

    type Block = Strip;
    type Ready = Ready<V>;

    #[inline(always)]
    fn columns(&self) -> usize {
        STRIP
    }

    #[inline(always)]
    fn choose(&self, uncoded: &UncodedBlock<'_>, room: &mut Room) -> Strip {
        let steps = self.steps::<V>(uncoded.start);
        let size = self.points.shape.group;
        let mut chosen = [Pair::zero(); GROUPS];
        let mut found = [None, None];
        for g in 0..self.groups() {
            let columns = g * size..(g + 1) * size;
            let (targets, weights) = (&uncoded.targets[columns.clone()], &uncoded.weights[columns]);
            let best = Group { points: self.points, targets, weights }.search(&steps);
            chosen[g] = best.pairs[0];
            found[g] = Some(best);
        }
        if uncoded.upper.is_some() {
            for (g, best) in found.iter().enumerate() {
                let Some(best) = best else { continue };
                let (mut least, mut kept) = (V::splat(NONE), chosen[g]);
                for candidate in 0..JUDGED {
                    let mut pairs = chosen;
                    pairs[g] = best.pairs[candidate];
                    let loss: V = uncoded.walk(self, &Self::make_ready(pairs), room, None);
                    let loss = V::choose(V::splat(NONE).larger(best.errors[candidate]), loss, V::splat(NONE));
                    let better = least.larger(loss);
                    least = V::choose(better, loss, least);
                    kept = pick(better, pairs[g], kept);
                }
                chosen[g] = kept;
            }
        }
        Strip { groups: chosen.map(stored), start: uncoded.start }
    }

    #[inline(always)]
    fn ready(&self, block: &Strip) -> Ready<V> {
        Self::make_ready(block.groups.map(|scales| loaded(&scales)))
    }

    #[inline(always)]
    fn nearest(
        &self,
        ready: &Ready<V>,
        column: usize,
        targets: &[Lanes],
        weights: &[f32],
        values: &mut [Lanes],
    ) {
        let (Some(targets), Some(weights)) = (targets.first_chunk(), weights.first_chunk()) else { return };
        let g = column / self.points.shape.group;
        let pair = &ready.pairs[g];
        let levels = self.points.nearest(ready.inverses[g], pair.offset, targets, weights);
        for (value, level) in values.iter_mut().zip(&levels) {
            *value = pair.step.mul(V::from_lanes(level)).to_lanes();
        }
    }

    /// The loss is a square of a group's scale with the points held, and its minimum is rounded.
    #[inline(always)]
    fn rescale(
        &self,
        block: &Strip,
        values: &mut [Lanes],
        pull: &[Lanes],
        moment: DiagonalBlock<'_>,
    ) -> Option<Strip> {
        let steps = self.steps::<V>(block.start);
        let zero = V::splat(0.0);
        let size = self.points.shape.group;
        let mut slope = [ZEROS; STRIP];
        slope.copy_from_slice(pull);
        let mut better = *block;
        let mut any = false;
        for g in 0..self.groups() {
            let columns = g * size..(g + 1) * size;
            let now: Pair<V> = loaded(&better.groups[g]);
            let inverted = inverse(now.step);
            let mut levels = [ZEROS; STRIP];
            for j in columns.clone() {
                levels[j] = levels_of(&values[j], inverted).to_lanes();
            }
            let (along, curve): (V, V) = along(&levels, columns.clone(), &slope, moment);
            let wanted =
                steps.nearest(&self.points.shape, now.step.add(along.mul(inverse(curve))), now.offset);
            let moved = wanted.step.sub(now.step);
            let gain = moved.mul(along.add(along).sub(moved.mul(curve)));
            let kept = pick(gain.larger(zero), wanted, now);
            let moved = kept.step.sub(now.step);
            if moved.to_lanes() == ZEROS {
                continue;
            }
            any = true;
            better.groups[g] = stored(kept);
            for j in columns {
                let level = V::from_lanes(&levels[j]);
                values[j] = kept.step.mul(level).to_lanes();
                let change = moved.mul(level);
                for (slope, factor) in slope.iter_mut().zip(moment.row(j, 0)) {
                    *slope = V::from_lanes(slope).sub(change.mul(V::splat(*factor))).to_lanes();
                }
            }
        }
        any.then_some(better)
    }
}
