//! What single rows of matrices are worth: how long they are, and how much their outputs vary over a text.

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::linear::{Input, Products};
use qsf_runtime::source::{Tensor, WeightSource};

use crate::layer_stats::LayerStats;
use crate::moments::Moments;

/// Rows that are looked at together.
const ROWS_PER_RUN: usize = 256;

/// The rows of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct RowStats {
    /// Euclidean length of each row.
    pub norms: Vec<f64>,
    /// Variance of each output over the tokens of the text; `None` where the moments of the inputs are not known.
    pub variances: Option<Vec<f64>>,
}

/// What [`RowStats`] says of a matrix in a few numbers: least, median and greatest.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSummary {
    /// Which matrix.
    pub id: TensorId,
    /// Its rows.
    pub rows: usize,
    /// Of [`RowStats::norms`].
    pub norm: [f64; 3],
    /// Of [`RowStats::variances`].
    pub variance: Option<[f64; 3]>,
}

/// All matrices of the layer that `stats` are of, in file order; of the model as a whole for those of the head.
///
/// # Errors
/// When a tensor is damaged.
pub fn matrix_summaries(
    source: &dyn WeightSource,
    cpu: &Cpu,
    stats: &LayerStats,
) -> Result<Vec<MatrixSummary>> {
    let mut found = Vec::new();
    for info in source.tensors() {
        let TensorId { layer, kind } = info.id;
        if layer != stats.layer || !kind.is_matrix() {
            continue;
        }
        let tensor = source.load(info.id)?;
        // An embedding multiplies something only where it is the head, too.
        let reads = kind != TensorKind::TokenEmbedding || source.config().tied_head;
        let experts = layer.and_then(|layer| source.config().experts(layer)).map(|experts| experts.count);
        let stacked = matches!(kind, TensorKind::ExpertGate | TensorKind::ExpertUp | TensorKind::ExpertDown);
        let parts = experts.filter(|_| stacked).map_or(vec![None], |count| (0..count).map(Some).collect());
        let rows = tensor.rows() / parts.len();
        let mut all = RowStats { norms: Vec::new(), variances: Some(Vec::new()) };
        for (i, expert) in parts.into_iter().enumerate() {
            let moments = if reads { stats.moments(kind, expert) } else { None };
            let part = row_stats(cpu, &tensor, i * rows..(i + 1) * rows, moments.as_deref());
            all.norms.extend(part.norms);
            all.variances = all.variances.zip(part.variances).map(|(all, part)| [all, part].concat());
        }
        let (norm, variance) = (spread(&mut all.norms), all.variances.map(|mut all| spread(&mut all)));
        found.push(MatrixSummary { id: info.id, rows: tensor.rows(), norm, variance });
    }
    Ok(found)
}

/// Some rows of `tensor`. The variance of the output of a row w over inputs x with mean m is `w (E[x x'] - m m') w'`.
///
/// # Panics
/// When the matrix has no such rows, or the moments are of another number of columns.
pub fn row_stats(
    cpu: &Cpu,
    tensor: &Tensor,
    rows: std::ops::Range<usize>,
    moments: Option<&Moments>,
) -> RowStats {
    let (cols, count) = (tensor.cols(), rows.len());
    let covariance = moments.and_then(covariance).map(|values| Tensor::from_f32(cols, cols, &values));
    let (mut norms, mut variances) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut values, mut pulls) = (Vec::new(), Vec::new());
    for first in rows.clone().step_by(ROWS_PER_RUN) {
        let run = first..rows.end.min(first + ROWS_PER_RUN);
        values.resize(run.len() * cols, 0.0f32);
        for (row, out) in run.zip(values.chunks_exact_mut(cols)) {
            tensor.decode_row(cpu.isa(), row, out);
        }
        norms.extend(values.chunks_exact(cols).map(|row| f64::from(dot(row, row)).sqrt()));
        if let Some(covariance) = &covariance {
            pulls.resize(values.len(), 0.0f32);
            cpu.linear(covariance, None, &Input::float(&values, cols), &mut pulls);
            let pairs = values.chunks_exact(cols).zip(pulls.chunks_exact(cols));
            // Rounding can make nothing of a variance, and less.
            variances.extend(pairs.map(|(row, pull)| f64::from(dot(row, pull)).max(0.0)));
        }
    }
    RowStats { norms, variances: covariance.map(|_| variances) }
}

/// `E[x x'] - m m'`, n x n.
fn covariance(moments: &Moments) -> Option<Vec<f32>> {
    let mut values = moments.second_moment()?;
    let mean = moments.mean();
    for (row, m) in values.chunks_exact_mut(mean.len()).zip(&mean) {
        for (value, n) in row.iter_mut().zip(&mean) {
            *value = (f64::from(*value) - m * n) as f32;
        }
    }
    Some(values)
}

/// Least, median and greatest, of values that this sorts.
fn spread(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
    [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
}

#[cfg(test)]
mod tests {
    use qsf_runtime::cpu::{ColumnPanels, Isa};

    use super::*;
    use crate::moments::Detail;

    #[test]
    fn variances_are_those_of_the_outputs_themselves() {
        let cpu = Cpu::new(Isa::best());
        let (cols, tokens, rows) = (40, 300, 20);
        // Inputs with means of their own, some of them correlated.
        let noise = |i: usize| (i * 7919 % 1009) as f32 / 1009.0 - 0.5;
        let inputs: Vec<f32> = (0..tokens * cols)
            .map(|i| noise(i) + 0.3 * (i % cols) as f32 + if i % 3 == 0 { noise(i / cols) } else { 0.0 })
            .collect();
        let weights: Vec<f32> = (0..rows * cols).map(|i| noise(i + 12345)).collect();
        let mut moments = Moments::new(cols, Detail::Full).unwrap();
        let mut panels = ColumnPanels::new();
        panels.fill(&cpu, &inputs, cols);
        moments.add(&cpu, &inputs, &panels);
        let tensor = Tensor::from_f32(rows, cols, &weights);
        let found = row_stats(&cpu, &tensor, 3..rows, Some(&moments));
        assert_eq!(found.norms.len(), rows - 3);
        for (i, row) in weights.chunks(cols).enumerate().skip(3) {
            let product =
                |x: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
            let outputs: Vec<f64> = inputs.chunks(cols).map(product).collect();
            let mean = outputs.iter().sum::<f64>() / tokens as f64;
            let variance = outputs.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / tokens as f64;
            let (found, norm) = (found.variances.as_ref().unwrap()[i - 3], found.norms[i - 3]);
            assert!((found - variance).abs() < 1e-3 * variance, "row {i}: {found} for {variance}");
            assert!((norm - length(row)).abs() < 1e-6 * norm, "row {i}");
        }
        assert_eq!(row_stats(&cpu, &tensor, 0..rows, None).variances, None);
    }

    fn length(row: &[f32]) -> f64 {
        row.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>().sqrt()
    }
}
