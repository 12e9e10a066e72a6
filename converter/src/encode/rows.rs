//! One tensor from its source type to blocks: surveyed, then encoded in runs of rows, in parallel and in any order, with
//! results that depend on neither.

use std::ops::Range;
use std::path::Path;

use qsf_format::panels::{PANEL_ROWS, interleave};
use qsf_format::{BlockSize, CodeTables, Layout, Outliers, QuantType};
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::cpu::{Isa, decode_row};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{StoredType, Tensor, TensorInfo};
use rayon::prelude::*;

use crate::encode::outliers::Chosen;
use crate::error::{ConvertError, Result};
use crate::fit::fits::Fit;
use crate::quantize::{Effort, Matrix, ScaleOverflow, first_non_finite, quantize_matrix};

/// Values that one task handles: enough to outweigh its overhead, little enough to share among cores.
pub(crate) const VALUES_PER_TASK: usize = 1 << 16;

/// Largest finite f16.
const F16_MAX: f32 = 65504.0;

/// Smallest normal f16, 2^-14: scales of a tensor below it would have few bits or be zero.
const F16_MIN_NORMAL: f32 = 6.103_515_6e-5;

/// What encoding needs beside the tensor.
#[derive(Clone, Copy)]
pub(crate) struct Encoder<'a> {
    pub isa: Isa,
    pub block: BlockSize,
    pub tables: &'a CodeTables,
    pub effort: Effort,
    pub source: &'a Path,
    pub progress: &'a dyn Progress,
    pub cancel: &'a Cancel,
}

/// Encoded rows and how far they are from the original.
#[derive(Default)]
pub(crate) struct Encoded {
    pub data: Vec<u8>,
    pub stats: ErrorStats,
    /// What is stored apart: no rows where nothing was to be.
    pub outliers: Outliers,
}

impl Encoded {
    /// Adds the rows that follow.
    pub fn append(&mut self, next: Encoded) {
        self.data.extend_from_slice(&next.data);
        self.stats.merge(&next.stats);
        self.outliers.append(&next.outliers);
    }
}

