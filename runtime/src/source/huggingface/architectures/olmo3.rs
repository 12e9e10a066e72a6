//! OLMo 3: OLMo 2 with windows in three of four layers, whose rotation is not scaled.

use qsf_format::{NormPlacement, PositionConfig, QkNorm, SlidingWindow};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, POST_NORMS, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const OLMO3: Architecture = Architecture {
    model_types: &["olmo3"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, POST_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 50304,
        hidden: 4096,
        ffn: 11008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 500_000.0,
        tied_head: false,
    })?;
    model.norm.placement = NormPlacement::Post;
    model.qk_norm = Some(QkNorm::Projection);
    let types = reader.sliding_layers(model.layers)?;
    let slides =
        |layer: u32| types.as_ref().map_or(!(layer + 1).is_multiple_of(4), |types| types[layer as usize]);
    let layers: Vec<u32> = (0..model.layers).filter(|&layer| slides(layer)).collect();
    // Kept even where it reaches back over everything: these layers have another rotation.
    if let Some(size) = reader.window_size(Some(4096))?.filter(|_| !layers.is_empty()) {
        model.sliding_window = Some(SlidingWindow { size, layers });
    }
    // What `rope_scaling` says is of the other layers alone.
    if let PositionConfig::Rope { theta, scaling: Some(_), sliding_theta, .. } = &mut model.position {
        *sliding_theta = sliding_theta.or(Some(*theta));
    }
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
