//! Compressed files that expand far more than weights do. A chunk may expand 255 times, so a small file could take much memory
//! before its tensors are found not to be those of its model. Here their headers are compared with the model first, with one
//! decompressed chunk in memory.

use qsf_format::{ModelConfig, QsfFile, RowPartTable, TensorEntry, TensorId, TensorKind};

use super::TensorInfo;
use super::shape::check_complete;
use crate::error::{Result, RuntimeError};

/// Quantized weights shrink by some per cent, floats by a third (docs/measurements/format.md). What expands more often than this
/// is looked at twice, which costs reading many chunks twice.
const USUAL_EXPANSION: u64 = 4;
/// What any file may expand to without that.
const SMALL: u64 = 8 << 20;

/// Whether the layers of a file expand to so much that headers are to be read before they are decompressed.
pub(crate) fn is_suspicious(file: &QsfFile) -> bool {
    let layers = file.layers().iter();
    let raw = layers.fold(0, |sum: u64, layer| sum.saturating_add(layer.raw_bytes));
    raw > file.header().file_bytes.saturating_mul(USUAL_EXPANSION).saturating_add(SMALL)
}

/// Why such a file is refused where its author is not trusted: all of its layers may be of the right shapes, and zeros.
pub(crate) fn too_expansive(file: &QsfFile) -> RuntimeError {
    RuntimeError::Unsupported {
        path: file.path().to_owned(),
        what: format!("layers that expand to more than {USUAL_EXPANSION} times the file, with --untrusted"),
        supported: "what weights compress to".into(),
    }
}

/// Compares the tensors of all parts with what the model needs, by their headers alone.
///
/// # Errors
/// When a header is damaged, or a tensor is missing, of another shape or of another model.
pub(crate) fn check_headers(file: &QsfFile, config: &ModelConfig) -> Result<()> {
    let embedding = file.embedding_info()?;
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    let (rows, cols) = (embedding.rows, embedding.cols);
    let mut infos = vec![info(id, rows, cols, embedding.quant.into())];
    let mut row_parts = file.row_parts()?;
    for layer in 0..file.layers().len() {
        let tensors = file.layer_outline(layer)?.tensors;
        add(file, config, &mut infos, Some(layer as u32), &tensors)?;
        add_parts(file, &mut row_parts, &mut infos, Some(layer as u32), tensors.iter())?;
    }
    let last = file.final_section()?.1.tensors;
    add(file, config, &mut infos, None, &last)?;
    let embedding = embedding.entry(0..0);
    add_parts(file, &mut row_parts, &mut infos, None, last.iter().chain([&embedding]))?;
    if let Some(positions) = file.positions()? {
        add(file, config, &mut infos, None, &positions.tensors)?;
    }
    check_complete(file.path(), config, &infos)
}

fn add(
    file: &QsfFile,
    config: &ModelConfig,
    infos: &mut Vec<TensorInfo>,
    layer: Option<u32>,
    tensors: &[TensorEntry],
) -> Result<()> {
    file.check_kinds_known(layer, tensors)?;
    for entry in tensors {
        let quant = entry.quant.into();
        match entry.kind {
            // Two vectors in one.
            Some(TensorKind::FfnBiases) => {
                let parts = [(TensorKind::FfnUpBias, config.ffn), (TensorKind::FfnDownBias, config.hidden)];
                infos.extend(parts.map(|(kind, cols)| info(TensorId { layer, kind }, 1, cols, quant)));
            }
            Some(kind) => infos.push(info(TensorId { layer, kind }, entry.rows, entry.cols, quant)),
            // A part of a matrix, of which others were met, or, as it is optional, passed over.
            None => {}
        }
    }
    Ok(())
}

/// Gives matrices in parts among the tensors the rows of all parts.
fn add_parts<'t>(
    file: &QsfFile,
    row_parts: &mut RowPartTable,
    infos: &mut [TensorInfo],
    layer: Option<u32>,
    tensors: impl Iterator<Item = &'t TensorEntry>,
) -> Result<()> {
    let found = row_parts.take(layer, &tensors.collect::<Vec<_>>());
    for matrix in found.map_err(|damage| damage.in_file(file.path()))? {
        let id = TensorId { layer, kind: matrix.kind };
        infos.iter_mut().filter(|info| info.id == id).for_each(|info| info.rows = matrix.rows.rows());
    }
    Ok(())
}

fn info(id: TensorId, rows: u32, cols: u32, stored: crate::tensor::StoredType) -> TensorInfo {
    TensorInfo { id, name: id.to_string(), rows: rows as usize, cols: cols as usize, stored }
}
