//! A matrix whose rows are in several types (SPEC.md section 5.2): each part is encoded like a matrix of its own.

use std::sync::Arc;

use qsf_format::{EncodedTensor, RowParts};
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{ForeignRows, StoredType, Tensor, TensorInfo};

use super::fit::Fit;
use super::rows::EncodedRows;
use super::stored_tensor::{StoredTensor, TensorBlocks};
use super::tensor::{TensorEncoder, record};
use crate::error::Result;
use crate::plan::{PlannedTensor, StoredForm, TensorReport, TensorType};

/// The parts of a matrix beside the first, and which rows are in which.
#[derive(Debug, Clone)]
pub(crate) struct StoredParts {
    pub rows: RowParts,
    /// From the second on.
    pub others: Vec<StoredPart>,
}

/// A part of a matrix.
#[derive(Debug, Clone)]
pub(crate) struct StoredPart {
    pub encoded: TensorBlocks,
    pub record: TensorReport,
}

impl StoredParts {
    /// The parts with their numbers, as a QSF file has them; `None` for a type that it cannot have.
    pub fn for_qsf(&self) -> Option<Vec<EncodedTensor>> {
        let numbered = (1..).zip(&self.others);
        numbered.map(|(part, t)| Some(EncodedTensor { part, ..t.encoded.clone().for_qsf()? })).collect()
    }

    /// What is reported of them.
    pub fn records(&self) -> impl Iterator<Item = &TensorReport> {
        self.others.iter().map(|part| &part.record)
    }
}

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

/// Some rows of a matrix.
#[derive(Debug)]
struct ChosenRows {
    tensor: Tensor,
    rows: Vec<u32>,
}

impl ForeignRows for ChosenRows {
    fn stored_type(&self) -> StoredType {
        self.tensor.stored_type()
    }

    fn row_bytes(&self) -> usize {
        (self.tensor.stored_bytes() / self.tensor.rows().max(1) as u64) as usize
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.tensor.decode_row(isa, self.rows[row] as usize, out);
    }
}

impl TensorEncoder<'_> {
    /// Encodes a matrix in parts, all of them by one fit; `None` where it has no such rows.
    pub(super) fn encode_parts(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        fit: &Fit,
    ) -> Result<Option<StoredTensor>> {
        let order = self.token_order.tokens();
        if order.len() != tensor.rows() {
            return Ok(None);
        }
        let Some(rows) = RowParts::of(planned.finer.parts(order)) else { return Ok(None) };
        let finer = planned.finer.types().map(|(quant, _)| TensorType::from(quant));
        let mut parts = Vec::new();
        for (number, quant) in std::iter::once(planned.quant).chain(finer).enumerate() {
            let own = rows.rows_in(number).map(|row| row as u32).collect();
            parts.push(self.encode_part(planned, tensor, own, (number, quant), fit)?);
        }
        let first = parts.remove(0);
        let StoredPart { encoded, record } = first;
        let split = Some(StoredParts { rows, others: parts });
        Ok(Some(StoredTensor { id: planned.info.id, encoded, outliers: Default::default(), split, record }))
    }

    fn encode_part(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        rows: Vec<u32>,
        (number, quant): (usize, TensorType),
        fit: &Fit,
    ) -> Result<StoredPart> {
        let info = TensorInfo { rows: rows.len(), ..planned.info.clone() };
        let chosen = ChosenRows { tensor: tensor.clone(), rows };
        let part = Tensor::foreign(info.rows, info.cols, Arc::new(chosen));
        let planned = PlannedTensor { info, ..planned.stored_as(StoredForm::from(quant)) };
        let form = self.form(&planned, &part)?;
        let mut all = EncodedRows::default();
        all.append(self.rows.encode(&planned.info, &part, 0..part.rows(), form, fit, None)?);
        let mut record = record(&planned, form.quant, &all);
        if number > 0 {
            record.kind = qsf_format::part_name(planned.info.id.kind, number as u8);
        }
        let (rows, cols) = (record.rows, record.cols);
        let kind = planned.info.id.kind;
        let encoded =
            TensorBlocks { kind, rows, cols, quant: form.quant, layout: form.layout, data: all.data };
        Ok(StoredPart { encoded, record })
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
