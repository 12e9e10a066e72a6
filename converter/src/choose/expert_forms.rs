//! Forms of a stack of experts with types of their own: those that much goes through in larger ones.
//!
//! What a type does to the stack is known; each expert has a share of that, by its energy. At each price of a byte, every expert gets
//! the type for which damage and bytes together cost least, so each form is the best of its size.

use qsf_format::{BlockSize, MOST_PARTS};

use crate::encode::by_energy;
use crate::plan::{FinerRows, StoredForm};

/// Part of the damage that is spread evenly over all experts: a text that goes through an expert more often than this one does shall
/// not find it in ruins.
const EVEN_SHARE: f64 = 0.4;
/// Of the experts by their shares, where prices are set so that the type changes there.
const QUANTILES: [f64; 4] = [0.125, 0.375, 0.625, 0.875];

/// Rows and columns of a stack, and blocks of its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub rows: usize,
    pub cols: usize,
    pub block: BlockSize,
}

/// Forms with several types and their damages, where `uniform` has those of one type each, and experts have these `energies`.
pub(super) fn expert_forms(
    uniform: &[(StoredForm, f64)],
    energies: &[f64],
    stack: Stack,
) -> Vec<(StoredForm, f64)> {
    let types = pareto(uniform, stack);
    let total: f64 = energies.iter().sum();
    let count = energies.len();
    if count < 2 || types.len() < 2 || !(total.is_finite() && total > 0.0) {
        return Vec::new();
    }
    let order = by_energy(energies);
    let share = |energy: f64| (1.0 - EVEN_SHARE) * energy / total + EVEN_SHARE / count as f64;
    let shares: Vec<f64> = order.iter().map(|i| share(energies[*i])).collect();
    let mut forms: Vec<(StoredForm, f64)> = Vec::new();
    for pair in types.windows(2) {
        let saved = (pair[0].damage - pair[1].damage) / (pair[1].bytes - pair[0].bytes);
        for quantile in QUANTILES {
            // An expert has the count-th part of the bytes.
            let price = shares[(quantile * count as f64) as usize] * saved * count as f64;
            if let Some(form) = at_price(&types, &shares, price, stack.rows / count)
                && !forms.iter().any(|(known, _)| *known == form.0)
            {
                forms.push(form);
            }
        }
    }
    forms
}

/// A type of the whole stack.
struct Uniform {
    form: StoredForm,
    bytes: f64,
    damage: f64,
}

/// The types of which none is larger and worse than another, smallest first.
fn pareto(uniform: &[(StoredForm, f64)], stack: Stack) -> Vec<Uniform> {
    let plain = uniform.iter().filter(|(form, _)| form.outliers.is_none() && form.finer.is_none());
    let mut all: Vec<Uniform> = plain
        .filter_map(|(form, damage)| {
            let bytes = form.bytes(stack.block, stack.rows, stack.cols)? as f64;
            form.quant.qsf().map(|_| Uniform { form: *form, bytes, damage: *damage })
        })
        .collect();
    all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let mut best = f64::INFINITY;
    all.retain(|ty| {
        let better = ty.damage < best;
        best = best.min(ty.damage);
        better
    });
    all.dedup_by(|next, before| next.bytes == before.bytes);
    all
}

/// The form in which every expert has the type that costs least where a byte costs `price`; `None` where all have the same.
fn at_price(types: &[Uniform], shares: &[f64], price: f64, expert_rows: usize) -> Option<(StoredForm, f64)> {
    let cheapest = |share: &f64| {
        let cost = |ty: &Uniform| share * ty.damage + price * ty.bytes / shares.len() as f64;
        let indices = 0..types.len();
        indices.min_by(|a, b| cost(&types[*a]).total_cmp(&cost(&types[*b]))).unwrap_or(0)
    };
    // Shares fall, and so do types.
    let mut chosen: Vec<usize> = shares.iter().map(cheapest).collect();
    let mut distinct = chosen.clone();
    distinct.dedup();
    let base = *distinct.get(..MOST_PARTS).map_or(distinct.last(), <[usize]>::last)?;
    chosen.iter_mut().for_each(|ty| *ty = (*ty).max(base));
    let mut finer = Vec::new();
    for run in chosen.chunk_by(|a, b| a == b).filter(|run| run[0] != base) {
        let quant = types[run[0]].form.quant.qsf()?;
        finer.push((quant, u32::try_from(run.len() * expert_rows).ok()?));
    }
    let finer = FinerRows::new(&finer).filter(|finer| !finer.is_none())?;
    let damage = shares.iter().zip(&chosen).map(|(share, ty)| share * types[*ty].damage).sum();
    Some((StoredForm { finer, ..types[base].form }, damage))
}

#[cfg(test)]
mod tests {
    use qsf_format::QuantType;

    use super::*;

    const STACK: Stack = Stack { rows: 8 * 16, cols: 256, block: BlockSize::B64 };

    fn uniform() -> Vec<(StoredForm, f64)> {
        use QuantType::*;
        [(T2, 16.0), (T3, 4.0), (N4, 1.0), (N5, 0.25)]
            .map(|(ty, damage)| (StoredForm::from(ty), damage))
            .into()
    }

    #[test]
    fn experts_that_much_goes_through_get_larger_types_and_do_less_damage_at_a_size() {
        let energies = [1.0, 64.0, 1.0, 16.0, 1.0, 1.0, 4.0, 1.0];
        let forms = expert_forms(&uniform(), &energies, STACK);
        assert!(forms.len() > 4, "{forms:?}");
        let bytes = |form: StoredForm| form.bytes(STACK.block, STACK.rows, STACK.cols).unwrap() as f64;
        for (form, damage) in &forms {
            let types: Vec<(QuantType, u32)> = form.finer.types().collect();
            assert!(types.iter().all(|(_, rows)| rows % 16 == 0) && form.finer.rows() < 128, "{form}");
            // Between the uniform types next to it, on a straight line of logarithms, as bits are.
            let known = uniform();
            let above = known.iter().position(|(ty, _)| bytes(*ty) > bytes(*form)).unwrap();
            let [below, above] = [known[above - 1], known[above]];
            let part = (bytes(*form) - bytes(below.0)) / (bytes(above.0) - bytes(below.0));
            let between = below.1 * (above.1 / below.1).powf(part);
            assert!(*damage < between, "{form}: {damage} instead of {between}");
        }
    }

    #[test]
    fn experts_that_differ_little_differ_in_type_at_some_prices() {
        let energies = [1.0, 3.0, 2.0, 1.5, 2.5, 4.0, 1.2, 0.8];
        let forms = expert_forms(&uniform(), &energies, STACK);
        for base in [QuantType::T2, QuantType::T3, QuantType::N4] {
            assert!(forms.iter().any(|(form, _)| form.quant == base), "{base}: {forms:?}");
        }
    }

    #[test]
    fn one_expert_or_none_with_tokens_makes_nothing() {
        assert!(expert_forms(&uniform(), &[1.0; 1], STACK).is_empty());
        assert!(expert_forms(&uniform(), &[0.0; 8], STACK).is_empty());
        assert!(expert_forms(&uniform(), &[f64::NAN; 8], STACK).is_empty());
    }
}
