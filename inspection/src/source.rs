//! What a model is that is no QSF file: a GGUF file or the directory of a HuggingFace model.

use std::collections::BTreeMap;
use std::path::Path;

use qsf_format::human_bytes;
use qsf_runtime::Result;
use qsf_runtime::source::gguf::is_gguf;
use qsf_runtime::source::{self, WeightSource, file_bytes};
use serde_json::{Value, json};

use crate::json_document::document;
use crate::overview::model_parts;
use crate::table::table;

/// A model, and its tensors.
pub struct SourceFound {
    source: Box<dyn WeightSource>,
    format: &'static str,
    bytes: u64,
    tensors: Vec<SourceTensor>,
    /// Whether the tensors are shown one by one.
    listed: bool,
}

struct SourceTensor {
    tensor: String,
    name: String,
    stored: String,
    rows: usize,
    cols: usize,
    bytes: u64,
}

impl SourceFound {
    /// Opens what is at `path`; `listed` shows its tensors one by one.
    ///
    /// # Errors
    /// When it cannot be read, or is no model.
    pub fn look(path: &Path, listed: bool) -> Result<SourceFound> {
        let source = source::open(path)?;
        let bytes = file_bytes(&*source)?;
        let mut tensors = Vec::new();
        for info in source.tensors() {
            tensors.push(SourceTensor {
                tensor: info.id.to_string(),
                name: info.name.clone(),
                stored: info.stored.to_string(),
                rows: info.rows,
                cols: info.cols,
                bytes: source.load(info.id)?.stored_bytes(),
            });
        }
        let format = if is_gguf(path) { "gguf" } else { "huggingface" };
        Ok(SourceFound { source, format, bytes, tensors, listed })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// What a line says of it, where it was to be verified.
    pub fn why_unprotected(&self) -> String {
        let what = if self.format == "gguf" { "a GGUF file" } else { "a HuggingFace directory" };
        format!(
            "{what} has no checksums: all {} tensors are there and of the right size, and their values may be damaged; pass \
             --allow-plain to accept that",
            self.tensors.len()
        )
    }

    /// How many tensors it has.
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn weights(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.rows as u64 * tensor.cols as u64).sum()
    }

    fn bits_per_weight(&self) -> f64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>() as f64 * 8.0
            / self.weights().max(1) as f64
    }

    /// Tensors and bytes of each type.
    fn types(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut types = BTreeMap::new();
        for tensor in &self.tensors {
            let (count, bytes) = types.entry(tensor.stored.as_str()).or_insert((0, 0));
            *count += 1;
            *bytes += tensor.bytes;
        }
        types
    }

    /// As a document.
    pub fn to_json(&self) -> Value {
        let types = self.types();
        let files = self.source.files();
        let mut value = json!({
            "path": self.path().display().to_string(),
            "format": self.format,
            "file_bytes": self.bytes,
            "files": files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
            "config": self.source.config(),
            "weights": self.weights(),
            "bits_per_weight": self.bits_per_weight(),
            "tokenizer": self.source.tokenizer_json().is_some(),
            "chat_template": self.source.chat_template().is_some(),
            "quantized_from": self.source.quantized_from(),
            "types": types.iter().map(|(name, (count, bytes))| json!({
                "type": name, "tensors": count, "stored_bytes": bytes,
            })).collect::<Vec<_>>(),
        });
        if self.listed {
            value["tensors"] = self.tensors.iter().map(|tensor| json!({
                "tensor": tensor.tensor, "name": tensor.name, "type": tensor.stored, "rows": tensor.rows,
                "cols": tensor.cols, "stored_bytes": tensor.bytes,
            })).collect();
        }
        document("source", value)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let config = self.source.config();
        let files = self.source.files().len();
        let yes = |found: bool| if found { "yes" } else { "no" };
        let mut out = format!(
            "{}\n{} of {}{}, {} weights, {:.3} bits per weight\n\
             model: {}, {} layers, hidden {}, {} heads ({} key/value) of {}, ffn {}, vocabulary {}, context {}\n{}\
             tokenizer: {}, chat template: {}\n\n",
            self.path().display(),
            if self.format == "gguf" { "GGUF" } else { "HuggingFace directory" },
            human_bytes(self.bytes),
            if files > 1 { format!(" in {files} files") } else { String::new() },
            self.weights(),
            self.bits_per_weight(),
            config.architecture,
            config.layers,
            config.hidden,
            config.heads,
            config.kv_heads,
            config.head_dim,
            config.ffn,
            config.vocab,
            config.max_positions,
            model_parts(config),
            yes(self.source.tokenizer_json().is_some()),
            yes(self.source.chat_template().is_some()),
        );
        let types = self.types().into_iter();
        let rows =
            types.map(|(name, (count, bytes))| vec![name.to_owned(), count.to_string(), bytes.to_string()]);
        out += &table(&["type", "tensors", "bytes"], 1, rows);
        if self.listed {
            let rows = self.tensors.iter().map(|tensor| {
                vec![
                    tensor.tensor.clone(),
                    tensor.name.clone(),
                    tensor.stored.clone(),
                    tensor.rows.to_string(),
                    tensor.cols.to_string(),
                    tensor.bytes.to_string(),
                ]
            });
            out += "\n";
            out += &table(&["tensor", "name in the source", "type", "rows", "cols", "bytes"], 3, rows);
        }
        out
    }
}
