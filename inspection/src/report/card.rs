//! The model card, as the HuggingFace hub reads it: YAML that its search and its widgets use, then Markdown for people
//! (<https://huggingface.co/docs/hub/model-cards>).

use std::fmt::Write as _;

use qsf_format::human_bytes;

use super::escape::{markdown_code, markdown_text, yaml};
use super::facts::{Evaluation, FileFacts};
use super::figure::{DIGITS, ERROR_DIGITS, significant};
use super::files_table::{notes, types};
use super::models::title;

/// What no file says: the user has to.
pub struct CardFields<'a> {
    /// The model on the hub that the files were made from.
    pub base_model: Option<&'a str>,
    /// The license, as the hub names it.
    pub license: Option<&'a str>,
}

/// The card of a repository with `files`.
pub fn card(files: &[FileFacts], fields: &CardFields) -> String {
    // The name that a reader of the hub knows, where there is one.
    let base = fields.base_model.map(|base| base.rsplit('/').next().unwrap_or(base).to_owned());
    let title = base.unwrap_or_else(|| title(files));
    front_matter(files, fields) + &text(files, &title)
}

fn front_matter(files: &[FileFacts], fields: &CardFields) -> String {
    let has = |is_gguf| files.iter().any(|file| file.is_gguf == is_gguf);
    let mut out = String::from("---\n");
    // The hub finds out by itself which library GGUF files are for.
    for (line, wanted) in [
        ("library_name: qsf\n", has(false)),
        ("pipeline_tag: text-generation\ntags:\n", true),
        ("- qsf\n", has(false)),
        ("- gguf\n", has(true)),
        ("- quantized\n", true),
    ] {
        out += if wanted { line } else { "" };
    }
    // Writing to a string cannot fail.
    if let Some(license) = fields.license {
        _ = writeln!(out, "license: {}", yaml(license));
    }
    if let Some(base) = fields.base_model {
        _ = write!(out, "base_model: {}\nbase_model_relation: quantized\n", yaml(base));
    }
    let results: Vec<String> = files.iter().filter_map(results).collect();
    if !results.is_empty() {
        out += "model-index:\n";
    }
    out + &results.concat() + "---\n\n"
}

/// The entry of a file in `model-index`: the hub wants a task, a data set and at least one metric. What was measured of the
/// source is none of this model.
fn results(file: &FileFacts) -> Option<String> {
    let found = file.evaluation.as_ref()?;
    let metrics = [
        ("perplexity", "Perplexity", found.perplexity),
        ("kl_divergence", "KL divergence from the source, nats", found.kld),
        ("same_top_token", "Same top token as the source, per cent", found.top1),
    ];
    let metrics = metrics.into_iter().filter_map(|(kind, name, value)| {
        Some(format!("    - type: {kind}\n      name: {name}\n      value: {}\n", number(value?)))
    });
    let metrics: String = metrics.collect();
    if metrics.is_empty() {
        return None;
    }
    let text = found.text_sha256.as_deref();
    let text = text.map_or("text".into(), |sha256| format!("text with SHA-256 {sha256}"));
    Some(format!(
        "- name: {}\n  results:\n  - task:\n      type: text-generation\n    dataset:\n      type: text\n      name: {}\n    metrics:\n{metrics}",
        yaml(&file.name),
        yaml(&text)
    ))
}

