//! The tensors of a QSF file.

use std::collections::HashMap;

use qsf_format::{Layout, Meta, QsfFile, TensorGroup, TensorId, TensorKind};
use serde_json::{Value, json};

use crate::console::table;

/// A tensor as it is stored.
pub(super) struct TensorLine {
    pub(super) place: String,
    /// For tensors of a layer; with the kind, what META knows a tensor by.
    pub(super) layer: Option<u32>,
    pub(super) kind: String,
    pub(super) quant: &'static str,
    pub(super) layout: Layout,
    pub(super) rows: u32,
    pub(super) cols: u32,
    pub(super) bytes: u64,
    /// Weights stored apart from the blocks, and their bytes.
    pub(super) outliers: Option<(usize, u64)>,
    pub(super) error: Option<(f64, f64)>,
}

impl TensorLine {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "place": self.place, "kind": self.kind, "type": self.quant, "layout": self.layout.name(),
            "rows": self.rows, "cols": self.cols, "bytes": self.bytes,
            "outliers": self.outliers.map_or(0, |o| o.0), "outlier_bytes": self.outliers.map_or(0, |o| o.1),
            "cosine": self.error.map(|e| e.0), "relative_error": self.error.map(|e| e.1),
        })
    }
}

/// Every tensor in file order, with the error that META records for it.
pub(super) fn list_tensors(file: &QsfFile, meta: Option<&Meta>) -> anyhow::Result<Vec<TensorLine>> {
    let mut lines = Vec::new();
    let embedding = file.embedding_info()?;
    let block = file.header().block;
    let mut outliers = file.outliers()?;
    let mut apart = |id: Option<TensorId>, quant, (rows, cols)| -> anyhow::Result<Option<(usize, u64)>> {
        let Some(id) = id else { return Ok(None) };
        let found = outliers.take(id, quant, rows, cols).map_err(|damage| damage.in_file(file.path()))?;
        Ok(found.map(|outliers| (outliers.len(), outliers.stored_bytes())))
    };
    lines.push(TensorLine {
        place: "embedding".into(),
        layer: None,
        kind: "token_embedding".into(),
        quant: embedding.quant.name(),
        layout: embedding.layout,
        rows: embedding.rows,
        cols: embedding.cols,
        bytes: embedding
            .quant
            .tensor_bytes(block, embedding.rows.into(), embedding.cols.into())
            .unwrap_or_default(),
        outliers: apart(
            Some(TensorId::of_model(TensorKind::TokenEmbedding)),
            embedding.quant,
            (embedding.rows, embedding.cols),
        )?,
        error: None,
    });
    let mut add = |place: String, layer: Option<u32>, group: TensorGroup| -> anyhow::Result<()> {
        for t in &group.tensors {
            let id = t.kind.map(|kind| TensorId { layer, kind });
            lines.push(TensorLine {
                place: place.clone(),
                layer,
                kind: t.kind.map_or_else(|| format!("kind {}", t.kind_id), |k| k.name().into()),
                quant: t.quant.name(),
                layout: t.layout,
                rows: t.rows,
                cols: t.cols,
                bytes: t.data.len() as u64,
                outliers: apart(id, t.quant, (t.rows, t.cols))?,
                error: None,
            });
        }
        Ok(())
    };
    for (layer, i) in (0..file.header().layers).zip(0..) {
        add(format!("layer {layer}"), Some(layer), file.layer(i)?)?;
    }
    add("final".into(), None, file.final_section()?.1)?;
    if let Some(positions) = file.positions()? {
        add("positions".into(), None, positions)?;
    }
    if let Some(meta) = meta {
        // By name, not by position: META may leave out tensors that its writer did not know, or order them otherwise.
        let records: HashMap<_, _> = meta.tensors.iter().map(|r| ((r.layer, r.kind.as_str()), r)).collect();
        for line in &mut lines {
            let record = records.get(&(line.layer, line.kind.as_str()));
            line.error = record.map(|r| (r.cosine, r.relative_error));
        }
    }
    Ok(lines)
}

/// All of them for people.
pub(super) fn tensor_table(tensors: &[TensorLine]) -> String {
    table(
        &["place", "tensor", "type", "layout", "rows", "cols", "bytes", "outliers", "cosine", "rel. error"],
        4,
        tensors.iter().map(|t| {
            vec![
                t.place.clone(),
                t.kind.clone(),
                t.quant.into(),
                t.layout.name().into(),
                t.rows.to_string(),
                t.cols.to_string(),
                t.bytes.to_string(),
                t.outliers.map_or("-".into(), |(count, bytes)| format!("{count} ({bytes} bytes)")),
                t.error.map_or("-".into(), |e| format!("{:.6}", e.0)),
                t.error.map_or("-".into(), |e| format!("{:.6}", e.1)),
            ]
        }),
    )
}
