//! Types without blocks: f16, bf16 and f32, little-endian, rounded to the nearest with ties to even.

use half::{bf16, f16};
use qsf_runtime::cpu::Vectorized;

use super::half_scale::ScaleOverflow;

/// Writes values as f16, 2 bytes each.
pub(super) struct ToF16<'a>(pub &'a [f32], pub &'a mut [u8]);

impl Vectorized for ToF16<'_> {
    type Output = Result<(), ScaleOverflow>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        // 65520 is halfway between the largest finite f16 and the first power of two beyond; it rounds to infinity.
        let mut overflow = false;
        for (v, out) in self.0.iter().zip(self.1.as_chunks_mut().0) {
            overflow |= v.abs() >= 65520.0;
            *out = f16::from_f32(*v).to_le_bytes();
        }
        if overflow { Err(ScaleOverflow) } else { Ok(()) }
    }
}

/// Writes values as bf16, 2 bytes each. Values that round beyond the largest finite bf16 are kept finite: bf16 is the
/// type that others are promoted to, and 2^-8 of relative error there is what it has everywhere.
pub(super) struct ToBf16<'a>(pub &'a [f32], pub &'a mut [u8]);

impl Vectorized for ToBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (v, out) in self.0.iter().zip(self.1.as_chunks_mut().0) {
            let bits = v.to_bits();
            let rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
            // Finite values carry at most into the infinity of their sign, one above the largest finite.
            let finite = rounded - u32::from(rounded & 0x7FFF == 0x7F80);
            *out = bf16::from_bits(finite as u16).to_le_bytes();
        }
    }
}

/// Writes values as f32, 4 bytes each.
pub(super) struct ToF32<'a>(pub &'a [f32], pub &'a mut [u8]);

impl Vectorized for ToF32<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (v, out) in self.0.iter().zip(self.1.as_chunks_mut().0) {
            *out = v.to_le_bytes();
        }
    }
}
