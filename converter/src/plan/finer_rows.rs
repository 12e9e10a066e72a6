//! Rows of a matrix that are stored in other types than the rest, those that matter most first (SPEC.md section 5.2).
//! Written `n5:1024/n4:4096/n3`: 1024 rows in `n5`, the next 4096 in `n4`, and all others in `n3`.
//!
//! Of stacks of experts, all rows of an expert have one type, and experts matter by what goes through them.
//!
//! Of token embedding and head, rows matter by how often their tokens occur. If errors of a row count as often as its token does, a row
//! that counts four times as much is worth one bit more (reverse water-filling: Cover and Thomas, Elements of Information Theory,
//! section 10.3.3).

use std::fmt;

use qsf_format::{BlockSize, MOST_PARTS, QuantType, RowParts, TensorKind};

/// Most types beside that of most rows.
const MOST: usize = MOST_PARTS - 1;

/// Types, each for so many of the rows that matter most of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FinerRows([Option<(QuantType, u32)>; MOST]);

impl FinerRows {
    /// All rows are in one type.
    pub const NONE: FinerRows = FinerRows([None; MOST]);

    /// These types, those of the rows that matter most first. `None` when there are more than three, or one has no rows.
    pub fn new(types: &[(QuantType, u32)]) -> Option<FinerRows> {
        if types.len() > MOST || types.iter().any(|(_, rows)| *rows == 0) {
            return None;
        }
        let mut all = [None; MOST];
        all.iter_mut().zip(types).for_each(|(slot, ty)| *slot = Some(*ty));
        Some(FinerRows(all))
    }

    /// Whether all rows are in one type.
    pub fn is_none(self) -> bool {
        self == FinerRows::NONE
    }

    /// The types, with their numbers of rows.
    pub fn types(self) -> impl Iterator<Item = (QuantType, u32)> {
        self.0.into_iter().flatten()
    }

    /// Rows of all of these types.
    pub fn rows(self) -> u64 {
        self.types().map(|(_, rows)| u64::from(rows)).sum()
    }

    /// Whether a matrix of this kind and of so many rows can be stored so.
    pub fn suits(self, kind: TensorKind, rows: usize) -> bool {
        self.is_none() || (kind.may_have_parts() && self.rows() < rows as u64)
    }

    /// Bytes of these rows, and of the record that says which they are, in a matrix of `rows` x `cols`; `None` beyond `u64`.
    pub fn bytes(self, block: BlockSize, rows: usize, cols: usize) -> Option<u64> {
        if self.is_none() {
            return Some(0);
        }
        let record = RowParts::record_bytes(rows as u64);
        self.types().try_fold(record, |sum, (quant, rows)| {
            sum.checked_add(quant.tensor_bytes(block, rows.into(), cols as u64)?)
        })
    }

    /// The part of each row, where `order` has all rows, those that matter most first: 0 for the type of most rows.
    pub fn parts(self, order: &[u32]) -> Vec<u8> {
        let mut parts = vec![0; order.len()];
        let mut next = order.iter();
        for (part, (_, rows)) in (1..).zip(self.types()) {
            next.by_ref().take(rows as usize).for_each(|row| parts[*row as usize] = part);
        }
        parts
    }

    /// The finer rows, and the type of the others, of `n5:1024/n4:4096/n3`; of a type alone no finer rows.
    pub(super) fn parse(text: &str) -> Result<(FinerRows, &str), String> {
        let Some((types, rest)) = text.rsplit_once('/') else { return Ok((FinerRows::NONE, text)) };
        let wrong = || {
            format!(
                "'{text}' is not like n5:1024/n4:4096/n3, at most three types with their numbers of rows before the last"
            )
        };
        let mut found = Vec::new();
        for part in types.split('/') {
            let (name, rows) = part.split_once(':').ok_or_else(wrong)?;
            let quant = name.trim().parse::<QuantType>().map_err(|_| wrong())?;
            found.push((quant, rows.trim().parse().map_err(|_| wrong())?));
        }
        FinerRows::new(&found).map(|finer| (finer, rest)).ok_or_else(wrong)
    }
}

impl fmt::Display for FinerRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.types().try_for_each(|(quant, rows)| write!(f, "{quant}:{rows}/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_matter_most_are_in_the_first_type() {
        let (finer, rest) = FinerRows::parse("n5:2/ n4 : 1/n3").unwrap();
        assert_eq!((finer.to_string().as_str(), rest, finer.rows()), ("n5:2/n4:1/", "n3", 3));
        assert_eq!(finer.parts(&[4, 1, 0, 2, 3]), [2, 1, 0, 0, 1]);
        assert_eq!(FinerRows::parse("n3"), Ok((FinerRows::NONE, "n3")));
        for wrong in
            ["n5/n3", "n5:0/n3", "q:1/n3", "n5:-1/n3", "n8:1/n7:1/n6:1/n5:1/n3", "/n3", "n5:99999999999/n3"]
        {
            assert!(FinerRows::parse(wrong).unwrap_err().contains("n5:1024/n4:4096/n3"), "{wrong}");
        }
        assert!(finer.suits(TensorKind::Head, 4) && !finer.suits(TensorKind::Head, 3));
        assert!(!finer.suits(TensorKind::AttnQ, 4) && FinerRows::NONE.suits(TensorKind::AttnQ, 4));
    }
}
