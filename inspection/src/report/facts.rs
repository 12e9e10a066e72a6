//! What a report says of a file: read once, shown on the page, on the card and by `--json`.

use std::path::Path;

use qsf_format::{Meta, QsfFile, Section, SourceFile, Verification, verify_file};
use qsf_runtime::Result;
use qsf_runtime::file_hash::hash_file;
use qsf_runtime::progress::Cancel;
use serde_json::{Value, json};

use crate::json_document::document;
use crate::overview::{bits_per_weight, describe, evaluation, listed_sections, verification_json};
use crate::tensors::{TensorLine, list_tensors};

/// A file that was read and whose checksums hold.
pub struct FileFacts {
    /// What the page calls it.
    pub name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    /// Whether it is for llama.cpp.
    pub(super) is_gguf: bool,
    pub(super) quant: &'static str,
    pub(super) block: u16,
    /// Of the whole file; unknown of a plain one.
    pub(super) bits_per_weight: Option<f64>,
    /// Unknown of a plain file.
    pub(super) meta: Option<Meta>,
    pub(super) evaluation: Option<Evaluation>,
    pub(super) tensors: Vec<TensorLine>,
    /// Of each layer, where it was measured.
    pub(super) importance: Vec<Option<f32>>,
    pub(super) sections: Vec<Section>,
    /// Parts under no checksum.
    pub(super) unprotected: Vec<String>,
    /// What `qsf-inspect --json --tensors --verify` says, and the hash.
    pub json: Value,
}

/// Section EVAL (SPEC.md section 7.7), as far as it is what it should be.
pub(super) struct Evaluation {
    pub(super) text_sha256: Option<String>,
    pub(super) ctx: Option<u64>,
    pub(super) tokens: Option<u64>,
    pub(super) perplexity: Option<f64>,
    pub(super) base_perplexity: Option<f64>,
    /// In nats.
    pub(super) kld: Option<f64>,
    pub(super) kld_stderr: Option<f64>,
    /// In per cent.
    pub(super) top1: Option<f64>,
}

impl FileFacts {
    /// Reads and verifies the QSF file at `path`.
    ///
    /// # Errors
    /// When it cannot be read or is damaged, or a stop was requested.
    pub fn read(path: &Path, cancel: &Cancel) -> Result<FileFacts> {
        let file = QsfFile::open(path)?;
        let verification = verify_file(&file)?;
        cancel.check()?;
        FileFacts::of_verified(&file, &verification, hash_file(path, &[cancel])?)
    }

    /// What is said of a file that was verified, and whose name and hash these are. It may be in memory.
    ///
    /// # Errors
    /// When it cannot be described.
    pub fn of_verified(file: &QsfFile, verification: &Verification, hashed: SourceFile) -> Result<FileFacts> {
        let meta = file.meta()?;
        let tensors = list_tensors(file, meta.as_ref())?;
        let mut json = describe(file, meta.as_ref())?;
        json["sha256"] = json!(hashed.sha256);
        json["tensors"] = tensors.iter().map(TensorLine::to_json).collect();
        json["verified"] = verification_json(verification);
        let header = file.header();
        Ok(FileFacts {
            name: hashed.name,
            bytes: header.file_bytes,
            sha256: hashed.sha256,
            is_gguf: false,
            quant: header.quant_name(),
            block: header.block.into(),
            bits_per_weight: meta.as_ref().map(|meta| bits_per_weight(meta, header.file_bytes)),
            evaluation: evaluation(file)?.as_ref().map(Evaluation::of),
            importance: file.layers().iter().map(|layer| layer.importance).collect(),
            sections: listed_sections(file)?,
            unprotected: verification.unprotected.clone(),
            meta,
            tensors,
            json: document("file", json),
        })
    }

    /// The text that the weights were fitted to, in words; `None` where they were not.
    pub fn calibration(&self) -> Option<String> {
        let options = &self.meta.as_ref()?.provenance.options;
        if let Some(text) = options.get("calibration").filter(|text| !text.is_null()) {
            let count = |text: &Value| text.get("tokens").and_then(Value::as_u64);
            let written = match text.get("written_by_model").and_then(count) {
                Some(tokens) => format!(" ({tokens} of them written by the model)"),
                None => String::new(),
            };
            return Some(count(text).map_or("a text".into(), |tokens| format!("{tokens} tokens{written}")));
        }
        let statistics = options.get("statistics")?;
        (!statistics.is_null() && *statistics != json!([])).then(|| "statistics".into())
    }

    /// How many tensors there are of each type, most first.
    pub fn types(&self) -> Vec<(&'static str, usize)> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for tensor in &self.tensors {
            match counts.iter_mut().find(|(quant, _)| *quant == tensor.quant) {
                Some((_, count)) => *count += 1,
                None => counts.push((tensor.quant, 1)),
            }
        }
        // Stable: of equally many the one that comes first in the file.
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

impl Evaluation {
    fn of(json: &Value) -> Evaluation {
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_f64);
        let count = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64);
        Evaluation {
            text_sha256: json.get("text_sha256").and_then(Value::as_str).map(str::to_owned),
            ctx: count("/ctx"),
            tokens: count("/tokens"),
            perplexity: number("/ppl"),
            base_perplexity: number("/base_ppl"),
            kld: number("/kld/mean"),
            kld_stderr: number("/kld/stderr"),
            top1: number("/top1"),
        }
    }

    /// Whether figures of both mean the same: the same text, cut and scored alike.
    pub fn is_on_same_text(&self, other: &Evaluation) -> bool {
        (&self.text_sha256, self.ctx, self.tokens) == (&other.text_sha256, other.ctx, other.tokens)
    }
}
