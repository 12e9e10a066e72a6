//! StableLM: layer norms, part of each head rotated; attention and feed-forward side by side in some.

use qsf_format::TensorKind::*;
use qsf_format::{NormConfig, NormKind, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, NORM_BIASES, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const STABLELM: Architecture = Architecture {
    model_types: &["stablelm"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, NORM_BIASES, ATTENTION, QKV_BIASES, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 50304,
            hidden: 2560,
            ffn: 6912,
            layers: 32,
            heads: 32,
            kv_heads: Some(32),
            head_dim: None,
            max_positions: 4096,
            norm_epsilon: 1e-5,
            theta: 10_000.0,
            tied_head: false,
        },
        Some((0.25, "partial_rotary_factor")),
    )?;
    // A norm of its own for each head, each in a tensor of its own.
    reader.only("qk_layernorm", false)?;
    let epsilon = reader.fields.f32("layer_norm_eps")?.unwrap_or(1e-5);
    model.norm = NormConfig::new(NormKind::LayerNorm, epsilon);
    let parallel = reader.fields.bool("use_parallel_residual")?.unwrap_or(false);
    model.residual = if parallel { Residual::ParallelOneNorm } else { Residual::Sequential };
    let with_bias = reader.fields.bool("use_qkv_bias")?.unwrap_or(false);
    let mut biases = declared(&[AttnQBias, AttnKBias, AttnVBias], with_bias);
    biases.extend(declared(&[AttnNormBias, FinalNormBias], true));
    biases.extend(declared(&[FfnNormBias], !parallel));
    Ok(SourceConfig { declared: biases, model })
}
