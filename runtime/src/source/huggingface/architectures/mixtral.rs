//! Mixtral: Mistral with a mixture of experts in every layer.

use qsf_format::Experts;
use qsf_format::TensorKind::{ExpertDown, ExpertGate, ExpertUp, Router};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const MIXTRAL: Architecture = Architecture {
    model_types: &["mixtral"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, EXPERTS, JOINED_EXPERTS),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[Router]),
    config,
};

/// The expert computes `w2(silu(w1(x)) * w3(x))`.
const EXPERTS: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.gate.weight", &[Router]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w1.weight", &[ExpertGate]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w3.weight", &[ExpertUp]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w2.weight", &[ExpertDown]),
    // MLX
    rows("layers.{}.block_sparse_moe.switch_mlp.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.block_sparse_moe.switch_mlp.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.block_sparse_moe.switch_mlp.down_proj.weight", &[ExpertDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32_000,
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 131_072,
        norm_epsilon: 1e-5,
        theta: 1_000_000.0,
        tied_head: false,
    })?;
    model.sliding_window = reader.window(&model, reader.window_size(None)?, |_| true);
    model.experts = Some(Experts {
        count: reader.dimension(&["num_local_experts", "num_experts"], 8)?,
        used: reader.dimension(&["num_experts_per_tok"], 2)?,
        ffn: model.ffn,
        normalize_weights: true,
        dense_layers: Vec::new(),
        ..Experts::default()
    });
    Ok(plain(model))
}
