//! What a conversion reports: a table for people, JSON for pipelines.

use qsf_format::cli::{human_bytes, table};
use qsf_format::{BlockSize, Outliers, TensorRecord, VocabClusters};
use serde_json::{Value, json};

use crate::pipeline::Conversion;

/// One row per tensor, then the totals.
pub fn conversion_table(conversion: &Conversion, block: BlockSize) -> String {
    let mut out = table(
        &["tensor", "type", "bits", "cosine", "rel. error"],
        2,
        conversion.tensors.iter().map(|t| {
            let promoted = t.promoted_from.map_or(String::new(), |from| format!(" (instead of {from})"));
            vec![
                tensor_name(t),
                format!("{}{promoted}{}", t.quant, outliers_of(t)),
                format!("{:.2}", stored_bits(t, block)),
                format!("{:.6}", t.cosine),
                format!("{:.6}", t.relative_error),
            ]
        }),
    );
    out += &format!(
        "\n{} weights in {}, {:.3} bits per weight over the whole file, {:.2} s\n",
        conversion.weights,
        human_bytes(conversion.file_bytes),
        conversion.bits_per_weight(),
        conversion.seconds
    );
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

/// The same as JSON.
pub fn conversion_json(conversion: &Conversion) -> Value {
    json!({
        "file_bytes": conversion.file_bytes,
        "weights": conversion.weights,
        "bits_per_weight": conversion.bits_per_weight(),
        "seconds": conversion.seconds,
        "tensors": conversion.tensors,
        "clusters": conversion.clusters.as_ref().map(clusters_json),
        "evaluation": conversion.evaluation,
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

fn tensor_name(record: &TensorRecord) -> String {
    match record.layer {
        Some(layer) => format!("layer {layer} {}", record.kind),
        None => record.kind.clone(),
    }
}

/// Bits per value as stored, padding of the last block and outliers included.
fn stored_bits(record: &TensorRecord, block: BlockSize) -> f64 {
    let row = record.quant.row_bytes(block, record.cols.into()).unwrap_or(0);
    let apart = match record.outliers {
        0 => 0,
        count => Outliers::record_bytes(record.rows.into(), count),
    };
    (row as f64 + apart as f64 / f64::from(record.rows.max(1))) * 8.0 / f64::from(record.cols.max(1))
}

/// What is stored apart, in words.
fn outliers_of(record: &TensorRecord) -> String {
    match record.outliers {
        0 => String::new(),
        count => format!(" and {count} outliers"),
    }
}
