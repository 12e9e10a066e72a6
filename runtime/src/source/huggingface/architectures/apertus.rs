//! Apertus: a plain feed-forward of xIELU, whose two factors each layer has learned.

use qsf_format::QkNorm;
use qsf_format::TensorKind::{AttnNorm, FfnActAbove, FfnActBelow, FfnNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, MODEL, OUTPUT_BIAS, PLAIN_FFN, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const APERTUS: Architecture = Architecture {
    model_types: &["apertus"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, PLAIN_FFN, ACTIVATION),
        ignored: &[".mlp.act_fn.beta", ".mlp.act_fn.eps"],
    },
    marks: Marks::BY_NAME,
    config,
};

const NORMS: &[NameRule] = &[
    rows("layers.{}.attention_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.feedforward_layernorm.weight", &[FfnNorm]),
];

const ACTIVATION: &[NameRule] = &[
    rows("layers.{}.mlp.act_fn.alpha_p", &[FfnActAbove]),
    rows("layers.{}.mlp.act_fn.alpha_n", &[FfnActBelow]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    reader.need_rotation()?;
    let mut model = reader.llama_like(&Defaults {
        vocab: 131072,
        hidden: 4096,
        ffn: 14336,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 65536,
        norm_epsilon: 1e-5,
        theta: 12_000_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Head);
    model.gated_ffn = false;
    model.activation = reader.activation("hidden_act", "xielu")?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
