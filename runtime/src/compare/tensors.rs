//! Differences of the tensors of two models, by the values that they decode to.

use qsf_format::TensorId;
use rayon::prelude::*;

use super::ErrorStats;
use crate::error::Result;
use crate::progress::{Cancel, Progress};
use crate::source::{TensorInfo, WeightSource};
use crate::tensor::Tensor;
use qsf_cpu::Isa;

/// Values of the rows that a thread decodes at a time.
const VALUES_PER_TASK: usize = 1 << 16;

/// A tensor of one model or of both.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorComparison {
    /// Which tensor.
    pub id: TensorId,
    /// How the first has it.
    pub a: Option<TensorSide>,
    /// How the second has it.
    pub b: Option<TensorSide>,
    /// How far the values are apart, where both have it in the same shape.
    pub values: Option<ValueDifference>,
}

/// How a model has a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSide {
    /// Name in the file.
    pub name: String,
    /// Rows; 1 for vectors.
    pub rows: usize,
    /// Values per row.
    pub cols: usize,
    /// Type of the stored values.
    pub stored: String,
    /// Bytes of the stored values.
    pub bytes: u64,
}

/// How far the values of a tensor are from those of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueDifference {
    /// Values that are not equal.
    pub count: u64,
    /// Row and column of the first.
    pub first: Option<(usize, usize)>,
    /// Norm of the difference over norm of the first tensor.
    pub relative_error: f64,
    /// Cosine of the angle between the two.
    pub cosine: f64,
    /// Largest magnitude of a difference.
    pub max_abs_error: f64,
}

impl TensorComparison {
    /// Whether both have it with the same values, in whatever type.
    pub fn is_equal(&self) -> bool {
        self.values.is_some_and(|values| values.count == 0)
    }
}

/// Compares every tensor of `a` and of `b`, one after the other.
///
/// # Errors
/// When one is damaged or cannot be read, or the user interrupts.
pub fn compare_tensors(
    a: &dyn WeightSource,
    b: &dyn WeightSource,
    isa: Isa,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Vec<TensorComparison>> {
    let has = |source: &dyn WeightSource, id: TensorId| source.tensors().iter().any(|info| info.id == id);
    let ids = |source: &dyn WeightSource| source.tensors().iter().map(|info| info.id).collect::<Vec<_>>();
    let only_b = ids(b).into_iter().filter(|id| !has(a, *id));
    let ids: Vec<TensorId> = ids(a).into_iter().chain(only_b).collect();
    progress.begin("comparing", ids.len() as u64);
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        cancel.check()?;
        let (in_a, in_b) = (load(a, id)?, load(b, id)?);
        let values = match (&in_a, &in_b) {
            (Some((_, x)), Some((_, y))) if (x.rows(), x.cols()) == (y.rows(), y.cols()) => {
                Some(value_difference(x, y, isa, cancel)?)
            }
            _ => None,
        };
        found.push(TensorComparison {
            id,
            a: in_a.map(|(side, _)| side),
            b: in_b.map(|(side, _)| side),
            values,
        });
        a.release(id.layer);
        b.release(id.layer);
        progress.advance(1);
    }
    progress.end();
    Ok(found)
}

fn load(source: &dyn WeightSource, id: TensorId) -> Result<Option<(TensorSide, Tensor)>> {
    let Some(info) = source.tensors().iter().find(|info| info.id == id) else { return Ok(None) };
    let tensor = source.load(id)?;
    let TensorInfo { name, rows, cols, stored, .. } = info;
    let side = TensorSide {
        name: name.clone(),
        rows: *rows,
        cols: *cols,
        stored: stored.to_string(),
        bytes: tensor.stored_bytes(),
    };
    Ok(Some((side, tensor)))
}

/// What a thread has found in some rows.
#[derive(Default)]
struct RowsFound {
    stats: ErrorStats,
    count: u64,
    first: Option<(usize, usize)>,
}

/// Both have the same shape.
fn value_difference(a: &Tensor, b: &Tensor, isa: Isa, cancel: &Cancel) -> Result<ValueDifference> {
    let (rows, cols) = (a.rows(), a.cols());
    let rows_per_task = (VALUES_PER_TASK / cols.max(1)).max(1);
    let tasks = rows.div_ceil(rows_per_task);
    let parts = (0..tasks).into_par_iter().map(|task| {
        cancel.check()?;
        let first = task * rows_per_task;
        Ok(compare_rows(a, b, first..rows.min(first + rows_per_task), isa))
    });
    let mut whole = RowsFound::default();
    for part in parts.collect::<Result<Vec<RowsFound>>>()? {
        whole.stats.merge(&part.stats);
        whole.count += part.count;
        whole.first = whole.first.or(part.first);
    }
    let RowsFound { stats, count, first } = whole;
    Ok(ValueDifference {
        count,
        first,
        relative_error: stats.relative_error(),
        cosine: stats.cosine(),
        max_abs_error: stats.max_abs_error(),
    })
}

fn compare_rows(a: &Tensor, b: &Tensor, rows: std::ops::Range<usize>, isa: Isa) -> RowsFound {
    let mut part = RowsFound::default();
    let (mut x, mut y) = (vec![0.0f32; a.cols()], vec![0.0f32; b.cols()]);
    for row in rows {
        a.decode_row(isa, row, &mut x);
        b.decode_row(isa, row, &mut y);
        part.stats.add_row(isa, &x, &y);
        let differs = |(x, y): (&f32, &f32)| x != y && !(x.is_nan() && y.is_nan());
        let count = x.iter().zip(&y).filter(|pair| differs(*pair)).count();
        if count > 0 && part.first.is_none() {
            part.first = x.iter().zip(&y).position(differs).map(|col| (row, col));
        }
        part.count += count as u64;
    }
    part
}
