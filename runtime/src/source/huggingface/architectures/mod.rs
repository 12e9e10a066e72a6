//! The architectures that can be read, one file each: what `config.json` means and what the tensors are called.
//!
//! A new one is a file with a `const` of [`Architecture`] and a line in [`ALL`].

mod bloom;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neox;
mod llama;
mod mistral;
mod mixtral;
mod names;
mod olmo2;
mod opt;
mod phi;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod reader;
mod rope;
mod smollm3;
mod windows;

use qsf_format::{ModelConfig, TensorKind};

use crate::error::Result;
use crate::source::mapping::NameTable;

pub(super) use reader::Reader;

/// Every architecture.
pub(super) const ALL: &[Architecture] = &[
    llama::LLAMA,
    gpt2::GPT2,
    mistral::MISTRAL,
    mixtral::MIXTRAL,
    phi::PHI,
    phi3::PHI3,
    qwen2::QWEN2,
    qwen3::QWEN3,
    qwen3_moe::QWEN3_MOE,
    gemma2::GEMMA2,
    gemma3::GEMMA3,
    smollm3::SMOLLM3,
    olmo2::OLMO2,
    gpt_neox::GPT_NEOX,
    opt::OPT,
    bloom::BLOOM,
];

/// What the loader must know of an architecture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Architecture {
    /// The values of `model_type` that mean it; the first is its name.
    pub model_types: &'static [&'static str],
    /// What a causal language model has in front of the names of `table`, the output head excepted.
    pub base: &'static str,
    /// Names of its tensors.
    pub table: NameTable,
    /// What tells it from the others where `model_type` is missing.
    pub marks: Marks,
    /// Reads its configuration.
    pub config: fn(&Reader<'_>) -> Result<SourceConfig>,
}

/// What every model of an architecture has, and some others have not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Kinds of tensors of the first layer.
    pub tensors: &'static [TensorKind],
    /// Fields of `config.json`, whatever they hold.
    pub fields: &'static [&'static str],
    /// Fields that it does not have.
    pub without: &'static [&'static str],
}

impl Marks {
    /// Nothing but what the table of names says.
    const NONE: Marks = Marks { tensors: &[], fields: &[], without: &[] };

    /// Kinds of tensors of the first layer.
    const fn tensors(tensors: &'static [TensorKind]) -> Marks {
        Marks { tensors, ..Marks::NONE }
    }
}

/// Everything that the loader takes from a configuration.
#[derive(Debug, PartialEq)]
pub(super) struct SourceConfig {
    /// What the decoder needs.
    pub model: ModelConfig,
    /// Kinds of tensors that the configuration says are there, or are not. Of others, those are taken that are there.
    pub declared: Vec<(TensorKind, bool)>,
}

impl Architecture {
    /// The value of `model_type` that it is known by.
    pub fn name(&self) -> &'static str {
        self.model_types[0]
    }

    /// The name of the token embedding without what stands before it.
    pub fn embedding(&self) -> &'static str {
        let mut rules = self.table.rules.iter();
        rules.find(|rule| rule.kinds == [TensorKind::TokenEmbedding]).map_or("", |rule| rule.name)
    }
}

/// The architecture that a `model_type` means.
pub(super) fn of_model_type(model_type: &str) -> Option<&'static Architecture> {
    ALL.iter().find(|architecture| architecture.model_types.contains(&model_type))
}

/// What to say when a model is of no known architecture.
pub(super) fn supported() -> String {
    let names: Vec<&str> = ALL.iter().map(Architecture::name).collect();
    format!("supported model types: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_architecture_has_an_embedding_and_types_of_its_own() {
        let mut types = HashSet::new();
        for architecture in ALL {
            assert!(architecture.embedding().ends_with(".weight"), "{}", architecture.name());
            for model_type in architecture.model_types {
                assert!(types.insert(model_type), "{model_type} twice");
                assert_eq!(of_model_type(model_type).map(Architecture::name), Some(architecture.name()));
            }
        }
        assert!(of_model_type("mamba").is_none());
    }

    #[test]
    fn every_rule_names_at_least_one_kind_and_no_name_is_there_twice() {
        for architecture in ALL {
            let mut names = HashSet::new();
            for rule in architecture.table.rules {
                assert!(names.insert(rule.name), "{}: {} twice", architecture.name(), rule.name);
                assert!(!rule.kinds.is_empty(), "{}", rule.name);
                for kind in rule.kinds {
                    assert_eq!(kind.is_per_layer(), rule.name.contains("{}"), "{}: {kind}", rule.name);
                    assert_eq!(kind.is_matrix(), rule.kinds[0].is_matrix(), "{}: {kind}", rule.name);
                }
            }
        }
    }
}
