//! The table of the files of a report, and what must be known to compare its lines.

use std::fmt::Write as _;

use qsf_format::human_bytes;

use super::escape::html;
use super::facts::{Evaluation, FileFacts};
use super::figure::{DIGITS, ERROR_DIGITS, figure, fixed};
use super::models::{dominated, models};

/// The columns whose names do not say all, and what they mean.
const MEANINGS: [(&str, &str); 6] = [
    ("bits/weight", "The whole file: weights, scales, tokenizer, everything."),
    (
        "KL divergence",
        "How far the predictions are from those of the source, in nats per token; 0 is identical.",
    ),
    ("perplexity", "Lower is better; in brackets that of the source on the same text."),
    ("same top token", "Positions where file and source like the same token best."),
    (
        "no larger and nearer",
        "Another file of the same model beats this one: it is smaller or as small, and nearer to the source.",
    ),
    ("calibrated", "Whether the weights were fitted to a text, and to how much of it."),
];

/// An order of the lines: its name, and the id of what chooses it.
const ORDERS: [(&str, &str); 3] = [("as given", "given"), ("size", "size"), ("KL divergence", "kld")];

/// Table, meaning of its columns, and warnings about what cannot be compared. The table is there in three orders, of which the
/// choice above shows one: a page without scripts cannot sort.
pub(super) fn files_table(files: &[FileFacts]) -> String {
    let lines: Vec<String> = lines(files);
    let mut out = String::new();
    // Writing to a string cannot fail.
    if files.len() < 2 {
        out += &table(&lines, "given");
    } else {
        out += "<div class=\"sorted\">\n<span class=\"choice\">Sort by</span>\n";
        for (i, (name, id)) in ORDERS.iter().enumerate() {
            let checked = if i == 0 { " checked" } else { "" };
            _ = writeln!(
                out,
                "<input type=\"radio\" name=\"order\" id=\"by-{id}\"{checked}><label for=\"by-{id}\">{name}</label>"
            );
        }
        for (_, id) in ORDERS {
            let order = order(files, id);
            let lines: Vec<String> = order.into_iter().map(|i| lines[i].clone()).collect();
            out += &table(&lines, id);
        }
        out += "</div>\n";
    }
    for note in notes(files) {
        _ = writeln!(out, "<p class=\"note\">{note}</p>");
    }
    out += "<details><summary>What the columns mean</summary>\n<dl class=\"facts\">\n";
    for (column, meaning) in MEANINGS {
        _ = writeln!(out, "<div><dt>{column}</dt><dd>{meaning}</dd></div>");
    }
    out + "</dl></details>\n"
}

/// The places of files in an order; what was not evaluated comes last.
fn order(files: &[FileFacts], id: &str) -> Vec<usize> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    let kld = |i: usize| files[i].evaluation.as_ref().and_then(|found| found.kld).unwrap_or(f64::INFINITY);
    match id {
        "size" => order.sort_by_key(|i| files[*i].bytes),
        "kld" => order.sort_by(|a, b| kld(*a).total_cmp(&kld(*b))),
        _ => {}
    }
    order
}

fn table(lines: &[String], id: &str) -> String {
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
    let mut out = format!(
        "<div class=\"scroll by-{id}\" role=\"region\" aria-label=\"Files\" tabindex=\"0\">\n<table class=\"files\"><thead><tr>"
    );
    for column in columns {
        // Writing to a string cannot fail.
        _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out + "</tr></thead>\n<tbody>\n" + &lines.concat() + "</tbody></table></div>\n"
}

/// A line for each file.
fn lines(files: &[FileFacts]) -> Vec<String> {
    let (models, dominated) = (models(files), dominated(files));
    let several = models.len() > 1;
    let lines = files.iter().enumerate().map(|(i, file)| {
        let model = models.iter().find(|model| several && model.files.contains(&i));
        row(i + 1, file, model.map(|model| model.name.as_str()), dominated[i].map(|other| other + 1))
    });
    lines.collect()
}

/// The line of a file: of which model it is, where there are several, and which other file beats it.
fn row(number: usize, file: &FileFacts, model: Option<&str>, dominated: Option<usize>) -> String {
    let measured = |of: fn(&Evaluation) -> Option<f64>, digits: usize| {
        let value = file.evaluation.as_ref().and_then(of);
        value.map(|value| figure(value, digits))
    };
    let behind = |cell: Option<String>, before: &str, after: &str| {
        cell.map_or_else(String::new, |cell| format!("{before}{cell}{after}"))
    };
    let stderr = behind(measured(|e| e.kld_stderr, ERROR_DIGITS), " ± ", "");
    let base = behind(measured(|e| e.base_perplexity, DIGITS), " (", ")");
    let top1 = file.evaluation.as_ref().and_then(|found| found.top1);
    let cells = [
        Some(format!("<data value=\"{}\">{}</data>", file.bytes, human_bytes(file.bytes))),
        file.bits_per_weight.map(|bits| figure(bits, DIGITS)),
        Some(file.quant.into()),
        Some(types(file)),
        measured(|e| e.kld, DIGITS).map(|kld| kld + &stderr),
        measured(|e| e.perplexity, DIGITS).map(|perplexity| perplexity + &base),
        top1.map(|top1| fixed(top1, 2) + " %"),
        file.meta.as_ref().map(|_| file.calibration().unwrap_or_else(|| "no".into())),
    ];
    let mut out = format!(
        "<tr{}><td class=\"number\">{number}</td><th scope=\"row\"><a href=\"#file-{number}\">{}</a>",
        if dominated.is_some() { " class=\"beaten\"" } else { "" },
        html(&file.name)
    );
    // Writing to a string cannot fail.
    if let Some(model) = model.filter(|model| !model.is_empty()) {
        _ = write!(out, "<br><small>{}</small>", html(model));
    }
    if let Some(other) = dominated {
        _ = write!(out, "<br><small>file {other} is no larger and nearer</small>");
    }
    out += "</th>";
    for cell in cells {
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
