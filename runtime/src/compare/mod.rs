//! How two models differ, whatever kinds of files they are in: what they are configured as, how they split text, and the value of
//! every weight.

mod configuration;
mod error_stats;
mod tensors;
mod tokenizers;

pub use configuration::{FieldDifference, configuration_differences};
pub use error_stats::ErrorStats;
pub use tensors::{TensorComparison, TensorSide, ValueDifference, compare_tensors};
pub use tokenizers::tokenizer_difference;

use crate::error::Result;
use crate::progress::{Cancel, Progress};
use crate::source::WeightSource;
use qsf_cpu::Isa;

/// What [`compare_models`] has found. The first model is called `a`, the second `b`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelComparison {
    /// Fields of the configuration that differ.
    pub configuration: Vec<FieldDifference>,
    /// How the tokenizers differ first; `None` where they do not, or there is none.
    pub tokenizer: Option<String>,
    /// Whether the chat templates differ.
    pub chat_template: bool,
    /// Every tensor of either, those of `a` in their order first.
    pub tensors: Vec<TensorComparison>,
}

impl ModelComparison {
    /// Whether both compute the same: the types that values are stored in may differ.
    pub fn is_equal(&self) -> bool {
        self.configuration.is_empty()
            && self.tokenizer.is_none()
            && !self.chat_template
            && self.tensors.iter().all(TensorComparison::is_equal)
    }
}

/// Compares `a` with `b`. In memory is one tensor of each at a time.
///
/// # Errors
/// When either is damaged or cannot be read, or the user interrupts.
pub fn compare_models(
    a: &dyn WeightSource,
    b: &dyn WeightSource,
    isa: Isa,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<ModelComparison> {
    Ok(ModelComparison {
        configuration: configuration_differences(a.config(), b.config())?,
        tokenizer: tokenizer_difference(a, b)?,
        chat_template: a.chat_template() != b.chat_template(),
        tensors: compare_tensors(a, b, isa, progress, cancel)?,
    })
}
