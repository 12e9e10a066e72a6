//! Rows that are fitted in groups, wherever they are in their matrix.

use qsf_format::panels::interleave;
use qsf_format::{Layout, Outliers};
use qsf_runtime::source::Tensor;
use rayon::prelude::*;

use super::chosen_rows::choose_rows;
use super::encoder::BlockForm;
use super::fit::Fit;
use super::rows::EncodedRows;
use super::tensor::TensorEncoder;
use crate::error::Result;
use crate::plan::PlannedTensor;

impl TensorEncoder<'_> {
    /// Encodes all rows of `tensor`, each fitted to what its group is.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    ///
    /// # Panics
    /// When a row has no group, or a group no fit.
    pub(super) fn encode_groups(
        &self,
        planned: &PlannedTensor,
        tensor: &Tensor,
        form: BlockForm,
        fits: &[Fit],
        group_of: &[u16],
    ) -> Result<EncodedRows> {
        let mut members = vec![Vec::new(); fits.len()];
        // Of each row, where it is among those of its group.
        let places: Vec<(usize, usize)> = (0..tensor.rows())
            .map(|row| {
                let group = usize::from(group_of[row]);
                members[group].push(row as u32);
                (group, members[group].len() - 1)
            })
            .collect();
        let row_by_row = BlockForm { layout: Layout::Rows, ..form };
        let encode = |(rows, fit): (Vec<u32>, &Fit)| {
            let (chosen, all) = (choose_rows(tensor, rows.clone()), 0..rows.len());
            if rows.is_empty() {
                return Ok(EncodedRows::default());
            }
            let apart = self.outliers(planned, form.quant, &chosen, all.clone(), fit)?;
            self.rows.encode(&planned.info, &chosen, all, row_by_row, fit, apart.as_ref())
        };
        let groups = members.into_par_iter().zip(fits).map(encode).collect::<Vec<Result<EncodedRows>>>();
        let groups = groups.into_iter().collect::<Result<Vec<EncodedRows>>>()?;
        let mut whole = EncodedRows::default();
        groups.iter().for_each(|group| whole.stats.merge(&group.stats));
        let row_bytes = form.quant.row_bytes(self.rows.block, tensor.cols() as u64).unwrap_or(0) as usize;
        whole.data.reserve_exact(tensor.rows() * row_bytes);
        for (group, place) in &places {
            whole.data.extend_from_slice(&groups[*group].data[place * row_bytes..][..row_bytes]);
        }
        if groups.iter().any(|group| group.outliers.rows() > 0) {
            whole.outliers = Outliers::default();
            for (group, place) in places {
                let (cols, values) = groups[group].outliers.row(place);
                let row: Vec<(u16, f32)> = cols.iter().copied().zip(values.iter().copied()).collect();
                whole.outliers.push_row(&row);
            }
        }
        if let Some(quant) = form.quant.qsf().filter(|_| form.layout == Layout::Panels16) {
            whole.data = interleave(quant, self.rows.block, tensor.cols(), &whole.data);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use qsf_format::{QuantType, TensorId, TensorKind};
    use qsf_runtime::cpu::{Cpu, Isa};
    use qsf_runtime::progress::{Cancel, Unwatched};
    use qsf_runtime::source::open;

    use super::super::fit::RowFits;
    use super::*;
    use crate::options::ConvertOptions;
    use crate::plan::{OutlierShare, Plan, Recipe, StoredForm};
    use crate::session::Session;

    /// Rows of a group are what they are where the whole matrix has the fit of the group, outliers too.
    #[test]
    fn rows_have_the_values_that_the_fit_of_their_group_gives_them() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/qwen3");
        let source = open(&golden).unwrap();
        let (cpu, cancel) = (Cpu::new(Isa::best()), Cancel::default());
        let session = Session { cpu: &cpu, tokens: &[], progress: &Unwatched, cancel: &cancel };
        let options = ConvertOptions::default();
        let encoder = TensorEncoder::new(&*source, &options, &session);
        let id = TensorId::of_model(TensorKind::TokenEmbedding);
        let plan = Plan::new(source.tensors(), Recipe::DEFAULT, &[], OutlierShare::NONE).unwrap();
        let (rows, cols) = (source.config().vocab as usize, source.config().hidden as usize);
        let of = |first: usize| {
            let importance = (0..cols).map(|col| if col % 3 == first { 90.0 } else { 0.1 }).collect();
            Fit { importance: Some(Arc::new(importance)), ..Fit::default() }
        };
        let (fits, group_of) = ([of(0), of(1), of(2)], (0..rows).map(|row| (row * 5 % 7 % 3) as u16));
        let group_of: Vec<u16> = group_of.collect();
        for quant in [QuantType::N3, QuantType::Q4] {
            let planned = plan.tensor(id).unwrap().stored_as(StoredForm::from(quant));
            let rows_of = |fits: RowFits<'_>| {
                encoder.as_read(&encoder.encode_near(&planned, fits).unwrap()).unwrap().to_f32()
            };
            let found = rows_of(RowFits::Groups { fits: &fits, group_of: &group_of });
            let whole = fits.each_ref().map(|fit| rows_of(RowFits::Shares(std::slice::from_ref(fit))));
            assert_ne!(whole[0], whole[1], "{quant}");
            for (row, values) in found.chunks_exact(cols).enumerate() {
                let expected = &whole[usize::from(group_of[row])][row * cols..][..cols];
                assert_eq!(values, expected, "{quant}, row {row}");
            }
        }
    }
}
