//! What is known of a model whose configuration is written, and the names of its functions.

use qsf_format::{Activation, ModelConfig, TensorKind};
use serde_json::Value;

/// What is known of a model.
pub(in super::super) struct Described<'a> {
    pub config: &'a ModelConfig,
    pub model_type: &'a str,
    /// Kinds of tensors that it has.
    pub has: &'a dyn Fn(TensorKind) -> bool,
    /// Kinds that models of its architecture can have.
    pub may_have: &'a dyn Fn(TensorKind) -> bool,
}

/// Fields by their names.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// The name that models before 2022 have for the approximation by tanh.
pub(super) fn old_activation(function: Activation) -> &'static str {
    if function == Activation::GeluTanh { "gelu_new" } else { activation(function) }
}

/// The name of a function.
pub(super) fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "silu",
        Activation::Relu => "relu",
        Activation::Relu2 => "relu2",
        Activation::Xielu => "xielu",
        Activation::GeluErf => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
    }
}
