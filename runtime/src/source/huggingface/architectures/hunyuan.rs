//! Hunyuan, dense and with a mixture of experts: norms of queries and keys behind their rotation.

use qsf_format::TensorKind::{KNorm, QNorm, Router, SharedDown, SharedGate, SharedUp};
use qsf_format::{Experts, ModelConfig, PositionConfig, QkNorm, RopeScaling, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES, ROUTED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const HUNYUAN_DENSE: Architecture = Architecture {
    model_types: &["hunyuan_v1_dense"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| Ok(SourceConfig { declared: reader.attention_bias()?, model: dense(reader)? }),
};

pub(super) const HUNYUAN_MOE: Architecture = Architecture {
    model_types: &["hunyuan_v1_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            NORMS,
            SHARED,
            ROUTED_EXPERTS,
            JOINED_EXPERTS
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| {
        let mut model = dense(reader)?;
        model.experts = Some(Experts {
            count: same_in_all_layers(reader, "num_experts")?,
            used: same_in_all_layers(reader, "moe_topk")?,
            ffn: model.ffn,
            normalize_weights: true,
            shared: Some(SharedExperts { ffn: model.ffn, gated: false }),
            ..Experts::default()
        });
        Ok(SourceConfig { declared: reader.attention_bias()?, model })
    },
};

const NORMS: &[NameRule] = &[
    rows("layers.{}.self_attn.query_layernorm.weight", &[QNorm]),
    rows("layers.{}.self_attn.key_layernorm.weight", &[KNorm]),
];

const SHARED: &[NameRule] = &[
    rows("layers.{}.mlp.gate.wg.weight", &[Router]),
    rows("layers.{}.mlp.shared_mlp.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.mlp.shared_mlp.up_proj.weight", &[SharedUp]),
    rows("layers.{}.mlp.shared_mlp.down_proj.weight", &[SharedDown]),
];

fn dense(reader: &Reader<'_>) -> Result<ModelConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 290943,
        hidden: 4096,
        ffn: 11008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::RotatedHead);
    let rope = match reader.fields.object("rope_parameters", "rope_parameters.")? {
        Some(rope) => Some(rope),
        None => reader.fields.object("rope_scaling", "rope_scaling.")?,
    };
    let alpha = rope.map_or(Ok(None), |rope| rope.f64("alpha"))?.filter(|&alpha| alpha != 0.0);
    // "dynamic" with a fixed factor is nothing but another base.
    if let PositionConfig::Rope { theta, scaling, .. } = &mut model.position
        && let (Some(alpha), Some(RopeScaling::Dynamic { .. })) = (alpha, &*scaling)
    {
        let dims = f64::from(model.head_dim);
        *theta = (f64::from(*theta) * alpha.powf(dims / (dims - 2.0))) as f32;
        *scaling = None;
    }
    Ok(model)
}

/// A number, or one for each layer; only the same in all of them can be run.
fn same_in_all_layers(reader: &Reader<'_>, name: &str) -> Result<u32> {
    if !reader.fields.get(name).is_some_and(serde_json::Value::is_array) {
        return reader.dimension(&[name], 1);
    }
    match reader.fields.u32s(name)?.as_deref() {
        Some([first, others @ ..]) if others.iter().all(|other| other == first) => Ok(*first),
        _ => Err(reader.fields.wrong(name, "the same number for every layer", "several")),
    }
}
