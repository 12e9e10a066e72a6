//! Maps of the matrices of a file, layer by layer: what each takes, and how far it is from the original. Cells hold the
//! figure as text, so that nothing is said by colour alone.

use std::collections::HashMap;
use std::fmt::Write as _;

use qsf_format::TensorKind;

use super::importance::Bars;
use crate::tensors::TensorLine;

/// What a map shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Bits of a weight, those stored apart from the blocks included.
    Bits,
    /// Norm of the difference from the original over the norm of the original, by META.
    Error,
}

impl Measure {
    fn of(self, tensor: &TensorLine) -> Option<f64> {
        match self {
            Measure::Bits => Some(bits(tensor)),
            Measure::Error => tensor.error.relative_error,
        }
    }

    /// Where one colour ends and the next begins.
    fn bounds(self) -> [f64; 7] {
        match self {
            // Between the types, without and with a few outliers.
            Measure::Bits => [2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0],
            Measure::Error => [0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6],
        }
    }

    fn digits(self) -> usize {
        match self {
            Measure::Bits => 2,
            Measure::Error => 3,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Measure::Bits => "bits",
            Measure::Error => "error",
        }
    }

    fn caption(self) -> &'static str {
        match self {
            Measure::Bits => "Bits per weight",
            Measure::Error => "Relative error",
        }
    }
}

/// Bits of a weight of a tensor.
pub(super) fn bits(tensor: &TensorLine) -> f64 {
    let bytes = tensor.bytes as f64 + tensor.outliers.map_or(0.0, |(_, bytes)| bytes as f64);
    bytes * 8.0 / (f64::from(tensor.rows) * f64::from(tensor.cols)).max(1.0)
}

/// The matrices of the layers, a row for each layer, and those of the model as a whole; empty where nothing is known. Beside the
/// rows of layers how much each matters, where `importance` says it.
pub(super) fn heat_map(tensors: &[TensorLine], measure: Measure, importance: &[Option<f32>]) -> String {
    let matrices: Vec<(TensorKind, &TensorLine)> =
        tensors.iter().filter_map(|tensor| Some((matrix_kind(tensor)?, tensor))).collect();
    if !matrices.iter().any(|(_, tensor)| measure.of(tensor).is_some()) {
        return String::new();
    }
    let (of_layers, of_model): (Vec<_>, Vec<_>) =
        matrices.into_iter().partition(|(_, tensor)| tensor.layer.is_some());
    let mut out = String::new();
    for (caption, group) in [(" of each matrix", of_layers), (" outside of the layers", of_model)] {
        if !group.is_empty() {
            out += &grid(&group, measure, caption, importance);
        }
    }
    out + &legend(measure)
}

/// Its kind, where it is a matrix of a known one. There are few of these, whatever a file holds: so maps have few columns.
fn matrix_kind(tensor: &TensorLine) -> Option<TensorKind> {
    let kind = TensorKind::ALL.iter().copied().find(|kind| kind.name() == tensor.kind)?;
    kind.is_matrix().then_some(kind)
}

fn grid(
    matrices: &[(TensorKind, &TensorLine)],
    measure: Measure,
    of: &str,
    importance: &[Option<f32>],
) -> String {
    let mut kinds: Vec<TensorKind> = matrices.iter().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut layers: Vec<Option<u32>> = matrices.iter().map(|(_, tensor)| tensor.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    let cells: HashMap<_, _> =
        matrices.iter().map(|(kind, tensor)| ((tensor.layer, *kind), *tensor)).collect();
    let caption = format!("{}{of}", measure.caption());
    let bars = Bars::of(if layers == [None] { &[] } else { importance });
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\">\n\
         <table class=\"map {}\"><caption>{caption}</caption>\n<thead><tr><th scope=\"col\">{}</th>",
        measure.class(),
        if layers == [None] { "" } else { "layer" }
    );
    // Writing to a string cannot fail.
    for kind in &kinds {
        _ = write!(out, "<th scope=\"col\">{}</th>", kind.name());
    }
    out += bars.head();
    out += "</tr></thead>\n<tbody>\n";
    for layer in layers {
        let name = layer.map_or("model".into(), |layer| layer.to_string());
        _ = write!(out, "<tr><th scope=\"row\">{name}</th>");
        for kind in &kinds {
            out += &cells.get(&(layer, *kind)).map_or("<td></td>".into(), |tensor| cell(tensor, measure));
        }
        out += &bars.cell(layer);
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

fn cell(tensor: &TensorLine, measure: Measure) -> String {
    let Some(value) = measure.of(tensor) else { return "<td></td>".into() };
    format!(
        "<td class=\"s{}\" title=\"{}, {} bytes\">{value:.*}</td>",
        step(value, measure),
        tensor.quant,
        tensor.bytes,
        measure.digits()
    )
}

/// The colour of a value, of eight.
fn step(value: f64, measure: Measure) -> usize {
    measure.bounds().iter().filter(|bound| value >= **bound).count()
}

fn legend(measure: Measure) -> String {
    let bounds = measure.bounds();
    let mut out = format!("<p class=\"legend map {}\" aria-hidden=\"true\">", measure.class());
    for i in 0..=bounds.len() {
        let text = match i {
            0 => format!("below {}", bounds[0]),
            i => format!("from {}", bounds[i - 1]),
        };
        // Writing to a string cannot fail.
        _ = write!(out, "<span class=\"s{i}\">{text}</span>");
    }
    out + "</p>\n"
}
