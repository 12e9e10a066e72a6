//! What llama.cpp calls the tensors of a model, for whoever writes a GGUF file: the tables that files are read by, the other way
//! round.

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::config::{ARCHITECTURES, Architecture, ExpertUse, Positions, quantile_of, scale_of_yarn};
use crate::source::RowOrder;
use crate::source::mapping::{NameRule, NameTable, StoredPart, parts_of};

/// Architectures whose queries, keys and values are one tensor in llama.cpp's files (and whose gate and up are, where their table
/// has that).
const FUSED: [&str; 7] = ["gpt2", "gptneox", "bloom", "phi3", "starcoder", "mpt", "falcon"];

/// Names of the tensors of one model.
#[derive(Debug, Clone)]
pub struct GgufNames {
    architecture: &'static Architecture,
    config: ModelConfig,
}

/// How a tensor of the model lies in one of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufForm {
    /// From this row on, or from this value of a vector.
    From(usize),
    /// Each row, or value of a vector, in the place that the order names.
    Ordered(RowOrder),
    /// Each column in the place that the order names.
    Columns(RowOrder),
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
    /// How each of them lies there.
    pub forms: Vec<GgufForm>,
}

impl GgufNames {
    /// The names of a model of this configuration; `None` where llama.cpp's files have no word for its architecture, or are not written.
    pub fn of(config: &ModelConfig) -> Option<GgufNames> {
        let wanted = config.architecture.as_str();
        let is_it = |known: &&Architecture| {
            known.model_type == wanted
                || known.also.contains(&wanted)
                || matches!(known.experts, ExpertUse::Maybe(with_experts) if with_experts == wanted)
        };
        // One name stands for several where some have experts.
        let fits = |known: &&Architecture| match known.experts {
            ExpertUse::Never => config.experts.is_none(),
            ExpertUse::Always => config.experts.is_some(),
            ExpertUse::Maybe(_) => true,
        };
        let architecture = ARCHITECTURES.iter().filter(|known| known.written).filter(fits).find(is_it)?;
        Some(GgufNames { architecture, config: config.clone() })
    }

    /// Names of tensors.
    pub(in crate::source) fn table(&self) -> &'static NameTable {
        self.architecture.table(&self.config)
    }

    /// All architectures that can be written, by the name that `config.json` has for them.
    pub fn model_types() -> Vec<&'static str> {
        ARCHITECTURES.iter().filter(|known| known.written).map(|known| known.model_type).collect()
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.architecture.name
    }

    /// Which layers have a sliding window, where the file does not say it.
    pub fn is_default_window(&self, size: u32, layers: &[u32]) -> bool {
        self.architecture.default_layers(self.config.layers).is_some_and(|default| default == layers)
            && size > 0
    }

    /// Whether rotary heads are always whole, so that a file says their width for nobody but other readers.
    pub fn rotates_whole_heads(&self) -> bool {
        matches!(self.architecture.positions, Positions::Rotary { whole_heads: true, .. })
    }

    /// Whether any layer of the architecture has attention.
    pub fn has_attention(&self) -> bool {
        self.architecture.attention
    }

    /// Whether no layer of the architecture is rotated, so that files have no word of rotation.
    pub fn is_unrotated(&self) -> bool {
        self.architecture.positions == Positions::Unrotated
    }

    /// Whether files of the architecture have this key beside those of all.
    pub fn has_key(&self, name: &str) -> bool {
        self.architecture.keys.contains(&name)
    }

    /// Whether files of the architecture have this key with a number for each layer.
    pub fn is_per_layer(&self, name: &str) -> bool {
        self.architecture.per_layer.contains(&name)
    }

    /// What `scale_of_yarn` makes of this multiplier for scores.
    pub fn scale_of_yarn(multiplier: f64, factor: f32, head_dim: u32) -> f32 {
        scale_of_yarn(multiplier, factor, head_dim)
    }

    /// Vectors that files have as keys with a number for each layer: the key, and what it holds.
    pub fn layer_values(&self) -> impl Iterator<Item = (&'static str, TensorKind)> {
        let rules = self.table().rules;
        self.architecture.layer_values.iter().filter_map(|values| {
            let rule = rules.iter().find(|rule| rule.name == values.name)?;
            Some((values.key, *rule.kinds.first()?))
        })
    }

    /// The quantile of the standard normal distribution that files have of a part of it.
    pub fn quantile_of(part: f32) -> f32 {
        quantile_of(part)
    }

    /// The tensor that holds `id`.
    pub fn of_tensor(&self, id: TensorId) -> Option<GgufName> {
        let ranked = self.config.latent.is_some_and(|latent| latent.q_rank.is_some());
        let rules = self.table().rules.iter();
        let rules = rules.filter(|rule| {
            is_written(rule, id.kind)
                && (id.kind != TensorKind::AttnQ || rule.name.contains("_q_b.") == ranked)
        });
        let fused = FUSED.contains(&self.architecture.name);
        let rule =
            rules.max_by_key(
                |rule| if fused { rule.kinds.len() as isize } else { -(rule.kinds.len() as isize) },
            )?;
        let forms = parts_of(rule, &self.config, id.layer)?.into_iter().map(form_of);
        let name = id
            .layer
            .map_or_else(|| rule.name.to_owned(), |layer| rule.name.replace("{}", &layer.to_string()));
        Some(GgufName { name, kinds: rule.kinds, forms: forms.collect::<Option<_>>()? })
    }
}

/// Whether files of today have tensors by this rule.
fn is_written(rule: &NameRule, kind: TensorKind) -> bool {
    rule.kinds.contains(&kind) && !rule.name.contains("{e}")
}

fn form_of(part: StoredPart) -> Option<GgufForm> {
    match part {
        StoredPart::From(first) => Some(GgufForm::From(first)),
        StoredPart::Ordered(order) => Some(GgufForm::Ordered(order)),
        StoredPart::Columns(order) => Some(GgufForm::Columns(order)),
        StoredPart::MinusOne => Some(GgufForm::PlusOne),
        _ => None,
    }
}
