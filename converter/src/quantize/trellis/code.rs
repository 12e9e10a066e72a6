//! Which level of a trellis type follows which bits.

use qsf_format::{SumTables, TrellisState};

/// The code of a trellis type with `BITS` bits a step.
///
/// The *context* of a step is what chooses its level besides the new bits: the folded state without these.
#[derive(Debug, Clone)]
pub(super) struct Code<const BITS: usize> {
    /// Which bits count.
    state: TrellisState,
    /// Levels by context and then by the new bits.
    levels: [f32; 256],
    /// The summand of the four newest bits, by the new bits and then by the upper part of the context.
    pub newest: [[f32; 4]; 16],
    /// The summand of the four oldest bits, by the lower four bits of the context.
    pub oldest: [f32; 16],
}

impl<const BITS: usize> Code<BITS> {
    /// Paths that go on from a survivor.
    pub(super) const BRANCHES: usize = 1 << BITS;

    /// With these tables.
    pub(super) fn new(state: TrellisState, sums: &SumTables) -> Code<BITS> {
        let level = |i: usize| {
            let (context, new) = (i >> BITS, i % Self::BRANCHES);
            f32::from(sums.level((new << (8 - BITS) | context) as u8))
        };
        let newest = |new: usize, i: usize| f32::from(sums.newest[(new << (4 - BITS) | i) % 16]);
        Code {
            state,
            levels: std::array::from_fn(level),
            newest: std::array::from_fn(|new| std::array::from_fn(|i| newest(new, i))),
            oldest: sums.oldest.map(f32::from),
        }
    }

    /// All levels: those of a context are at `context << BITS` and behind it.
    pub(super) const fn levels(&self) -> &[f32; 256] {
        &self.levels
    }

    /// The context of the step behind the bits `last`.
    #[inline(always)]
    pub(super) const fn context(&self, last: u16) -> u8 {
        self.state.fold(last >> BITS)
    }

    /// The place of a level.
    #[inline(always)]
    pub(super) const fn place(context: u8, new: u16) -> usize {
        ((context as usize) << BITS | new as usize) & 255
    }

    /// The last 16 bits after a step.
    #[inline(always)]
    pub(super) const fn after(last: u16, new: u16) -> u16 {
        last >> BITS | new << (16 - BITS)
    }

    /// Where what later levels hang on begins in the last 16 bits: survivors in which it is the same have the same future, but for
    /// their errors.
    #[inline(always)]
    pub(super) const fn future(&self) -> usize {
        match self.state {
            TrellisState::Byte => 8 + BITS,
            TrellisState::TwoBytes => BITS,
        }
    }
}
