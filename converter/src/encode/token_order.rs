//! Which tokens come most often: their rows matter most.

/// How often tokens occur in a text, as an order of the vocabulary.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenOrder(Vec<u32>);

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
        TokenOrder(order)
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.0
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
}
