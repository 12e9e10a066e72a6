//! A matrix whose rows are in several types (SPEC.md section 5.2): each part is encoded like a matrix of its own.

use qsf_format::{Outliers, RowParts, part_name};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::{Tensor, TensorInfo};

use super::chosen_rows::choose_rows;
use super::encoder::BlockForm;
use super::expert_order::{ExpertInputs, by_energy, expert_energies};
use super::fit::{Fit, RowFits};
use super::rows::EncodedRows;
use super::stored_tensor::{StoredPart, StoredParts, StoredTensor, TensorBlocks};
use super::tensor::{TensorEncoder, record};
use crate::error::Result;
use crate::plan::{PlannedTensor, StoredForm, TensorType, experts_of, layout_of};

impl TensorEncoder<'_> {
    /// Encodes a matrix in parts.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), and when a part would have some rows of an expert.
    pub(super) fn encode_parts(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        fits: RowFits<'_>,
    ) -> Result<StoredTensor> {
        let count = experts_of(self.source.config(), planned.info.id).unwrap_or(1) as usize;
        let order = self.row_order(tensor, fits, count);
        let rows = RowParts::of(planned.finer.parts(&order)).filter(|rows| rows.has_whole_shares(count));
        let rows = rows.ok_or_else(|| {
            let (id, form, share) = (planned.info.id, planned.form(), tensor.rows() / count);
            RuntimeError::Request(format!("{id} as {form}: not whole experts, of {share} rows each"))
        })?;
        let finer = planned.finer.types().map(|(quant, _)| TensorType::from(quant));
        let mut parts = Vec::new();
        for (number, quant) in std::iter::once(planned.quant).chain(finer).enumerate() {
            let own = rows.rows_in(number).map(|row| row as u32).collect();
            parts.push(self.encode_part(planned, tensor, own, (number, quant), fits)?);
        }
        let StoredPart { encoded, record } = parts.remove(0);
        let (id, outliers) = (planned.info.id, Outliers::default());
        let split = Some(StoredParts { rows, others: parts });
        Ok(StoredTensor { id, encoded, outliers, split, record })
    }

    /// All rows, those that matter most first.
    fn row_order(&self, tensor: &Tensor, fits: RowFits<'_>, experts: usize) -> Vec<u32> {
        let (RowFits::Shares(fits), true) = (fits, experts > 1) else {
            let order = self.token_order.tokens();
            // Without a vocabulary of these rows, no row matters more than another.
            let known = order.len() == tensor.rows();
            return if known { order.to_vec() } else { (0..tensor.rows() as u32).collect() };
        };
        let share = tensor.rows() / experts;
        let energies = expert_energies(&self.rows, tensor, &ExpertInputs::of_fits(fits, experts));
        let rows = |expert: usize| (expert * share) as u32..((expert + 1) * share) as u32;
        by_energy(&energies).into_iter().flat_map(rows).collect()
    }

    fn encode_part(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        rows: Vec<u32>,
        (number, quant): (usize, TensorType),
        fits: RowFits<'_>,
    ) -> Result<StoredPart> {
        let whole = &planned.info;
        let info = TensorInfo { rows: rows.len(), ..whole.clone() };
        let part = choose_rows(tensor, rows.clone());
        let quant = self.rows.choose_type(&info, &part, quant)?;
        let config = self.source.config();
        // Of a stack, whole panels of each expert decide, as in one that is whole.
        let stacked = experts_of(config, whole.id).is_some();
        let layout = layout_of(self.layout, config, if stacked { whole } else { &info }, quant);
        let planned = PlannedTensor { info, ..planned.stored_as(StoredForm::from(quant)) };
        let form = BlockForm { quant, layout };
        let all = match fits {
            RowFits::Shares(fits) => {
                let runs = runs_of_shares(&rows, tensor.rows() / fits.len(), fits);
                self.encode_runs(&planned, &part, form, &runs)?
            }
            RowFits::Groups { fits, group_of } => {
                let group_of: Vec<u16> = rows.iter().map(|row| group_of[*row as usize]).collect();
                self.encode_groups(&planned, &part, form, fits, &group_of)?
            }
        };
        let mut record = record(&planned, quant, &all);
        if number > 0 {
            record.kind = part_name(whole.id.kind, number as u8);
        }
        let (kind, rows, cols) = (whole.id.kind, record.rows, record.cols);
        let encoded = TensorBlocks { kind, rows, cols, quant, layout, data: all.data };
        Ok(StoredPart { encoded, record })
    }

    /// Encodes rows that come one run after the other, each with its fit.
    fn encode_runs(
        &self,
        planned: &PlannedTensor,
        part: &Tensor,
        form: BlockForm,
        runs: &[(&Fit, usize)],
    ) -> Result<EncodedRows> {
        let (mut all, mut first) = (EncodedRows::default(), 0);
        for (fit, len) in runs {
            all.append(self.rows.encode(&planned.info, part, first..first + len, form, fit, None)?);
            first += len;
        }
        Ok(all)
    }
}

/// How many of `rows`, one behind the other, have which fit: there is one for each `share` of the matrix, or one for all.
fn runs_of_shares<'f>(rows: &[u32], share: usize, fits: &'f [Fit]) -> Vec<(&'f Fit, usize)> {
    match fits {
        [fit] => vec![(fit, rows.len())],
        _ => rows
            .chunk_by(|a, b| *a as usize / share == *b as usize / share)
            .map(|run| (&fits[run[0] as usize / share], run.len()))
            .collect(),
    }
}
