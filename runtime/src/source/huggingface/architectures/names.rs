//! Names that many architectures have in common: those of LLaMA in transformers and what came after it.

use qsf_format::TensorKind::*;

use crate::source::mapping::{Form, NameRule, formed, rows};

/// Constants that old versions saved beside the weights.
pub(super) const IGNORED: &[&str] = &[".rotary_emb.inv_freq"];

/// Embedding, last norm and head.
pub(super) const MODEL: &[NameRule] = &[
    rows("embed_tokens.weight", &[TokenEmbedding]),
    rows("norm.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
];

/// Norms before attention and before the feed-forward.
pub(super) const PRE_NORMS: &[NameRule] = &[
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.post_attention_layernorm.weight", &[FfnNorm]),
];

/// Attention.
pub(super) const ATTENTION: &[NameRule] = &[
    rows("layers.{}.self_attn.q_proj.weight", &[AttnQ]),
    rows("layers.{}.self_attn.k_proj.weight", &[AttnK]),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.o_proj.weight", &[AttnOutput]),
];

/// Biases of queries, keys and values.
pub(super) const QKV_BIASES: &[NameRule] = &[
    rows("layers.{}.self_attn.q_proj.bias", &[AttnQBias]),
    rows("layers.{}.self_attn.k_proj.bias", &[AttnKBias]),
    rows("layers.{}.self_attn.v_proj.bias", &[AttnVBias]),
];

/// Bias behind attention.
pub(super) const OUTPUT_BIAS: &[NameRule] = &[rows("layers.{}.self_attn.o_proj.bias", &[AttnOutputBias])];

/// Norms of queries and keys.
pub(super) const QK_NORMS: &[NameRule] = &[
    rows("layers.{}.self_attn.q_norm.weight", &[QNorm]),
    rows("layers.{}.self_attn.k_norm.weight", &[KNorm]),
];

/// A gated feed-forward.
pub(super) const GATED_FFN: &[NameRule] = &[
    rows("layers.{}.mlp.gate_proj.weight", &[FfnGate]),
    rows("layers.{}.mlp.up_proj.weight", &[FfnUp]),
    rows("layers.{}.mlp.down_proj.weight", &[FfnDown]),
];

/// Its biases.
pub(super) const GATED_FFN_BIASES: &[NameRule] = &[
    rows("layers.{}.mlp.gate_proj.bias", &[FfnGateBias]),
    rows("layers.{}.mlp.up_proj.bias", &[FfnUpBias]),
    rows("layers.{}.mlp.down_proj.bias", &[FfnDownBias]),
];

/// All experts of a layer together, as transformers 5 has them in memory and may save them.
pub(super) const JOINED_EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.gate.weight", &[Router]),
    formed("layers.{}.mlp.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.mlp.experts.down_proj", &[ExpertDown]),
];
