//! Why there is no plan.

use qsf_format::human_bytes;

use super::type_override::TypeOverride;

/// Why types do not fit a model: an override that would silently do nothing, or a size that none of them make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No tensor has such a name.
    #[error("--tensor-type {rule}: no tensor has a name like '{}'; this model has {known}", rule.pattern())]
    NoSuchTensor {
        /// The override.
        rule: TypeOverride,
        /// Names of the kinds that the model has.
        known: String,
    },
    /// The smallest file that can be made is larger than what was asked for.
    #[error(
        "a file of at most {} was asked for, and the smallest that these types make has {}: \
         other types for embedding and head may help (--tensor-type)",
        human_bytes(*limit), human_bytes(*least)
    )]
    TooSmall {
        /// Bytes asked for.
        limit: u64,
        /// Bytes of the smallest file.
        least: u64,
    },
    /// Rows of a matrix cannot be in such types.
    #[error(
        "--tensor-type {rule}: only token_embedding, head and stacks of experts can have rows in several types, and must have more rows than these; {name} cannot"
    )]
    NoSuchRows {
        /// The override.
        rule: TypeOverride,
        /// The tensor.
        name: String,
    },
    /// Only norms, biases and other vectors have such a name, and those are kept as floats.
    #[error("--tensor-type {rule}: only vectors match, and those are stored as f16, bf16 or f32")]
    OnlyVectors {
        /// The override.
        rule: TypeOverride,
    },
}
