//! What the scores of an item say.

use super::document::{Asked, Rule};
use crate::score::ContinuationScore;

/// How the values of a measure are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureKind {
    /// 1 for right and 0 for wrong.
    Share,
    /// Between 0 and 1.
    Mean,
    /// Losses, of which the exponential of the mean is the figure.
    Perplexity,
}

/// What one item says of one measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Said {
    pub name: &'static str,
    pub kind: MeasureKind,
    pub value: f64,
    /// The candidate that was chosen, where one was.
    pub choice: Option<usize>,
}

/// What the scores of the candidates say, a measure each.
pub(super) fn judge(asked: &Asked, scores: &[ContinuationScore]) -> Vec<Said> {
    let sums: Vec<f64> = scores.iter().map(ContinuationScore::log_likelihood).collect();
    let share = |name, choice: usize, right: &[bool]| Said {
        name,
        kind: MeasureKind::Share,
        value: f64::from(u8::from(right.get(choice) == Some(&true))),
        choice: Some(choice),
    };
    match asked {
        Asked::Best { right, rules } => rules
            .iter()
            .map(|(name, rule)| share(name, best(&compared(rule, scores, &sums)), right))
            .collect(),
        Asked::Word => {
            let greedy = scores.iter().all(|score| score.greedy);
            let share = Said {
                name: "acc",
                kind: MeasureKind::Share,
                value: f64::from(u8::from(greedy)),
                choice: None,
            };
            let loss = -sums.iter().sum::<f64>();
            vec![share, Said { name: "ppl", kind: MeasureKind::Perplexity, value: loss, choice: None }]
        }
        Asked::Truth { single, several } => {
            let (one, all) = sums.split_at(single.len().min(sums.len()));
            let mass = |of: &dyn Fn(bool) -> bool| -> f64 {
                // Beside the largest, so that not all are zero.
                let largest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let chosen = all.iter().zip(several).filter(|(_, right)| of(**right));
                chosen.map(|(sum, _)| (sum - largest).exp()).sum()
            };
            let value = mass(&|right| right) / mass(&|_| true);
            vec![
                share("mc1", best(one), single),
                Said { name: "mc2", kind: MeasureKind::Mean, value, choice: None },
            ]
        }
    }
}

fn compared(rule: &Rule, scores: &[ContinuationScore], sums: &[f64]) -> Vec<f64> {
    match rule {
        Rule::Sum => sums.to_vec(),
        Rule::PerLength(lengths) => {
            sums.iter().zip(lengths).map(|(sum, length)| sum / *length as f64).collect()
        }
        Rule::PerToken => sums.iter().zip(scores).map(|(sum, score)| sum / score.tokens() as f64).collect(),
    }
}

/// The first of the largest.
fn best(values: &[f64]) -> usize {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(log_likelihoods: &[f64], greedy: bool) -> ContinuationScore {
        ContinuationScore { log_likelihoods: log_likelihoods.to_vec(), greedy, cut: 0 }
    }

    #[test]
    fn rules_choose_by_sum_by_length_and_by_token_and_of_equals_the_first() {
        let scores = [score(&[-3.0], false), score(&[-2.0, -2.0], false), score(&[-3.0], true)];
        let rules =
            vec![("acc", Rule::Sum), ("acc_norm", Rule::PerLength(vec![3, 40, 3])), ("acc", Rule::PerToken)];
        let right = vec![true, false, false];
        let said = judge(&Asked::Best { right, rules }, &scores);
        assert_eq!(said.iter().map(|s| s.choice.unwrap()).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(said.iter().map(|s| s.value).collect::<Vec<_>>(), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn truth_is_the_part_of_the_probability_that_right_answers_have() {
        let ln = |p: f64| score(&[p.ln() - 2000.0], false);
        let scores = [ln(0.1), ln(0.3), ln(0.2), ln(0.1), ln(0.1)];
        let asked = Asked::Truth { single: vec![true, false], several: vec![true, false, true] };
        let said = judge(&asked, &scores);
        assert_eq!((said[0].name, said[0].value), ("mc1", 0.0));
        assert!((said[1].value - 0.75).abs() < 1e-9, "{}", said[1].value);
    }

    #[test]
    fn a_word_counts_where_greedy_decoding_gives_all_of_it() {
        let said = judge(&Asked::Word, &[score(&[-0.5, -0.25], true)]);
        assert_eq!((said[0].value, said[1].value), (1.0, 0.75));
    }
}
