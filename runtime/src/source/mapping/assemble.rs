//! One tensor of the model out of what is stored.

use std::ops::Range;

use super::store::TensorStore;
use crate::error::{Result, RuntimeError};
use crate::source::transpose::transpose;
use crate::source::{RowOrder, TensorInfo};
use crate::tensor::Tensor;
use qsf_cpu::math::exp;

/// Where a tensor comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// One name, or that of each expert.
    pub names: Vec<String>,
    /// What of it, or of each.
    pub part: StoredPart,
    /// Of pieces ([`Form::Piece`](super::table::Form::Piece)), how many outputs each has; else none.
    pub lens: Vec<usize>,
}

/// The part of a stored tensor that a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum StoredPart {
    /// Outputs from this one on.
    From(usize),
    /// Outputs in another order.
    Ordered(RowOrder),
    /// Outputs from this one on of a matrix stored as inputs x outputs.
    Transposed(usize),
    /// Of each of so many matrices, one below another and stored as inputs x outputs, every `step`-th output from `first` on.
    TransposedExperts {
        /// Matrices.
        experts: usize,
        /// First output.
        first: usize,
        /// From one output to the next.
        step: usize,
    },
    /// Of each run of outputs, `stride` from one to the next, the inputs as outputs; the runs one below another.
    RunsTransposed {
        /// Outputs of a run.
        run: usize,
        /// From the start of a run to that of the next.
        stride: usize,
    },
    /// A part of the values of a vector from this one on, where it is written.
    Piece(usize),
    /// Inputs in another order.
    Columns(RowOrder),
    /// All values, each less 1.
    MinusOne,
    /// `-e^v` of each value v.
    MinusExp,
}

/// Loads and arranges.
pub(super) fn load(info: &TensorInfo, origin: &Origin, store: &dyn TensorStore) -> Result<Tensor> {
    if !origin.lens.is_empty() {
        return pieces(info, origin, store);
    }
    let rows = info.rows / origin.names.len();
    let mut parts = Vec::with_capacity(origin.names.len());
    for name in &origin.names {
        let stored = store.load(name)?;
        let part = if info.id.kind.is_matrix() {
            matrix(&stored, origin.part, rows)
        } else {
            vector(&stored, origin.part, info.cols)
        };
        parts.push(part.filter(|part| part.cols() == info.cols).ok_or_else(|| {
            let expected = format!("{rows} x {} values for {}", info.cols, info.id);
            let found = format!("{} x {}", stored.rows(), stored.cols());
            RuntimeError::bad_input(store.file_of(name), format!("tensor {name}"), expected, found)
        })?);
    }
    Tensor::stacked(parts).filter(|all| all.rows() == info.rows).ok_or_else(|| {
        let file = store.file_of(&info.name);
        RuntimeError::bad_input(file, info.id.to_string(), "rows of one shape", "others")
    })
}

/// One tensor of all pieces.
fn pieces(info: &TensorInfo, origin: &Origin, store: &dyn TensorStore) -> Result<Tensor> {
    let stored = origin.names.iter().map(|name| store.load(name)).collect::<Result<Vec<_>>>()?;
    let all = if info.id.kind.is_matrix() {
        Tensor::stacked(stored)
    } else {
        let values: Vec<f32> = stored.iter().flat_map(Tensor::to_f32).collect();
        (values.len() == info.cols).then(|| Tensor::from_f32(1, info.cols, &values))
    };
    all.filter(|all| (all.rows(), all.cols()) == (info.rows, info.cols)).ok_or_else(|| {
        let expected = format!("pieces of {} x {} values together", info.rows, info.cols);
        RuntimeError::bad_input(store.file_of(&info.name), info.id.to_string(), expected, "others")
    })
}

fn matrix(stored: &Tensor, part: StoredPart, rows: usize) -> Option<Tensor> {
    match part {
        StoredPart::From(first) => slice(stored, first, rows),
        StoredPart::Ordered(order) => stored.reordered(order, rows),
        StoredPart::Transposed(first) => transposed(stored, first..first.checked_add(rows)?),
        StoredPart::TransposedExperts { experts, first, step } => {
            transposed_experts(stored, experts, [first, step], rows)
        }
        StoredPart::RunsTransposed { run, stride } => runs_transposed(stored, run, stride),
        StoredPart::Columns(order) => stored.with_columns(order),
        StoredPart::MinusOne | StoredPart::MinusExp | StoredPart::Piece(_) => None,
    }
}

