//! Qwen 3 with a mixture of experts in all layers or in some.

use qsf_format::TensorKind::{ExpertDown, ExpertGate, ExpertUp, KNorm, QNorm};
use qsf_format::{Experts, QkNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QK_NORMS, QKV_BIASES,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const QWEN3_MOE: Architecture = Architecture {
    model_types: &["qwen3_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            QK_NORMS,
            GATED_FFN,
            EXPERTS,
            JOINED_EXPERTS
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["moe_intermediate_size"], ..Marks::tensors(&[QNorm, KNorm]) },
    config,
};

pub(super) const EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.experts.{e}.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.experts.{e}.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.experts.{e}.down_proj.weight", &[ExpertDown]),
    // MLX
    rows("layers.{}.mlp.switch_mlp.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.switch_mlp.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.switch_mlp.down_proj.weight", &[ExpertDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 151_936,
        hidden: 2048,
        ffn: 6144,
        layers: 24,
        heads: 32,
        kv_heads: Some(4),
        head_dim: None,
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Head);
    // Unlike in Qwen 3 without experts, all layers have it.
    model.sliding_window = reader.window(&model, reader.window_in_use(Some(4096))?, |_| true);
    model.experts =
        experts(reader, model.layers, ExpertDefaults { count: 128, used: 8, ffn: 768, normalize: false })?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}

/// What a configuration class takes for what is not there.
pub(super) struct ExpertDefaults {
    pub count: u32,
    pub used: u32,
    pub ffn: u32,
    pub normalize: bool,
}

/// The experts of the later models of Qwen, in the layers that are not named as others.
pub(super) fn experts(reader: &Reader<'_>, layers: u32, defaults: ExpertDefaults) -> Result<Option<Experts>> {
    let fields = reader.fields;
    let count = reader.dimension(&["num_experts", "num_local_experts"], defaults.count)?;
    let step = fields.u32("decoder_sparse_step")?.unwrap_or(1);
    if step == 0 {
        return Err(fields.wrong("decoder_sparse_step", "1 or more", step));
    }
    let mut dense: Vec<u32> = fields.u32s("mlp_only_layers")?.unwrap_or_default();
    // Layers beyond the last are left alone, as in transformers.
    dense.retain(|&layer| layer < layers);
    dense.extend((0..layers).filter(|layer| (layer + 1) % step != 0));
    dense.sort_unstable();
    dense.dedup();
    if count == 0 || dense.len() == layers as usize {
        return Ok(None);
    }
    Ok(Some(Experts {
        count,
        used: reader.dimension(&["num_experts_per_tok"], defaults.used)?,
        ffn: reader.dimension(&["moe_intermediate_size"], defaults.ffn)?,
        normalize_weights: fields.bool("norm_topk_prob")?.unwrap_or(defaults.normalize),
        dense_layers: dense,
        ..Experts::default()
    }))
}
