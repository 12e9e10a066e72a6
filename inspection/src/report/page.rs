//! The page of a report: one HTML file that loads nothing and needs no script.

use std::fmt::Write as _;

use qsf_format::human_bytes;

use super::chart::chart;
use super::escape::html;
use super::facts::FileFacts;
use super::figure::{DIGITS, figure, fixed};
use super::files_table::{files_table, types};
use super::heat_map::{Measure, heat_map};
use super::models::title;
use super::provenance::provenance;
use super::tensor_errors::tensor_errors;

/// Forbids scripts and everything from outside, should text of a file get through as markup after all.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page about `files`.
pub fn page(files: &[FileFacts]) -> String {
    let title = html(&title(files));
    let drawing = chart(files);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}: QSF report</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#files\">To the figures</a>\n<header>\n<h1>{title}</h1>\n{}</header>\n<main>\n",
        include_str!("style.css"),
        contents(files, !drawing.is_empty())
    );
    // Writing to a string cannot fail.
    _ = write!(out, "<section id=\"files\">\n<h2>Files</h2>\n{}</section>\n", files_table(files));
    if !drawing.is_empty() {
        _ = write!(out, "<section id=\"chart\">\n<h2>Size and KL divergence</h2>\n{drawing}</section>\n");
    }
    for (i, file) in files.iter().enumerate() {
        _ = write!(out, "<section id=\"file-{}\">\n{}</section>\n", i + 1, section(file));
    }
    _ = write!(
        out,
        "</main>\n<footer><p>Made by qsf-inspect {} from the files alone. This page loads nothing.</p></footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// Links to the parts, where there are several.
fn contents(files: &[FileFacts], has_chart: bool) -> String {
    if files.len() < 2 {
        return String::new();
    }
    let mut out =
        String::from("<nav aria-label=\"Parts of the report\"><ul>\n<li><a href=\"#files\">Files</a></li>\n");
    if has_chart {
        out += "<li><a href=\"#chart\">Size and KL divergence</a></li>\n";
    }
    for (i, file) in files.iter().enumerate() {
        // Writing to a string cannot fail.
        _ = writeln!(out, "<li><a href=\"#file-{}\">{}</a></li>", i + 1, html(&file.name));
    }
    out + "</ul></nav>\n"
}

/// All about one file.
fn section(file: &FileFacts) -> String {
    let mut out = format!("<h2>{}</h2>\n<dl class=\"facts\">\n", html(&file.name));
    // Writing to a string cannot fail.
    for (name, value) in facts(file) {
        _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out += "</dl>\n";
    let measured = file.importance.iter().any(Option::is_some);
    let title = if measured { "Bits, and importance of layers" } else { "Bits" };
    _ = write!(out, "<h3>{title}</h3>\n{}", heat_map(&file.tensors, Measure::Bits, &file.importance));
    if measured {
        out += "<p>Importance: KL divergence from the model when the layer is left out, in nats.</p>\n";
    }
    out += &tensor_errors(&file.tensors);
    out + &provenance(file)
}

/// What is said of every file, names and values in HTML.
fn facts(file: &FileFacts) -> Vec<(&'static str, String)> {
    let mut facts = vec![(
        "Size",
        format!("<data value=\"{0}\">{1}</data> ({0} bytes)", file.bytes, human_bytes(file.bytes)),
    )];
    if let Some(bits) = file.bits_per_weight {
        facts.push(("Bits per weight", format!("{} over the whole file", figure(bits, DIGITS))));
    }
    let blocks = if file.is_gguf { String::new() } else { format!(", blocks of {}", file.block) };
    facts.push(("Type", format!("{}{blocks}; tensors: {}", file.quant, types(file))));
    if let Some(meta) = &file.meta {
        let model = &meta.model;
        let shape = format!(
            "{}, {} layers, hidden {}, {} heads ({} key/value) of {}, ffn {}, vocabulary {}, context {}",
            html(&model.architecture),
            model.layers,
            model.hidden,
            model.heads,
            model.kv_heads,
            model.head_dim,
            model.ffn,
            model.vocab,
            model.max_positions
        );
        facts.push(("Model", shape));
        facts.push(("Calibrated", file.calibration().unwrap_or_else(|| "no".into())));
    }
    facts.push(("Evaluated", evaluation(file)));
    facts
}

fn evaluation(file: &FileFacts) -> String {
    let Some(found) = &file.evaluation else {
        let why = if file.is_gguf { "no" } else { "no: the file has no section EVAL" };
        return why.into();
    };
    let mut parts = Vec::new();
    if let Some(kld) = found.kld {
        parts.push(format!("KL divergence {} nats", figure(kld, DIGITS)));
    }
    if let Some(perplexity) = found.perplexity {
        parts.push(format!("perplexity {}", figure(perplexity, DIGITS)));
    }
    if let Some(perplexity) = found.base_perplexity {
        parts.push(format!("that of the source {}", figure(perplexity, DIGITS)));
    }
    if let Some(top1) = found.top1 {
        parts.push(format!("same top token {} %", fixed(top1, 2)));
    }
    if let Some(tokens) = found.tokens {
        parts.push(format!("on {tokens} positions"));
    }
    if let Some(ctx) = found.ctx {
        parts.push(format!("in chunks of {ctx}"));
    }
    if let Some(text) = &found.text_sha256 {
        parts.push(format!("of the text with SHA-256 <code>{}</code>", html(text)));
    }
    parts.join(", ")
}
