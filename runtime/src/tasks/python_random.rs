//! The random numbers of Python's `random.Random(seed)`, as far as `sample` needs them: lm-evaluation-harness draws examples by
//! them, and other examples would be other prompts.
//!
//! The generator is the Mersenne Twister (Matsumoto and Nishimura 1998, MT19937). How `sample` uses it is in Python's
//! documentation and its `Lib/random.py`.

use std::collections::BTreeSet;

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// A generator.
#[derive(Debug, Clone)]
pub(super) struct PythonRandom {
    state: Vec<u32>,
    next: usize,
}

impl PythonRandom {
    /// `random.Random(seed)`.
    pub fn new(seed: u32) -> PythonRandom {
        let mut state = vec![0_u32; WORDS];
        state[0] = 19_650_218;
        for i in 1..WORDS {
            state[i] = mixed(state[i - 1], 1_812_433_253).wrapping_add(i as u32);
        }
        // Seeding by a key of one word. The first two words are treated twice each, as the round ends at the second.
        let mut i = 1;
        let mut step = |state: &mut Vec<u32>, factor: u32, add: &dyn Fn(usize) -> u32| {
            state[i] = (state[i] ^ mixed(state[i - 1], factor)).wrapping_add(add(i));
            i += 1;
            if i == WORDS {
                state[0] = state[WORDS - 1];
                i = 1;
            }
        };
        for _ in 0..WORDS {
            step(&mut state, 1_664_525, &|_| seed);
        }
        for _ in 1..WORDS {
            step(&mut state, 1_566_083_941, &|i| (i as u32).wrapping_neg());
        }
        state[0] = 1 << 31;
        PythonRandom { state, next: WORDS }
    }

    /// Indices of `count` of `all`, which are at least as many: `sample(range(all), count)`.
    pub fn sample(&mut self, all: usize, count: usize) -> Vec<usize> {
        let count = count.min(all);
        // A list of all is made where it takes no more than a set of those chosen.
        let mut set_size = 21;
        if count > 5 {
            let mut power = 4;
            while power < 3 * count {
                power *= 4;
            }
            set_size += power;
        }
        if all <= set_size {
            let mut pool: Vec<usize> = (0..all).collect();
            return (0..count)
                .map(|i| {
                    let last = all - i - 1;
                    let at = self.below(all - i);
                    let chosen = pool[at];
                    pool[at] = pool[last];
                    chosen
                })
                .collect();
        }
        let mut seen = BTreeSet::new();
        (0..count)
            .map(|_| {
                loop {
                    let chosen = self.below(all);
                    if seen.insert(chosen) {
                        break chosen;
                    }
                }
            })
            .collect()
    }

    /// A number below `limit`, each as likely as any other.
    fn below(&mut self, limit: usize) -> usize {
        let bits = usize::BITS - limit.leading_zeros();
        loop {
            let number = (self.word() >> (32 - bits.clamp(1, 32))) as usize;
            if number < limit.max(1) {
                return number;
            }
        }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn refill(&mut self) {
        for i in 0..WORDS {
            let upper = self.state[i] & (1 << 31);
            let joined = upper | (self.state[(i + 1) % WORDS] & !(1 << 31));
            let twisted = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % WORDS] ^ (joined >> 1) ^ twisted;
        }
        self.next = 0;
    }
}

fn mixed(word: u32, factor: u32) -> u32 {
    (word ^ (word >> 30)).wrapping_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    // python3 -c "import random; r = random.Random(1234); print([r.sample(range(20), 3), ...])"
    #[test]
    fn samples_are_those_of_python() {
        let mut random = PythonRandom::new(1234);
        assert_eq!(random.sample(20, 3), [14, 3, 0]);
        assert_eq!(random.sample(200, 6), [23, 149, 8, 171, 177, 21]);
        assert_eq!(random.sample(40000, 6), [6450, 23241, 15519, 1142, 2019, 1038]);
        assert_eq!(random.sample(1000, 5), [354, 663, 638, 495, 630]);
        assert_eq!(
            random.sample(30, 26),
            [14, 4, 2, 5, 22, 3, 0, 16, 15, 7, 27, 17, 29, 19, 25, 8, 9, 23, 28, 18, 1, 11, 20, 6, 21, 26]
        );
        assert_eq!(random.sample(85, 6), [31, 83, 25, 58, 67, 2]);
        assert_eq!(random.sample(86, 6), [65, 9, 0, 42, 18, 60]);
        let mut random = PythonRandom::new(0);
        assert_eq!(random.sample(100_000, 300)[299], 21715);
        assert_eq!(random.sample(100_000, 300)[299], 23851);
        assert_eq!(random.sample(100_000, 300)[299], 2833);
    }
}