/// Each expert is transposed alone, and of all its outputs those are taken that are asked for.
fn transposed_experts(
    stored: &Tensor,
    experts: usize,
    [first, step]: [usize; 2],
    rows: usize,
) -> Option<Tensor> {
    let (inputs, outputs) = (stored.rows().checked_div(experts)?, rows.checked_div(experts)?);
    let mut all = Vec::with_capacity(experts);
    for e in 0..experts {
        let expert = transposed(&stored.slice_rows(e * inputs..(e + 1) * inputs), 0..stored.cols())?;
        all.push(match step {
            1 => slice(&expert, first, outputs)?,
            _ => expert.reordered(RowOrder::Strided { first, run: 1, stride: step }, outputs)?,
        });
    }
    Tensor::stacked(all)
}

fn runs_transposed(stored: &Tensor, run: usize, stride: usize) -> Option<Tensor> {
    let count = stored.rows().checked_div(stride)?;
    let one = |i: usize| transposed(&slice(stored, i * stride, run)?, 0..stored.cols());
    Tensor::stacked((0..count).map(one).collect::<Option<_>>()?)
}

fn slice(stored: &Tensor, first: usize, rows: usize) -> Option<Tensor> {
    let end = first.checked_add(rows).filter(|&end| end <= stored.rows())?;
    Some(stored.slice_rows(first..end))
}

/// Transposed when it is asked for: plain values as they are, others as floats.
fn transposed(stored: &Tensor, outputs: Range<usize>) -> Option<Tensor> {
    let (rows, cols) = (outputs.len(), stored.rows());
    if outputs.end > stored.cols() {
        return None;
    }
    let stored = match stored.native().filter(|native| native.quant().is_float()) {
        Some(_) => stored.clone(),
        None => all_floats(stored),
    };
    let native = stored.native()?;
    let width = native.row_bytes().checked_div(stored.cols())?;
    let bytes = transpose(native.bytes(), width, stored.cols(), outputs);
    Tensor::new(rows, cols, native.quant(), native.block(), bytes.into()).ok()
}

fn all_floats(stored: &Tensor) -> Tensor {
    Tensor::from_f32(stored.rows(), stored.cols(), &stored.to_f32())
}

/// Values of a vector, in the type they have where that is a plain one.
fn vector(stored: &Tensor, part: StoredPart, len: usize) -> Option<Tensor> {
    let count = stored.rows().checked_mul(stored.cols())?;
    let place: Box<dyn Fn(usize) -> usize> = match part {
        StoredPart::From(0) if stored.rows() == 1 && count == len => return Some(stored.clone()),
        StoredPart::From(first) | StoredPart::Transposed(first) => Box::new(move |i| first + i),
        StoredPart::TransposedExperts { .. } => return None,
        StoredPart::Ordered(order) => Box::new(move |i| order.stored_row(i)),
        StoredPart::RunsTransposed { .. } | StoredPart::Columns(_) | StoredPart::Piece(_) => return None,
        StoredPart::MinusOne => {
            let values: Vec<f32> = stored.to_f32().iter().map(|value| value - 1.0).collect();
            return (count == len).then(|| Tensor::from_f32(1, len, &values));
        }
        StoredPart::MinusExp => {
            let values: Vec<f32> = stored.to_f32().iter().map(|value| -exp(*value)).collect();
            return (count == len).then(|| Tensor::from_f32(1, len, &values));
        }
    };
    if (0..len).any(|i| place(i) >= count) {
        return None;
    }
    let floats =
        stored.native().filter(|native| native.quant().is_float()).is_none().then(|| all_floats(stored));
    let native = floats.as_ref().unwrap_or(stored).native()?;
    let width = native.bytes().len().checked_div(count)?;
    let bytes: Vec<u8> =
        (0..len).flat_map(|i| &native.bytes()[place(i) * width..][..width]).copied().collect();
    Tensor::new(1, len, native.quant(), native.block(), bytes.into()).ok()
}
