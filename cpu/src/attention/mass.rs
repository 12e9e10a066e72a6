//! How much attention each stored position gets: what decides which of them are kept (H2O, arXiv 2306.14048).

use super::super::backend::Cpu;
use super::super::lanes::{LANES, Lanes};
use super::super::math::exp_of_small;
use super::super::vector::{self, Vector, VectorWork};
use super::chunk::{pack, packed_lanes, score_chunk, weigh};
use super::layer::KvLayer;
use super::queries::{Attention, Queries};
use super::room::StepRoom;
use super::scratch::{Scratch, with_scratch};
use super::sizes::CHUNK;
use super::spread::{Layer, ROWS};
use super::tile::ROW_LANES;

impl Cpu {
    /// Adds to `mass`, key/value heads x positions, the weights that the queries of [`Cpu::attend`] give to the positions up to
    /// their own, in the order of tokens and heads.
    ///
    /// # Panics
    /// As [`Cpu::attend`] does, or when `mass` has fewer positions than are stored.
    pub fn add_mass(
        &self,
        attention: &Attention<'_>,
        kv: &KvLayer,
        position: usize,
        q: &[f32],
        mass: &mut [f32],
    ) {
        let (dim, kv_heads) = (kv.head_dim(), kv.kv_heads());
        let layer = Layer { attention, kv, position, q, group: attention.heads / kv_heads };
        let tokens = q.len() / (attention.heads * dim);
        let (block, parts) = ((ROWS / layer.group).max(1), layer.group.div_ceil(ROWS));
        let positions = mass.len() / kv_heads;
        assert!(positions >= position + tokens, "more positions than have a mass");
        let work = q.len().saturating_mul(2 * (position + tokens));
        self.for_each_chunk(mass, positions, work, |kv_head, mass| {
            for first in (0..tokens).step_by(block) {
                for part in 0..parts {
                    let queries = layer.queries(first, kv_head * layer.group + part * ROWS);
                    let count = block.min(tokens - first) * queries.heads;
                    let chunks = (queries.position + block.min(tokens - first)).div_ceil(CHUNK);
                    with_scratch(|Scratch { packed, scores, parts, step, .. }| {
                        let packed = packed.lanes(packed_lanes(count, dim));
                        let scores = scores.lanes(chunks * count * ROW_LANES);
                        let states = parts.lanes(chunks * count);
                        let work = AddMass {
                            queries,
                            count,
                            chunks,
                            packed,
                            scores,
                            states,
                            step,
                            mass: &mut *mass,
                        };
                        vector::run(self.isa(), work);
                    });
                }
            }
        });
    }
}

/// The first `count` queries over all that they see.
struct AddMass<'a> {
    queries: Queries<'a>,
    count: usize,
    chunks: usize,
    packed: &'a mut [Lanes],
    /// For each chunk those of all queries.
    scores: &'a mut [Lanes],
    /// Alike, the largest score and the sum of weights.
    states: &'a mut [Lanes],
    step: &'a mut StepRoom,
    mass: &'a mut [f32],
}

impl VectorWork for AddMass<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let AddMass { queries, count, chunks, packed, scores, states, step, mass } = self;
        pack(&queries, count, packed);
        for chunk in 0..chunks {
            let scores = &mut scores[chunk * count * ROW_LANES..][..count * ROW_LANES];
            let states = &mut states[chunk * count..][..count];
            states.fill([f32::MIN; LANES]);
            let seeing = (chunk * CHUNK).saturating_sub(queries.position) * queries.heads..count;
            score_chunk::<V>(&queries, chunk, seeing.clone(), packed, scores, step);
            for row in seeing {
                let (top, total) =
                    weigh::<V>(&queries, chunk, row, &mut scores[row * ROW_LANES..][..ROW_LANES]);
                (states[row][0], states[row][1]) = (top, total);
            }
        }
        for row in 0..count {
            let seen = queries.seen(row).end;
            let chunks = 0..seen.div_ceil(CHUNK);
            let sink = queries.sink(row);
            let top = chunks
                .clone()
                .fold(sink.unwrap_or(f32::MIN), |top, chunk| top.max(states[chunk * count + row][0]));
            let weight = |score: f32| exp_of_small(V::splat(score - top)).to_lanes()[0];
            let part = |chunk: usize| weight(states[chunk * count + row][0]);
            let of_chunks = chunks.clone().map(|chunk| states[chunk * count + row][1] * part(chunk));
            let total = of_chunks.sum::<f32>() + sink.map_or(0.0, weight);
            for chunk in chunks {
                let factor = part(chunk) / total;
                let weights = scores[(chunk * count + row) * ROW_LANES..][..ROW_LANES].as_flattened();
                let mass = &mut mass[chunk * CHUNK..seen.min((chunk + 1) * CHUNK)];
                for (mass, weight) in mass.iter_mut().zip(weights) {
                    *mass += weight * factor;
                }
            }
        }
    }
}
