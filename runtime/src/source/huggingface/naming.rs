//! What transformers calls a model and its tensors, for whoever writes a model directory: the tables that directories are read by,
//! the other way round.

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::architectures::{Architecture, of_model_type, supported};
use crate::source::TensorInfo;
use crate::source::mapping::{NameTable, SavedNames, SavedTensor, saved_tensors};

/// Numbers that transformers stores beside a tensor, and computes with: of which models, the end of the tensor's name, theirs, and
/// what they are.
const CONSTANTS: [(&str, &str, &str, f32); 2] = [
    ("apertus", ".act_fn.alpha_p", ".act_fn.beta", 0.5),
    ("apertus", ".act_fn.alpha_p", ".act_fn.eps", -1e-6),
];

/// Names of one model.
#[derive(Debug, Clone, Copy)]
pub struct HfNames {
    architecture: &'static Architecture,
}

impl HfNames {
    /// The names of a model of this configuration; `None` where its architecture is unknown.
    pub fn of(config: &ModelConfig) -> Option<HfNames> {
        let wanted = match config.architecture.as_str() {
            // GGUF files have one name for both.
            "llama" if config.sliding_window.is_some() => "mistral",
            other => other,
        };
        Some(HfNames { architecture: of_model_type(wanted)? })
    }

    /// `model_type`.
    pub fn model_type(&self) -> &'static str {
        self.architecture.name()
    }

    /// Names of tensors, and what a causal language model has in front of all but that of the output head.
    pub(in crate::source) fn table(&self) -> (&'static NameTable, &'static str) {
        (&self.architecture.table, self.architecture.base)
    }

    /// What to say when there are no names.
    pub fn known() -> String {
        supported()
    }

    /// The tensors of a directory with those of a model, in the order of the first of `tensors` that each holds.
    ///
    /// # Errors
    /// The first tensor that models of this architecture have no name for.
    pub fn tensors(
        &self,
        config: &ModelConfig,
        tensors: &[TensorInfo],
    ) -> Result<Vec<SavedTensor>, TensorId> {
        let Architecture { ref table, base, .. } = *self.architecture;
        let saved = saved_tensors(SavedNames { table, prefix: base }, config, tensors)?;
        let with_constants = |tensor: SavedTensor| {
            let constants = CONSTANTS.iter().filter(|(of, ..)| *of == self.model_type());
            let beside: Vec<SavedTensor> = constants
                .filter_map(|(_, end, other, value)| tensor.constant_beside(end, other, *value))
                .collect();
            [tensor].into_iter().chain(beside)
        };
        Ok(saved.into_iter().flat_map(with_constants).collect())
    }

    /// Whether a model of this architecture can have a tensor of this kind.
    pub fn has(&self, kind: TensorKind) -> bool {
        self.architecture.table.rules.iter().any(|rule| rule.kinds.contains(&kind))
    }
}
