//! A token of each of several sequences, all at once.

use super::super::backend::Cpu;
use super::super::shared::Shared;
use super::layer::KvLayer;
use super::queries::Attention;
use super::spread::{Block, Layer, ROWS};

/// A token of a sequence, for [`Cpu::attend_each`].
#[derive(Debug)]
pub struct QueryOfOne<'a> {
    /// Keys and values of the sequence, up to the token.
    pub kv: &'a KvLayer,
    /// Of the token.
    pub position: usize,
    /// Heads x values of a key.
    pub q: &'a [f32],
    /// Heads x values of a value: the result.
    pub out: &'a mut [f32],
}

impl Cpu {
    /// What [`Cpu::attend`] does for one token, for a token of each of several sequences at once. Each key/value head of a sequence is a
    /// task.
    ///
    /// # Panics
    /// As [`Cpu::attend`], and when key/value heads are not as many for all, or a sequence has not one token.
    pub fn attend_each(&self, attention: &Attention<'_>, queries: Vec<QueryOfOne<'_>>) {
        let of_one = |QueryOfOne { kv, position, q, out }| {
            let layer = Layer::new(attention, kv, position, q, out.len());
            assert_eq!(layer.tokens(), 1, "a query of several tokens");
            (layer, Shared::new(out))
        };
        let all: Vec<(Layer<'_>, Shared<'_, f32>)> = queries.into_iter().map(of_one).collect();
        let Some((first, _)) = all.first() else { return };
        let (kv_heads, group) = (first.kv.kv_heads(), first.group);
        assert!(all.iter().all(|(layer, _)| layer.kv.kv_heads() == kv_heads), "heads of other models");
        let parts_of_group = group.div_ceil(ROWS);
        let of_sequence = kv_heads * parts_of_group;
        let work = all.iter().map(|(layer, _)| layer.work()).fold(0, usize::saturating_add);
        self.for_each(all.len() * of_sequence, work, |task| {
            let ((layer, out), part) = (&all[task / of_sequence], task % of_sequence);
            let head = part / parts_of_group * group + part % parts_of_group * ROWS;
            self.attend_block(Block { layer: *layer, head, token: 0, tokens: 1 }, out);
        });
    }
}
