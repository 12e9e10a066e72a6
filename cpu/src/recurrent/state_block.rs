//! What a step of a state space has, and what of it some rows of a head work on.

use crate::lanes::LANES;
use crate::shared::Shared;

/// A step of some tokens.
#[derive(Debug, Clone, Copy)]
pub struct StateSpace<'a> {
    /// Heads; a multiple of `groups`, and those that follow one another share a group.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Groups of heads that share B and C.
    pub groups: usize,
    /// Columns of a state.
    pub state: usize,
    /// x of all heads, B of all groups and C of all groups, one behind another, of each token.
    pub inputs: &'a [f32],
    /// g of each token and head.
    pub decay: &'a [f32],
    /// d of each token and head.
    pub step: &'a [f32],
    /// D of each head.
    pub skip: &'a [f32],
}

impl StateSpace<'_> {
    /// Floats of a state with these numbers: rows are padded to whole vectors.
    pub const fn state_len(heads: usize, head_dim: usize, state: usize) -> usize {
        heads.saturating_mul(head_dim).saturating_mul(state.next_multiple_of(LANES))
    }

    pub(super) const fn width(&self) -> usize {
        self.heads * self.head_dim + 2 * self.groups * self.state
    }
}

/// Some rows of one head.
pub(super) struct Block<'a> {
    pub step: &'a StateSpace<'a>,
    pub head: usize,
    /// Of the rows of all heads.
    pub start: usize,
    pub count: usize,
    pub tokens: usize,
    /// That of all rows.
    pub out: &'a Shared<'a>,
}

/// What a token has for a block.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub x: &'a [f32],
    pub b: &'a [f32],
    pub c: &'a [f32],
    pub decay: f32,
    pub step: f32,
    pub skip: f32,
}

impl<'a> Block<'a> {
    #[inline(always)]
    pub fn token(&self, token: usize) -> Token<'a> {
        let StateSpace { heads, head_dim, groups, state: columns, .. } = *self.step;
        let (width, group) = (self.step.width(), self.head / (heads / groups));
        let (x, shared) = self.step.inputs[token * width..][..width].split_at(heads * head_dim);
        let gate = token * heads + self.head;
        Token {
            x: &x[self.start..][..self.count],
            b: &shared[group * columns..][..columns],
            c: &shared[(groups + group) * columns..][..columns],
            decay: self.step.decay[gate],
            step: self.step.step[gate],
            skip: self.step.skip[self.head],
        }
    }

    /// Where goes what the rows give for a token.
    ///
    /// # Safety
    /// The last one for this token must be gone. No other block has these rows.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the part is the caller's own, by contract")]
    pub unsafe fn out(&self, token: usize) -> &mut [f32] {
        let at = token * self.step.heads * self.step.head_dim + self.start;
        // SAFETY: no other block has outputs of these rows, and this one has done with them, by contract.
        unsafe { self.out.part(at..at + self.count) }
    }
}
