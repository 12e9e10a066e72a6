//! EXAONE 4: norms behind attention and feed-forward; layers without a window see no positions.

use qsf_format::{NormPlacement, PositionConfig, QkNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, POST_NORMS, QK_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const EXAONE4: Architecture = Architecture {
    model_types: &["exaone4"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, POST_NORMS, ATTENTION, QK_NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 102400,
        hidden: 4096,
        ffn: 16384,
        layers: 32,
        heads: 32,
        kv_heads: Some(32),
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.norm.placement = NormPlacement::Post;
    model.qk_norm = Some(QkNorm::Head);
    let size = reader.window_size(Some(4096))?;
    let slides = sliding_layers(reader, model.layers)?;
    model.sliding_window = reader.window(&model, size, |layer| slides[layer as usize]);
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut model.position {
        let rotated = |layer: u32| size.is_none() || slides[layer as usize];
        *unrotated_layers = (0..model.layers).filter(|&layer| !rotated(layer)).collect();
    }
    Ok(plain(model))
}

/// By `layer_types`, or by `sliding_window_pattern`: all but every so many-th, or a letter for each, L for a window.
fn sliding_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<bool>> {
    if let Some(types) = reader.sliding_layers(layers)? {
        return Ok(types);
    }
    let fields = reader.fields;
    if let Some(letters) = fields.get("sliding_window_pattern").and_then(|value| value.as_str()) {
        let letters: Vec<char> = letters.chars().collect();
        if letters.is_empty() || letters.iter().any(|letter| !['L', 'G'].contains(letter)) {
            let found: String = letters.iter().take(20).collect();
            return Err(fields.wrong("sliding_window_pattern", "letters L and G, or a number", found));
        }
        // The last layer sees everything, whatever its letter.
        let slides = |layer: u32| letters[layer as usize % letters.len()] == 'L' && layer + 1 < layers;
        return Ok((0..layers).map(slides).collect());
    }
    let pattern = fields.u32("sliding_window_pattern")?.unwrap_or(4).max(1);
    Ok((0..layers).map(|layer| (layer + 1) % pattern != 0).collect())
}
