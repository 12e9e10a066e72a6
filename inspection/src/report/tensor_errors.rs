//! How far each tensor is from the original, by the records of META: the worst ones, and behind a click all.

use std::fmt::Write as _;

use super::escape::html;
use super::heat_map::{Measure, bits, heat_map};
use crate::tensors::TensorLine;

/// How many of the worst are shown first.
const WORST: usize = 5;

/// The map of errors, the worst tensors and the list of all.
pub(super) fn tensor_errors(tensors: &[TensorLine]) -> String {
    let mut out = String::from("<h3>Error of tensors</h3>\n");
    let mut known: Vec<(&TensorLine, f64)> =
        tensors.iter().filter_map(|tensor| Some((tensor, tensor.error.relative_error?))).collect();
    // Stable: of equal ones the first in the file comes first.
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let worst =
        known.iter().take(WORST).map(|(tensor, error)| format!("{} ({error:.6})", html(&name(tensor))));
    let worst: Vec<String> = worst.collect();
    if worst.is_empty() {
        out += "<p>The file does not say how far its tensors are from the original.</p>\n";
    } else {
        // Writing to a string cannot fail.
        _ = writeln!(
            out,
            "<p>Norm of the difference between stored and original values, over the norm of the original ones. Furthest: {}.</p>",
            worst.join(", ")
        );
        out += &heat_map(tensors, Measure::Error, &[]);
    }
    _ = write!(
        out,
        "<details><summary>All {} tensors</summary>\n<div class=\"scroll\" role=\"region\" aria-label=\"All tensors\" tabindex=\"0\">\n<table>\
         <thead><tr><th scope=\"col\">tensor</th><th scope=\"col\">type</th><th scope=\"col\">layout</th><th scope=\"col\">rows</th><th scope=\"col\">cols</th>\
         <th scope=\"col\">bytes</th><th scope=\"col\">bits/weight</th><th scope=\"col\">outliers</th><th scope=\"col\">cosine</th>\
         <th scope=\"col\">rel. error</th></tr></thead>\n<tbody>\n",
        tensors.len()
    );
    for tensor in tensors {
        out += &row(tensor);
    }
    out + "</tbody></table></div></details>\n"
}

/// What a tensor is called; those of the model as a whole by their kind.
fn name(tensor: &TensorLine) -> String {
    tensor.layer.map_or_else(|| tensor.kind.clone(), |layer| format!("layer {layer} {}", tensor.kind))
}

fn row(tensor: &TensorLine) -> String {
    let error = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.6}"));
    let cells = [
        tensor.rows.to_string(),
        tensor.cols.to_string(),
        tensor.bytes.to_string(),
        format!("{:.2}", bits(tensor)),
        tensor.outliers.map_or("-".into(), |(count, _)| count.to_string()),
        error(tensor.error.cosine),
        error(tensor.error.relative_error),
    ];
    let mut out = format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>",
        html(&name(tensor)),
        tensor.quant,
        tensor.layout.name()
    );
    for cell in cells {
        // Writing to a string cannot fail.
        _ = write!(out, "<td class=\"number\">{cell}</td>");
    }
    out + "</tr>\n"
}
