//! Granite 3 with a mixture of experts, and the same with an expert for all tokens.

use qsf_format::TensorKind::{ExpertDown, ExpertGate, ExpertUp, Router, SharedDown, SharedGate, SharedUp};
use qsf_format::{Experts, ModelConfig, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const GRANITE_MOE: Architecture = Architecture {
    model_types: &["granitemoe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, EXPERTS),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| finish(reader, with_experts(reader)?),
};

pub(super) const GRANITE_MOE_SHARED: Architecture = Architecture {
    model_types: &["granitemoeshared"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, EXPERTS, SHARED),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config: |reader| {
        let mut model = with_experts(reader)?;
        let ffn = reader.fields.u32("shared_intermediate_size")?.unwrap_or(0);
        if let Some(experts) = model.experts.as_mut().filter(|_| ffn > 0) {
            experts.shared = Some(SharedExperts { ffn, gated: false });
        }
        finish(reader, model)
    },
};

pub(super) const EXPERTS: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.router.layer.weight", &[Router]),
    formed("layers.{}.block_sparse_moe.input_linear.weight", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.block_sparse_moe.output_linear.weight", &[ExpertDown]),
];

pub(super) const SHARED: &[NameRule] = &[
    rows("layers.{}.shared_mlp.input_linear.weight", &[SharedGate, SharedUp]),
    rows("layers.{}.shared_mlp.output_linear.weight", &[SharedDown]),
];

fn with_experts(reader: &Reader<'_>) -> Result<ModelConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32000,
        hidden: 4096,
        ffn: 11008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    reader.granite_factors(&mut model)?;
    model.experts = Some(Experts {
        count: reader.dimension(&["num_local_experts"], 8)?,
        used: reader.dimension(&["num_experts_per_tok"], 2)?,
        ffn: model.ffn,
        // A softmax over the chosen alone.
        normalize_weights: true,
        ..Experts::default()
    });
    Ok(model)
}

fn finish(reader: &Reader<'_>, model: ModelConfig) -> Result<SourceConfig> {
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
