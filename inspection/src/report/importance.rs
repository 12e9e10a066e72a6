//! How much each layer matters, as bars beside the rows of a map.

/// The importance of layers, as far as it was measured.
pub(super) struct Bars<'a> {
    layers: &'a [Option<f32>],
    largest: f32,
}

impl<'a> Bars<'a> {
    pub fn of(layers: &'a [Option<f32>]) -> Bars<'a> {
        let largest = layers.iter().flatten().copied().fold(0.0, f32::max);
        let layers = if layers.iter().any(Option::is_some) { layers } else { &[] };
        Bars { layers, largest }
    }

    /// The name of the column; empty where there is none.
    pub fn head(&self) -> &'static str {
        if self.layers.is_empty() { "" } else { "<th scope=\"col\">importance</th><td></td>" }
    }

    /// The cells of a layer.
    pub fn cell(&self, layer: Option<u32>) -> String {
        if self.layers.is_empty() {
            return String::new();
        }
        let importance = layer.and_then(|layer| *self.layers.get(layer as usize)?);
        let Some(importance) = importance else { return "<td></td><td></td>".into() };
        let share =
            if self.largest > 0.0 { 100.0 * (importance / self.largest).clamp(0.0, 1.0) } else { 0.0 };
        format!(
            "<td class=\"number plain\">{importance:.4}</td><td class=\"bar\"><div style=\"width:{share:.1}%\"></div></td>"
        )
    }
}
