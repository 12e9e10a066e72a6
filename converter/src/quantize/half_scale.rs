//! Rounding to binary16 inside `f32` arithmetic. A search tries dozens of scales per block; going through the integer
//! form each time would cost more than the search.

/// A scale, a min or an f16 value would leave the finite range of binary16. Nothing is saturated: the caller stores the
/// tensor in a type with the range of f32 instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("values need a scale beyond the range of f16")]
pub struct ScaleOverflow;

/// The binary16 value nearest to `v`, ties to even, as `half::f16::from_f32` rounds it; infinite from 65520 on.
///
/// Adding and subtracting the power of two whose `f32` spacing is the binary16 spacing at `v` rounds to that spacing;
/// below 2^-14 the spacing of binary16 stays 2^-24.
#[inline(always)]
pub(super) fn round_to_f16(v: f32) -> f32 {
    let magnitude = v.abs();
    if magnitude.is_nan() || magnitude >= 65520.0 {
        return v * f32::INFINITY;
    }
    let exponent = (magnitude.to_bits() & 0x7F80_0000).max(113 << 23);
    let shift = f32::from_bits(exponent + (13 << 23));
    ((magnitude + shift) - shift).copysign(v)
}

/// The number nearest to `v` that has only the upper half of the bits of an `f32`, ties to even; infinite beyond its range.
#[inline(always)]
pub(super) fn round_to_bf16(v: f32) -> f32 {
    if v.is_nan() {
        return v;
    }
    let bits = v.to_bits();
    f32::from_bits(bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000)
}

/// Distance from the binary16 value `v` to the next one away from zero.
#[inline(always)]
pub(super) fn f16_spacing(v: f32) -> f32 {
    let exponent = (v.abs().to_bits() & 0x7F80_0000).max(113 << 23);
    f32::from_bits(exponent - (10 << 23))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn a_rounded_scale_is_the_one_that_the_file_will_hold() {
        for bits in (0..=u32::MAX).step_by(4099) {
            let v = f32::from_bits(bits);
            if !v.is_nan() {
                assert_eq!(round_to_f16(v).to_bits(), f16::from_f32(v).to_f32().to_bits(), "{v:e}");
                assert_eq!(round_to_bf16(v).to_bits(), bf16::from_f32(v).to_f32().to_bits(), "{v:e}");
            }
        }
    }

    #[test]
    fn values_halfway_between_two_halves_go_to_the_even_one() {
        for bits in 0..0x7BFFu16 {
            let (low, high) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
            let middle = low + (high - low) / 2.0;
            assert_eq!(round_to_f16(middle), f16::from_f32(middle).to_f32());
            assert_eq!(low + f16_spacing(low), high);
        }
    }
}
