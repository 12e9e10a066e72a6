//! A path that goes on from a survivor of one step to the next, and what it costs.

/// Most paths that can survive.
pub(super) const MOST: usize = 512;

/// How a survivor came to be: the survivor of the step before, plus [`MOST`] times the bits that the step added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Choice(pub u16);

impl Choice {
    /// The survivor of the step before.
    #[inline(always)]
    pub(super) const fn parent(self) -> usize {
        self.0 as usize % MOST
    }

    /// The bits that the step added.
    #[inline(always)]
    pub(super) const fn bits(self) -> u16 {
        self.0 / MOST as u16
    }
}

/// A path and its cost. A cost is no less than 0, so that paths are in the order of their costs, and then of their choices.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Path(u64);

impl Path {
    /// Costs more than any.
    pub(super) const NONE: Path = Path(u64::MAX);

    #[inline(always)]
    pub(super) fn new(choice: Choice, cost: f32) -> Path {
        Path(u64::from(cost.to_bits()) << 16 | u64::from(choice.0))
    }

    #[inline(always)]
    pub(super) const fn choice(self) -> Choice {
        Choice(self.0 as u16)
    }

    #[inline(always)]
    pub(super) const fn cost(self) -> f32 {
        f32::from_bits((self.0 >> 16) as u32)
    }
}
