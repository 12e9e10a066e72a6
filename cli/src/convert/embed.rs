//! `--embed-lora`: a QSF file with adapters in it, and nothing converted.

use qsf_format::{QsfFile, SectionTag, human_bytes, store_adapters};
use qsf_runtime::source::adapter::Adapter;
use qsf_runtime::source::{QsfSource, WeightSource as _, is_qsf};
use qsf_runtime::{Model, RuntimeError};
use serde_json::{Value, json};

use super::args::ConvertArgs;
use super::outputs::check_outputs;
use crate::json_document::document;
use crate::model_args::{LoraReport, ScaledPath};

/// A file that was written.
pub(super) struct Embedded {
    path: String,
    file_bytes: u64,
    adapters: Vec<LoraReport>,
    lost_evaluation: bool,
}

impl Embedded {
    /// Writes the file that `args` ask for; `None` without `--embed-lora`. Adapters that the model has already stay.
    ///
    /// # Errors
    /// When the model is no QSF file, an adapter is damaged or does not fit it, or the file cannot be written.
    pub fn of(args: &ConvertArgs) -> anyhow::Result<Option<Embedded>> {
        let (Some(model), Some(out)) = (&args.model, &args.out) else { return Ok(None) };
        if args.embed_lora.is_empty() {
            return Ok(None);
        }
        if !is_qsf(model) {
            let problem = format!(
                "--embed-lora: {} is no QSF file; convert it first, and give what comes out",
                model.display()
            );
            return Err(RuntimeError::Request(problem).into());
        }
        let mut source = QsfSource::open(model)?;
        check_outputs(args, Some(&source), Some(out))?;
        let mut stored = source.adapters()?;
        let mut adapters: Vec<LoraReport> = Adapter::embedded(&source)?.iter().map(LoraReport::of).collect();
        source.drop_adapters();
        let mut whole = Model::load(&source)?;
        for ScaledPath { path, scale } in &args.embed_lora {
            let adapter = Adapter::open(path, source.config(), *scale)?;
            adapters.push(LoraReport::of(&adapter));
            stored.push(whole.stored_adapter(&adapter)?);
        }
        drop((whole, source));
        let file = QsfFile::open(model)?;
        let lost_evaluation = file.section(SectionTag::EVALUATION).is_some();
        let file_bytes = store_adapters(&file, &stored, out, args.force)?;
        Ok(Some(Embedded { path: out.display().to_string(), file_bytes, adapters, lost_evaluation }))
    }

    /// For JSON.
    pub fn to_json(&self) -> Value {
        let adapters: Vec<Value> = self.adapters.iter().map(LoraReport::to_json).collect();
        let Embedded { path, file_bytes, lost_evaluation, .. } = self;
        let members = json!({
            "path": path, "file_bytes": file_bytes, "lora": adapters, "lost_evaluation": lost_evaluation,
        });
        document("embedded", members)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text: String = self.adapters.iter().map(|adapter| format!("{}\n", adapter.line())).collect();
        if self.lost_evaluation {
            text += "its evaluation is left out, as it was of the model alone: qsf-eval --store makes a new one\n";
        }
        text + &format!("{}: {}, written and verified\n", self.path, human_bytes(self.file_bytes))
    }
}
