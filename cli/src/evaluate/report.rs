//! What is printed of an evaluation, whether it was made at once or joined of parts.

use std::path::{Path, PathBuf};

use qsf_format::human_bytes;
use qsf_runtime::eval::{BaseWriter, Evaluation};
use qsf_runtime::{KvOptions, Result, Runner};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::args::EvalArgs;
use crate::json_document::document;
use crate::model_args::{ShortcutReport, Streaming};
use crate::model_name::model_name;

/// Figures of one version are not those of another, and neither are their sums.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An evaluation, and how the model was run for it.
pub struct Report {
    pub(super) result: Evaluation,
    pub(super) names: Names,
    pub(super) facts: Facts,
    /// Of a run within a RAM budget: for people, and as JSON.
    pub(super) streaming: Option<(String, Value)>,
    /// Of `--save-base`.
    pub(super) saved_base: Option<SavedFile>,
    /// What is said of each part, where it was made in parts.
    pub(super) parts: Option<Value>,
}

/// What was evaluated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Names {
    pub model: String,
    pub base: Option<String>,
    #[serde(alias = "text")]
    pub text_file: String,
}

/// How the model was run, as far as figures depend on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    /// What ran it.
    pub device: String,
    pub activations: String,
    pub kv_type: String,
    pub kv_window: Option<usize>,
    pub kv_policy: Option<String>,
    pub model_layers: usize,
    /// The clusters that logits were made by, and the layers that were left out: as JSON, and for people.
    pub shortcuts: Value,
    pub shortcut_lines: String,
}

/// A file of log-probabilities that was written.
pub(super) struct SavedFile {
    path: PathBuf,
    file_bytes: u64,
}

impl SavedFile {
    /// Gives the file its name.
    pub fn finish(writer: BaseWriter, path: &Path) -> Result<SavedFile> {
        let file_bytes = writer.file_bytes();
        writer.finish()?;
        Ok(SavedFile { path: path.to_owned(), file_bytes })
    }

    fn to_text(&self) -> String {
        let SavedFile { path, file_bytes } = self;
        format!("log-probabilities     {} in {}\n", human_bytes(*file_bytes), path.display())
    }
}

impl Names {
    pub fn of(args: &EvalArgs, base: Option<String>) -> Result<Names> {
        Ok(Names {
            model: model_name(args.model()?),
            base,
            text_file: args.file.as_deref().map(model_name).unwrap_or_default(),
        })
    }
}

impl Facts {
    pub fn of<R: Runner>(model: &R, kv: KvOptions, shortcuts: &ShortcutReport) -> Facts {
        let mut value = json!({});
        shortcuts.add_to(&mut value);
        Facts {
            device: model.device(),
            activations: model.activations().into(),
            kv_type: kv.types.to_string(),
            kv_window: kv.keep.map(|keep| keep.positions),
            kv_policy: kv.keep.map(|keep| keep.policy.name().into()),
            model_layers: model.config().layers as usize,
            shortcuts: value,
            shortcut_lines: shortcuts.lines(),
        }
    }
}

/// For people, and as JSON.
pub(super) fn streaming_report(streaming: &Streaming) -> (String, Value) {
    (streaming.describe(false), streaming.to_json())
}

impl Report {
    /// What `--json` prints.
    ///
    /// # Errors
    /// None for figures that are numbers.
    pub fn to_json(&self) -> anyhow::Result<Value> {
        let Report { result, names, facts, streaming, saved_base, parts } = self;
        let mut value = serde_json::to_value(result)?;
        value["model"] = json!(names.model);
        value["base"] = json!(names.base);
        value["text_file"] = json!(names.text_file);
        value["device"] = json!(facts.device);
        value["activations"] = json!(facts.activations);
        value["kv_type"] = json!(facts.kv_type);
        value["kv_window"] = json!(facts.kv_window);
        value["kv_policy"] = json!(facts.kv_policy);
        value["streaming"] = json!(streaming.as_ref().map(|(_, json)| json));
        for (name, shortcut) in facts.shortcuts.as_object().into_iter().flatten() {
            value[name] = shortcut.clone();
        }
        if let Some(saved) = saved_base {
            value["saved_base"] =
                json!({ "path": saved.path.display().to_string(), "file_bytes": saved.file_bytes });
        }
        if let Some(parts) = parts {
            value["parts"] = parts.clone();
        }
        Ok(document("evaluation", value))
    }

    /// Figures, shortcuts and a budget in lines for people.
    pub fn to_text(&self) -> String {
        let streaming = self.streaming.as_ref().map(|(text, _)| text.as_str());
        let saved = self.saved_base.as_ref().map(SavedFile::to_text);
        self.figures()
            + &self.facts.shortcut_lines
            + streaming.unwrap_or_default()
            + &saved.unwrap_or_default()
    }

    fn figures(&self) -> String {
        let Report { result, names, facts, .. } = self;
        let keep = facts.kv_window.zip(facts.kv_policy.as_ref());
        let keep = keep.map(|(positions, policy)| format!(" of {positions} positions ({policy})"));
        let mut out = format!(
            "{} on {}: {} chunks of {} tokens, {} positions scored, {}, {} activations, {} KV cache{}, {:.1} s\n",
            names.model,
            names.text_file,
            result.chunks,
            result.ctx,
            result.tokens,
            facts.device,
            facts.activations,
            facts.kv_type,
            keep.unwrap_or_default(),
            result.seconds
        );
        out += &format!("perplexity            {:.4} +- {:.4}\n", result.ppl, result.ppl_stderr);
        if let Some(decoding) = &result.decoding {
            out += &format!(
                "layers per token      {:.2} of {}, decoded at {:.1} tokens/s\n",
                decoding.layers_per_token, facts.model_layers, decoding.decode_tokens_per_second
            );
        }
        if let (Some(d), Some(base)) = (&result.divergence, &names.base) {
            let k = &d.kld;
            out += &format!(
                "perplexity of base    {:.4} ({:+.2} %), {}\n",
                d.base_ppl,
                100.0 * (result.ppl / d.base_ppl - 1.0),
                base
            );
            out += &format!("KL divergence, mean   {:.6} +- {:.6} nats\n", k.mean, k.stderr);
            out += &format!(
                "  median {:.6}, 90 % {:.6}, 99 % {:.6}, 99.9 % {:.6}, max {:.6}\n",
                k.p50, k.p90, k.p99, k.p999, k.max
            );
            out += &format!("same top token        {:.3} %\n", d.top1);
            out += &format!(
                "probability of truth  mean change {:+.4} %, RMS {:.4} %\n",
                d.delta_p.mean, d.delta_p.rms
            );
        }
        out
    }
}
