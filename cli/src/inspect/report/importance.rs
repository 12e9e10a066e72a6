//! How much each layer matters, as bars.

use std::fmt::Write as _;

/// A bar for each layer whose importance is known; empty where none is.
pub(super) fn importance(layers: &[Option<f32>]) -> String {
    let known: Vec<(usize, f32)> =
        layers.iter().enumerate().filter_map(|(i, importance)| Some((i, (*importance)?))).collect();
    let largest = known.iter().map(|(_, importance)| *importance).fold(0.0, f32::max);
    if known.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h3>Importance of layers</h3>\n<p>KL divergence from the model when the layer is left out, in nats.</p>\n\
         <div class=\"scroll tall\" role=\"region\" aria-label=\"Importance of layers\" tabindex=\"0\">\n\
         <table class=\"bars\"><thead><tr><th scope=\"col\">layer</th><th scope=\"col\">importance</th><td></td></tr></thead>\n<tbody>\n",
    );
    for (layer, importance) in known {
        let share = if largest > 0.0 { 100.0 * (importance / largest).clamp(0.0, 1.0) } else { 0.0 };
        // Writing to a string cannot fail.
        _ = writeln!(
            out,
            "<tr><th scope=\"row\">{layer}</th><td class=\"number\">{importance:.4}</td>\
             <td class=\"bar\"><div style=\"width:{share:.1}%\"></div></td></tr>"
        );
    }
    out + "</tbody></table></div>\n"
}
