//! The tensors of a QSF file.

use std::collections::HashMap;
use std::sync::Arc;

use qsf_format::{
    Layout, Meta, Outliers, QsfFile, TensorGroup, TensorId, TensorKind, TensorRecord, UnknownKind,
};
use qsf_runtime::Result;
use serde_json::{Value, json};

use crate::table::table;

/// How far a tensor is from its source, where META says so.
#[derive(Default, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) cosine: Option<f64>,
    pub(crate) relative_error: Option<f64>,
    pub(crate) max_abs_error: Option<f64>,
}

/// A tensor as it is stored.
pub struct TensorLine {
    /// The part of the file: `embedding`, `layer`, `final` or `positions`.
    pub(crate) place: &'static str,
    /// For tensors of a layer; with the kind, what META knows a tensor by.
    pub(crate) layer: Option<u32>,
    /// The kind's name; of one that is not known, what META calls it, or its number.
    pub(crate) kind: String,
    pub(crate) kind_id: u32,
    pub(crate) known: bool,
    pub(crate) quant: &'static str,
    pub(crate) layout: Layout,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    pub(crate) bytes: u64,
    /// Weights stored apart from the blocks, and their bytes.
    pub(crate) outliers: Option<(usize, u64)>,
    pub(crate) error: Measured,
}

impl TensorLine {
    /// As an object.
    pub fn to_json(&self) -> Value {
        json!({
            "tensor": self.name(), "place": self.place, "layer": self.layer, "kind": self.kind, "kind_id": self.kind_id, "known": self.known,
            "type": self.quant, "layout": self.layout.name(),
            "rows": self.rows, "cols": self.cols, "stored_bytes": self.bytes,
            "outliers": self.outliers.map_or(0, |o| o.0), "outlier_bytes": self.outliers.map_or(0, |o| o.1),
            "cosine": self.error.cosine, "relative_error": self.error.relative_error,
            "max_abs_error": self.error.max_abs_error,
        })
    }

    /// Its name in options and plans.
    fn name(&self) -> String {
        self.layer.map_or_else(|| self.kind.clone(), |layer| format!("layer {layer} {}", self.kind))
    }

    /// The part of the file, in words.
    fn part(&self) -> String {
        self.layer.map_or_else(|| self.place.into(), |layer| format!("layer {layer}"))
    }

    /// The kind, in words: of one that is not known, its number too.
    fn kind_text(&self) -> String {
        let number = kind_number(self.kind_id);
        if self.known || self.kind == number {
            self.kind.clone()
        } else {
            format!("{} ({number})", self.kind)
        }
    }
}

/// What a kind is called that has no name.
fn kind_number(kind_id: u32) -> String {
    format!("kind {kind_id}")
}

/// Every tensor in file order, with the error that META records for it.
///
/// # Errors
/// When a part of the file that is looked at is damaged.
pub fn list_tensors(file: &QsfFile, meta: Option<&Meta>) -> Result<Vec<TensorLine>> {
    let mut lines = Vec::new();
    let embedding = file.embedding_info()?;
    let block = file.header().block;
    let mut outliers = file.outliers()?;
    let sizes = |outliers: Arc<Outliers>| (outliers.len(), outliers.stored_bytes());
    let of_embedding = outliers
        .take(TensorId::of_model(TensorKind::TokenEmbedding), embedding.quant, embedding.rows, embedding.cols)
        .map_err(|damage| damage.in_file(file.path()))?;
    lines.push(TensorLine {
        place: "embedding",
        layer: None,
        kind: TensorKind::TokenEmbedding.name().into(),
        kind_id: TensorKind::TokenEmbedding.id(),
        known: true,
        quant: embedding.quant.name(),
        layout: embedding.layout,
        rows: embedding.rows,
        cols: embedding.cols,
        bytes: embedding
            .quant
            .tensor_bytes(block, embedding.rows.into(), embedding.cols.into())
            .unwrap_or_default(),
        outliers: of_embedding.map(sizes),
        error: Measured::default(),
    });
    let mut add = |place, layer: Option<u32>, group: TensorGroup| -> Result<()> {
        let mut unknown = UnknownKind::among(layer, &group.tensors, meta).into_iter();
        for t in &group.tensors {
            let apart = outliers.take_of_entry(layer, t).map_err(|damage| damage.in_file(file.path()))?;
            let kind = match t.kind.map(|kind| kind.name().to_owned()).or_else(|| t.part_name()) {
                Some(name) => name,
                None => unknown.next().and_then(|kind| kind.name).unwrap_or_else(|| kind_number(t.kind_id)),
            };
            lines.push(TensorLine {
                place,
                layer,
                kind,
                kind_id: t.kind_id,
                known: !t.is_unknown(),
                quant: t.quant.name(),
                layout: t.layout,
                rows: t.rows,
                cols: t.cols,
                bytes: t.data.len() as u64,
                outliers: apart.map(sizes),
                error: Measured::default(),
            });
        }
        Ok(())
    };
    for (layer, i) in (0..file.header().layers).zip(0..) {
        add("layer", Some(layer), file.layer(i)?)?;
    }
    add("final", None, file.final_section()?.1)?;
    if let Some(positions) = file.positions()? {
        add("positions", None, positions)?;
    }
    if let Some(meta) = meta {
        // By name, not by position: META may leave out tensors that its writer did not know, or order them otherwise.
        let records: HashMap<_, _> = meta.tensors.iter().map(|r| ((r.layer, r.kind.as_str()), r)).collect();
        for line in &mut lines {
            if let Some(record) = records.get(&(line.layer, line.kind.as_str())) {
                let &&TensorRecord { cosine, relative_error, max_abs_error, .. } = record;
                line.error = Measured { cosine, relative_error, max_abs_error };
            }
        }
    }
    Ok(lines)
}

/// All of them for people.
pub fn tensor_table(tensors: &[TensorLine]) -> String {
    let number = |measure: Option<f64>| measure.map_or("-".into(), |measure| format!("{measure:.6}"));
    table(
        &[
            "place",
            "tensor",
            "type",
            "layout",
            "rows",
            "cols",
            "bytes",
            "outliers",
            "cosine",
            "rel. error",
            "max. error",
        ],
        4,
        tensors.iter().map(|t| {
            vec![
                t.part(),
                t.kind_text(),
                t.quant.into(),
                t.layout.name().into(),
                t.rows.to_string(),
                t.cols.to_string(),
                t.bytes.to_string(),
                t.outliers.map_or("-".into(), |(count, bytes)| format!("{count} ({bytes} bytes)")),
                number(t.error.cosine),
                number(t.error.relative_error),
                number(t.error.max_abs_error),
            ]
        }),
    )
}
