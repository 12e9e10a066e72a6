//! The table of the files of a report, and what must be known to compare its lines.

use std::fmt::Write as _;

use qsf_format::human_bytes;
use serde_json::json;

use super::escape::html;
use super::facts::{Evaluation, FileFacts};

/// The columns whose names do not say all, and what they mean.
const MEANINGS: [(&str, &str); 5] = [
    ("bits/weight", "The whole file: weights, scales, tokenizer, everything."),
    (
        "KL divergence",
        "How far the predictions are from those of the source, in nats per token; 0 is identical.",
    ),
    ("perplexity", "Lower is better; in brackets that of the source on the same text."),
    ("same top token", "Positions where file and source like the same token best."),
    ("calibrated", "Whether the weights were fitted to a text, and to how much of it."),
];

/// A number as people read it; the attribute has all its digits.
pub(super) fn figure(value: f64, digits: usize) -> String {
    format!("<data value=\"{}\">{value:.digits$}</data>", json!(value))
}

/// Table, meaning of its columns, and warnings about what cannot be compared.
pub(super) fn files_table(files: &[FileFacts]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Files\" tabindex=\"0\">\n<table class=\"files\"><thead><tr>",
    );
    let columns = [
        "",
        "file",
        "size",
        "bits/weight",
        "type",
        "tensors of each type",
        "KL divergence",
        "perplexity",
        "same top token",
        "calibrated",
    ];
    // Writing to a string cannot fail.
    for column in columns {
        _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for (i, file) in files.iter().enumerate() {
        out += &row(i + 1, file);
    }
    out += "</tbody></table></div>\n";
    for note in notes(files) {
        _ = writeln!(out, "<p class=\"note\">{note}</p>");
    }
    out += "<details><summary>What the columns mean</summary>\n<dl class=\"facts\">\n";
    for (column, meaning) in MEANINGS {
        _ = writeln!(out, "<div><dt>{column}</dt><dd>{meaning}</dd></div>");
    }
    out + "</dl></details>\n"
}

fn row(number: usize, file: &FileFacts) -> String {
    let measured = |of: fn(&Evaluation) -> Option<f64>, digits: usize, unit: &str| {
        let value = file.evaluation.as_ref().and_then(of);
        value.map(|value| figure(value, digits) + unit)
    };
    let stderr = measured(|e| e.kld_stderr, 6, "").map_or_else(String::new, |stderr| format!(" ± {stderr}"));
    let base = measured(|e| e.base_perplexity, 4, "").map_or_else(String::new, |base| format!(" ({base})"));
    let cells = [
        Some(format!("<data value=\"{}\">{}</data>", file.bytes, human_bytes(file.bytes))),
        file.bits_per_weight.map(|bits| figure(bits, 3)),
        Some(file.quant.into()),
        Some(types(file)),
        measured(|e| e.kld, 6, &stderr),
        measured(|e| e.perplexity, 4, &base),
        measured(|e| e.top1, 2, " %"),
        file.meta.as_ref().map(|_| file.calibration().unwrap_or_else(|| "no".into())),
    ];
    let mut out = format!(
        "<tr><td class=\"number\">{number}</td><th scope=\"row\"><a href=\"#file-{number}\">{}</a></th>",
        html(&file.name)
    );
    for cell in cells {
        // Writing to a string cannot fail.
        _ = write!(out, "<td>{}</td>", cell.unwrap_or_else(|| "-".into()));
    }
    out + "</tr>\n"
}

/// As in "28 4bit, 9 f16".
pub(super) fn types(file: &FileFacts) -> String {
    let types: Vec<String> = file.types().iter().map(|(quant, count)| format!("{count} {quant}")).collect();
    types.join(", ")
}

/// What keeps the figures of different lines from being compared.
pub(super) fn notes(files: &[FileFacts]) -> Vec<&'static str> {
    let mut notes = Vec::new();
    let evaluated: Vec<&Evaluation> = files.iter().filter_map(|file| file.evaluation.as_ref()).collect();
    if evaluated.len() < files.len() {
        notes.push(
            "Files without KL divergence and perplexity were not evaluated when they were made (qsf-convert --eval TEXT); \
             qsf-eval measures them.",
        );
    }
    if evaluated.windows(2).any(|pair| !pair[0].is_on_same_text(pair[1])) {
        notes.push("The files were evaluated on different texts, or in chunks of different lengths: KL divergence, perplexity and same top token of one cannot be compared with those of another.");
    }
    let sources = |file: &FileFacts| {
        let meta = file.meta.as_ref()?;
        Some(meta.provenance.sources.iter().map(|source| source.sha256.clone()).collect::<Vec<_>>())
    };
    let sources: Vec<_> = files.iter().filter_map(sources).collect();
    if sources.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push("The files were made from different sources: each KL divergence is that from the file's own source.");
    }
    notes
}
