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

/// Experts one by one, and all of a layer together as MLX saves them.
pub(super) const ROUTED_EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.experts.{e}.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.experts.{e}.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.experts.{e}.down_proj.weight", &[ExpertDown]),
    // MLX
    rows("layers.{}.mlp.switch_mlp.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.switch_mlp.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.switch_mlp.down_proj.weight", &[ExpertDown]),
];

/// Experts that all tokens go through.
pub(super) const SHARED_EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.shared_experts.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.mlp.shared_experts.up_proj.weight", &[SharedUp]),
    rows("layers.{}.mlp.shared_experts.down_proj.weight", &[SharedDown]),
];

/// One expert that all tokens go through, with a router of its own.
pub(super) const SHARED_EXPERT: &[NameRule] = &[
    rows("layers.{}.mlp.shared_expert.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.mlp.shared_expert.up_proj.weight", &[SharedUp]),
    rows("layers.{}.mlp.shared_expert.down_proj.weight", &[SharedDown]),
    rows("layers.{}.mlp.shared_expert_gate.weight", &[SharedRouter]),
];

/// What is added to scores where experts are chosen.
pub(super) const CHOICE_BIAS: &[NameRule] =
    &[rows("layers.{}.mlp.gate.e_score_correction_bias", &[RouterChoiceBias])];

/// Norms behind attention and behind the feed-forward.
pub(super) const POST_NORMS: &[NameRule] = &[
    rows("layers.{}.post_attention_layernorm.weight", &[PostAttnNorm]),
    rows("layers.{}.post_feedforward_layernorm.weight", &[PostFfnNorm]),
];

/// Biases of the norms of [`MODEL`] and [`PRE_NORMS`].
pub(super) const NORM_BIASES: &[NameRule] = &[
    rows("norm.bias", &[FinalNormBias]),
    rows("layers.{}.input_layernorm.bias", &[AttnNormBias]),
    rows("layers.{}.post_attention_layernorm.bias", &[FfnNormBias]),
];

/// [`ATTENTION`] with rotation of neighbouring pairs.
pub(super) const NEIGHBOURS_ATTENTION: &[NameRule] = &[
    formed("layers.{}.self_attn.q_proj.weight", &[AttnQ], Form::NeighbouringPairs),
    formed("layers.{}.self_attn.k_proj.weight", &[AttnK], Form::NeighbouringPairs),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.o_proj.weight", &[AttnOutput]),
];

/// Its [`QKV_BIASES`].
pub(super) const NEIGHBOURS_QKV_BIASES: &[NameRule] = &[
    formed("layers.{}.self_attn.q_proj.bias", &[AttnQBias], Form::NeighbouringPairs),
    formed("layers.{}.self_attn.k_proj.bias", &[AttnKBias], Form::NeighbouringPairs),
    rows("layers.{}.self_attn.v_proj.bias", &[AttnVBias]),
];

/// A gated feed-forward with gate and up projection in one.
pub(super) const JOINED_FFN: &[NameRule] = &[
    rows("layers.{}.mlp.gate_up_proj.weight", &[FfnGate, FfnUp]),
    rows("layers.{}.mlp.down_proj.weight", &[FfnDown]),
];

/// A feed-forward without a gate.
pub(super) const PLAIN_FFN: &[NameRule] = &[
    rows("layers.{}.mlp.up_proj.weight", &[FfnUp]),
    rows("layers.{}.mlp.up_proj.bias", &[FfnUpBias]),
    rows("layers.{}.mlp.down_proj.weight", &[FfnDown]),
    rows("layers.{}.mlp.down_proj.bias", &[FfnDownBias]),
];
