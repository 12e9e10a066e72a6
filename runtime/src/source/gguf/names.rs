//! llama.cpp's tensor names: one list for all architectures, and four ways in which they store what it names.

use qsf_format::TensorKind::{self, *};

use crate::source::mapping::{Form, NameRule, NameTable, formed, rows};

/// A divisor for each rotary frequency, at any length.
pub(super) const FREQUENCY_FACTORS: &str = "rope_freqs.weight";
/// A divisor for each rotary frequency, for contexts up to the original one.
pub(super) const SHORT_FACTORS: &str = "rope_factors_short.weight";
/// A divisor for each rotary frequency, for contexts beyond the original one.
pub(super) const LONG_FACTORS: &str = "rope_factors_long.weight";

/// As `transformers` has them.
pub(super) const PLAIN: NameTable = table(&PLAIN_RULES);
/// Rows of queries and keys moved, so that neighbours are rotated together.
pub(super) const NEIGHBOURING_PAIRS: NameTable = table(&PAIR_RULES);
/// Gains of norms stored as they multiply, 1 + w.
pub(super) const NORM_PLUS_ONE: NameTable = table(&PLUS_ONE_RULES);
/// Gate above up projection in one matrix.
pub(super) const GATE_AND_UP: NameTable = table(&GATE_AND_UP_RULES);

pub(super) const fn table(rules: &'static [NameRule]) -> NameTable {
    // The factors are read with the configuration. The last one is a buffer of the first converters.
    NameTable { rules, ignored: &[FREQUENCY_FACTORS, SHORT_FACTORS, LONG_FACTORS, "attn_rot_embd.weight"] }
}

static PLAIN_RULES: [NameRule; RULES] = rules(PLAIN_STYLE);
static PAIR_RULES: [NameRule; RULES] = rules(Style { rotated: Form::NeighbouringPairs, ..PLAIN_STYLE });
static PLUS_ONE_RULES: [NameRule; RULES] = rules(Style { norm: Form::PlusOne, ..PLAIN_STYLE });
static GATE_AND_UP_RULES: [NameRule; RULES] = rules(Style { up: &[FfnGate, FfnUp], ..PLAIN_STYLE });

/// What differs.
#[derive(Clone, Copy)]
struct Style {
    /// Form of queries and keys.
    rotated: Form,
    /// Form of the gains of norms.
    norm: Form,
    /// What `ffn_up` holds.
    up: &'static [TensorKind],
}

const PLAIN_STYLE: Style = Style { rotated: Form::Rows, norm: Form::Rows, up: &[FfnUp] };

const RULES: usize = 40;

const fn rules(style: Style) -> [NameRule; RULES] {
    [
        rows("token_embd.weight", &[TokenEmbedding]),
        formed("token_embd_norm.weight", &[EmbeddingNorm], style.norm),
        rows("token_embd_norm.bias", &[EmbeddingNormBias]),
        rows("position_embd.weight", &[Positions]),
        formed("output_norm.weight", &[FinalNorm], style.norm),
        rows("output_norm.bias", &[FinalNormBias]),
        rows("output.weight", &[Head]),
        rows("output.bias", &[HeadBias]),
        formed("blk.{}.attn_norm.weight", &[AttnNorm], style.norm),
        rows("blk.{}.attn_norm.bias", &[AttnNormBias]),
        formed("blk.{}.attn_q.weight", &[AttnQ], style.rotated),
        formed("blk.{}.attn_q.bias", &[AttnQBias], style.rotated),
        formed("blk.{}.attn_k.weight", &[AttnK], style.rotated),
        formed("blk.{}.attn_k.bias", &[AttnKBias], style.rotated),
        rows("blk.{}.attn_v.weight", &[AttnV]),
        rows("blk.{}.attn_v.bias", &[AttnVBias]),
        formed("blk.{}.attn_qkv.weight", &[AttnQ, AttnK, AttnV], style.rotated),
        formed("blk.{}.attn_qkv.bias", &[AttnQBias, AttnKBias, AttnVBias], style.rotated),
        formed("blk.{}.attn_q_norm.weight", &[QNorm], style.norm),
        formed("blk.{}.attn_k_norm.weight", &[KNorm], style.norm),
        rows("blk.{}.attn_output.weight", &[AttnOutput]),
        rows("blk.{}.attn_output.bias", &[AttnOutputBias]),
        formed("blk.{}.post_attention_norm.weight", &[PostAttnNorm], style.norm),
        formed("blk.{}.ffn_norm.weight", &[FfnNorm], style.norm),
        rows("blk.{}.ffn_norm.bias", &[FfnNormBias]),
        rows("blk.{}.ffn_gate.weight", &[FfnGate]),
        rows("blk.{}.ffn_gate.bias", &[FfnGateBias]),
        rows("blk.{}.ffn_up.weight", style.up),
        rows("blk.{}.ffn_up.bias", &[FfnUpBias]),
        rows("blk.{}.ffn_down.weight", &[FfnDown]),
        rows("blk.{}.ffn_down.bias", &[FfnDownBias]),
        formed("blk.{}.post_ffw_norm.weight", &[PostFfnNorm], style.norm),
        rows("blk.{}.ffn_gate_inp.weight", &[Router]),
        rows("blk.{}.ffn_gate_exps.weight", &[ExpertGate]),
        rows("blk.{}.ffn_up_exps.weight", &[ExpertUp]),
        rows("blk.{}.ffn_down_exps.weight", &[ExpertDown]),
        formed("blk.{}.ffn_gate_up_exps.weight", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
        // One tensor per expert, until early 2024.
        rows("blk.{}.ffn_gate.{e}.weight", &[ExpertGate]),
        rows("blk.{}.ffn_up.{e}.weight", &[ExpertUp]),
        rows("blk.{}.ffn_down.{e}.weight", &[ExpertDown]),
    ]
}
