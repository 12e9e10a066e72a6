//! Gemma 3: Gemma 2 with norms of queries and keys instead of soft-caps, five layers with a window to one without, and
//! a rotary base of their own for those with a window.

use qsf_format::TensorKind::{AttnNorm, FfnNorm, KNorm, PostAttnNorm, PostFfnNorm, QNorm};
use qsf_format::{ModelConfig, PositionConfig, QkNorm, SlidingWindow};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gemma2::{FOUR_NORMS, as_gemma, softcap};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const GEMMA3: Architecture = Architecture {
    model_types: &["gemma3_text", "gemma3"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, FOUR_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnNorm, FfnNorm, PostAttnNorm, PostFfnNorm, QNorm, KNorm]),
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 262_208,
        hidden: 2304,
        ffn: 9216,
        layers: 26,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        max_positions: 131_072,
        norm_epsilon: 1e-6,
        theta: 1_000_000.0,
        tied_head: true,
    })?;
    as_gemma(reader, &mut model)?;
    // `attn_logit_softcapping`, a leftover of Gemma 2, is read by nothing.
    model.logit_softcap = softcap(reader, "final_logit_softcapping", None)?;
    model.qk_norm = Some(QkNorm::Head);
    let layers = sliding_layers(reader, model.layers)?;
    // Kept even where it reaches back over everything: these layers have another rotary base.
    if let Some(size) = reader.window_size(Some(4096))?.filter(|_| !layers.is_empty()) {
        model.sliding_window = Some(SlidingWindow { size, layers });
    }
    rotation_of_windows(reader, &mut model)?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}

/// Gives layers with a window a rotary base of their own.
pub(super) fn rotation_of_windows(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    if let PositionConfig::Rope { theta, scaling, sliding_theta, .. } = &mut model.position {
        let local = reader.fields.f32("rope_local_base_freq")?;
        let new = reader.fields.object("rope_parameters", "rope_parameters.")?;
        // The base outside is that of the other layers.
        let set = new
            .map_or(Ok(None), |new| new.object("sliding_attention", "rope_parameters.sliding_attention."))?;
        let own = set.map_or(Ok(None), |set| set.f32("rope_theta"))?;
        let local = own.or(local).unwrap_or(10_000.0);
        *sliding_theta = (local != *theta || scaling.is_some()).then_some(local);
    }
    Ok(())
}

/// Layers with a window, by `layer_types` or by the number of layers from one without to the next.
fn sliding_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    if let Some(types) = reader.sliding_layers(layers)? {
        return Ok((0..layers).filter(|&layer| types[layer as usize]).collect());
    }
    let fields = reader.fields;
    let mut pattern = fields.u32("sliding_window_pattern")?;
    if pattern.is_none() {
        pattern = fields.u32("_sliding_window_pattern")?;
    }
    let pattern = pattern.unwrap_or(6);
    if pattern == 0 {
        return Err(fields.wrong("sliding_window_pattern", "1 or more", pattern));
    }
    Ok((0..layers).filter(|layer| (layer + 1) % pattern != 0).collect())
}
