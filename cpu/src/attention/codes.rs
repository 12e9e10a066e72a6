//! Some values as codes of a few bits with one scale: a value is `scale * (code - center)`.
//!
//! Values come rotated, and so look like those of a normal distribution. With 4 bits the codes are -8 to 7 and the value
//! farthest from zero gets the sign of -8; with 2 bits they are -1.5, -0.5, 0.5 and 1.5. Some scales are tried and that with
//! the least squared error is taken: against the extreme alone that saves 8 % of the error with 4 bits, 14 % with 2.

use half::f16;

use super::super::lanes::{self, LANES, Lanes, largest_magnitude};
use super::KvType;

/// Most values that share a scale.
pub(super) const MOST_IN_GROUP: usize = 64;

/// Parts of the scale at which the value farthest from zero has the outermost code. The last fit values that all have one
/// size, as a rotated outlier does.
const TRIED_FOUR: [f32; 8] = [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 8.0 / 7.0];
const TRIED_TWO: [f32; 8] = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.85, 1.0];

/// Codes of so many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Eight,
    Four,
    Two,
}

impl Coding {
    /// That of a type, where it has codes.
    pub const fn of(kv_type: KvType) -> Option<Coding> {
        match kv_type {
            KvType::F32 | KvType::F16 => None,
            KvType::Q8 => Some(Coding::Eight),
            KvType::Q4 => Some(Coding::Four),
            KvType::Q2 => Some(Coding::Two),
        }
    }

    #[inline(always)]
    pub const fn bits(self) -> usize {
        match self {
            Coding::Eight => 8,
            Coding::Four => 4,
            Coding::Two => 2,
        }
    }

    /// Values that share a scale. Those of few bits lose a fifth more where 64 do, those of 8 bits next to nothing
    /// (docs/measurements/key-value-cache.md), and half as many scales are half of the work that comes with them.
    #[inline(always)]
    pub const fn group(self) -> usize {
        match self {
            Coding::Eight => MOST_IN_GROUP,
            Coding::Four | Coding::Two => 32,
        }
    }

    /// Groups of so many values. By a number that the compiler knows, for this is asked again and again.
    #[inline(always)]
    pub const fn groups(self, dim: usize) -> usize {
        match self {
            Coding::Eight => dim.div_ceil(Coding::Eight.group()),
            Coding::Four => dim.div_ceil(Coding::Four.group()),
            Coding::Two => dim.div_ceil(Coding::Two.group()),
        }
    }

    /// Codes of a byte.
    #[inline(always)]
    pub const fn per_byte(self) -> usize {
        8 / self.bits()
    }

    /// Sets the code at a bit of a byte.
    #[inline(always)]
    pub fn put(self, byte: &mut u8, bit: usize, code: u8) {
        *byte = *byte & !(self.top() << bit) | (code ^ self.flipped()) << bit;
    }

    /// The code at a bit of a byte.
    #[inline(always)]
    pub fn get(self, byte: u8, bit: usize) -> u8 {
        byte >> bit & self.top() ^ self.flipped()
    }

    /// Bits that are stored the other way round: of 8 bits the highest, so that a byte with a sign is a code less the center.
    #[inline(always)]
    const fn flipped(self) -> u8 {
        match self {
            Coding::Eight => 0x80,
            Coding::Four | Coding::Two => 0,
        }
    }

    /// The largest code.
    #[inline(always)]
    pub const fn top(self) -> u8 {
        u8::MAX >> (8 - self.bits())
    }

    /// The center of what is stored, taken as a number.
    #[inline(always)]
    pub const fn stored_center(self) -> f32 {
        self.center() - self.flipped() as f32
    }

    #[inline(always)]
    const fn center(self) -> f32 {
        match self {
            Coding::Eight => 128.0,
            Coding::Four => 8.0,
            Coding::Two => 1.5,
        }
    }

