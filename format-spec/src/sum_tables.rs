//! The tables of a trellis type (SPEC.md section 6.2).

/// The two tables of a trellis type; a level is the sum of one entry of each, in -127..=127.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumTables {
    /// By the four newest bits of the folded state.
    pub newest: [i8; 16],
    /// By the four oldest bits.
    pub oldest: [i8; 16],
}

impl SumTables {
    /// The level of a folded state of 8 bits ([`TrellisState::fold`](crate::TrellisState::fold)).
    #[inline]
    pub const fn level(&self, state: u8) -> i8 {
        self.newest[(state >> 4) as usize].wrapping_add(self.oldest[(state & 15) as usize])
    }

    /// Whether every sum is in -127..=127.
    pub(crate) fn fits(&self) -> bool {
        let ends = |table: &[i8; 16]| table.iter().fold((0, 0), |(low, high), &v| (v.min(low), v.max(high)));
        let ((low_a, high_a), (low_b, high_b)) = (ends(&self.newest), ends(&self.oldest));
        i32::from(low_a) + i32::from(low_b) >= -127 && i32::from(high_a) + i32::from(high_b) <= 127
    }
}
