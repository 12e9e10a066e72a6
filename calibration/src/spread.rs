//! A part of a text that stands for all of it.

/// At most `count` chunks of `chunk` tokens, evenly spread over `tokens`; all tokens where those are no more. Texts of
/// several kinds follow one another, so that the beginning alone would be of the first.
///
/// # Panics
/// When `chunk` or `count` is 0.
pub fn spread(tokens: &[u32], chunk: usize, count: usize) -> Vec<u32> {
    assert!(chunk > 0 && count > 0, "nothing to spread");
    let chunks = tokens.len() / chunk;
    if chunks < count || tokens.len() == chunk * count {
        return tokens.to_vec();
    }
    (0..count).flat_map(|i| &tokens[i * chunks / count * chunk..][..chunk]).copied().collect()
}

/// `tokens` in two parts: at most `count` chunks of `chunk` tokens, evenly spread over them, and all others. What is measured on the
/// first knows nothing of what was learned of the second.
///
/// # Panics
/// When `chunk` or `count` is 0.
pub fn set_aside(tokens: &[u32], chunk: usize, count: usize) -> (Vec<u32>, Vec<u32>) {
    assert!(chunk > 0 && count > 0, "nothing to set aside");
    let chunks = tokens.len() / chunk;
    let count = count.min(chunks);
    let starts = (0..count).map(|i| i * chunks / count * chunk);
    let (mut aside, mut rest, mut next) = (Vec::new(), Vec::new(), 0);
    for start in starts {
        rest.extend_from_slice(&tokens[next..start]);
        next = start + chunk;
        aside.extend_from_slice(&tokens[start..next]);
    }
    rest.extend_from_slice(&tokens[next..]);
    (aside, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_is_not_heard() {
        let tokens: Vec<u32> = (0..1003).collect();
        let (aside, rest) = set_aside(&tokens, 10, 4);
        assert_eq!(aside.chunks(10).map(|chunk| chunk[0]).collect::<Vec<u32>>(), [0, 250, 500, 750]);
        assert_eq!((aside.len(), rest.len()), (40, 963));
        assert!(!rest.iter().any(|token| aside.contains(token)));
        assert_eq!(set_aside(&tokens[..25], 10, 4), ((0..20).collect(), (20..25).collect()));
    }

    #[test]
    fn every_part_of_the_text_is_heard() {
        let tokens: Vec<u32> = (0..1003).collect();
        let heard = spread(&tokens, 10, 4);
        let starts: Vec<u32> = heard.chunks(10).map(|chunk| chunk[0]).collect();
        assert_eq!(starts, [0, 250, 500, 750]);
        assert!(heard.chunks(10).all(|chunk| chunk.windows(2).all(|pair| pair[1] == pair[0] + 1)));
        assert_eq!(spread(&tokens, 10, 100).len(), 1000);
        assert_eq!(spread(&tokens, 10, 101), tokens);
        assert_eq!(spread(&tokens[..5], 10, 1), tokens[..5]);
    }
}
