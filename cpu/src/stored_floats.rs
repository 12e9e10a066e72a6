//! Sixteen stored floats as a vector, for loops that decode them in registers.
//!
//! Types with a method, not closures: a closure is compiled for no instruction set in particular, and would be called for each vector.

use super::float16::bf16_to_f32;
use super::lanes::{LANES, Lanes};
use super::vector::Vector;

/// A float type, of whose values so many bytes are 16.
pub(super) trait StoredFloats<const BYTES: usize> {
    /// The values of little-endian bytes.
    fn read<V: Vector>(bytes: &[u8; BYTES]) -> V;
}

/// F16.
pub(super) struct Halves;
/// BF16.
pub(super) struct Bf16s;
/// F32.
pub(super) struct Singles;

impl StoredFloats<{ 2 * LANES }> for Halves {
    #[inline(always)]
    fn read<V: Vector>(bytes: &[u8; 2 * LANES]) -> V {
        V::from_halves(&pairs(bytes))
    }
}

impl StoredFloats<{ 2 * LANES }> for Bf16s {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
    fn read<V: Vector>(bytes: &[u8; 2 * LANES]) -> V {
        let pairs = pairs(bytes);
        let mut floats = [0.0; LANES];
        for i in 0..LANES {
            floats[i] = bf16_to_f32(pairs[i]);
        }
        V::from_lanes(&floats)
    }
}

impl StoredFloats<{ 4 * LANES }> for Singles {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
    fn read<V: Vector>(bytes: &[u8; 4 * LANES]) -> V {
        let mut floats: Lanes = [0.0; LANES];
        for i in 0..LANES {
            let at = 4 * i;
            floats[i] = f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        }
        V::from_lanes(&floats)
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see `float_dot::dots`")]
fn pairs(bytes: &[u8; 2 * LANES]) -> [u16; LANES] {
    let mut pairs = [0; LANES];
    for i in 0..LANES {
        pairs[i] = u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
    }
    pairs
}
