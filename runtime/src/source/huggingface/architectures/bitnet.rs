//! BitNet b1.58: LLaMA with norms before the output projection of attention and before the down projection, ternary weights and
//! squared rectifiers.

use qsf_format::TensorKind::{AttnSubNorm, FfnSubNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const BITNET: Architecture = Architecture {
    model_types: &["bitnet"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, SUB_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnSubNorm]),
    config,
};

const SUB_NORMS: &[NameRule] = &[
    rows("layers.{}.self_attn.attn_sub_norm.weight", &[AttnSubNorm]),
    rows("layers.{}.mlp.ffn_sub_norm.weight", &[FfnSubNorm]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 128_256,
        hidden: 2560,
        ffn: 6912,
        layers: 30,
        heads: 20,
        kv_heads: Some(5),
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 500_000.0,
        tied_head: false,
    })?;
    model.activation = reader.activation("hidden_act", "relu2")?;
    model.sub_norms = true;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
