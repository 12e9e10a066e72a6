//! Bamba: layers of Mamba-2, with a layer of attention among them now and then, of which half of each head is rotated.

use qsf_format::TensorKind::{FfnNorm, FinalNorm, Head, TokenEmbedding};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mamba::{MAMBA, declared_conv_bias, mamba2};
use super::names::{ATTENTION, IGNORED, OUTPUT_BIAS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};
use qsf_format::TensorKind::{AttnNorm, FfnDown, FfnDownBias, FfnGate, FfnGateBias, FfnUp, FfnUpBias};

pub(super) const BAMBA: Architecture = Architecture {
    model_types: &["bamba"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(PARTS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, MAMBA),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["mamba_n_heads"], ..Marks::NONE },
    config,
};

/// All but the mixers.
pub(super) const PARTS: &[NameRule] = &[
    rows("embed_tokens.weight", &[TokenEmbedding]),
    rows("final_layernorm.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.pre_ff_layernorm.weight", &[FfnNorm]),
    rows("layers.{}.feed_forward.gate_proj.weight", &[FfnGate]),
    rows("layers.{}.feed_forward.gate_proj.bias", &[FfnGateBias]),
    rows("layers.{}.feed_forward.up_proj.weight", &[FfnUp]),
    rows("layers.{}.feed_forward.up_proj.bias", &[FfnUpBias]),
    rows("layers.{}.feed_forward.down_proj.weight", &[FfnDown]),
    rows("layers.{}.feed_forward.down_proj.bias", &[FfnDownBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let defaults = Defaults {
        vocab: 128_000,
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 262_144,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    };
    let mut model = reader.llama_like_part(&defaults, Some((0.5, "partial_rotary_factor")))?;
    let attention = reader.fields.u32s("attn_layer_indices")?.unwrap_or_default();
    let layers: Vec<u32> = (0..model.layers).filter(|layer| !attention.contains(layer)).collect();
    if !layers.is_empty() {
        model.recurrent = Some(mamba2(reader, &model, layers)?);
    }
    let mut declared = reader.declared_biases()?;
    declared.extend(declared_conv_bias(reader)?);
    Ok(SourceConfig { declared, model })
}