impl Encoder<'_> {
    /// Checks that all values are finite and gives the type to store: `wanted`, or one with the range of f32 when the values
    /// do not fit f16 (values of an f16 or scales of a block type), because saturating them, or flushing them to zero, would
    /// break the model silently.
    pub fn choose_type(&self, info: &TensorInfo, tensor: &Tensor, wanted: QuantType) -> Result<QuantType> {
        let rows_per_task = rows_per_task(tensor.cols());
        let tasks = tensor.rows().div_ceil(rows_per_task);
        let largest = (0..tasks)
            .into_par_iter()
            .map(|task| {
                self.cancel.check()?;
                let first = task * rows_per_task;
                let rows = first..(first + rows_per_task).min(tensor.rows());
                let values = self.decode_rows(tensor, rows);
                if let Some(i) = first_non_finite(self.isa, &values) {
                    return Err(ConvertError::NotFinite {
                        path: self.source.to_owned(),
                        name: info.name.clone(),
                        id: info.id,
                        row: first + i / tensor.cols(),
                        col: i % tensor.cols(),
                        value: values[i],
                    });
                }
                Ok(values.iter().fold(0.0f32, |max, v| max.max(v.abs())))
            })
            .collect::<Vec<Result<f32>>>()
            .into_iter()
            // The first error by row, not by time.
            .collect::<Result<Vec<f32>>>()?
            .into_iter()
            .fold(0.0, f32::max);
        let range = match wanted {
            QuantType::F32 | QuantType::Bf16 => 0.0..=f32::INFINITY,
            // Its scale is a 127th of the largest value.
            QuantType::Q8 => 32.0 * F16_MIN_NORMAL..=127.0 * F16_MAX,
            _ => F16_MIN_NORMAL..=F16_MAX,
        };
        Ok(match tensor.stored_type() {
            _ if largest == 0.0 || range.contains(&largest) => wanted,
            // The source's own type holds its values exactly.
            StoredType::Native(stored @ (QuantType::Bf16 | QuantType::F16)) => stored,
            _ => QuantType::F32,
        })
    }

    /// Encodes rows `rows`, which must begin a panel if `layout` has some, and end one or the tensor; with what was `chosen`
    /// of them apart.
    pub fn encode(
        &self,
        info: &TensorInfo,
        tensor: &Tensor,
        rows: Range<usize>,
        (quant, layout): (QuantType, Layout),
        fit: &Fit,
        chosen: Option<&Chosen>,
    ) -> Result<Encoded> {
        // Whole panels whatever the layout: the order of the errors' sums, and so META, does not depend on it.
        let rows_per_task = rows_per_task(tensor.cols()).next_multiple_of(PANEL_ROWS);
        let tasks = rows.len().div_ceil(rows_per_task);
        let parts: Vec<Encoded> = (0..tasks)
            .into_par_iter()
            .map(|task| {
                self.cancel.check()?;
                let first = rows.start + task * rows_per_task;
                let rows = first..(first + rows_per_task).min(rows.end);
                let count = rows.len() * tensor.cols();
                let encoded = self
                    .encode_task(tensor, rows, (quant, layout), fit, chosen)
                    .map_err(|ScaleOverflow| self.overflow(info, quant))?;
                self.progress.advance(count as u64);
                Ok(encoded)
            })
            .collect::<Result<_>>()?;
        let mut whole = Encoded::default();
        whole.data.reserve_exact(parts.iter().map(|p| p.data.len()).sum());
        for part in parts {
            whole.append(part);
        }
        Ok(whole)
    }

    fn encode_task(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        (quant, layout): (QuantType, Layout),
        fit: &Fit,
        chosen: Option<&Chosen>,
    ) -> Result<Encoded, ScaleOverflow> {
        let cols = tensor.cols();
        let values = self.decode_rows(tensor, rows.clone());
        // The tensor's size was computed when it was opened, and no stored type is wider than twice f32.
        let row_bytes = quant.row_bytes(self.block, cols as u64).unwrap_or(0) as usize;
        let targets = match (&fit.correction, &fit.feedback) {
            // Floats keep what the source has.
            (Some(correction), Some(feedback)) if !quant.is_float() => {
                Some(correction.targets(self.isa, feedback, &values))
            }
            _ => None,
        };
        let targets = targets.as_ref().unwrap_or(&values);
        let (data, outliers) = match chosen {
            Some(chosen) => self.quantize_apart(quant, cols, targets, fit, (chosen, rows.start))?,
            None => (self.quantize(quant, cols, targets, fit)?, Outliers::default()),
        };
        let mut stats = ErrorStats::new();
        let mut decoded = vec![0.0; cols];
        let rows = values.chunks_exact(cols).zip(data.chunks_exact(row_bytes)).enumerate();
        for (row, (original, bytes)) in rows {
            decode_row(self.isa, quant, self.block, self.tables, bytes, &mut decoded);
            if chosen.is_some() {
                add_outliers(&outliers, row, &mut decoded);
            }
            stats.add_row(self.isa, original, &decoded);
        }
        let data = if layout == Layout::Panels16 { interleave(quant, self.block, cols, &data) } else { data };
        Ok(Encoded { data, stats, outliers })
    }

    /// Rows of `cols` values as plain rows of `quant`.
    pub fn quantize(
        &self,
        quant: QuantType,
        cols: usize,
        values: &[f32],
        fit: &Fit,
    ) -> Result<Vec<u8>, ScaleOverflow> {
        let matrix = Matrix { isa: self.isa, quant, block: self.block, tables: self.tables, cols };
        let importance = fit.importance.as_ref().map(|weights| weights.as_slice());
        quantize_matrix(&matrix, values, fit.feedback.as_deref(), importance, self.effort)
    }

    pub fn decode_rows(&self, tensor: &Tensor, rows: Range<usize>) -> Vec<f32> {
        let mut values = vec![0.0; rows.len() * tensor.cols()];
        for (row, out) in rows.zip(values.chunks_exact_mut(tensor.cols())) {
            tensor.decode_row(self.isa, row, out);
        }
        values
    }

    /// Scales that leave f16 although all values are inside it: [`Encoder::choose_type`] excludes that.
    fn overflow(&self, info: &TensorInfo, quant: QuantType) -> ConvertError {
        qsf_format::FormatError::Unwritable {
            path: self.source.to_owned(),
            what: format!("tensor {} as {quant}", info.name),
            why: "its scales exceed f16; pass --tensor-type to store it as f32".into(),
        }
        .into()
    }
}

/// Adds what is stored apart to a decoded row.
pub(crate) fn add_outliers(outliers: &Outliers, row: usize, decoded: &mut [f32]) {
    let (cols, values) = outliers.row(row);
    cols.iter().zip(values).for_each(|(col, value)| decoded[usize::from(*col)] += value);
}

/// Rows of `cols` values that one task handles.
pub(crate) fn rows_per_task(cols: usize) -> usize {
    (VALUES_PER_TASK / cols.max(1)).max(1)
}
