//! Rows of a tensor from the source's type to blocks: in parallel and in any order, with results that depend on neither.

use std::ops::Range;

use qsf_format::panels::{PANEL_ROWS, interleave};
use qsf_format::{Encoding, FloatFormat, Layout, Outliers, QuantType};
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::source::{StoredType, Tensor, TensorInfo};
use rayon::prelude::*;

use super::encoder::{BlockForm, Encoder, rows_per_task};
use super::fit::Fit;
use super::outliers::{OutlierSet, add_outliers};
use crate::error::{ConvertError, Result};
use crate::plan::TensorType;
use crate::quantize::{ScaleOverflow, first_non_finite};

/// Largest finite f16.
const F16_MAX: f32 = 65504.0;

/// Smallest normal f16, 2^-14: scales of a tensor below it would have few bits or be zero.
const F16_MIN_NORMAL: f32 = 6.103_515_6e-5;

/// Encoded rows and how far they are from the original.
#[derive(Default)]
pub(crate) struct EncodedRows {
    pub data: Vec<u8>,
    pub stats: ErrorStats,
    /// What is stored apart: no rows where nothing was to be.
    pub outliers: Outliers,
}

impl EncodedRows {
    /// Adds the rows that follow.
    pub fn append(&mut self, next: EncodedRows) {
        self.data.extend_from_slice(&next.data);
        self.stats.merge(&next.stats);
        self.outliers.append(&next.outliers);
    }
}

impl Encoder<'_> {
    /// Checks that all values are finite and gives the type to store: `wanted`, or one with the range of f32 when the values
    /// do not fit f16 (values of an f16 or scales of a block type), because saturating them, or flushing them to zero, would
    /// break the model silently.
    pub fn choose_type(&self, info: &TensorInfo, tensor: &Tensor, wanted: TensorType) -> Result<TensorType> {
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
        // Of a type of groups the scales decide.
        let float = match wanted {
            TensorType::Groups(ty) => Some(ty.scale),
            _ => wanted.qsf(),
        };
        let range = match float.map(QuantType::encoding) {
            Some(Encoding::Float(FloatFormat::F32 | FloatFormat::Bf16)) => 0.0..=f32::INFINITY,
            // Its scale is a 127th of the largest value.
            Some(Encoding::SignedBytes) => 32.0 * F16_MIN_NORMAL..=127.0 * F16_MAX,
            // Block types of ggml have scales in binary16.
            None
            | Some(
                Encoding::Float(FloatFormat::F16)
                | Encoding::Affine(_)
                | Encoding::Symmetric { .. }
                | Encoding::Grid { .. }
                | Encoding::Trellis { .. },
            ) => F16_MIN_NORMAL..=F16_MAX,
        };
        Ok(match tensor.stored_type() {
            _ if largest == 0.0 || range.contains(&largest) => wanted,
            // The source's own type holds its values exactly.
            StoredType::Native(stored @ (QuantType::Bf16 | QuantType::F16)) => stored.into(),
            _ => TensorType::F32,
        })
    }

    /// Encodes rows `rows`, which must begin a panel if its layout has some, and end one or the tensor; with what is to be `apart`
    /// of them.
    pub fn encode(
        &self,
        info: &TensorInfo,
        tensor: &Tensor,
        rows: Range<usize>,
        form: BlockForm,
        fit: &Fit,
        apart: Option<&OutlierSet>,
    ) -> Result<EncodedRows> {
        let outputs = fit.outputs.as_deref().filter(|outputs| outputs.rows() == rows.len());
        if let Some(outputs) = outputs.filter(|_| !form.quant.is_float()) {
            let encoded = self.encode_along_rows(tensor, rows, form, fit, apart, outputs)?;
            return encoded.map_err(|ScaleOverflow| self.overflow(info, form.quant));
        }
        // Whole panels whatever the layout: the order of the errors' sums, and so META, does not depend on it.
        let rows_per_task = rows_per_task(tensor.cols()).next_multiple_of(PANEL_ROWS);
        let tasks = rows.len().div_ceil(rows_per_task);
        let parts: Vec<EncodedRows> = (0..tasks)
            .into_par_iter()
            .map(|task| {
                self.cancel.check()?;
                let first = rows.start + task * rows_per_task;
                let rows = first..(first + rows_per_task).min(rows.end);
                let count = rows.len() * tensor.cols();
                let (encoded, _) = self
                    .encode_task(tensor, rows, form, fit, apart, None)
                    .map_err(|ScaleOverflow| self.overflow(info, form.quant))?;
                self.progress.advance(count as u64);
                Ok(encoded)
            })
            .collect::<Result<_>>()?;
        let mut whole = EncodedRows::default();
        whole.data.reserve_exact(parts.iter().map(|p| p.data.len()).sum());
        for part in parts {
            whole.append(part);
        }
        Ok(whole)
    }

    /// Encodes rows whose targets are moved by `shifts`, where there are some; with these comes how far each value is from what
    /// its target was before.
    pub(super) fn encode_task(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        form: BlockForm,
        fit: &Fit,
        apart: Option<&OutlierSet>,
        shifts: Option<&[f32]>,
    ) -> Result<(EncodedRows, Vec<f32>), ScaleOverflow> {
        let (BlockForm { quant, layout }, cols) = (form, tensor.cols());
        let values = self.decode_rows(tensor, rows.clone());
        // The tensor's size was computed when it was opened, and no stored type is wider than twice f32.
        let row_bytes = quant.row_bytes(self.block, cols as u64).unwrap_or(0) as usize;
        let targets = match (&fit.correction, &fit.feedback) {
            // Floats keep what the source has.
            (Some(correction), Some(feedback)) if !quant.is_float() => {
                Some(correction.targets(self.isa, feedback, rows.start, &values))
            }
            _ => None,
        };
        let wanted = targets.as_ref().unwrap_or(&values);
        let moved =
            shifts.map(|shifts| wanted.iter().zip(shifts).map(|(value, shift)| value + shift).collect());
        let targets: &Vec<f32> = moved.as_ref().unwrap_or(wanted);
        let mut errors = Vec::with_capacity(shifts.map_or(0, <[f32]>::len));
        let (data, outliers) = match apart {
            Some(set) => set.quantize(self, quant, rows.start, targets, fit)?,
            None => (self.quantize(quant, cols, targets, fit)?, Outliers::default()),
        };
        let mut stats = ErrorStats::new();
        let mut decoded = vec![0.0; cols];
        let rows = values.chunks_exact(cols).zip(data.chunks_exact(row_bytes)).enumerate();
        for (row, (original, bytes)) in rows {
            self.decode_row(quant, bytes, &mut decoded);
            if apart.is_some() {
                add_outliers(&outliers, row, &mut decoded);
            }
            stats.add_row(self.isa, original, &decoded);
            if shifts.is_some() {
                let wanted = &wanted[row * cols..][..cols];
                errors.extend(wanted.iter().zip(&decoded).map(|(wanted, value)| wanted - value));
            }
        }
        let data = match quant.qsf().filter(|_| layout == Layout::Panels16) {
            Some(quant) => interleave(quant, self.block, cols, &data),
            None => data,
        };
        Ok((EncodedRows { data, stats, outliers }, errors))
    }

    /// Scales that leave f16 although all values are inside it: [`Encoder::choose_type`] excludes that.
    fn overflow(&self, info: &TensorInfo, quant: TensorType) -> ConvertError {
        qsf_format::FormatError::Unwritable {
            path: self.source.to_owned(),
            what: format!("tensor {} as {quant}", info.name),
            why: "its scales exceed f16; pass --tensor-type to store it as f32".into(),
        }
        .into()
    }
}
