//! How much attention each stored position gets: what decides which of them are kept (H2O, arXiv 2306.14048), and what shows where
//! each query looks.

use super::super::backend::Cpu;
use super::super::vector::{self, Vector, VectorWork};
use super::layer::KvLayer;
use super::queries::Attention;
use super::spread::{Layer, ROWS};
use super::weigh::{Weighing, with_weighing};

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
        let layer = Layer { attention, kv, position, q, group: attention.heads / kv.kv_heads() };
        let tokens = q.len() / (attention.heads * kv.head_dim());
        let positions = mass.len() / kv.kv_heads();
        assert!(positions >= position + tokens, "more positions than have a mass");
        let work = q.len().saturating_mul(2 * (position + tokens));
        self.for_each_chunk(mass, positions, work, |kv_head, mass| {
            layer.each_block(tokens, kv_head, |queries, _, tokens| {
                with_weighing(queries, tokens, |weighing| {
                    vector::run(self.isa(), AddMass { weighing, mass: &mut *mass });
                });
            });
        });
    }

    /// The weights that the queries of [`Cpu::attend`] give to positions: `out` is heads x tokens x `positions`, 0 where a query sees
    /// nothing. Where there are sinks, what they take is missing from the sum of 1.
    ///
    /// # Panics
    /// As [`Cpu::attend`] does, or when there are fewer `positions` than are stored, or `out` is of another size.
    pub fn attention_weights(
        &self,
        attention: &Attention<'_>,
        kv: &KvLayer,
        position: usize,
        q: &[f32],
        positions: usize,
        out: &mut [f32],
    ) {
        let group = attention.heads / kv.kv_heads();
        let layer = Layer { attention, kv, position, q, group };
        let tokens = q.len() / (attention.heads * kv.head_dim());
        assert!(positions >= position + tokens, "more positions than have a weight");
        assert_eq!(out.len(), attention.heads * tokens * positions, "weights of other queries");
        let work = q.len().saturating_mul(2 * (position + tokens));
        self.for_each_chunk(out, group * tokens * positions, work, |kv_head, out| {
            out.fill(0.0);
            layer.each_block(tokens, kv_head, |queries, token, count| {
                // Of the first of these queries.
                let first = (queries.first_head - kv_head * group) * tokens + token;
                let heads = queries.heads;
                with_weighing(queries, count, |weighing| {
                    let row = |row: usize| (first + row % heads * tokens + row / heads) * positions;
                    vector::run(self.isa(), StoreWeights { weighing, row, out: &mut *out });
                });
            });
        });
    }
}

impl<'a> Layer<'a> {
    /// Calls `work` for the heads of a group, as many together as share what they read: with the queries from a token on, that token,
    /// and the number of tokens.
    fn each_block(
        &self,
        tokens: usize,
        kv_head: usize,
        mut work: impl FnMut(super::queries::Queries<'a>, usize, usize),
    ) {
        let (block, parts) = ((ROWS / self.group).max(1), self.group.div_ceil(ROWS));
        for first in (0..tokens).step_by(block) {
            for part in 0..parts {
                let queries = self.queries(first, kv_head * self.group + part * ROWS);
                work(queries, first, block.min(tokens - first));
            }
        }
    }
}

/// Adds up the weights of all queries.
struct AddMass<'a> {
    weighing: Weighing<'a>,
    mass: &'a mut [f32],
}

impl VectorWork for AddMass<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let AddMass { weighing, mass } = self;
        weighing.each::<V>(|_, first, weights, factor| {
            for (mass, weight) in mass[first..].iter_mut().zip(weights) {
                *mass += weight * factor;
            }
        });
    }
}

/// Stores the weights of each query where `row` says that its own begin.
struct StoreWeights<'a, F> {
    weighing: Weighing<'a>,
    row: F,
    out: &'a mut [f32],
}

impl<F: Fn(usize) -> usize> VectorWork for StoreWeights<'_, F> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let StoreWeights { weighing, row, out } = self;
        weighing.each::<V>(|query, first, weights, factor| {
            for (out, weight) in out[row(query) + first..].iter_mut().zip(weights) {
                *out = weight * factor;
            }
        });
    }
}
