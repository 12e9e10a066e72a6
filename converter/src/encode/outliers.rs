//! Weights that are stored apart from the blocks of their matrix: which, and with which values.
//!
//! The largest are taken, by `w^2` times what an error in their column costs where that is known; else those beyond three
//! standard deviations of their row. What is left of a matrix without them has a smaller range, so its blocks finer
//! steps (SpQR, arXiv 2306.03078). When the blocks are made, each value is set anew to what makes the error of its row least.

use std::cmp::Reverse;
use std::ops::Range;

use half::f16;
use qsf_format::Outliers;
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::source::Tensor;
use rayon::prelude::*;

use super::encoder::{Encoder, rows_per_task};
use super::fit::Fit;
use crate::error::Result;
use crate::plan::TensorType;
use crate::quantize::ScaleOverflow;

/// Square of the standard deviations of its row that a weight is an outlier beyond, where nothing else is known.
const DEVIATIONS: f32 = 9.0;
/// Saliencies are counted by their upper 16 bits.
const BINS: usize = 1 << 16;

/// The weights of some rows that are stored apart.
#[derive(Debug)]
pub(crate) struct OutlierSet {
    /// The tensor's row that is the first here.
    first: usize,
    /// Values of a row.
    cols: usize,
    /// Where the columns of each row begin; one more at the end.
    starts: Vec<usize>,
    columns: Vec<u16>,
}

/// What part of all saliency the weights of a set have.
pub(crate) struct Saliency {
    pub chosen: f64,
    pub all: f64,
}

impl OutlierSet {
    /// The `count` weights of the rows `rows` that matter most, or fewer where fewer stand out. Of equal ones the first.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn choose(
        encoder: &Encoder<'_>,
        tensor: &Tensor,
        rows: Range<usize>,
        count: usize,
        fit: &Fit,
    ) -> Result<(OutlierSet, Saliency)> {
        let cols = tensor.cols();
        let salient = |part: Range<usize>| {
            let mut values = encoder.decode_rows(tensor, part);
            values.chunks_exact_mut(cols).for_each(|row| saliencies(row, fit));
            values
        };
        let counted = tasks(&rows, cols).map(|part| {
            encoder.cancel.check()?;
            let values = salient(part);
            let mut bins = vec![0u32; BINS];
            values.iter().for_each(|v| bins[(v.to_bits() >> 16) as usize] += 1);
            Ok((bins, values.iter().map(|v| f64::from(*v)).sum::<f64>()))
        });
        let mut bins = vec![0u64; BINS];
        let mut all = 0.0;
        for part in counted.collect::<Vec<Result<_>>>() {
            let (part, sum) = part?;
            bins.iter_mut().zip(part).for_each(|(all, count)| *all += u64::from(count));
            all += sum;
        }
        let least = last_bin(&bins, count);
        let found = tasks(&rows, cols).map(|part| {
            let first = (part.start - rows.start) * cols;
            let values = salient(part);
            let large = values.iter().enumerate().filter(|(_, v)| (v.to_bits() >> 16) as usize >= least);
            large.filter(|(_, v)| **v > 0.0).map(|(i, v)| (v.to_bits(), first + i)).collect::<Vec<_>>()
        });
        let mut found: Vec<(u32, usize)> = found.collect::<Vec<_>>().concat();
        found.sort_unstable_by_key(|(bits, at)| (Reverse(*bits), *at));
        found.truncate(count);
        let chosen = found.iter().map(|(bits, _)| f64::from(f32::from_bits(*bits))).sum();
        found.sort_unstable_by_key(|(_, at)| *at);
        let mut starts = vec![0; rows.len() + 1];
        found.iter().for_each(|(_, at)| starts[at / cols + 1] += 1);
        (1..starts.len()).for_each(|i| starts[i] += starts[i - 1]);
        let columns = found.iter().map(|(_, at)| (at % cols) as u16).collect();
        Ok((OutlierSet { first: rows.start, cols, starts, columns }, Saliency { chosen, all }))
    }

    /// Columns of a row of the tensor.
    fn row(&self, row: usize) -> &[u16] {
        &self.columns[self.starts[row - self.first]..self.starts[row - self.first + 1]]
    }

    /// The tensor's rows from `first` on, which are to become `targets`, as plain rows of `quant`; and what of them is in this
    /// set, with its values.
    pub fn quantize(
        &self,
        encoder: &Encoder<'_>,
        quant: TensorType,
        first: usize,
        targets: &[f32],
        fit: &Fit,
    ) -> Result<(Vec<u8>, Outliers), ScaleOverflow> {
        let cols = self.cols;
        let mut rest = targets.to_vec();
        for (row, values) in rest.chunks_exact_mut(cols).enumerate() {
            for col in self.row(first + row) {
                let value = &mut values[usize::from(*col)];
                *value -= nearest(*value);
            }
        }
        let bytes = encoder.quantize(quant, cols, &rest, fit)?;
        let row_bytes = bytes.len() / (rest.len() / cols).max(1);
        let (mut outliers, mut errors, mut moments) = (Outliers::default(), vec![0.0; cols], vec![0.0; cols]);
        let rows = bytes.chunks_exact(row_bytes).zip(targets.chunks_exact(cols)).enumerate();
        for (row, (bytes, targets)) in rows {
            encoder.decode_row(quant, bytes, &mut errors);
            errors.iter_mut().zip(targets).for_each(|(error, target)| *error -= target);
            // First what makes each weight right by itself.
            let mut entries: Vec<(u16, f32)> = Vec::new();
            for col in self.row(first + row) {
                let error = &mut errors[usize::from(*col)];
                let value = nearest(-*error);
                *error += value;
                entries.push((*col, value));
            }
            // Then what makes up for the errors of the others: a step of coordinate descent on `e H e'` each.
            for (col, value) in &mut entries {
                let col = usize::from(*col);
                if fit.moment_row(col, &mut moments) && moments[col] > 0.0 {
                    let moved = nearest(*value - dot(&errors, &moments) / moments[col]);
                    errors[col] += moved - *value;
                    *value = moved;
                }
            }
            outliers.push_row(&entries);
        }
        Ok((bytes, outliers))
    }
}

