//! An array as a vector: what every processor runs, and what the others must equal to the bit.

use super::operations::Vector;
use crate::float16::f16_to_f32;
use crate::lanes::{self, LANES, Lanes};
use crate::power_of_two;

impl Vector for Lanes {
    const MANY: bool = false;
    type Mask = [bool; LANES];
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
    fn pairs_from_bytes(bytes: &[u8; 2 * LANES]) -> Self::Pairs {
        let mut pairs = [[0; 2]; LANES];
        for (pair, bytes) in pairs.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *pair = bytes.map(i16::from);
        }
        pairs
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
    fn from_wholes(wholes: Self::Wholes) -> Self {
        wholes.map(|whole| whole as f32)
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        self
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a += b;
        }
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a -= b;
        }
        self
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a *= b;
        }
        self
    }

    #[inline(always)]
    fn div(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a /= b;
        }
        self
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        let mut mask = [false; LANES];
        for i in 0..LANES {
            mask[i] = self[i] > other[i];
        }
        mask
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        (0..LANES).map(|lane| u32::from(mask[lane]) << lane).sum()
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, mut no: Self) -> Self {
        for i in 0..LANES {
            no[i] = if mask[i] { yes[i] } else { no[i] };
        }
        no
    }

    #[inline(always)]
    fn or_larger(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a = if b > *a { b } else { *a };
        }
        self
    }

    #[inline(always)]
    fn times_power_of_two(mut self, n: Self) -> Self {
        for (a, n) in self.iter_mut().zip(n) {
            *a = power_of_two::times_power_of_two(*a, n);
        }
        self
    }

    #[inline(always)]
    fn fma(mut self, a: Self, b: Self) -> Self {
        lanes::mul_add(&mut self, &a, &b);
        self
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        lanes::sum(self)
    }
}
