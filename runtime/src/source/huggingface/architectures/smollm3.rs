//! SmolLM 3: LLaMA with layers that see no positions.

use qsf_format::PositionConfig;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const SMOLLM3: Architecture = Architecture {
    model_types: &["smollm3"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN, GATED_FFN_BIASES),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["no_rope_layer_interval"], ..Marks::NONE },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 128_256,
        hidden: 2048,
        ffn: 11_008,
        layers: 36,
        heads: 16,
        kv_heads: Some(4),
        head_dim: None,
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 2_000_000.0,
        tied_head: true,
    })?;
    let rotated = rotated_layers(reader, model.layers)?;
    let types = reader.sliding_layers(model.layers)?;
    model.sliding_window = reader.window(&model, reader.window_in_use(None)?, |layer| match &types {
        Some(types) => types[layer as usize],
        None => !rotated[layer as usize],
    });
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut model.position {
        *unrotated_layers = (0..model.layers).filter(|&layer| !rotated[layer as usize]).collect();
    }
    Ok(SourceConfig { declared: reader.declared_biases()?, model })
}

/// Which layers are rotated: those with a 1 in `no_rope_layers`, whatever its name says; without it all but every
/// `no_rope_layer_interval`-th.
pub(super) fn rotated_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<bool>> {
    let fields = reader.fields;
    // An empty list is none.
    if let Some(list) = fields.u32s("no_rope_layers")?.filter(|list| !list.is_empty()) {
        if list.len() < layers as usize {
            let expected = format!("one for each of {layers} layers");
            return Err(fields.wrong("no_rope_layers", expected, list.len()));
        }
        return Ok(list.into_iter().take(layers as usize).map(|rotated| rotated != 0).collect());
    }
    let interval = fields.u32("no_rope_layer_interval")?.unwrap_or(4);
    if interval == 0 {
        return Err(fields.wrong("no_rope_layer_interval", "1 or more", interval));
    }
    Ok((0..layers).map(|layer| (layer + 1) % interval != 0).collect())
}
