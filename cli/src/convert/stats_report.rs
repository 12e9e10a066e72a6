//! What statistics files hold, for people and as JSON; with the model that they are of, also of the rows of its matrices.

use std::path::Path;

use qsf_calibration::{LayerSummary, MatrixSummary, MergedStats, StatsHeader, matrix_summaries};
use qsf_converter::Result;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::model_fingerprint;
use qsf_runtime::source::WeightSource;
use serde_json::{Value, json};

use crate::console::table;
use crate::json_document::document;

/// What is to be told of statistics files.
#[derive(Debug)]
pub struct StatsReport {
    header: StatsHeader,
    layers: Vec<LayerSummary>,
    /// `None` without the model.
    matrices: Option<Vec<MatrixSummary>>,
}

impl StatsReport {
    /// Reads `files`, added up; and every matrix of `model`, where it is given.
    ///
    /// # Errors
    /// When a file is damaged, they are of different models, or of another one than `model`.
    pub fn new<P: AsRef<Path>>(
        files: &[P],
        model: Option<&dyn WeightSource>,
        cpu: &Cpu,
    ) -> Result<StatsReport> {
        let mut merged = MergedStats::open(files)?;
        if let Some(source) = model {
            merged.check_model(&model_fingerprint(source)?)?;
        }
        let mut report = StatsReport {
            header: merged.header().clone(),
            layers: Vec::new(),
            matrices: model.map(|_| Vec::new()),
        };
        for layer in merged.layers() {
            let stats = merged.layer(layer)?;
            report.layers.push(LayerSummary::new(&stats));
            if let (Some(source), Some(matrices)) = (model, &mut report.matrices) {
                matrices.extend(matrix_summaries(source, cpu, &stats)?);
                source.release(layer);
            }
        }
        Ok(report)
    }

    /// For people.
    pub fn to_table(&self) -> String {
        let texts = self.header.texts.len();
        let mut out = format!(
            "{} tokens of {texts} text{} through model {}\n{}\n",
            self.header.tokens(),
            if texts == 1 { "" } else { "s" },
            &hex(&self.header.model)[..16],
            LayerSummary::HEAD,
        );
        out.extend(self.layers.iter().map(ToString::to_string));
        let Some(matrices) = &self.matrices else { return out };
        let numbers = |values: [f64; 3]| values.map(|value| format!("{value:.3e}"));
        out += "\n";
        out += &table(
            &["matrix", "rows", "row norm: min", "median", "max", "output variance: min", "median", "max"],
            1,
            matrices.iter().map(|matrix| {
                let mut line = vec![matrix.id.to_string(), matrix.rows.to_string()];
                line.extend(numbers(matrix.norm));
                line.extend(matrix.variance.map_or(["-", "-", "-"].map(str::to_owned), numbers));
                line
            }),
        );
        out
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let spread = |[min, median, max]: [f64; 3]| json!({ "min": min, "median": median, "max": max });
        let inputs = self.layers.iter().flat_map(|layer| {
            layer.inputs.iter().map(|input| {
                json!({
                    "layer": layer.layer, "input": format!("{:?}", input.input), "tokens": input.tokens,
                    "cols": input.cols, "mean_square": spread(input.mean_square), "dead_cols": input.channels.dead,
                    "outlier_cols": input.channels.outliers, "stored_bytes": input.bytes,
                })
            })
        });
        let of_layers = self.layers.iter().filter(|layer| layer.layer.is_some());
        let matrices = self.matrices.as_ref().map(|matrices| {
            let matrix = |matrix: &MatrixSummary| {
                json!({
                    "tensor": matrix.id.to_string(), "layer": matrix.id.layer, "kind": matrix.id.kind.name(), "rows": matrix.rows,
                    "row_norm": spread(matrix.norm), "output_variance": matrix.variance.map(spread),
                })
            };
            matrices.iter().map(matrix).collect::<Vec<_>>()
        });
        let members = json!({
            "model_fingerprint": hex(&self.header.model), "tokens": self.header.tokens(), "texts": self.header.texts.len(),
            "influence": of_layers.map(|layer| layer.influence).collect::<Vec<_>>(),
            "inputs": inputs.collect::<Vec<_>>(), "matrices": matrices,
        });
        document("statistics", members)
    }
}
