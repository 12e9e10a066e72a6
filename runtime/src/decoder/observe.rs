//! Looking at what matrices are multiplied with, for calibration.

/// The distinct inputs of matrices in a decoder; query, key and value share one, gate and up another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinearInput {
    /// Of the query, key and value projections.
    Attention,
    /// Of the attention output projection.
    AttnOutput,
    /// Of the gate and up projections.
    Ffn,
    /// Of the down projection.
    FfnDown,
    /// Of the head.
    Head,
}

/// Receives inputs of matrices, as floats, in the order of computation.
pub trait InputObserver {
    /// `rows` holds one row per token of the step. `layer` is `None` for the head.
    fn observe(&mut self, layer: Option<usize>, input: LinearInput, rows: &[f32]);
}

/// Nobody looks.
pub(super) struct Unobserved;

impl InputObserver for Unobserved {
    fn observe(&mut self, _layer: Option<usize>, _input: LinearInput, _rows: &[f32]) {}
}
