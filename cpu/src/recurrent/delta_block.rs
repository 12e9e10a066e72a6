//! What a step of the gated delta rule has, and what of it some rows of a head work on.

use crate::lanes::LANES;
use crate::shared::Shared;

/// A step of some tokens.
#[derive(Debug, Clone, Copy)]
pub struct GatedDelta<'a> {
    /// Heads of queries and keys. Value heads are a multiple of these, and those that follow one another share a key head.
    pub key_heads: usize,
    /// Width of such a head.
    pub key_dim: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Width of such a head.
    pub value_dim: usize,
    /// Queries, keys and values of each token, one behind another.
    pub inputs: &'a [f32],
    /// g of each token and value head, or of each channel of its key.
    pub decay: &'a [f32],
    /// Whether each channel has one.
    pub by_channel: bool,
    /// b of each token and value head.
    pub beta: &'a [f32],
}

impl GatedDelta<'_> {
    /// Floats of a state with these numbers of heads and widths: rows are padded to whole vectors.
    pub const fn state_len(value_heads: usize, value_dim: usize, key_dim: usize) -> usize {
        value_heads.saturating_mul(value_dim).saturating_mul(key_dim.next_multiple_of(LANES))
    }

    /// Values of g of a value head.
    pub(super) const fn decays(&self) -> usize {
        if self.by_channel { self.key_dim } else { 1 }
    }

    pub(super) const fn width(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

/// Some rows of one head.
pub(super) struct Block<'a> {
    pub step: &'a GatedDelta<'a>,
    pub head: usize,
    pub first: usize,
    pub count: usize,
    pub tokens: usize,
    /// That of all rows.
    pub out: &'a Shared<'a>,
}

/// What a token has for a block.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub queries: &'a [f32],
    pub keys: &'a [f32],
    pub values: &'a [f32],
    pub decays: &'a [f32],
    pub beta: f32,
}

impl<'a> Block<'a> {
    #[inline(always)]
    pub fn token(&self, token: usize) -> Token<'a> {
        let GatedDelta { key_heads, key_dim, value_heads, value_dim, .. } = *self.step;
        let (inputs, decays) = (&self.step.inputs[token * self.step.width()..], self.step.decays());
        let key_head = self.head / (value_heads / key_heads);
        let gate = token * value_heads + self.head;
        Token {
            queries: &inputs[key_head * key_dim..][..key_dim],
            keys: &inputs[(key_heads + key_head) * key_dim..][..key_dim],
            values: &inputs[2 * key_heads * key_dim + self.head * value_dim + self.first..][..self.count],
            decays: &self.step.decay[gate * decays..][..decays],
            beta: self.step.beta[gate],
        }
    }

    /// Where goes what the rows read for a token.
    ///
    /// # Safety
    /// The last one for this token must be gone. No other block has these rows.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the part is the caller's own, by contract")]
    pub unsafe fn out(&self, token: usize) -> &mut [f32] {
        let start = (token * self.step.value_heads + self.head) * self.step.value_dim + self.first;
        // SAFETY: no other block has outputs of these rows, and this one has done with them, by contract.
        unsafe { self.out.part(start..start + self.count) }
    }
}

impl Token<'_> {
    /// Without the values of the rows before `row`.
    #[inline(always)]
    pub fn from(self, row: usize) -> Self {
        Token { values: &self.values[row..], ..self }
    }
}
