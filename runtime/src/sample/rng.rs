//! A seeded generator whose numbers never change: a seed in a bug report must give the same text in every version and on
//! every machine, which no generator of a library promises.

/// xoshiro256++ 1.0, seeded through SplitMix64 as its authors recommend (D. Blackman and S. Vigna, "Scrambled Linear
/// Pseudorandom Number Generators", ACM TOMS 47, 2021; G. Steele, D. Lea and C. Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for this seed; every seed is as good as any other.
    pub fn new(seed: u64) -> Rng {
        let mut counter = seed;
        Rng { state: std::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// The next number from 0 to just below 1, in steps of 2^-53.
    pub fn next_f64(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * STEP
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_of_both_generators_come_out() {
        let mut counter = 1_234_567;
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([(); 3].map(|()| split_mix(&mut counter)), expected);

        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        assert_eq!([(); 5].map(|()| rng.next_u64()), expected);
    }

    #[test]
    fn floats_lie_in_the_half_open_unit_interval_and_fill_it() {
        let mut rng = Rng::new(0);
        let numbers: Vec<f64> = (0..10_000).map(|_| rng.next_f64()).collect();
        assert!(numbers.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = numbers.iter().sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
