//! How far predictions are from what they should be, and the gradient of that at logits.

use qsf_runtime::cpu::math::{log_sum_exp, softmax_in_place};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::eval::divergence;

/// What rows of logits should predict.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// A token each.
    Tokens(&'a [u32]),
    /// What these logits predict.
    Logits(&'a [f32]),
    /// For each row a token that its own logits draw, by a number in 0..1.
    Drawn(&'a [f64]),
}

/// What a value costs, in multiply-adds of matrices.
const WORK: usize = 64;

/// The sum of the loss over rows of logits. `gradients`, at first the logits again, become the gradients of the mean over
/// `count` rows, unless they are empty.
pub(super) fn loss(
    cpu: &Cpu,
    (logits, vocab): (&[f32], usize),
    wanted: Wanted<'_>,
    gradients: &mut [f32],
    count: usize,
) -> f64 {
    let isa = cpu.isa();
    let rows = logits.len() / vocab;
    let by = (1.0 / count as f64) as f32;
    // A value of f64 in two of f32.
    let mut values = vec![0.0; 2 * rows];
    let one = |row: usize, value: &mut [f32], gradient: Option<&mut [f32]>| {
        let logits = &logits[row * vocab..][..vocab];
        let nll = |token: usize| log_sum_exp(isa, logits) - f64::from(logits[token]);
        let loss = match wanted {
            Wanted::Tokens(tokens) => nll(tokens[row] as usize),
            Wanted::Drawn(numbers) => nll(drawn(isa, logits, numbers[row])),
            Wanted::Logits(other) => divergence(isa, &other[row * vocab..][..vocab], logits),
        };
        value[0] = loss as f32;
        value[1] = (loss - f64::from(value[0])) as f32;
        if let Some(gradient) = gradient {
            gradient_of_row(isa, wanted, row, gradient);
            gradient.iter_mut().for_each(|value| *value *= by);
        }
    };
    if gradients.is_empty() {
        cpu.for_each_rows([(&mut values, 2)], WORK * vocab, |first, [values]| {
            values.chunks_exact_mut(2).zip(first..).for_each(|(value, row)| one(row, value, None));
        });
    } else {
        cpu.for_each_rows([(&mut values, 2), (gradients, vocab)], WORK * vocab, |first, [values, all]| {
            let rows = values.chunks_exact_mut(2).zip(all.chunks_exact_mut(vocab));
            rows.zip(first..).for_each(|((value, gradient), row)| one(row, value, Some(gradient)));
        });
    }
    values.iter().map(|value| f64::from(*value)).sum()
}

/// `gradient` holds logits: probabilities less those that are wanted.
fn gradient_of_row(isa: Isa, wanted: Wanted<'_>, row: usize, gradient: &mut [f32]) {
    let token = match wanted {
        Wanted::Drawn(numbers) => drawn(isa, gradient, numbers[row]),
        Wanted::Tokens(tokens) => tokens[row] as usize,
        Wanted::Logits(_) => 0,
    };
    softmax_in_place(isa, gradient);
    match wanted {
        Wanted::Tokens(_) | Wanted::Drawn(_) => gradient[token] -= 1.0,
        Wanted::Logits(other) => {
            let mut probabilities = other[row * gradient.len()..][..gradient.len()].to_vec();
            softmax_in_place(isa, &mut probabilities);
            gradient.iter_mut().zip(&probabilities).for_each(|(value, p)| *value -= p);
        }
    }
}

/// The token that `logits` draw by `number`: the first whose probability and those of all before it exceed that.
fn drawn(isa: Isa, logits: &[f32], number: f64) -> usize {
    let mut probabilities = logits.to_vec();
    softmax_in_place(isa, &mut probabilities);
    let mut sum = 0.0;
    let beyond = probabilities.iter().position(|p| {
        sum += f64::from(*p);
        sum > number
    });
    // The sum may stay a rounding below 1.
    beyond.unwrap_or(logits.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_likely() {
        let logits = [0.0, 1.0, -1.0, 2.0_f32];
        let mut counts = [0_u32; 4];
        (0..10_000).for_each(|i| counts[drawn(Isa::best(), &logits, f64::from(i) / 10_000.0)] += 1);
        let total: f32 = logits.iter().map(|x| x.exp()).sum();
        for (count, logit) in counts.iter().zip(logits) {
            assert!((*count as f32 / 10_000.0 - logit.exp() / total).abs() < 2e-4, "{counts:?}");
        }
    }
}
