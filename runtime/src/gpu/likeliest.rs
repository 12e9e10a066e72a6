//! Which tokens a sampler can choose, found on the device: how its kernel is called, and what comes back.

use super::wgsl::likeliest::{KEPT, SLICE};
use crate::sample::Likeliest;

/// One call of the kernel: it slices `count` entries from `begin` on, and writes what the slices keep from `to` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    pub count: usize,
    pub begin: usize,
    pub to: usize,
}

impl Round {
    /// Slices, each of which a workgroup sorts.
    pub fn slices(self) -> usize {
        self.count.div_ceil(SLICE)
    }
}

/// The calls for so many logits; the first is of these themselves. In the buffer, the sums of the first one's slices come first, then
/// what the last keeps, then what others keep.
pub fn rounds(logits: usize) -> Vec<Round> {
    let sums = logits.div_ceil(SLICE);
    let mut free = sums + KEPT;
    let mut rounds = vec![Round { count: logits, begin: 0, to: sums }];
    while let Some(last) = rounds.last_mut().filter(|last| last.slices() > 1) {
        last.to = free;
        let count = last.slices() * KEPT;
        free += count;
        let begin = last.to;
        rounds.push(Round { count, begin, to: sums });
    }
    rounds
}

/// Entries of the buffer for so many logits.
pub fn entries(logits: usize) -> usize {
    rounds(logits).iter().map(|round| round.to + round.slices() * KEPT).max().unwrap_or(0)
}

/// Words of it that are read back.
pub fn words_back(logits: usize) -> usize {
    2 * (logits.div_ceil(SLICE) + KEPT)
}

/// What the words that were read back say.
pub fn parse(words: &[u32], logits: usize) -> Likeliest {
    let (pairs, _) = words.as_chunks::<2>();
    let (sums, kept) = pairs.split_at(logits.div_ceil(SLICE));
    let tokens: Vec<(u32, f32)> =
        kept.iter().filter(|[key, _]| *key > 0).map(|[key, token]| (*token, logit(*key))).collect();
    let best = tokens.first().map_or(0.0, |(_, logit)| f64::from(*logit));
    let total = sums
        .iter()
        .filter(|[key, _]| *key > 0)
        .map(|[key, sum]| f64::from(f32::from_bits(*sum)) * libm::exp(f64::from(logit(*key)) - best))
        .sum();
    Likeliest { is_all: tokens.len() < KEPT, tokens, total }
}

/// The logit of a key, as in the kernel.
fn logit(key: u32) -> f32 {
    f32::from_bits(if key >= 0x8000_0000 { key & 0x7fff_ffff } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_with_one_slice_and_write_nothing_that_is_still_read() {
        for logits in [1, 150, 2048, 2049, 50_000, 128_256, 262_144] {
            let (rounds, sums) = (rounds(logits), logits.div_ceil(SLICE));
            let last = rounds.last().unwrap();
            assert_eq!((last.slices(), last.to), (1, sums), "{logits}");
            for pair in rounds.windows(2) {
                let kept = pair[0].slices() * KEPT;
                assert_eq!((pair[1].begin, pair[1].count), (pair[0].to, kept));
                assert!(pair[0].to >= sums + KEPT);
                assert!(
                    pair[1].to + pair[1].slices() * KEPT <= pair[1].begin
                        || pair[1].to >= pair[1].begin + kept
                );
                assert!(pair[0].to + kept <= entries(logits));
            }
            assert!(words_back(logits) <= 2 * entries(logits));
        }
    }
}
