//! llama.cpp's tensor names in groups: an architecture joins those that it has.

use qsf_format::TensorKind::*;

use crate::source::mapping::{Form, NameRule, formed, rows};

/// Token embedding and head.
pub(super) const ENDS: &[NameRule] =
    &[rows("token_embd.weight", &[TokenEmbedding]), rows("output.weight", &[Head])];

/// The last norm, and those before attention and feed-forward.
pub(super) const PRE_NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    rows("blk.{}.ffn_norm.weight", &[FfnNorm]),
];

/// The same, where the one before the feed-forward is named for what it stands behind.
pub(super) const PRE_NORMS_LATE: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    rows("blk.{}.post_attention_norm.weight", &[FfnNorm]),
];

/// [`PRE_NORMS`] of models that multiply with 1 + w.
pub(super) const PRE_NORMS_PLUS_ONE: &[NameRule] = &[
    formed("output_norm.weight", &[FinalNorm], Form::PlusOne),
    formed("blk.{}.attn_norm.weight", &[AttnNorm], Form::PlusOne),
    formed("blk.{}.ffn_norm.weight", &[FfnNorm], Form::PlusOne),
];

/// [`PRE_NORMS_LATE`] of models that multiply with 1 + w.
pub(super) const PRE_NORMS_LATE_PLUS_ONE: &[NameRule] = &[
    formed("output_norm.weight", &[FinalNorm], Form::PlusOne),
    formed("blk.{}.attn_norm.weight", &[AttnNorm], Form::PlusOne),
    formed("blk.{}.post_attention_norm.weight", &[FfnNorm], Form::PlusOne),
];

/// Biases of [`PRE_NORMS`].
pub(super) const NORM_BIASES: &[NameRule] = &[
    rows("output_norm.bias", &[FinalNormBias]),
    rows("blk.{}.attn_norm.bias", &[AttnNormBias]),
    rows("blk.{}.ffn_norm.bias", &[FfnNormBias]),
];

/// Norms behind attention and feed-forward.
pub(super) const POST_NORMS: &[NameRule] = &[
    rows("blk.{}.post_attention_norm.weight", &[PostAttnNorm]),
    rows("blk.{}.post_ffw_norm.weight", &[PostFfnNorm]),
];

/// Attention that rotates halves.
pub(super) const ATTENTION: &[NameRule] = &attention(Form::Rows);

/// Attention that rotates neighbouring pairs.
pub(super) const ATTENTION_PAIRS: &[NameRule] = &attention(Form::NeighbouringPairs);

/// The same, where rows of whole heads are moved even if a part of a head is rotated.
pub(super) const ATTENTION_WHOLE_PAIRS: &[NameRule] = &attention(Form::WholeHeadPairs);

const fn attention(rotated: Form) -> [NameRule; 8] {
    [
        formed("blk.{}.attn_q.weight", &[AttnQ], rotated),
        formed("blk.{}.attn_q.bias", &[AttnQBias], rotated),
        formed("blk.{}.attn_k.weight", &[AttnK], rotated),
        formed("blk.{}.attn_k.bias", &[AttnKBias], rotated),
        rows("blk.{}.attn_v.weight", &[AttnV]),
        rows("blk.{}.attn_v.bias", &[AttnVBias]),
        rows("blk.{}.attn_output.weight", &[AttnOutput]),
        rows("blk.{}.attn_output.bias", &[AttnOutputBias]),
    ]
}

/// Norms of queries and keys.
pub(super) const QK_NORMS: &[NameRule] =
    &[rows("blk.{}.attn_q_norm.weight", &[QNorm]), rows("blk.{}.attn_k_norm.weight", &[KNorm])];

/// The same of models that multiply with 1 + w.
pub(super) const QK_NORMS_PLUS_ONE: &[NameRule] = &[
    formed("blk.{}.attn_q_norm.weight", &[QNorm], Form::PlusOne),
    formed("blk.{}.attn_k_norm.weight", &[KNorm], Form::PlusOne),
];

/// A feed-forward, with a gate or without.
pub(super) const FFN: &[NameRule] = &[
    rows("blk.{}.ffn_gate.weight", &[FfnGate]),
    rows("blk.{}.ffn_gate.bias", &[FfnGateBias]),
    rows("blk.{}.ffn_up.weight", &[FfnUp]),
    rows("blk.{}.ffn_up.bias", &[FfnUpBias]),
    rows("blk.{}.ffn_down.weight", &[FfnDown]),
    rows("blk.{}.ffn_down.bias", &[FfnDownBias]),
];

/// A feed-forward with gate and up projection in one.
pub(super) const JOINED_FFN: &[NameRule] =
    &[rows("blk.{}.ffn_up.weight", &[FfnGate, FfnUp]), rows("blk.{}.ffn_down.weight", &[FfnDown])];

/// A mixture of experts.
pub(super) const EXPERTS: &[NameRule] = &[
    rows("blk.{}.ffn_gate_inp.weight", &[Router]),
    rows("blk.{}.ffn_gate_inp.bias", &[RouterBias]),
    rows("blk.{}.exp_probs_b.bias", &[RouterChoiceBias]),
    rows("blk.{}.ffn_gate_exps.weight", &[ExpertGate]),
    rows("blk.{}.ffn_gate_exps.bias", &[ExpertGateBias]),
    rows("blk.{}.ffn_up_exps.weight", &[ExpertUp]),
    rows("blk.{}.ffn_up_exps.bias", &[ExpertUpBias]),
    rows("blk.{}.ffn_down_exps.weight", &[ExpertDown]),
    rows("blk.{}.ffn_down_exps.bias", &[ExpertDownBias]),
    formed("blk.{}.ffn_gate_up_exps.weight", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
];

/// Experts that all tokens go through.
pub(super) const SHARED_EXPERTS: &[NameRule] = &[
    rows("blk.{}.ffn_gate_shexp.weight", &[SharedGate]),
    rows("blk.{}.ffn_up_shexp.weight", &[SharedUp]),
    rows("blk.{}.ffn_down_shexp.weight", &[SharedDown]),
    rows("blk.{}.ffn_gate_inp_shexp.weight", &[SharedRouter]),
];
