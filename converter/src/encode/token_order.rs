//! Which tokens come most often: their rows matter most.

use std::ops::Range;

/// How often tokens occur in a text, as an order of the vocabulary.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenOrder {
    /// The most frequent first.
    tokens: Vec<u32>,
    /// How often each of these occurs.
    counts: Vec<u32>,
}

impl TokenOrder {
    /// The most frequent first; of those that are as frequent, that of the lower number, as vocabularies list frequent tokens first.
    pub fn of(tokens: &[u32], vocab: usize) -> TokenOrder {
        let mut counts = vec![0u32; vocab];
        for token in tokens {
            if let Some(count) = counts.get_mut(*token as usize) {
                *count += 1;
            }
        }
        let mut order: Vec<u32> = (0..vocab as u32).collect();
        order.sort_by_key(|token| std::cmp::Reverse(counts[*token as usize]));
        let counts = order.iter().map(|token| counts[*token as usize]).collect();
        TokenOrder { tokens: order, counts }
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How large a part of another text of the same kind the tokens at `places` are likely to be: tokens that do not occur have together
    /// the part of those that occur once (Good, Biometrika 40, 1953), in even shares.
    pub fn part(&self, places: Range<usize>) -> f64 {
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let seen = self.counts.partition_point(|count| *count > 0);
        let unseen = self.counts.len() - seen;
        if all == 0 {
            return places.len() as f64 / self.counts.len().max(1) as f64;
        }
        let once = self.counts[..seen].iter().filter(|count| **count == 1).count();
        let left = if unseen == 0 { 0.0 } else { once as f64 / all as f64 };
        let read: u64 = self.counts[places.clone()].iter().map(|count| u64::from(*count)).sum();
        let never = places.end.max(seen) - places.start.max(seen);
        (1.0 - left) * read as f64 / all as f64 + left * never as f64 / unseen.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_in_the_order_of_how_often_they_occur_and_then_of_their_numbers() {
        let order = TokenOrder::of(&[3, 1, 3, 9, 2, 2, 3], 6);
        assert_eq!(order.tokens(), [3, 2, 1, 0, 4, 5]);
    }

    #[test]
    fn tokens_that_do_not_occur_are_expected_as_often_as_those_that_occur_once() {
        let order = TokenOrder::of(&[3, 1, 3, 2, 2, 3], 6);
        // 1 of 6 is left for three tokens.
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        near(order.part(0..1), 5.0 / 6.0 * 0.5);
        near(order.part(2..4), 5.0 / 6.0 / 6.0 + 1.0 / 18.0);
        near(order.part(4..6), 1.0 / 9.0);
        near(order.part(0..6), 1.0);
        near(TokenOrder::of(&[], 8).part(2..4), 0.25);
        near(TokenOrder::of(&[0, 1], 2).part(0..1), 0.5);
    }
}
