//! Qwen 2 and 2.5: LLaMA with biases of queries, keys and values.

use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const QWEN2: Architecture = Architecture {
    model_types: &["qwen2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnQBias, AttnKBias, AttnVBias]),
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
        head_dim: None,
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.sliding_window = reader.qwen_window(&model)?;
    Ok(SourceConfig { model, declared: declared(&[AttnQBias, AttnKBias, AttnVBias], true) })
}
