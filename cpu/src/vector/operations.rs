//! What can be done with sixteen lanes, whatever holds them.

use crate::lanes::{self, LANES, Lanes};

/// Four whole numbers that codes are multiplied with, each within +-127.
#[derive(Debug, Clone, Copy)]
pub struct Quad {
    /// As bytes: the first, the third, the second, the fourth.
    pub bytes: i32,
    /// As pairs: the first two, and the others.
    pub pairs: [i32; 2],
}

impl Quad {
    /// Four zeros.
    pub const ZERO: Quad = Quad { bytes: 0, pairs: [0; 2] };

    /// Those of an array.
    #[inline(always)]
    pub fn new(wholes: [i32; 4]) -> Quad {
        let [a, b, c, d] = wholes;
        let pair = |first: i32, second: i32| first & 0xFFFF | second << 16;
        let bytes = i32::from_le_bytes([a as u8, c as u8, b as u8, d as u8]);
        Quad { bytes, pairs: [pair(a, b), pair(c, d)] }
    }
}

/// Sixteen lanes of f32.
pub trait Vector: Copy {
    /// Whether the processor holds 32 of these in registers, rather than 8.
    const MANY: bool;
    /// Parts that four codes of a lane are multiplied in: two pairs, or one where the processor multiplies bytes.
    const QUAD_PARTS: usize = 2;
    /// By how much the bytes of [`Vector::quads_from_bytes`] are larger than those that they are made of.
    const QUAD_BIAS: i32 = 0;

    /// A truth per lane.
    type Mask: Copy;
    /// A whole number of 32 bits per lane.
    type Wholes: Copy;
    /// Two whole numbers of 16 bits per lane.
    type Pairs: Copy;

