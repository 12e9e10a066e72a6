//! Where a file came from and by what its parts can be checked.

use std::fmt::Write as _;

use qsf_format::Provenance;

use super::escape::html;
use super::facts::FileFacts;

/// Lines of one table at most: a file may name as many sources and options as it likes.
const MAX_LINES: usize = 500;

/// Hashes, sources, options and sections of a file.
pub(super) fn provenance(file: &FileFacts) -> String {
    let mut out = format!(
        "<h3>Provenance and checksums</h3>\n<dl class=\"facts\">\n<div><dt>SHA-256 of the file</dt><dd><code>{}</code></dd></div>\n",
        file.sha256
    );
    let checked = if file.is_gguf {
        "none: GGUF files have no checksums".into()
    } else if file.unprotected.is_empty() {
        "every byte is under a checksum, and all of them hold".into()
    } else {
        format!("those that the file has hold; under none: {}", html(&file.unprotected.join(", ")))
    };
    // Writing to a string cannot fail.
    _ = writeln!(out, "<div><dt>Checksums</dt><dd>{checked}</dd></div>");
    if let Some(meta) = &file.meta {
        _ = writeln!(out, "<div><dt>Written by</dt><dd>{}</dd></div>", html(&meta.provenance.tool));
        if !meta.provenance.requantized_from.is_empty() {
            _ = writeln!(
                out,
                "<div><dt>Quantized before</dt><dd>as {}; errors are those of this conversion alone</dd></div>",
                html(&meta.provenance.requantized_from.join(", "))
            );
        }
    }
    out += "</dl>\n";
    if let Some(meta) = &file.meta {
        out += &sources(&meta.provenance);
        out += &options(&meta.provenance);
    }
    out += &sections(file);
    out
}

fn sources(provenance: &Provenance) -> String {
    let rows = provenance.sources.iter().map(|source| {
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td><code>{}</code></td></tr>",
            html(&source.name),
            source.bytes,
            html(&source.sha256)
        )
    });
    closed_table("Source files", &["file", "bytes", "SHA-256"], rows, provenance.sources.len())
}

fn options(provenance: &Provenance) -> String {
    let rows = provenance.options.iter().map(|(name, value)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"long\"><code>{}</code></td></tr>",
            html(name),
            html(&value.to_string())
        )
    });
    closed_table("Options", &["option", "value"], rows, provenance.options.len())
}

fn sections(file: &FileFacts) -> String {
    let rows = file.sections.iter().map(|section| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td><code>{:08x}</code></td></tr>",
            html(&section.tag.to_string()),
            section.compression.name(),
            section.offset,
            section.stored_bytes,
            section.crc
        )
    });
    closed_table(
        "Sections",
        &["section", "compression", "offset", "bytes", "CRC32"],
        rows,
        file.sections.len(),
    )
}

/// A table that a click opens; of very many lines the first.
fn closed_table(title: &str, columns: &[&str], rows: impl Iterator<Item = String>, count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    let mut out = format!(
        "<details><summary>{title} ({count})</summary>\n<div class=\"scroll\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\">\n<table><thead><tr>"
    );
    for column in columns {
        // Writing to a string cannot fail.
        _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in rows.take(MAX_LINES) {
        out += &row;
        out.push('\n');
    }
    out += "</tbody></table></div>\n";
    if count > MAX_LINES {
        _ = writeln!(out, "<p>The first {MAX_LINES} of {count}; qsf-inspect --json shows all.</p>");
    }
    out + "</details>\n"
}
