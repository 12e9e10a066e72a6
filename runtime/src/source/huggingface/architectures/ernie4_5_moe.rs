//! ERNIE 4.5 with a mixture of experts: softmax, with a bias of the choice.

use qsf_format::Experts;
use qsf_format::TensorKind::RouterChoiceBias;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, OUTPUT_BIAS,
    PRE_NORMS, ROUTED_EXPERTS, SHARED_EXPERTS,
};
use super::reader::{Defaults, plain};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const ERNIE4_5_MOE: Architecture = Architecture {
    model_types: &["ernie4_5_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            OUTPUT_BIAS,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            SHARED_EXPERTS,
            STATICS
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const STATICS: &[NameRule] =
    &[rows("layers.{}.mlp.moe_statics.e_score_correction_bias", &[RouterChoiceBias])];

/// A least sum of the weights of the chosen experts that limits nothing; released models have 1e-12.
const NO_LIMIT: f32 = 1e-6;

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 103424,
        hidden: 2560,
        ffn: 12288,
        layers: 28,
        heads: 20,
        kv_heads: Some(4),
        head_dim: None,
        max_positions: 131072,
        norm_epsilon: 1e-5,
        theta: 500_000.0,
        tied_head: true,
    })?;
    // Biases would be those of experts, too.
    reader.only("use_bias", false)?;
    let (fields, layers) = (reader.fields, model.layers);
    if let Some(least) = fields.f32("moe_norm_min")?.filter(|least| *least > NO_LIMIT) {
        let what = format!("moe_norm_min {least}");
        return Err(RuntimeError::unsupported(fields.path, what, "only one that is never reached is"));
    }
    let ffn = reader.dimension(&["moe_intermediate_size"], 1536)?;
    let first = fields.u32("moe_layer_start_index")?.unwrap_or(1);
    // -1 means the last.
    let last = fields.get("moe_layer_end_index").filter(|end| end.as_i64() != Some(-1));
    let last =
        last.map_or(Ok(None), |_| fields.u32("moe_layer_end_index"))?.unwrap_or(layers.saturating_sub(1));
    let interval = fields.u32("moe_layer_interval")?.unwrap_or(1);
    if interval == 0 {
        return Err(fields.wrong("moe_layer_interval", "1 or more", interval));
    }
    let has_experts = |layer: u32| (first..=last).contains(&layer) && (layer + 1).is_multiple_of(interval);
    let dense_layers: Vec<u32> = (0..layers).filter(|&layer| !has_experts(layer)).collect();
    let shared = fields.u32("moe_num_shared_experts")?.unwrap_or(2);
    if dense_layers.len() < layers as usize {
        model.experts = Some(Experts {
            count: reader.dimension(&["moe_num_experts"], 64)?,
            used: reader.dimension(&["moe_k"], 6)?,
            ffn,
            normalize_weights: true,
            dense_layers,
            choice_bias: true,
            shared: reader.shared_experts(shared, ffn)?,
            ..Experts::default()
        });
    }
    Ok(plain(model))
}