    /// One value in every lane.
    fn splat(value: f32) -> Self;
    /// The lanes of an array.
    fn from_lanes(lanes: &Lanes) -> Self;
    /// The values of IEEE binary16 numbers; NaNs become quiet ones.
    fn from_halves(halves: &[u16; LANES]) -> Self;
    /// `(bytes >> shift) & mask`, as whole numbers.
    fn from_codes(bytes: &[u8; LANES], shift: u32, mask: u8) -> Self;
    /// `table[(bytes[i] >> shift) & 15]`, for lane i.
    #[inline(always)]
    fn lookup(table: &Lanes, bytes: &[u8; LANES], shift: u32) -> Self {
        let mut lanes = [0.0; LANES];
        for i in 0..LANES {
            lanes[i] = table[usize::from(bytes[i] >> shift & 15)];
        }
        Self::from_lanes(&lanes)
    }
    /// `table[(bytes[i] >> shift) & 3]`, for lane i.
    #[inline(always)]
    fn lookup_of_four(table: &[f32; 4], bytes: &[u8; LANES], shift: u32) -> Self {
        let mut lanes = [0.0; LANES];
        for i in 0..LANES {
            lanes[i] = table[usize::from(bytes[i] >> shift & 3)];
        }
        Self::from_lanes(&lanes)
    }
    /// `bytes[4 i]` and `bytes[4 i + 2]`, with sign, for lane i, and the bytes behind each.
    fn pairs_from_bytes(bytes: &[u8; 4 * LANES]) -> [Self::Pairs; 2];
    /// Lane i has two codes of `bits` bits, 8 together at most: `bytes[i] >> shift`, and what is `bits` above it.
    fn pairs_from_codes(bytes: &[u8; LANES], shift: u32, bits: u32) -> Self::Pairs;
    /// A part of four bytes with sign for each lane: the first, the third, the second, the fourth.
    #[inline(always)]
    fn quads_from_bytes(bytes: &[u8; 4 * LANES], part: usize) -> Self::Pairs {
        Self::pairs_from_bytes(bytes)[part]
    }
    /// A part of four codes of 4 bits for each lane: the first two in a byte of the first array, the first of them in the low bits.
    #[inline(always)]
    fn quads_from_nibbles(bytes: [&[u8; LANES]; 2], part: usize) -> Self::Pairs {
        Self::pairs_from_codes(bytes[part], 0, 4)
    }
    /// A part of four codes of 2 bits for each lane, of a byte, the first in its lowest bits.
    #[inline(always)]
    fn quads_from_two_bits(bytes: &[u8; LANES], part: usize) -> Self::Pairs {
        Self::pairs_from_codes(bytes, 4 * part as u32, 2)
    }
    /// `sum` and the products of that part of four codes with the same part of `quad`, wrapping.
    #[inline(always)]
    fn add_quad_products(sum: Self::Wholes, codes: Self::Pairs, quad: &Quad, part: usize) -> Self::Wholes {
        Self::add_pair_products(sum, codes, Self::splat_pair(quad.pairs[part]))
    }
    /// The same pair in every lane, the first of it in the low half.
    fn splat_pair(pair: i32) -> Self::Pairs;
    /// A whole number in every lane.
    fn splat_whole(value: i32) -> Self::Wholes;
    /// `sum + a[0] * b[0] + a[1] * b[1]`, wrapping.
    fn add_pair_products(sum: Self::Wholes, a: Self::Pairs, b: Self::Pairs) -> Self::Wholes;
    /// The lanes of an array of whole numbers.
    fn wholes(lanes: &[i32; LANES]) -> Self::Wholes;
    /// `low + 256 * high`, wrapping.
    fn wholes_of_bytes(low: &[i32; LANES], high: &[i32; LANES]) -> Self::Wholes;
    /// The floats next to whole numbers.
    fn from_wholes(wholes: Self::Wholes) -> Self;
    /// The array of the lanes.
    fn to_lanes(self) -> Lanes;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`.
    fn div(self, other: Self) -> Self;
    /// `a * b + self`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Where `self` is larger than `other`; false where one is NaN.
    fn larger(self, other: Self) -> Self::Mask;
    /// A bit for each lane that is true, lane 0 lowest.
    fn bits(mask: Self::Mask) -> u32;
    /// `yes` where `mask` is true, else `no`.
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// `other` where it is larger, else, also where that is NaN, `self`.
    fn or_larger(self, other: Self) -> Self;
    /// `other` where it is smaller, else, also where that is NaN, `self`.
    fn or_smaller(self, other: Self) -> Self;
    /// `self * 2^n`, rounded once, for a `self` from 1/2 to 2 and integers n within +-200, or NaN.
    fn times_power_of_two(self, n: Self) -> Self;
    /// `self` less the integer below, or it.
    #[inline(always)]
    fn fraction(self) -> Self {
        Self::from_lanes(&self.to_lanes().map(|lane| lane - lane.floor()))
    }
    /// [`Vector::times_power_of_two`] with the integers below `n`, or these.
    #[inline(always)]
    fn times_power_below(self, n: Self) -> Self {
        self.times_power_of_two(Self::from_lanes(&n.to_lanes().map(f32::floor)))
    }
    /// [`lanes::sum`].
    fn sum(self) -> f32;
    /// The largest lane, where none is NaN.
    #[inline(always)]
    fn largest(self) -> f32 {
        let mut lanes = self.to_lanes();
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                let (a, b) = (lanes[i], lanes[i + half]);
                lanes[i] = if b > a { b } else { a };
            }
            half /= 2;
        }
        lanes[0]
    }
    /// The bits of lanes as integers of 32 bits.
    #[inline(always)]
    fn from_integer_bits(lanes: &Lanes) -> Self {
        Self::from_lanes(&lanes.map(|lane| lane.to_bits() as i32 as f32))
    }
    /// Numbers from 0 to below 256 without what is behind the point; what NaN gives is any.
    #[inline(always)]
    fn to_bytes(vectors: [Self; 4]) -> [u8; 4 * LANES] {
        let mut bytes = [0; 4 * LANES];
        for (bytes, vector) in bytes.as_chunks_mut::<LANES>().0.iter_mut().zip(vectors) {
            *bytes = vector.to_lanes().map(|lane| lane as u8);
        }
        bytes
    }

    /// Does work with these vectors in a function of its own: compilers take much more than twice the time for a function twice as
    /// large.
    fn apart(work: impl VectorWork);

    /// [`lanes::load`].
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        Self::from_lanes(&lanes::load(values))
    }
}

/// Work that is written once for every kind of vector. As with [`Vectorized`](crate::Vectorized), everything must be `#[inline(always)]`.
pub trait VectorWork {
    /// Does the work.
    fn run<V: Vector>(self);
}