/// A number that YAML 1.1, too, reads as one: with a point, and never with a bare exponent.
fn number(value: f64) -> String {
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

fn text(files: &[FileFacts], title: &str) -> String {
    let (format, how) = match files.iter().all(|file| file.is_gguf) {
        true => ("GGUF", "one file each"),
        false => ("QSF", "one checksummed file each"),
    };
    let mut out = format!(
        "# {} in {format}\n\nQuantized weights, tokenizer and model description in {how}.\n\n\
         | File | Size | Bits/weight | Tensors of each type | KL divergence | Perplexity (source) | Same top token | Calibrated |\n\
         |---|---:|---:|---|---:|---:|---:|---|\n",
        markdown_text(title)
    );
    for file in files {
        out += &row(file);
    }
    out += "\nBits/weight counts the whole file. The KL divergence is that of the predictions from those of the source, in nats per token; 0 is identical.\n";
    // Writing to a string cannot fail.
    for note in notes(files) {
        _ = write!(out, "\n{note}\n");
    }
    out += &usage(files);
    out += "\n## Checksums\n\n| File | Bytes | SHA-256 |\n|---|---:|---|\n";
    for file in files {
        _ = writeln!(out, "| {} | {} | `{}` |", markdown_code(&file.name), file.bytes, file.sha256);
    }
    out + &provenance(files)
}

/// Commands for the programs that run the files.
fn usage(files: &[FileFacts]) -> String {
    let mut out = String::from("\n## Use\n");
    if let Some(file) = files.iter().find(|file| file.is_gguf) {
        let name = shell_word(&file.name);
        // Writing to a string cannot fail.
        _ = write!(
            out,
            "\nWith llama.cpp:\n\n```sh\nllama-cli -m {name}\nllama-server -m {name}\n```\n\n\
             With Ollama:\n\n```sh\nprintf 'FROM ./%s\\n' {name} > Modelfile\nollama create my-model -f Modelfile\n\
             ollama run my-model\n```\n\n\
             With LM Studio:\n\n```sh\nlms import {name}\n```\n"
        );
    }
    if files.iter().any(|file| !file.is_gguf) {
        out += "\nCheck a file, and run it:\n\n```sh\nqsf-inspect FILE --verify\nqsf-run FILE -p \"Once upon a time\" -n 32\n```\n";
    }
    out
}

/// A file's name as a word of a shell; one that could be anything else is only a place for it.
fn shell_word(name: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with('-') { name } else { "FILE.gguf" }
}

fn row(file: &FileFacts) -> String {
    let found = file.evaluation.as_ref();
    let measured = |of: fn(&Evaluation) -> Option<f64>, digits: usize| {
        found.and_then(of).map(|value| significant(value, digits))
    };
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    let stderr =
        measured(|e| e.kld_stderr, ERROR_DIGITS).map_or_else(String::new, |stderr| format!(" ± {stderr}"));
    let base = measured(|e| e.base_perplexity, DIGITS).map_or_else(String::new, |base| format!(" ({base})"));
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
        markdown_code(&file.name),
        human_bytes(file.bytes),
        or_dash(file.bits_per_weight.map(|bits| significant(bits, DIGITS))),
        types(file),
        or_dash(measured(|e| e.kld, DIGITS).map(|kld| kld + &stderr)),
        or_dash(measured(|e| e.perplexity, DIGITS).map(|perplexity| perplexity + &base)),
        or_dash(found.and_then(|e| e.top1).map(|top1| format!("{top1:.2} %"))),
        or_dash(file.meta.as_ref().map(|_| file.calibration().unwrap_or_else(|| "no".into())))
    )
}

/// The sources of the files; of files that were made from the same ones, once.
fn provenance(files: &[FileFacts]) -> String {
    if files.iter().all(|file| file.meta.is_none()) {
        return String::new();
    }
    let mut out = String::from("\n## Provenance\n");
    let mut shown = Vec::new();
    for file in files {
        let Some(meta) = &file.meta else { continue };
        let made = (&meta.provenance.tool, &meta.provenance.sources);
        if shown.contains(&made) {
            continue;
        }
        shown.push(made);
        // Writing to a string cannot fail.
        _ = write!(
            out,
            "\n| Written by {} from | Bytes | SHA-256 |\n|---|---:|---|\n",
            markdown_code(&meta.provenance.tool)
        );
        for source in meta.provenance.sources.iter().take(MAX_SOURCES) {
            _ = writeln!(
                out,
                "| {} | {} | {} |",
                markdown_code(&source.name),
                source.bytes,
                markdown_code(&source.sha256)
            );
        }
    }
    out
}

/// Source files that a card lists: more is a claim, not a model.
const MAX_SOURCES: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_floats_to_every_reader_of_yaml() {
        assert_eq!(number(34.5), "34.5");
        assert_eq!(number(31.0), "31.0");
        assert_eq!(number(1e-7), "0.0000001");
        assert_eq!(number(0.0), "0.0");
    }

    #[test]
    fn a_name_in_a_command_is_one_plain_word() {
        assert_eq!(shell_word("llama-53m.Q4_K_M.gguf"), "llama-53m.Q4_K_M.gguf");
        for name in ["a b.gguf", "$(rm -r x).gguf", "-h", "```", "", "../x.gguf"] {
            assert_eq!(shell_word(name), "FILE.gguf", "{name}");
        }
    }
}
