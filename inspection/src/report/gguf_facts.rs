//! What a GGUF file says of itself: its tensors, and what qsf-convert has measured of it.

use std::path::{Path, PathBuf};

use qsf_format::{BlockSize, Layout, TensorKind};
use qsf_runtime::file_hash::hash_file;
use qsf_runtime::gguf::Metadata;
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::{self, StoredType, TensorInfo, WeightSource};
use qsf_runtime::{Result, RuntimeError};
use serde_json::json;

use super::facts::{Evaluation, FileFacts};
use crate::source::SourceFound;
use crate::tensors::{Measured, TensorLine};

/// Number of 64-bit floats among the types of GGUF's keys.
const F64: u32 = 12;

/// Reads the file at `path`. It has no checksums that could be verified: the page says so.
///
/// # Errors
/// When it cannot be read or is damaged, or a stop was requested.
pub(super) fn read_gguf(path: &Path, cancel: &Cancel) -> Result<FileFacts> {
    let model = source::open(path)?;
    let mut tensors = Vec::new();
    for info in model.tensors() {
        cancel.check()?;
        tensors.push(line(&*model, info)?);
    }
    let hashed = hash_file(path, &[cancel])?;
    // Of a model in several files, all of them.
    let size = |file: &PathBuf| Ok(file.metadata().map_err(|e| RuntimeError::io(file, "read", e))?.len());
    let bytes: u64 = model.files().iter().map(size).sum::<Result<u64>>()?;
    let weights: u64 = model.tensors().iter().map(|info| info.rows as u64 * info.cols as u64).sum();
    let evaluation = model.gguf_metadata().and_then(evaluation);
    let mut json = SourceFound::look(path, true)?.to_json();
    json["sha256"] = json!(hashed.sha256);
    Ok(FileFacts {
        name: hashed.name,
        bytes,
        sha256: hashed.sha256,
        is_gguf: true,
        quant: "GGUF",
        block: BlockSize::default().into(),
        bits_per_weight: Some(bytes as f64 * 8.0 / weights.max(1) as f64),
        meta: None,
        evaluation,
        tensors,
        importance: Vec::new(),
        sections: Vec::new(),
        unprotected: Vec::new(),
        json,
    })
}

fn line(model: &dyn WeightSource, info: &TensorInfo) -> Result<TensorLine> {
    let place = match (info.id.layer, info.id.kind) {
        (Some(_), _) => "layer",
        (None, TensorKind::TokenEmbedding) => "embedding",
        (None, TensorKind::Positions) => "positions",
        (None, _) => "final",
    };
    Ok(TensorLine {
        place,
        layer: info.id.layer,
        kind: info.id.kind.name().into(),
        kind_id: info.id.kind.id(),
        known: true,
        quant: match info.stored {
            StoredType::Native(quant) => quant.name(),
            StoredType::Foreign(foreign) => foreign.name,
        },
        layout: Layout::Rows,
        rows: info.rows as u32,
        cols: info.cols as u32,
        bytes: model.load(info.id)?.stored_bytes(),
        outliers: None,
        error: Measured::default(),
    })
}

/// What `qsf-convert --eval` has measured, as `converter/src/gguf/metadata.rs` writes it.
fn evaluation(metadata: &Metadata) -> Option<Evaluation> {
    let number = |name: &str| {
        let key = format!("qsf.evaluation.{name}");
        let (.., bytes) = metadata.stored().find(|(known, ty, _)| *known == key && *ty == F64)?;
        Some(f64::from_le_bytes(bytes.try_into().ok()?)).filter(|value| value.is_finite())
    };
    number("perplexity")?;
    Some(Evaluation {
        text_sha256: None,
        ctx: number("context").map(|ctx| ctx as u64),
        tokens: None,
        perplexity: number("perplexity"),
        base_perplexity: number("base_perplexity"),
        kld: number("kl_divergence"),
        kld_stderr: number("kl_divergence_error"),
        top1: None,
    })
}
