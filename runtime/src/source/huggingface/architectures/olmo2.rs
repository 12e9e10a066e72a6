//! OLMo 2: norms behind attention and feed-forward, and of all queries and keys of a token together.

use qsf_format::TensorKind::{KNorm, PostAttnNorm, PostFfnNorm, QNorm};
use qsf_format::{NormPlacement, QkNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, POST_NORMS, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const OLMO2: Architecture = Architecture {
    model_types: &["olmo2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, POST_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[QNorm, KNorm, PostAttnNorm, PostFfnNorm]),
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 50_304,
        hidden: 4096,
        ffn: 11_008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.norm.placement = NormPlacement::Post;
    model.qk_norm = Some(QkNorm::Projection);
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
