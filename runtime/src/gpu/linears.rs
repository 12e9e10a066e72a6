//! Matrices with all that belongs to them, and norms, on the device.

use qsf_format::{ModelConfig, NormKind, RowParts};

use super::part_order::in_order_of;
use super::weights::{GpuMatrix, Uploader};
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use crate::weights::{Linear, Norm, Weight};

/// A matrix and its bias.
#[derive(Clone)]
pub struct GpuLinear {
    /// The matrix, or the first rows of one that no buffer can have, or that is in parts.
    pub matrix: GpuMatrix,
    /// Its other rows.
    pub below: Vec<GpuMatrix>,
    /// Where the bias begins among the vectors.
    pub bias: Option<u32>,
    /// What adapters add, each to some of the rows.
    pub updates: Vec<GpuLowRank>,
}

impl GpuLinear {
    /// Rows of all of it.
    pub fn rows(&self) -> u32 {
        self.pieces().map(|(matrix, _)| matrix.rows).sum()
    }

    /// What is in one buffer each, with where its part of the bias begins.
    pub fn pieces(&self) -> impl Iterator<Item = (&GpuMatrix, Option<u32>)> {
        let mut bias = self.bias;
        [&self.matrix].into_iter().chain(&self.below).map(move |matrix| {
            let own = bias;
            bias = bias.map(|at| at + matrix.rows);
            (matrix, own)
        })
    }
}

/// What adapters add to some rows of a matrix: two narrow matrices among the vectors.
#[derive(Clone)]
pub struct GpuLowRank {
    /// The first of the rows in its matrix, and how many.
    pub first: u32,
    pub rows: u32,
    pub inputs: u32,
    pub rank: u32,
    /// Where `rank` x `inputs` begins.
    pub down: u32,
    /// Where `rank` x `rows` begins.
    pub up: u32,
}

/// A matrix with all that belongs to it.
pub fn linear(uploader: &mut Uploader<'_>, linear: &Linear) -> Result<GpuLinear> {
    let matrices = uploader.pieces(resident(&linear.weight)?)?;
    Ok(with_vectors(uploader, matrices, linear, None))
}

/// A matrix, and what is below it, with its bias and what adapters add to it. Where its rows are in parts, all are in the order of these.
pub fn with_vectors(
    uploader: &mut Uploader<'_>,
    (matrix, below): (GpuMatrix, Vec<GpuMatrix>),
    linear: &Linear,
    parts: Option<&RowParts>,
) -> GpuLinear {
    let bias = linear.bias.as_deref().map(|bias| uploader.vector(&in_order_of(parts, bias)));
    GpuLinear { matrix, below, bias, updates: update(uploader, linear, parts).into_iter().collect() }
}

/// What adapters add to a matrix, whose rows may be in the order of parts.
fn update(uploader: &mut Uploader<'_>, linear: &Linear, parts: Option<&RowParts>) -> Option<GpuLowRank> {
    let low_rank = linear.low_rank.as_ref()?;
    let [outputs, inputs] = low_rank.shape();
    Some(GpuLowRank {
        first: 0,
        rows: outputs as u32,
        inputs: inputs as u32,
        rank: low_rank.rank() as u32,
        down: uploader.vector(&low_rank.down_rows()),
        up: uploader.vector(&in_order_of(parts, &low_rank.up_columns())),
    })
}

/// Matrices over the same input, their outputs one behind the other; those that follow in the buffer are one.
pub fn stack<'a>(
    uploader: &mut Uploader<'_>,
    linears: impl IntoIterator<Item = &'a Linear>,
) -> Result<Vec<GpuLinear>> {
    let linears: Vec<&Linear> = linears.into_iter().collect();
    // All matrices before all biases or after them: biases of one matrix must follow each other.
    let mut biases = linears.iter().map(|linear| linear.bias.as_deref().map(|bias| uploader.vector(bias)));
    let biases: Vec<Option<u32>> = biases.by_ref().collect();
    let all_or_none = biases.iter().all(|bias| bias.is_some() == biases[0].is_some());
    let mut stacked: Vec<GpuLinear> = Vec::new();
    for (linear, bias) in linears.into_iter().zip(biases) {
        let (matrix, below) = uploader.pieces(resident(&linear.weight)?)?;
        let (mut first, mut apart) = (0, Some(matrix));
        let above =
            stacked.last_mut().filter(|above| all_or_none && below.is_empty() && above.below.is_empty());
        if let Some(above) = above {
            first = above.matrix.rows;
            apart = apart.and_then(|matrix| above.matrix.join(matrix));
        }
        if let Some(matrix) = apart {
            stacked.push(GpuLinear { matrix, below, bias, updates: Vec::new() });
            first = 0;
        }
        if let (Some(to), Some(update)) = (stacked.last_mut(), update(uploader, linear, None)) {
            to.updates.push(GpuLowRank { first, ..update });
        }
    }
    Ok(stacked)
}

/// Gains of a norm without biases.
pub fn norm_gains(uploader: &mut Uploader<'_>, norm: &Option<Norm>) -> Option<u32> {
    norm.as_ref().map(|norm| uploader.vector(&norm.gain))
}

/// Gains, and for a kind that has them biases behind.
pub fn norm(uploader: &mut Uploader<'_>, config: &ModelConfig, norm: &Norm) -> u32 {
    let at = uploader.vector(&norm.gain);
    if config.norm.kind == NormKind::LayerNorm {
        match &norm.bias {
            Some(bias) => uploader.vector(bias),
            None => uploader.vector(&vec![0.0; norm.gain.len()]),
        };
    }
    at
}

/// A matrix that is in memory.
pub fn resident(weight: &Weight) -> Result<&Tensor> {
    weight.resident().ok_or_else(streamed)
}

/// Weights that come from disk.
pub fn streamed() -> RuntimeError {
    RuntimeError::NoGpu {
        why: "weights within a RAM budget are not for the GPU; leave out --ram-budget".into(),
    }
}

/// Something that a GPU does not compute.
pub fn not_there(what: &str) -> RuntimeError {
    RuntimeError::NoGpu { why: format!("{what} do not run there; use --device cpu") }
}
