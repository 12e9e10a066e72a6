//! Forms of token embedding and head with rows in several types: those of frequent tokens in larger ones.
//!
//! Errors of a row do as much as its token is frequent, and of words the frequency falls with the rank (Zipf). So the quarter of all
//! rows that comes most often can be worth more than the rest, a quarter of these still more, and a quarter of those, too.

use qsf_format::QuantType;
use qsf_format::panels::PANEL_ROWS;

use crate::plan::{FinerRows, PlannedTensor, StoredForm, TensorType};

/// Types, each about a bit larger than the one before.
const LADDER: [QuantType; 6] =
    [QuantType::X2, QuantType::X3, QuantType::X4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// Parts of the rows, the most frequent first, that may be in larger types.
const SHARES: [usize; 3] = [64, 16, 4];
/// Fewer rows are not worth three more tensors.
const LEAST_ROWS: usize = 64 * PANEL_ROWS;

/// The forms of a matrix, with each of `types` for most rows.
pub(super) fn finer_forms(planned: &PlannedTensor, types: &[TensorType]) -> Vec<StoredForm> {
    let rows = planned.info.rows;
    if rows < LEAST_ROWS {
        return Vec::new();
    }
    let of_type = |ty: &TensorType| {
        let all = ty.qsf().map(|quant| all_finer(quant, rows)).unwrap_or_default();
        let suits = |finer: &FinerRows| finer.suits(planned.info.id.kind, rows);
        let form = |finer| StoredForm { finer, ..StoredForm::from(*ty) };
        all.into_iter().filter(suits).map(form).collect::<Vec<StoredForm>>()
    };
    types.iter().flat_map(of_type).collect()
}

/// Every way to have the shares of frequent rows in larger types than `ty`, none in a smaller one than rarer rows are in.
fn all_finer(ty: QuantType, rows: usize) -> Vec<FinerRows> {
    let place = |ty| LADDER.iter().position(|known| *known == ty);
    let first = match ty {
        // Nearly as large as `x3` and `x4`.
        QuantType::N3 => place(QuantType::X4),
        QuantType::N4 => place(QuantType::N5),
        ty => place(ty).map(|at| at + 1),
    };
    let larger = first.and_then(|first| LADDER.get(first..)).unwrap_or_default();
    let most = larger.len().min(SHARES.len());
    let whole = |share: usize| (rows / share / PANEL_ROWS * PANEL_ROWS) as u32;
    let mut all = Vec::new();
    for steps in (0..=most).flat_map(|a| (0..=a).flat_map(move |b| (0..=b).map(move |c| [a, b, c]))) {
        let (mut types, mut before): (Vec<(QuantType, u32)>, u32) = (Vec::new(), 0);
        for (step, share) in steps.iter().zip(SHARES) {
            let count = whole(share) - before;
            before += count;
            let Some(ty) = step.checked_sub(1).map(|at| larger[at]) else { continue };
            match types.last_mut().filter(|(last, _)| *last == ty) {
                Some((_, rows)) => *rows += count,
                None => types.push((ty, count)),
            }
        }
        all.extend(FinerRows::new(&types).filter(|finer| !finer.is_none()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_rows_are_in_larger_types_in_every_way() {
        use QuantType::*;
        let finer = |types: &[(QuantType, u32)]| FinerRows::new(types).unwrap();
        let of_n3 = all_finer(N3, 32_000);
        assert_eq!(of_n3.len(), 19);
        for types in [
            &[(Q6, 496), (N5, 1504), (X4, 6000)][..],
            &[(X4, 8000)],
            &[(Q6, 496)],
            &[(Q6, 496), (X4, 7504)],
            &[(N5, 2000), (X4, 6000)],
        ] {
            assert!(of_n3.contains(&finer(types)), "{types:?}");
        }
        for form in &of_n3 {
            let types: Vec<QuantType> = form.types().map(|(ty, _)| ty).collect();
            assert!(
                types.is_sorted_by(
                    |a, b| LADDER.iter().position(|t| t == a) > LADDER.iter().position(|t| t == b)
                )
            );
        }
        assert!(all_finer(X2, 32_000).contains(&finer(&[(N5, 496), (X4, 1504), (X3, 6000)])));
        assert_eq!(all_finer(Q6, 32_000), [finer(&[(Q8, 496)]), finer(&[(Q8, 2000)]), finer(&[(Q8, 8000)])]);
        assert_eq!(all_finer(Q8, 32_000), []);
    }
}
