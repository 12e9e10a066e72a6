//! What the loader knows of an architecture, and what it reads a configuration from.

use qsf_format::{ModelConfig, TensorKind};

use crate::error::Result;
use crate::model_dir::Fields;
use crate::source::mapping::{NameTable, TensorStore};

/// What the loader must know of an architecture.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Architecture {
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
pub(in super::super) struct Marks {
    /// Kinds of tensors of the first layer.
    pub tensors: &'static [TensorKind],
    /// Fields of `config.json`, whatever they hold.
    pub fields: &'static [&'static str],
    /// Fields that it does not have.
    pub without: &'static [&'static str],
    /// Whether it is known by nothing but its name: it has the tensors of another, and computes something else.
    pub by_name: bool,
}

impl Marks {
    /// Nothing but what the table of names says.
    pub(super) const NONE: Marks = Marks { tensors: &[], fields: &[], without: &[], by_name: false };

    /// Known by its name alone.
    pub(super) const BY_NAME: Marks = Marks { by_name: true, ..Marks::NONE };

    /// Kinds of tensors of the first layer.
    pub(super) const fn tensors(tensors: &'static [TensorKind]) -> Marks {
        Marks { tensors, ..Marks::NONE }
    }
}

/// Everything that the loader takes from a configuration.
#[derive(Debug, PartialEq)]
pub(in super::super) struct SourceConfig {
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

/// A configuration and the tensors beside it, from which some of what it does not say follows.
pub(in super::super) struct Reader<'a> {
    /// The fields of the language model.
    pub fields: Fields<'a>,
    /// Whether they are those of a part of a larger model. Only what differs from the default is written then.
    pub nested: bool,
    /// Which architecture.
    pub architecture: &'a Architecture,
    /// The tensors.
    pub store: &'a dyn TensorStore,
    /// What stands before their names.
    pub prefix: &'a str,
}
