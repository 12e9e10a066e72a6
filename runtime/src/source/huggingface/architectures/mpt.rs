//! MPT: ALiBi positions, norms without biases.

use qsf_format::TensorKind::*;
use qsf_format::printable::quote;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{plain, without_parts};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameTable, rows};

pub(super) const MPT: Architecture = Architecture {
    model_types: &["mpt"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("wte.weight", &[TokenEmbedding]),
            rows("norm_f.weight", &[FinalNorm]),
            rows("lm_head.weight", &[Head]),
            rows("blocks.{}.norm_1.weight", &[AttnNorm]),
            rows("blocks.{}.attn.Wqkv.weight", &[AttnQ, AttnK, AttnV]),
            rows("blocks.{}.attn.out_proj.weight", &[AttnOutput]),
            rows("blocks.{}.norm_2.weight", &[FfnNorm]),
            rows("blocks.{}.ffn.up_proj.weight", &[FfnUp]),
            rows("blocks.{}.ffn.down_proj.weight", &[FfnDown]),
        ],
        ignored: &[],
    },
    marks: Marks::BY_NAME,
    config,
};

/// The steepest slope of all released models.
const STEEPEST: u32 = 8;

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    reader.only("no_bias", true)?;
    if fields.get("logit_scale").is_some_and(|scale| !scale.is_null()) {
        return Err(RuntimeError::unsupported(fields.path, "logit_scale", "only null is"));
    }
    let hidden = reader.dimension(&["d_model", "hidden_size"], 2048)?;
    let heads = reader.dimension(&["n_heads", "num_attention_heads"], 16)?;
    // transformers does not heed `expansion_ratio`.
    let ffn = hidden.checked_mul(4).ok_or_else(|| fields.wrong("d_model", "at most 1048576", hidden))?;
    let mut model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["n_layers", "num_hidden_layers"], 24)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: reader.head_dim("d_model", hidden, "n_heads", heads)?,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 50_368)?,
        max_positions: fields.u32("max_seq_len")?.unwrap_or(2048),
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: Activation::GeluErf,
        gated_ffn: false,
        position: PositionConfig::alibi(),
        tied_head: reader.tied_head(true)?,
        ..without_parts()
    };
    if let Some(attention) = fields.object("attn_config", "attn_config.")? {
        let refuse =
            |what: &str, only: &str| RuntimeError::unsupported(fields.path, what.to_owned(), only.to_owned());
        if let Some(kind) = attention.str("attn_type")?.filter(|kind| *kind != "multihead_attention") {
            return Err(refuse(
                &format!("attn_config.attn_type {}", quote(kind)),
                "only multihead_attention is",
            ));
        }
        if attention.bool("alibi")? == Some(false) {
            return Err(refuse("attn_config.alibi = false", "only true is"));
        }
        if attention.bool("qk_ln")? == Some(true) {
            return Err(refuse("attn_config.qk_ln", "only false is"));
        }
        if attention.bool("prefix_lm")? == Some(true) {
            return Err(refuse("attn_config.prefix_lm", "only false is"));
        }
        if attention.u32("alibi_bias_max")?.is_some_and(|steepest| steepest != STEEPEST) {
            return Err(refuse("attn_config.alibi_bias_max", "only 8 is"));
        }
        model.qkv_clip = attention.f32("clip_qkv")?.filter(|&clip| clip != 0.0);
        model.attention_scale = attention.f32("softmax_scale")?;
    }
    Ok(plain(model))
}
