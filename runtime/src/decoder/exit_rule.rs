//! When a decoded token leaves the model, and how many layers tokens went through.

use std::sync::Arc;

use qsf_format::EarlyExits;

use qsf_cpu::{Isa, Vectorized, lanes, math};

/// When to leave.
#[derive(Clone)]
pub(super) struct ExitRule {
    /// For each layer, the number of its classifier.
    pub(super) of_layer: Vec<Option<usize>>,
    pub(super) exits: Arc<EarlyExits>,
    /// The least confidence; at 1 the model is never left, as no classifier is certain.
    pub(super) threshold: f32,
}

/// How many layers decoded tokens went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerCount {
    /// Tokens that were decoded.
    pub tokens: u64,
    /// Layers of all of them together.
    pub layers: u64,
}

impl LayerCount {
    /// Counts a token.
    pub(super) fn add(&mut self, layers: usize) {
        self.tokens += 1;
        self.layers += layers as u64;
    }

    /// Layers per token.
    pub fn mean(self) -> Option<f64> {
        (self.tokens > 0).then(|| self.layers as f64 / self.tokens as f64)
    }
}

/// How sure a classifier is.
pub(super) fn confidence(isa: Isa, weights: &[f32], bias: f32, x: &[f32]) -> f32 {
    math::sigmoid(isa.vectorize(Dot(weights, x)) + bias)
}

struct Dot<'a>(&'a [f32], &'a [f32]);

impl Vectorized for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        lanes::dot(self.0, self.1)
    }
}
