//! Qwen 3: LLaMA with a norm of each query and key head.

use qsf_format::QkNorm;
use qsf_format::TensorKind::{KNorm, QNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const QWEN3: Architecture = Architecture {
    model_types: &["qwen3"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[QNorm, KNorm]),
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 151_936,
        hidden: 4096,
        ffn: 22_016,
        layers: 32,
        heads: 32,
        kv_heads: Some(32),
        head_dim: Some(128),
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Head);
    model.sliding_window = reader.qwen_window(&model)?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
