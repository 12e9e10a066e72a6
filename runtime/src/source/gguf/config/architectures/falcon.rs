//! Falcon 7B, 40B, 180B and 2: attention and feed-forward side by side, with a norm for each or one for both.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, NormKind, Residual};

use super::super::architecture::{Architecture, GPT2, ROTARY};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ENDS, FFN};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const FALCON: Architecture = Architecture {
    name: "falcon",
    model_type: "falcon",
    norm: NormKind::LayerNorm,
    activation: Activation::GeluErf,
    residual: Some(Residual::ParallelOneNorm),
    positions: ROTARY,
    keys: &["tensor_data_layout"],
    more: norms,
    side_by_side: Some(&TWO_NORMS),
    biases: &[AttnNormBias, FinalNormBias],
    ..GPT2
};

static TWO_NORMS: NameTable = table(join_rules!(ENDS, NORMS, ATTENTION, FFN));

/// The norm of attention came later, and is the second here.
const NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("output_norm.bias", &[FinalNormBias]),
    rows("blk.{}.attn_norm_2.weight", &[AttnNorm]),
    rows("blk.{}.attn_norm_2.bias", &[AttnNormBias]),
    rows("blk.{}.attn_norm.weight", &[FfnNorm]),
    rows("blk.{}.attn_norm.bias", &[FfnNormBias]),
];

const ATTENTION: &[NameRule] = &[
    rows("blk.{}.attn_qkv.weight", &[AttnQ, AttnK, AttnV]),
    rows("blk.{}.attn_qkv.bias", &[AttnQBias, AttnKBias, AttnVBias]),
    rows("blk.{}.attn_output.weight", &[AttnOutput]),
    rows("blk.{}.attn_output.bias", &[AttnOutputBias]),
];

fn norms(reading: &mut Reading<'_>) -> Result<()> {
    if !reading.layers_with("attn_norm_2.weight").is_empty() {
        reading.config.residual = Residual::Parallel;
    }
    Ok(())
}
