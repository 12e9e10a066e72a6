//! Mistral: LLaMA with a window in all layers, or none.

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const MISTRAL: Architecture = Architecture {
    model_types: &["mistral"],
    base: "model.",
    table: NameTable { rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, GATED_FFN), ignored: IGNORED },
    marks: Marks {
        fields: &["sliding_window"],
        without: &["use_sliding_window", "no_rope_layer_interval"],
        ..Marks::NONE
    },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32_000,
        hidden: 4096,
        ffn: 14_336,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 131_072,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.sliding_window = reader.window(&model, reader.window_size(Some(4096))?, |_| true);
    Ok(plain(model))
}
