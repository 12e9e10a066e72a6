//! What llama.cpp calls the tensors of a model, for whoever writes a GGUF file: the tables that files are read by, the other way
//! round.

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::config::{ARCHITECTURES, Architecture, ExpertUse, Positions};
use crate::source::mapping::{Form, NameRule};

/// Architectures whose queries, keys and values are one tensor in llama.cpp's files (and whose gate and up are, where their table
/// has that).
const FUSED: [&str; 4] = ["gpt2", "gptneox", "bloom", "phi3"];

/// Names of the tensors of one model.
#[derive(Debug, Clone, Copy)]
pub struct GgufNames {
    architecture: &'static Architecture,
    layers: u32,
}

/// How a tensor lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufForm {
    /// As the model has it, kinds one below another.
    Rows,
    /// Rows of each head alternate between its first and second half.
    NeighbouringPairs,
    /// Every value is 1 larger.
    PlusOne,
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufName {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kinds: &'static [TensorKind],
    /// How.
    pub form: GgufForm,
}

impl GgufNames {
    /// The names of a model of this configuration; `None` where llama.cpp's files have no word for its architecture.
    pub fn of(config: &ModelConfig) -> Option<GgufNames> {
        let wanted = match config.architecture.as_str() {
            // llama.cpp's name for both.
            "mistral" => "llama",
            "gemma3" => "gemma3_text",
            other => other,
        };
        let is_it = |known: &&Architecture| {
            known.model_type == wanted
                || matches!(known.experts, ExpertUse::Maybe(with_experts) if with_experts == wanted)
        };
        let architecture = ARCHITECTURES.iter().find(is_it)?;
        Some(GgufNames { architecture, layers: config.layers })
    }

    /// All architectures that can be written, by the name that `config.json` has for them.
    pub fn model_types() -> Vec<&'static str> {
        ARCHITECTURES.iter().map(|known| known.model_type).collect()
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.architecture.name
    }

    /// Which layers have a sliding window, where the file does not say it.
    pub fn is_default_window(&self, size: u32, layers: &[u32]) -> bool {
        self.architecture.default_layers(self.layers).is_some_and(|default| default == layers) && size > 0
    }

    /// Whether rotary heads are always whole, so that a file says their width for nobody but other readers.
    pub fn rotates_whole_heads(&self) -> bool {
        matches!(self.architecture.positions, Positions::Rotary { whole_heads: true, .. })
    }

    /// The tensor that holds `id`.
    pub fn of_tensor(&self, id: TensorId) -> Option<GgufName> {
        let rules = self.architecture.table.rules.iter().filter(|rule| is_written(rule, id.kind));
        let fused = FUSED.contains(&self.architecture.name);
        let rule =
            rules.max_by_key(
                |rule| if fused { rule.kinds.len() as isize } else { -(rule.kinds.len() as isize) },
            )?;
        let form = match rule.form {
            Form::NeighbouringPairs => GgufForm::NeighbouringPairs,
            Form::PlusOne => GgufForm::PlusOne,
            _ => GgufForm::Rows,
        };
        let name = id
            .layer
            .map_or_else(|| rule.name.to_owned(), |layer| rule.name.replace("{}", &layer.to_string()));
        Some(GgufName { name, kinds: rule.kinds, form })
    }
}

/// Whether files of today have tensors by this rule.
fn is_written(rule: &NameRule, kind: TensorKind) -> bool {
    rule.kinds.contains(&kind)
        && !rule.name.contains("{e}")
        && matches!(rule.form, Form::Rows | Form::NeighbouringPairs | Form::PlusOne)
}
