//! Forms of token embedding and head with rows in several types: those of frequent tokens in larger ones.
//!
//! Errors of a row do as much as its token is frequent, and of words the frequency falls with the rank (Zipf). So the quarter of all
//! rows that comes most often is worth a bit more than the rest, a quarter of these another one, and a quarter of those a third.

use qsf_format::QuantType;
use qsf_format::panels::PANEL_ROWS;

use crate::plan::{FinerRows, PlannedTensor, StoredForm, TensorType};

/// Types, each about a bit larger than the one before.
const LADDER: [QuantType; 6] =
    [QuantType::X2, QuantType::X3, QuantType::X4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// Part of the rows that is in each of the larger types, or in one that is larger still.
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
        let finer = FinerRows::new(&larger_types(ty.qsf()?, rows))?;
        let suits = !finer.is_none() && finer.suits(planned.info.id.kind, rows);
        suits.then_some(StoredForm { finer, ..StoredForm::from(*ty) })
    };
    types.iter().filter_map(of_type).collect()
}

/// Types of the most frequent rows first, with how many rows each has.
fn larger_types(ty: QuantType, rows: usize) -> Vec<(QuantType, u32)> {
    let place = |ty| LADDER.iter().position(|known| *known == ty);
    let first = match ty {
        // Nearly as large as `x3` and `x4`.
        QuantType::N3 => place(QuantType::X4),
        QuantType::N4 => place(QuantType::N5),
        ty => place(ty).map(|at| at + 1),
    };
    let larger = first.and_then(|first| LADDER.get(first..)).unwrap_or_default();
    let larger = &larger[..larger.len().min(SHARES.len())];
    let whole = |share: usize| (rows / share / PANEL_ROWS * PANEL_ROWS) as u32;
    let shares = &SHARES[SHARES.len() - larger.len()..];
    let mut before = 0;
    let with_rows = |(ty, share): (&QuantType, &usize)| {
        let count = whole(*share) - before;
        before += count;
        (*ty, count)
    };
    larger.iter().rev().zip(shares).map(with_rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quarter_of_the_frequent_rows_has_a_bit_more() {
        use QuantType::*;
        assert_eq!(larger_types(N3, 32_000), [(Q6, 496), (N5, 1504), (X4, 6000)]);
        assert_eq!(larger_types(X2, 32_000), [(N5, 496), (X4, 1504), (X3, 6000)]);
        assert_eq!(larger_types(N5, 32_000), [(Q8, 2000), (Q6, 6000)]);
        assert_eq!(larger_types(Q8, 32_000), []);
    }
}