    /// Sets the codes of `values`, those of a group, and returns their scale. What is not finite makes it NaN, so that it shows.
    #[inline(always)]
    pub fn quantize<const GROUP: usize>(self, values: &[f32; GROUP], codes: &mut [u8; GROUP]) -> f16 {
        let largest = largest_magnitude(values);
        if !largest.is_finite() {
            codes.fill(0);
            return f16::NAN;
        }
        // The first of those, with its sign; of zeros none.
        let extreme = values.iter().find(|value| value.abs() == largest).map_or(0.0, |value| *value + 0.0);
        let scale = match self {
            Coding::Eight => extreme / 127.0,
            Coding::Four => self.best(values, extreme / -8.0, TRIED_FOUR),
            Coding::Two => self.best(values, extreme / -1.5, TRIED_TWO),
        };
        let scale = f16::from_f32(scale);
        let inverse = inverse(scale.to_f32());
        for (code, value) in codes.iter_mut().zip(values) {
            *code = self.code(*value, inverse) as u8;
        }
        scale
    }

    /// The best of some parts of `full`.
    #[inline(always)]
    fn best<const GROUP: usize>(self, values: &[f32; GROUP], full: f32, parts: [f32; 8]) -> f32 {
        let (mut best, mut least) = (full, f32::INFINITY);
        for part in parts {
            let scale = part * full;
            let inverse = inverse(scale);
            let mut errors: Lanes = [0.0; LANES];
            for values in values.as_chunks::<LANES>().0 {
                for (error, value) in errors.iter_mut().zip(values) {
                    let difference = scale * (self.code(*value, inverse) as f32 - self.center()) - value;
                    *error += difference * difference;
                }
            }
            let error = lanes::sum(errors);
            (best, least) = if error < least { (scale, error) } else { (best, least) };
        }
        best
    }

    /// The code whose value is next to `value`.
    #[inline(always)]
    fn code(self, value: f32, inverse: f32) -> i32 {
        // From zero up, rounding down is dropping the fraction.
        (value * inverse + (self.center() + 0.5)).clamp(0.0, f32::from(self.top())) as i32
    }
}

/// One over a scale; of none, nothing.
#[inline(always)]
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Coding; 3] = [Coding::Eight, Coding::Four, Coding::Two];

    /// A group of the first of some values.
    fn decoded(coding: Coding, values: &[f32; MOST_IN_GROUP]) -> Vec<f32> {
        match coding {
            Coding::Eight => decoded_group(coding, values),
            Coding::Four | Coding::Two => decoded_group::<32>(coding, values.first_chunk().unwrap()),
        }
    }

    fn decoded_group<const GROUP: usize>(coding: Coding, values: &[f32; GROUP]) -> Vec<f32> {
        assert_eq!(GROUP, coding.group());
        let mut codes = [0; GROUP];
        let scale = coding.quantize(values, &mut codes).to_f32();
        codes.map(|code| scale * (f32::from(code) - coding.center())).to_vec()
    }

    #[test]
    fn errors_are_those_of_the_number_of_bits() {
        // The sum of twelve uniform values is nearly normal.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let groups: Vec<[f32; MOST_IN_GROUP]> =
            (0..300).map(|_| std::array::from_fn(|_| (0..12).map(|_| uniform()).sum())).collect();
        for (coding, most) in [(Coding::Eight, 4e-5), (Coding::Four, 0.0075), (Coding::Two, 0.115)] {
            let (mut error, mut square) = (0.0, 0.0);
            for group in &groups {
                for (value, found) in group.iter().zip(decoded(coding, group)) {
                    error += f64::from(value - found).powi(2);
                    square += f64::from(*value).powi(2);
                }
            }
            assert!(error / square < most, "{coding:?}: {}", error / square);
        }
    }

    #[test]
    fn zeros_stay_zeros_and_small_or_large_values_keep_their_order_of_magnitude() {
        for coding in ALL {
            assert!(decoded(coding, &[0.0; MOST_IN_GROUP]).iter().all(|v| *v == 0.0));
            for size in [1e-3, 1.0, 1e4] {
                let found = decoded(coding, &[size; MOST_IN_GROUP]);
                assert!(found.iter().all(|v| (v / size - 1.0).abs() < 0.02), "{coding:?} {size}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_shows() {
        for coding in ALL {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
                let mut values = [1.0; MOST_IN_GROUP];
                values[7] = bad;
                assert!(!decoded(coding, &values)[7].is_finite(), "{coding:?} {bad}");
            }
        }
    }
}
