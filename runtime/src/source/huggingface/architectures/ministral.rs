//! Ministral 8B: Mistral with windows in some layers.

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const MINISTRAL: Architecture = Architecture {
    model_types: &["ministral"],
    base: "model.",
    table: NameTable { rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, GATED_FFN), ignored: IGNORED },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32000,
        hidden: 4096,
        ffn: 14336,
        layers: 32,
        heads: 32,
        kv_heads: Some(8),
        head_dim: None,
        max_positions: 131072,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    let types = reader.sliding_layers(model.layers)?;
    model.sliding_window = reader.window(&model, reader.window_size(Some(4096))?, |layer| {
        types.as_ref().is_none_or(|types| types[layer as usize])
    });
    Ok(plain(model))
}
