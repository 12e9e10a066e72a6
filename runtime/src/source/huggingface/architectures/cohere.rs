//! Command R: attention and feed-forward side by side behind one layer norm, rotation of neighbouring pairs, scaled logits.
//! Command R7B and A have windows and rotation in three of four layers, and neither in the others.

use qsf_format::TensorKind::{AttnNorm, KNorm, QNorm};
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig, QkNorm, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{GATED_FFN, IGNORED, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, OUTPUT_BIAS};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const COHERE: Architecture = Architecture {
    model_types: &["cohere"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            ONE_NORM,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            OUTPUT_BIAS,
            HEAD_NORMS,
            GATED_FFN
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| {
        let mut model = one_norm(reader, 500_000.0)?;
        let normed = reader.fields.bool("use_qk_norm")?.unwrap_or(false);
        model.qk_norm = normed.then_some(QkNorm::HeadsApart);
        Ok(SourceConfig { declared: reader.attention_bias()?, model })
    },
};

pub(super) const COHERE2: Architecture = Architecture {
    model_types: &["cohere2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            ONE_NORM,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            OUTPUT_BIAS,
            GATED_FFN
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| {
        let mut model = one_norm(reader, 10_000.0)?;
        let slides = sliding_layers(reader, model.layers)?;
        let size = reader.window_size(Some(4096))?;
        model.sliding_window = reader.window(&model, size, |layer| slides[layer as usize]);
        if let PositionConfig::Rope { unrotated_layers, .. } = &mut model.position {
            let rotated = |layer: u32| size.is_some() && slides[layer as usize];
            *unrotated_layers = (0..model.layers).filter(|&layer| !rotated(layer)).collect();
        }
        Ok(SourceConfig { declared: reader.attention_bias()?, model })
    },
};

const ONE_NORM: &[NameRule] = &[rows("layers.{}.input_layernorm.weight", &[AttnNorm])];

/// Gains of each head.
const HEAD_NORMS: &[NameRule] = &[
    formed("layers.{}.self_attn.q_norm.weight", &[QNorm], Form::NeighbouringPairs),
    formed("layers.{}.self_attn.k_norm.weight", &[KNorm], Form::NeighbouringPairs),
];

fn one_norm(reader: &Reader<'_>, theta: f32) -> Result<ModelConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 256000,
        hidden: 8192,
        ffn: 22528,
        layers: 40,
        heads: 64,
        kv_heads: None,
        head_dim: None,
        max_positions: 8192,
        norm_epsilon: 1e-5,
        theta,
        tied_head: true,
    })?;
    let epsilon = reader.fields.f32("layer_norm_eps")?.unwrap_or(1e-5);
    model.norm = NormConfig::new(NormKind::LayerNorm, epsilon);
    model.residual = Residual::ParallelOneNorm;
    model.logit_scale = Some(reader.fields.f32("logit_scale")?.unwrap_or(0.0625));
    Ok(model)
}

/// By `layer_types`, or all but every `sliding_window_pattern`-th.
fn sliding_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<bool>> {
    if let Some(types) = reader.sliding_layers(layers)? {
        return Ok(types);
    }
    let pattern = reader.fields.u32("sliding_window_pattern")?.unwrap_or(4);
    if pattern == 0 {
        return Err(reader.fields.wrong("sliding_window_pattern", "1 or more", pattern));
    }
    Ok((0..layers).map(|layer| (layer + 1) % pattern != 0).collect())
}