/// Adds what is stored apart to a decoded row.
pub(crate) fn add_outliers(outliers: &Outliers, row: usize, decoded: &mut [f32]) {
    let (cols, values) = outliers.row(row);
    cols.iter().zip(values).for_each(|(col, value)| decoded[usize::from(*col)] += value);
}

/// `rows` of `cols` values, a task's share at a time.
fn tasks(rows: &Range<usize>, cols: usize) -> impl IndexedParallelIterator<Item = Range<usize>> + use<> {
    let (step, end) = (rows_per_task(cols), rows.end);
    let firsts = rows.clone().step_by(step).collect::<Vec<_>>();
    firsts.into_par_iter().map(move |first| first..end.min(first + step))
}

/// The bin of the last of `count` weights, the largest first; zeros are never taken.
fn last_bin(bins: &[u64], count: usize) -> usize {
    let (mut least, mut above) = (bins.len(), 0);
    while least > 1 && above < count as u64 {
        least -= 1;
        above += bins[least];
    }
    least
}

/// In the place of each weight of a row what storing it apart may be worth.
fn saliencies(row: &mut [f32], fit: &Fit) {
    match &fit.importance {
        Some(importance) => {
            row.iter_mut().zip(importance.iter()).for_each(|(w, importance)| *w = *w * *w * importance);
        }
        None => {
            let bound = DEVIATIONS * (dot(row, row) / row.len() as f32);
            row.iter_mut().for_each(|w| *w = if *w * *w > bound { *w * *w } else { 0.0 });
        }
    }
    // Beyond the largest number, and so never zero over zero.
    row.iter_mut().for_each(|w| *w = if w.is_finite() { *w } else { f32::MAX });
}

/// The finite f16 that is nearest.
fn nearest(value: f32) -> f32 {
    f16::from_f32(value.clamp(-65504.0, 65504.0)).to_f32()
}
