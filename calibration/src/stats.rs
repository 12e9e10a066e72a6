//! Statistics of the inputs of matrices.

use std::collections::BTreeMap;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::{InputObserver, LinearInput};

/// Share of the mean that every column of a tied embedding gets on top of its importance as a head: as an embedding, all
/// of its columns matter alike.
const EMBEDDING_SHARE: f64 = 0.3;

/// Sum of squares per column of every distinct input. Sums are taken in token order in f64, and the forward pass has the
/// same bits on every machine: so have the statistics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActivationStats {
    tokens: u64,
    squares: BTreeMap<(Option<usize>, LinearInput), Vec<f64>>,
}

impl ActivationStats {
    /// Tokens that went through the model.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The first input with a sum that is not finite, in words: weights made of it would be worthless.
    pub(crate) fn first_not_finite(&self) -> Option<String> {
        let ((layer, input), _) =
            self.squares.iter().find(|(_, sums)| sums.iter().any(|sum| !sum.is_finite()))?;
        let place = layer.map_or(String::new(), |layer| format!(" of layer {layer}"));
        Some(format!("activations that are not finite, as input {input:?}{place}"))
    }

    pub(crate) fn count_tokens(&mut self, tokens: usize) {
        self.tokens += tokens as u64;
    }

    /// The sums of an input; of a new one they start at zero.
    fn columns(&mut self, layer: Option<usize>, input: LinearInput, cols: usize) -> &mut [f64] {
        self.squares.entry((layer, input)).or_insert_with(|| vec![0.0; cols])
    }

    /// Weight of every column of a tensor in a quantizer's error: the mean square of its input. `None` for tensors that
    /// multiply nothing, or inputs that were never seen.
    pub fn importance(&self, id: TensorId, tied_head: bool) -> Option<Vec<f32>> {
        use TensorKind::*;
        let layer = id.layer.map(|layer| layer as usize);
        let input = match id.kind {
            AttnQ | AttnK | AttnV => LinearInput::Attention,
            AttnOutput => LinearInput::AttnOutput,
            FfnGate | FfnUp | ExpertGate | ExpertUp => LinearInput::Ffn,
            FfnDown => LinearInput::FfnDown,
            Head => LinearInput::Head,
            TokenEmbedding if tied_head => LinearInput::Head,
            _ => return None,
        };
        let squares = self.squares.get(&(layer, input))?;
        let tokens = self.tokens.max(1) as f64;
        let mean = squares.iter().sum::<f64>() / (tokens * squares.len().max(1) as f64);
        let base = if id.kind == TokenEmbedding { EMBEDDING_SHARE * mean } else { 0.0 };
        Some(squares.iter().map(|s| (s / tokens + base) as f32).collect())
    }
}

/// Adds what it sees to statistics; rows are `cols` wide, which the number of tokens of the step tells.
pub(crate) struct Collector<'a> {
    pub stats: &'a mut ActivationStats,
    pub tokens: usize,
}

impl InputObserver for Collector<'_> {
    fn observe(&mut self, layer: Option<usize>, input: LinearInput, rows: &[f32]) {
        let cols = rows.len() / self.tokens;
        let squares = self.stats.columns(layer, input, cols);
        for row in rows.chunks_exact(cols) {
            for (sum, &x) in squares.iter_mut().zip(row) {
                *sum += f64::from(x) * f64::from(x);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats_of(input: LinearInput, layer: Option<usize>, rows: &[f32], tokens: usize) -> ActivationStats {
        let mut stats = ActivationStats::default();
        stats.count_tokens(tokens);
        Collector { stats: &mut stats, tokens }.observe(layer, input, rows);
        stats
    }

    #[test]
    fn importance_is_the_mean_square_of_each_column() {
        let stats = stats_of(LinearInput::FfnDown, Some(3), &[1.0, 2.0, 3.0, 0.0], 2);
        let down = TensorId::of_layer(3, TensorKind::FfnDown);
        assert_eq!(stats.importance(down, false), Some(vec![5.0, 2.0]));
        assert_eq!(stats.importance(TensorId::of_layer(2, TensorKind::FfnDown), false), None);
        assert_eq!(stats.importance(TensorId::of_layer(3, TensorKind::FfnNorm), false), None);
    }

    #[test]
    fn no_column_of_a_tied_embedding_is_worthless() {
        let stats = stats_of(LinearInput::Head, None, &[0.0, 2.0], 1);
        let embedding = TensorId::of_model(TensorKind::TokenEmbedding);
        let weights = stats.importance(embedding, true).unwrap();
        assert!(weights[0] > 0.0 && weights[1] > weights[0]);
        assert_eq!(stats.importance(embedding, false), None);
    }
}
