//! What a conversion reports: a table for people, JSON for pipelines.

use std::path::PathBuf;

use qsf_calibration::SELF_SEED;
use qsf_converter::plan::{Plan, TensorReport};
use qsf_converter::{Calibration, Conversion, DivergenceEstimate, Prediction};
use qsf_format::{BlockSize, Outliers, VocabClusters, human_bytes};
use serde_json::{Value, json};

use crate::console::table;

/// An error measure; there may be none.
fn measure(found: Option<f64>) -> String {
    found.map_or("-".into(), |found| format!("{found:.6}"))
}

/// One row per tensor, if `tensors`, then the totals.
pub fn conversion_text(conversion: &Conversion, block: BlockSize, tensors: bool) -> String {
    let mut out = if tensors { tensor_table(conversion, block) + "\n" } else { String::new() };
    out += &format!(
        "{} weights in {}, {:.3} bits per weight over the whole file, {:.2} s\n",
        conversion.weights,
        human_bytes(conversion.file_bytes),
        conversion.bits_per_weight(),
        conversion.seconds
    );
    out + &measured_lines(conversion)
}

fn tensor_table(conversion: &Conversion, block: BlockSize) -> String {
    table(
        &["tensor", "type", "bits", "cosine", "rel. error"],
        2,
        conversion.tensors.iter().map(|t| {
            let promoted = t.promoted_from.map_or(String::new(), |from| format!(" (instead of {from})"));
            vec![
                t.name(),
                format!("{}{promoted}{}", t.quant, outliers_of(t)),
                format!("{:.2}", stored_bits(t, block)),
                measure(t.cosine),
                measure(t.relative_error),
            ]
        }),
    )
}

/// A line for each thing that was measured on the file.
fn measured_lines(conversion: &Conversion) -> String {
    let mut out = String::new();
    if let Some(exits) = &conversion.early_exits {
        let share = |agreeing| 100.0 * f64::from(agreeing) / f64::from(exits.positions.max(1));
        let of = exits.exits.iter().map(|exit| format!("{} {:.1} %", exit.layer, share(exit.agreeing)));
        out += &format!(
            "early exits; same likeliest token behind layer: {} ({} positions)\n",
            of.collect::<Vec<_>>().join(", "),
            exits.positions
        );
    }
    if let Some(clusters) = &conversion.clusters {
        let shares = clusters.containments.iter().filter(|c| c.probed.is_power_of_two());
        let shares: Vec<String> = shares
            .filter_map(|c| Some(format!("{} {:.2} %", c.probed, 100.0 * clusters.share(c.probed)?)))
            .collect();
        out += &format!(
            "{} vocabulary clusters; likeliest token in the first on {} positions: {}\n",
            clusters.count(),
            clusters.positions,
            shares.join(", ")
        );
    }
    if let Some(found) = &conversion.evaluation {
        let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
        out += &format!(
            "perplexity {:.4} against {:.4} ({:+.2} %), KL divergence {:.6} +- {:.6} nats, same top token {:.3} %\n",
            number("/ppl"),
            number("/base_ppl"),
            100.0 * (number("/ppl") / number("/base_ppl") - 1.0),
            number("/kld/mean"),
            number("/kld/stderr"),
            number("/top1"),
        );
    }
    out
}

/// What `--json` prints of a conversion.
pub fn conversion_json(conversion: &Conversion) -> Value {
    json!({
        "file_bytes": conversion.file_bytes,
        "weights": conversion.weights,
        "bits_per_weight": conversion.bits_per_weight(),
        "seconds": conversion.seconds,
        "calibration": conversion.calibration.as_ref().map(calibration_json),
        "tensors": conversion.tensors.iter().map(record_json).collect::<Vec<_>>(),
        "clusters": conversion.clusters.as_ref().map(clusters_json),
        "early_exits": conversion.early_exits.as_ref().map(|exits| json!({
            "positions": exits.positions,
            "exits": exits.exits.iter().map(|e| json!({"layer": e.layer, "agreeing": e.agreeing})).collect::<Vec<_>>(),
        })),
        "evaluation": conversion.evaluation,
        "missed_limits": conversion.missed,
    })
}

/// The files that were written, as people are told.
pub fn files_text(conversion: &Conversion) -> String {
    let first = conversion.path.display();
    match conversion.files.len() {
        0 | 1 => first.to_string(),
        2 => format!("{first} and another file"),
        more => format!("{first} and {} more files", more - 1),
    }
}

/// A tensor with what is not known or was not done as null, not left out as in META.
fn record_json(record: &TensorReport) -> Value {
    json!({
        "tensor": record.name(), "layer": record.layer, "kind": record.kind, "rows": record.rows, "cols": record.cols,
        "type": record.quant, "promoted_from": record.promoted_from, "outliers": record.outliers,
        "cosine": record.cosine, "relative_error": record.relative_error, "max_abs_error": record.max_abs_error,
    })
}

