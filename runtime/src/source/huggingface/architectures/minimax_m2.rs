//! MiniMax M2: norms of all queries and keys of a token together, a sigmoid router with a bias of the choice.

use qsf_format::TensorKind::RouterChoiceBias;
use qsf_format::{Experts, PositionConfig, QkNorm, RouterScore};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mixtral::EXPERTS as MIXTRAL_EXPERTS;
use super::names::{ATTENTION, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS, QK_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const MINIMAX_M2: Architecture = Architecture {
    model_types: &["minimax_m2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QK_NORMS, MIXTRAL_EXPERTS, JOINED_EXPERTS, CHOICE),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const CHOICE: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.e_score_correction_bias", &[RouterChoiceBias]),
    rows("layers.{}.mlp.gate.e_score_correction_bias", &[RouterChoiceBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 200064,
            hidden: 3072,
            ffn: 1536,
            layers: 62,
            heads: 48,
            kv_heads: Some(8),
            head_dim: Some(128),
            max_positions: 196608,
            norm_epsilon: 1e-6,
            theta: 5_000_000.0,
            tied_head: false,
        },
        Some((1.0, "partial_rotary_factor")),
    )?;
    model.qk_norm = reader.fields.bool("use_qk_norm")?.unwrap_or(true).then_some(QkNorm::Projection);
    if let PositionConfig::Rope { dims, .. } = &mut model.position
        && let Some(rotated) = reader.fields.u32("rotary_dim")?
    {
        *dims = (rotated != model.head_dim).then_some(rotated);
    }
    model.experts = Some(Experts {
        count: reader.dimension(&["num_local_experts"], 256)?,
        used: reader.dimension(&["num_experts_per_tok"], 8)?,
        ffn: model.ffn,
        normalize_weights: true,
        score: RouterScore::Sigmoid,
        choice_bias: true,
        ..Experts::default()
    });
    Ok(plain(model))
}
