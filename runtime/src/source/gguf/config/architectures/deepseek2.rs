//! DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash, Mistral Small 4, MiniCPM 3: attention by way of latents.

use qsf_format::TensorKind::*;
use qsf_format::{LatentAttention, PositionConfig, RopeScaling, RouterScore};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ENDS, EXPERTS, FFN, PRE_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

/// Of the norms of latents, whatever the key says.
const NORM_EPSILON: f32 = 1e-6;

pub(in super::super) const DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    model_type: "deepseek_v2",
    also: &["deepseek_v3", "kimi_k2", "glm4_moe_lite"],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Maybe("deepseek_v2"),
    normalize_weights: false,
    router: None,
    head_widths: ["attention.key_length_mla", "attention.key_length_mla"],
    keys: &[
        "attention.key_length_mla",
        "attention.value_length_mla",
        "attention.kv_lora_rank",
        "attention.q_lora_rank",
        "attention.temperature_scale",
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "leading_dense_block_count",
        "nextn_predict_layers",
        "rope.scaling.yarn_log_multiplier",
    ],
    more: deepseek,
    table: &TABLE_PAIRS,
    ..LLAMA
};

/// Mistral Small 4. llama.cpp's converter does not write how its queries grow.
pub(in super::super) const MISTRAL4: Architecture = Architecture {
    name: "mistral4",
    model_type: "mistral4",
    also: &[],
    experts: ExpertUse::Maybe("mistral4"),
    more: mistral,
    ..DEEPSEEK2
};

pub(in super::super) const MINICPM3: Architecture = Architecture {
    name: "minicpm3",
    model_type: "minicpm3",
    also: &[],
    experts: ExpertUse::Never,
    keys: &["attention.kv_lora_rank", "attention.q_lora_rank"],
    more: minicpm,
    table: &TABLE_HALVES,
    ..DEEPSEEK2
};

static TABLE_PAIRS: NameTable = table(join_rules!(
    ENDS,
    PRE_NORMS,
    &of_latents(Form::RotatedLastPairs),
    APART,
    FFN,
    EXPERTS,
    SHARED_EXPERTS
));

static TABLE_HALVES: NameTable = table(join_rules!(ENDS, PRE_NORMS, &of_latents(Form::RotatedLast), FFN));

/// What makes keys and values of latents, each for itself.
pub(super) const APART: &[NameRule] =
    &[rows("blk.{}.attn_k_b.weight", &[AttnKUp]), rows("blk.{}.attn_v_b.weight", &[AttnVUp])];

pub(super) const fn of_latents(form: Form) -> [NameRule; 8] {
    [
        rows("blk.{}.attn_q_a.weight", &[AttnQDown]),
        rows("blk.{}.attn_q_a_norm.weight", &[QNorm]),
        formed("blk.{}.attn_q_b.weight", &[AttnQ], form),
        formed("blk.{}.attn_q.weight", &[AttnQ], form),
        formed("blk.{}.attn_kv_a_mqa.weight", &[AttnKvDown], form),
        rows("blk.{}.attn_kv_a_norm.weight", &[KNorm]),
        // Both in one: in files of DeepSeek until early 2025.
        formed("blk.{}.attn_kv_b.weight", &[AttnKUp, AttnVUp], Form::KeysAndValuesOfLatents),
        rows("blk.{}.attn_output.weight", &[AttnOutput]),
    ]
}

fn deepseek(reading: &mut Reading<'_>) -> Result<()> {
    latents(reading)?;
    reading.query_growth()?;
    let config = &mut reading.config;
    if config.experts.as_ref().is_some_and(|experts| experts.score == RouterScore::Sigmoid) {
        config.architecture = "deepseek_v3".into();
    }
    let Some(multiplier) = reading.yarn_multiplier()? else { return Ok(()) };
    if let PositionConfig::Rope { scaling: Some(RopeScaling::Yarn { factor, .. }), .. } =
        &reading.config.position
    {
        let scale = scale_of_yarn(multiplier, *factor, reading.config.head_dim);
        reading.config.attention_scale = Some(scale);
    }
    Ok(())
}

/// A group's score is the sum of its two best here too, though scores are those of a softmax.
fn mistral(reading: &mut Reading<'_>) -> Result<()> {
    deepseek(reading)?;
    if let Some(groups) = reading.config.experts.as_mut().and_then(|experts| experts.groups.as_mut()) {
        groups.best = 2;
    }
    Ok(())
}

/// The factor of scores with YaRN's `mscale_all_dim`, of which `multiplier` is a tenth.
pub(in crate::source::gguf) fn scale_of_yarn(multiplier: f64, factor: f32, head_dim: u32) -> f32 {
    let mscale = multiplier * f64::from(factor).ln() + 1.0;
    (mscale * mscale / f64::from(head_dim).sqrt()) as f32
}

/// Files do not say what all released models have.
fn minicpm(reading: &mut Reading<'_>) -> Result<()> {
    latents(reading)?;
    let config = &mut reading.config;
    config.embedding_scale = Some(12.0);
    config.residual_scale = Some((1.4 / f64::from(config.layers).sqrt()) as f32);
    config.logit_scale = Some(256.0 / config.hidden as f32).filter(|scale| *scale != 1.0);
    Ok(())
}

pub(super) fn latents(reading: &mut Reading<'_>) -> Result<()> {
    let heads = reading.config.heads;
    // Files that were written before latents were cached have one head for each, with keys and values as wide as they are.
    let columns = reading.shape("blk.0.attn_output.weight").and_then(|shape| shape.first().copied());
    let from_output = columns.and_then(|columns| u32::try_from(columns).ok()?.checked_div(heads));
    let value_dim = match reading.number("attention.value_length_mla")?.or(from_output) {
        Some(width) => width,
        None => reading.needed("attention.value_length_mla")?,
    };
    reading.config.kv_heads = heads;
    reading.config.latent = Some(LatentAttention {
        q_rank: reading.number("attention.q_lora_rank")?.filter(|&rank| rank != 0),
        kv_rank: reading.needed("attention.kv_lora_rank")?,
        shared_dim: reading.needed("rope.dimension_count")?,
        value_dim,
        norm_epsilon: NORM_EPSILON,
    });
    if let PositionConfig::Rope { dims, .. } = &mut reading.config.position {
        *dims = reading.config.latent.map(|latent| latent.shared_dim);
    }
    Ok(())
}
