//! Ministral 3: Mistral whose queries grow behind the length of the first training.

use qsf_format::QueryGrowth;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const MINISTRAL3: Architecture = Architecture {
    model_types: &["ministral3"],
    base: "model.",
    table: NameTable { rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, GATED_FFN), ignored: IGNORED },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    reader.need_rotation()?;
    let mut model = reader.llama_like(&Defaults {
        vocab: 131072,
        hidden: 4096,
        ffn: 14336,
        layers: 34,
        heads: 32,
        kv_heads: Some(8),
        head_dim: Some(128),
        max_positions: 262144,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.sliding_window = reader.window(&model, reader.window_size(None)?, |_| true);
    if let Some(rope) = reader.fields.object("rope_parameters", "rope_parameters.")?
        && let Some(factor) = rope.f32("llama_4_scaling_beta")?.filter(|&factor| factor != 0.0)
    {
        let original_positions = rope.need_u32("original_max_position_embeddings")?;
        model.query_growth = Some(QueryGrowth::rotated(factor, original_positions));
    }
    Ok(plain(model))
}
