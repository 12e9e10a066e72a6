//! Leaving whole layers out: those without which the predictions change least (SPEC.md section 4, importance).
//!
//! A layer adds to the residual stream, so that without it the stream passes on as it was. Importances were measured one
//! layer at a time; that several are left out together is an approximation, which is why it is measured
//! (docs/measurements/layers-and-exits.md).

use super::Decoder;

/// Layers at either end of a model that are never left out: they translate between tokens and the inner stream.
const KEPT_ENDS: usize = 2;

/// The layers that are left out at `quality` (0 to 1), in ascending order: of those with a known importance, the first and the
/// last two of the model aside, the least important, as many as leave at least the part `quality` of all. Less quality leaves
/// out the same and more.
pub fn skipped_layers(importance: &[Option<f32>], quality: f64) -> Vec<usize> {
    let layers = importance.len();
    let inner = KEPT_ENDS..layers.saturating_sub(KEPT_ENDS);
    let mut known: Vec<(f32, usize)> = inner.filter_map(|i| Some((importance[i]?, i))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    // What a product like 0.9 * 10 rounds away is no layer.
    let kept = (quality.clamp(0.0, 1.0) * layers as f64 - 1e-9).ceil() as usize;
    known.truncate(layers - kept);
    let mut skipped: Vec<usize> = known.into_iter().map(|(_, i)| i).collect();
    skipped.sort_unstable();
    skipped
}

impl Decoder {
    /// Makes every step leave out the layers `skipped`. They store no keys and values.
    #[must_use]
    pub fn without_layers(mut self, skipped: &[usize]) -> Decoder {
        self.schedule.retain(|layer| !skipped.contains(layer));
        self
    }

    /// The layers that are run, in their order.
    pub fn layers_run(&self) -> &[usize] {
        &self.schedule
    }

    /// Bytes of all matrices that one decoded token reads: without those of layers that are left out.
    pub fn bytes_per_token(&self) -> u64 {
        let layers = self.schedule.iter().map(|&i| self.model.layer_bytes_per_token(i));
        self.model.head.weight.stored_bytes() + layers.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_layers_go_first_and_both_ends_stay() {
        let importance = [0.0, 0.0, 0.5, 0.1, 0.3, 0.1, 0.2, 0.4, 0.0, 0.0].map(Some);
        let skipped = |quality| skipped_layers(&importance, quality);
        assert_eq!(skipped(1.0), [0usize; 0]);
        assert_eq!(skipped(0.91), [0usize; 0], "9 of 10 layers are less than asked for");
        assert_eq!(skipped(0.9), [3], "of equal ones the first");
        assert_eq!(skipped(0.8), [3, 5]);
        assert_eq!(skipped(0.6), [3, 4, 5, 6]);
        assert_eq!(skipped(0.0), [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn less_quality_leaves_out_the_same_and_more() {
        let importance: Vec<Option<f32>> = (0..23).map(|i| Some((i * 7 % 11) as f32)).collect();
        let mut before: Vec<usize> = Vec::new();
        for percent in (0..=100).rev() {
            let quality = f64::from(percent) / 100.0;
            let skipped = skipped_layers(&importance, quality);
            assert!(before.iter().all(|layer| skipped.contains(layer)), "{quality}");
            assert!((23 - skipped.len()) as f64 >= quality * 23.0 - 1e-9, "{quality}");
            before = skipped;
        }
        assert_eq!(before.len(), 19);
    }

    #[test]
    fn a_layer_of_unknown_importance_is_never_left_out_nor_one_of_a_small_model() {
        let mut importance = vec![Some(0.0); 8];
        importance[3] = None;
        assert_eq!(skipped_layers(&importance, 0.0), [2, 4, 5]);
        assert_eq!(skipped_layers(&[Some(0.0); 4], 0.0), [0usize; 0]);
        assert_eq!(skipped_layers(&[Some(0.0); 1], 0.0), [0usize; 0]);
        assert_eq!(skipped_layers(&[], 0.5), [0usize; 0]);
    }
}