/// The types of the matrices of a plan.
pub fn plan_table(plan: &Plan, block: BlockSize) -> String {
    let matrices = plan.tensors().iter().filter(|tensor| tensor.info.id.kind.is_matrix());
    table(
        &["tensor", "type", "bits"],
        2,
        matrices.map(|tensor| {
            let bytes = tensor.quant.row_bytes(block, tensor.info.cols as u64).unwrap_or(0);
            let bits = bytes as f64 * 8.0 / tensor.info.cols.max(1) as f64;
            vec![tensor.info.id.to_string(), tensor.quant.to_string(), format!("{bits:.2}")]
        }),
    )
}

/// What is to be expected of the conversion `what`, for people. A compressed file is smaller than predicted.
pub fn prediction_lines(found: &Prediction, what: &str, compressed: bool) -> String {
    let divergence = match found.divergence {
        Some(DivergenceEstimate { mean, low, high }) => {
            format!("{mean:.4} nats per token, likely {low:.4} to {high:.4}")
        }
        None => "unknown: needs a target or --calibration, and a text of 512 tokens or more".into(),
    };
    let files = match found.files {
        None => String::new(),
        Some(1) => " (one file)".into(),
        Some(files) => format!(" ({files} files)"),
    };
    format!(
        "{what}: {} weights in {}{}{files}, {:.3} bits per weight over the whole file\n\
         estimated divergence from the model: {divergence}\n\
         estimated time: {}, memory: {}\n",
        found.weights,
        if compressed { "at most " } else { "" },
        human_bytes(found.file_bytes),
        found.bits_per_weight(),
        human_seconds(found.seconds),
        human_bytes(found.peak_bytes),
    )
}

/// What `--json` prints of what is to be expected.
pub fn prediction_json(found: &Prediction, block: BlockSize) -> Value {
    let types: Vec<Value> = found
        .plan
        .tensors()
        .iter()
        .map(|tensor| {
            let (id, info) = (tensor.info.id, &tensor.info);
            json!({
                "tensor": id.to_string(), "layer": id.layer, "kind": id.kind.name(), "rows": info.rows, "cols": info.cols,
                "type": tensor.quant,
            })
        })
        .collect();
    json!({
        "weights": found.weights,
        "predicted_weight_bytes": found.plan.predicted_bytes(block),
        "predicted_file_bytes": found.file_bytes,
        "predicted_bits_per_weight": found.bits_per_weight(),
        "predicted_kld_mean": found.divergence.map(|divergence| divergence.mean),
        "predicted_kld_low": found.divergence.map(|divergence| divergence.low),
        "predicted_kld_high": found.divergence.map(|divergence| divergence.high),
        "predicted_seconds": found.seconds,
        "predicted_peak_rss_bytes": found.peak_bytes,
        "calibration": found.calibration.as_ref().map(calibration_json),
        "tensors": types,
    })
}

/// A duration as people say it.
fn human_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A calibration text, and what each part of it gave.
fn calibration_json(text: &Calibration) -> Value {
    let built_in = [PathBuf::from("built-in text")];
    let files = if text.files.is_empty() { &built_in[..] } else { &text.files[..] };
    let parts = files.iter().zip(&text.parts).map(|(file, part)| {
        json!({
            "name": file.display().to_string(), "tokens": part.tokens.len(), "texts": part.texts,
            "conversations": part.conversations, "conversation_tokens": part.conversation_tokens,
        })
    });
    json!({
        "tokens": text.tokens.len(), "text_sha256": text.text_sha256, "parts": parts.collect::<Vec<_>>(),
        "seed": text.written.as_ref().map(|_| SELF_SEED),
    })
}

fn clusters_json(clusters: &VocabClusters) -> Value {
    json!({
        "count": clusters.count(),
        "positions": clusters.positions,
        "containment": clusters.containments.iter().map(|c| json!({
            "probed": c.probed, "positions": c.positions, "share": clusters.share(c.probed),
        })).collect::<Vec<_>>(),
    })
}

/// Bits per value as stored, padding of the last block and outliers included.
fn stored_bits(record: &TensorReport, block: BlockSize) -> f64 {
    let row = record.quant.row_bytes(block, record.cols.into()).unwrap_or(0);
    let apart = match record.outliers {
        0 => 0,
        count => Outliers::record_bytes(record.rows.into(), count),
    };
    (row as f64 + apart as f64 / f64::from(record.rows.max(1))) * 8.0 / f64::from(record.cols.max(1))
}

/// What is stored apart, in words.
fn outliers_of(record: &TensorReport) -> String {
    match record.outliers {
        0 => String::new(),
        count => format!(" and {count} outliers"),
    }
}
