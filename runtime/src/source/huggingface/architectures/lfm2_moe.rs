//! LFM2 with a mixture of experts in all layers but the first.

use qsf_format::TensorKind::{ExpertDown, ExpertGate, ExpertUp, Router, RouterChoiceBias};
use qsf_format::{Experts, RouterScore};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::lfm2::{CONVOLUTION, FFN, PARTS, declared_biases, short_conv};
use super::names::IGNORED;
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const LFM2_MOE: Architecture = Architecture {
    model_types: &["lfm2_moe"],
    base: "model.",
    table: NameTable { rules: join_rules!(PARTS, CONVOLUTION, FFN, EXPERTS), ignored: IGNORED },
    marks: Marks { fields: &["conv_L_cache", "num_experts"], ..Marks::NONE },
    config,
};

const EXPERTS: &[NameRule] = &[
    rows("layers.{}.feed_forward.gate.weight", &[Router]),
    rows("layers.{}.feed_forward.expert_bias", &[RouterChoiceBias]),
    rows("layers.{}.feed_forward.experts.{e}.w1.weight", &[ExpertGate]),
    rows("layers.{}.feed_forward.experts.{e}.w3.weight", &[ExpertUp]),
    rows("layers.{}.feed_forward.experts.{e}.w2.weight", &[ExpertDown]),
    // All of a layer together, as transformers 5 has them in memory.
    formed("layers.{}.feed_forward.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.feed_forward.experts.down_proj", &[ExpertDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = short_conv(
        reader,
        &Defaults {
            vocab: 65_536,
            hidden: 2048,
            ffn: 7168,
            layers: 32,
            heads: 32,
            kv_heads: Some(8),
            head_dim: None,
            max_positions: 128_000,
            norm_epsilon: 1e-5,
            theta: 1_000_000.0,
            tied_head: true,
        },
    )?;
    let dense = fields.u32("num_dense_layers")?.unwrap_or(2);
    if dense < model.layers {
        let scale = fields.f32("routed_scaling_factor")?.unwrap_or(1.0);
        model.experts = Some(Experts {
            count: reader.dimension(&["num_experts"], 32)?,
            used: reader.dimension(&["num_experts_per_tok"], 4)?,
            ffn: reader.dimension(&["moe_intermediate_size"], 1792)?,
            // Their sum has 1e-6 added, which is below the rounding of a sum of sigmoids.
            normalize_weights: fields.bool("norm_topk_prob")?.unwrap_or(true),
            dense_layers: (0..dense).collect(),
            score: RouterScore::Sigmoid,
            choice_bias: fields.bool("use_expert_bias")?.unwrap_or(true),
            weight_scale: (scale != 1.0).then_some(scale),
            ..Experts::default()
        });
    }
    Ok(SourceConfig { declared: declared_biases(reader)?, model })
}
