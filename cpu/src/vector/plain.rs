//! An array as a vector: what every processor runs, and what the others must equal to the bit. Plain loops over places, as iterators
//! over arrays become sixteen times the code.

use super::operations::{Vector, VectorWork};
use crate::float16::f16_to_f32;
use crate::lanes::{self, LANES, Lanes};
use crate::power_of_two;

impl Vector for Lanes {
    const MANY: bool = false;
    /// All bits of a lane or none, so that the compiler finds vectors for it.
    type Mask = [u32; LANES];
    type Wholes = [i32; LANES];
    type Pairs = [[i16; 2]; LANES];

    #[inline(always)]
    fn splat(value: f32) -> Self {
        [value; LANES]
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        *lanes
    }

    #[inline(always)]
    fn from_halves(halves: &[u16; LANES]) -> Self {
        halves.map(f16_to_f32)
    }

    #[inline(always)]
    fn from_codes(bytes: &[u8; LANES], shift: u32, mask: u8) -> Self {
        bytes.map(|byte| ((u32::from(byte) >> shift) & u32::from(mask)) as f32)
    }

    #[inline(always)]
    fn pairs_from_bytes(bytes: &[u8; 4 * LANES]) -> [Self::Pairs; 2] {
        let (mut first, mut second) = ([[0; 2]; LANES], [[0; 2]; LANES]);
        for (i, quad) in bytes.as_chunks::<4>().0.iter().enumerate() {
            let [a, b, c, d] = quad.map(|byte| i16::from(byte.cast_signed()));
            (first[i], second[i]) = ([a, c], [b, d]);
        }
        [first, second]
    }

    #[inline(always)]
    fn pairs_from_codes(bytes: &[u8; LANES], shift: u32, bits: u32) -> Self::Pairs {
        let top = (1 << bits) - 1;
        bytes.map(|byte| [i16::from(byte) >> shift & top, i16::from(byte) >> (shift + bits) & top])
    }

    #[inline(always)]
    fn splat_pair(pair: i32) -> Self::Pairs {
        [[pair as i16, (pair >> 16) as i16]; LANES]
    }

    #[inline(always)]
    fn splat_whole(value: i32) -> Self::Wholes {
        [value; LANES]
    }

    #[inline(always)]
    fn add_pair_products(mut sum: Self::Wholes, a: Self::Pairs, b: Self::Pairs) -> Self::Wholes {
        for i in 0..LANES {
            let product = |half: usize| i32::from(a[i][half]) * i32::from(b[i][half]);
            sum[i] = sum[i].wrapping_add(product(0).wrapping_add(product(1)));
        }
        sum
    }

    #[inline(always)]
    fn wholes(lanes: &[i32; LANES]) -> Self::Wholes {
        *lanes
    }

    #[inline(always)]
    fn wholes_of_bytes(low: &[i32; LANES], high: &[i32; LANES]) -> Self::Wholes {
        let mut wholes = [0; LANES];
        for i in 0..LANES {
            wholes[i] = low[i].wrapping_add(high[i] << 8);
        }
        wholes
    }

    #[inline(always)]
    fn from_wholes(wholes: Self::Wholes) -> Self {
        wholes.map(|whole| whole as f32)
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        self
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] += other[i];
        }
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] -= other[i];
        }
        self
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] *= other[i];
        }
        self
    }

    #[inline(always)]
    fn div(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] /= other[i];
        }
        self
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        let mut mask = [0; LANES];
        for i in 0..LANES {
            mask[i] = if self[i] > other[i] { u32::MAX } else { 0 };
        }
        mask
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        let mut bits = 0;
        for (i, lane) in mask.iter().enumerate() {
            bits |= (lane & 1) << i;
        }
        bits
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, mut no: Self) -> Self {
        for i in 0..LANES {
            no[i] = f32::from_bits((yes[i].to_bits() & mask[i]) | (no[i].to_bits() & !mask[i]));
        }
        no
    }

    #[inline(always)]
    fn or_larger(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] = if other[i] > self[i] { other[i] } else { self[i] };
        }
        self
    }

    #[inline(always)]
    fn or_smaller(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self[i] = if other[i] < self[i] { other[i] } else { self[i] };
        }
        self
    }

    #[inline(always)]
    fn times_power_of_two(mut self, n: Self) -> Self {
        for i in 0..LANES {
            self[i] = power_of_two::times_power_of_two(self[i], n[i]);
        }
        self
    }

    // Where not every processor has an instruction for it, one function, that asks for it.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn fma(mut self, a: Self, b: Self) -> Self {
        if is_x86_feature_detected!("fma") {
            // SAFETY: as has just been asked.
            unsafe { fuse(&mut self, &a, &b) };
        } else {
            lanes::mul_add(&mut self, &a, &b);
        }
        self
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn fma(mut self, a: Self, b: Self) -> Self {
        lanes::mul_add(&mut self, &a, &b);
        self
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        lanes::sum(self)
    }

    #[inline(never)]
    fn apart(work: impl VectorWork) {
        work.run::<Lanes>();
    }
}

/// [`lanes::mul_add`], which rounds once with the instruction and without.
///
/// # Safety
/// The processor must have FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
unsafe fn fuse(acc: &mut Lanes, a: &Lanes, b: &Lanes) {
    lanes::mul_add(acc, a, b);
}
