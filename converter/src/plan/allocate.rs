//! Which type each tensor gets when a file may have so many bytes: a multiple-choice knapsack.
//!
//! Damage is taken to add up over tensors, which holds at medium bits (the linearity theorem of HIGGS, arXiv 2411.17525);
//! then the best choice under a bound on the bytes is a knapsack with one choice per tensor, solved by dynamic programming
//! over bytes in steps fine enough that rounding costs next to nothing, and the bytes that rounding left are spent last.

/// One way to store a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Damage to the model, in any unit that adds up.
    pub damage: f64,
}

/// Steps that bytes are counted in.
const STEPS: usize = 1 << 15;

/// The choice of each item with the least sum of damage whose bytes together are at most `budget`; `None` when even the
/// smallest choices exceed it. Ties go to the choice that comes first.
///
/// # Panics
/// When an item has no choice.
pub fn allocate(items: &[Vec<Choice>], budget: u64) -> Option<Vec<usize>> {
    let smallest: Vec<u64> = items
        .iter()
        .map(|choices| choices.iter().map(|c| c.bytes).min().expect("an item has a choice"))
        .collect();
    let spare = budget.checked_sub(smallest.iter().sum())?;
    // More than every tensor's largest choice needs is never spent.
    let most: u64 = items
        .iter()
        .zip(&smallest)
        .map(|(choices, least)| choices.iter().map(|c| c.bytes - least).max().unwrap_or(0))
        .sum();
    let step = spare.min(most).div_ceil(STEPS as u64).max(1);
    let room = (spare.min(most) / step) as usize;
    let chosen = knapsack(items, &smallest, step, room);
    Some(spend_rest(items, chosen, budget))
}

/// Bytes above the smallest choice count in whole steps, rounded up, so that the result never exceeds the room.
fn knapsack(items: &[Vec<Choice>], smallest: &[u64], step: u64, room: usize) -> Vec<usize> {
    let mut least = vec![0.0; room + 1];
    let mut picked: Vec<Vec<u16>> = Vec::with_capacity(items.len());
    for (choices, &base) in items.iter().zip(smallest) {
        let mut next = vec![f64::INFINITY; room + 1];
        let mut pick = vec![u16::MAX; room + 1];
        for (k, choice) in choices.iter().enumerate() {
            let cost = (choice.bytes - base).div_ceil(step) as usize;
            for used in cost..=room {
                let damage = least[used - cost] + choice.damage;
                if damage < next[used] {
                    (next[used], pick[used]) = (damage, k as u16);
                }
            }
        }
        least = next;
        picked.push(pick);
    }
    let mut used = room;
    let mut chosen = vec![0; items.len()];
    for (i, pick) in picked.iter().enumerate().rev() {
        let k = usize::from(pick[used]);
        chosen[i] = k;
        used -= (items[i][k].bytes - smallest[i]).div_ceil(step) as usize;
    }
    chosen
}

/// Better choices for single items as long as one fits: the most damage avoided per byte first.
fn spend_rest(items: &[Vec<Choice>], mut chosen: Vec<usize>, budget: u64) -> Vec<usize> {
    let mut bytes: u64 = items.iter().zip(&chosen).map(|(choices, k)| choices[*k].bytes).sum();
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (i, choices) in items.iter().enumerate() {
            let now = choices[chosen[i]];
            for (k, other) in choices.iter().enumerate() {
                if other.damage >= now.damage || bytes - now.bytes + other.bytes > budget {
                    continue;
                }
                let gain = (now.damage - other.damage) / other.bytes.saturating_sub(now.bytes).max(1) as f64;
                if best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, i, k));
                }
            }
        }
        let Some((_, i, k)) = best else { return chosen };
        bytes = bytes - items[i][chosen[i]].bytes + items[i][k].bytes;
        chosen[i] = k;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(choices: &[(u64, f64)]) -> Vec<Choice> {
        choices.iter().map(|&(bytes, damage)| Choice { bytes, damage }).collect()
    }

    fn total(items: &[Vec<Choice>], chosen: &[usize]) -> (u64, f64) {
        items.iter().zip(chosen).fold((0, 0.0), |(b, d), (item, k)| (b + item[*k].bytes, d + item[*k].damage))
    }

    /// The best of all combinations.
    fn exhaustive(items: &[Vec<Choice>], budget: u64) -> f64 {
        let Some((first, rest)) = items.split_first() else { return 0.0 };
        let fits = first.iter().filter(|c| c.bytes <= budget);
        fits.map(|c| c.damage + exhaustive(rest, budget - c.bytes)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn no_other_combination_within_the_budget_is_better() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let items: Vec<Vec<Choice>> = (0..6)
                .map(|_| (0..4).map(|_| (10 + random(90), random(1000) as f64)).collect::<Vec<_>>())
                .map(|choices| item(&choices))
                .collect();
            let budget = 60 + random(400);
            let best = exhaustive(&items, budget);
            match allocate(&items, budget) {
                None => assert_eq!(best, f64::INFINITY),
                Some(chosen) => {
                    let (bytes, damage) = total(&items, &chosen);
                    assert!(bytes <= budget);
                    assert_eq!(damage, best);
                }
            }
        }
    }

    #[test]
    fn sizes_far_above_the_number_of_steps_still_fill_the_budget() {
        // 500 tensors of 1 to 9 million weights at 2, 3, 4 bits: rounding may not waste more than a thousandth.
        let items: Vec<Vec<Choice>> = (0..500u64)
            .map(|i| {
                let weights = 1_000_000 + i * 16_127;
                let damage = |bits: i32| (1 + i % 7) as f64 * weights as f64 * 4f64.powi(-bits);
                item(&[2, 3, 4].map(|bits| (weights * bits as u64 / 8, damage(bits))))
            })
            .collect();
        let all: u64 = items.iter().map(|choices| choices[2].bytes).sum();
        for budget in [all * 5 / 8, all * 3 / 4, all * 9 / 10] {
            let (bytes, _) = total(&items, &allocate(&items, budget).unwrap());
            assert!(bytes <= budget && bytes > budget / 1000 * 999, "{bytes} of {budget}");
        }
        assert_eq!(total(&items, &allocate(&items, u64::MAX).unwrap()).0, all);
        let least: u64 = items.iter().map(|choices| choices[0].bytes).sum();
        assert_eq!(total(&items, &allocate(&items, least).unwrap()).0, least);
        assert_eq!(allocate(&items, least - 1), None);
    }
}
