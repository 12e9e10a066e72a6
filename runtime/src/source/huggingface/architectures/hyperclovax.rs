//! HyperCLOVA X SEED Think: Granite with norms behind attention and feed-forward too, and logits that are multiplied.

use qsf_format::NormPlacement;
use qsf_format::TensorKind::{PostAttnNorm, PostFfnNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const HYPERCLOVAX: Architecture = Architecture {
    model_types: &["hyperclovax"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            NORMS_BEHIND,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            GATED_FFN,
            GATED_FFN_BIASES
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["use_post_norm"], ..Marks::NONE },
    config,
};

const NORMS_BEHIND: &[NameRule] = &[
    rows("layers.{}.post_norm1.weight", &[PostAttnNorm]),
    rows("layers.{}.post_norm2.weight", &[PostFfnNorm]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(&Defaults {
        vocab: 32_000,
        hidden: 4096,
        ffn: 11_008,
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
    model.attention_scale = fields.f32("attention_multiplier")?;
    model.logit_scale = fields.f32("logits_scaling")?.filter(|&scale| scale != 1.0);
    if fields.bool("use_post_norm")?.unwrap_or(true) {
        model.norm.placement = NormPlacement::PreAndPost;
    }
    Ok(SourceConfig { declared: reader.declared_biases()?, model })
}
