//! gpt-oss: attention sinks, windows in every other layer, and experts with biases and limited gates.

use qsf_format::TensorKind::*;
use qsf_format::{Experts, GateClip};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const GPT_OSS: Architecture = Architecture {
    model_types: &["gpt_oss"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, SINKS, EXPERTS),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const SINKS: &[NameRule] = &[rows("layers.{}.self_attn.sinks", &[AttnSinks])];

/// Gates and up projections alternate with each output.
const EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.router.weight", &[Router]),
    rows("layers.{}.mlp.router.bias", &[RouterBias]),
    formed("layers.{}.mlp.experts.gate_up_proj_bias", &[ExpertGateBias, ExpertUpBias], Form::RowByRow),
    rows("layers.{}.mlp.experts.down_proj_bias", &[ExpertDownBias]),
    // In floats
    formed("layers.{}.mlp.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::TransposedRowByRow),
    formed("layers.{}.mlp.experts.down_proj", &[ExpertDown], Form::TransposedExperts),
    // As MXFP4
    formed("layers.{}.mlp.experts.gate_up_proj.weight", &[ExpertGate, ExpertUp], Form::RowByRow),
    rows("layers.{}.mlp.experts.down_proj.weight", &[ExpertDown]),
    // MLX
    rows("layers.{}.mlp.experts.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.experts.gate_proj.bias", &[ExpertGateBias]),
    rows("layers.{}.mlp.experts.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.experts.up_proj.bias", &[ExpertUpBias]),
    rows("layers.{}.mlp.experts.down_proj.bias", &[ExpertDownBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    reader.need_rotation()?;
    let mut model = reader.llama_like(&Defaults {
        vocab: 201088,
        hidden: 2880,
        ffn: 2880,
        layers: 36,
        heads: 64,
        kv_heads: Some(8),
        head_dim: Some(64),
        max_positions: 131072,
        norm_epsilon: 1e-5,
        theta: 150_000.0,
        tied_head: false,
    })?;
    let fields = reader.fields;
    model.attention_sinks = true;
    let types = reader.sliding_layers(model.layers)?;
    model.sliding_window = reader.window(&model, reader.window_size(Some(128))?, |layer| {
        types.as_ref().map_or(layer % 2 == 0, |types| types[layer as usize])
    });
    model.gate_clip = Some(GateClip {
        alpha: fields.f32("swiglu_alpha")?.unwrap_or(1.702),
        limit: fields.f32("swiglu_limit")?.unwrap_or(7.0),
    });
    model.experts = Some(Experts {
        count: reader.dimension(&["num_local_experts", "num_experts"], 128)?,
        used: reader.dimension(&["num_experts_per_tok", "experts_per_token"], 4)?,
        ffn: model.ffn,
        // A softmax over the chosen alone.
        normalize_weights: true,
        ..Experts::default()
    });
    let mut biases = reader.attention_bias()?;
    biases.extend(declared(&[RouterBias, ExpertGateBias, ExpertUpBias, ExpertDownBias], true));
    Ok(SourceConfig { declared: biases, model })
}
