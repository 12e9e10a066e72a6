//! DeepSeek V2 and V3, and those that share their attention by way of latents: Kimi K2, GLM 4.7 Flash, Mistral 4.

use qsf_format::TensorKind::*;
use qsf_format::printable::quote;
use qsf_format::{ExpertGroups, Experts, ModelConfig, QueryGrowth, RouterScore, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::latent::{ATTENTION_PAIRS, Latent};
use super::names::{GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS};
use super::reader::{Defaults, plain};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const DEEPSEEK_V2: Architecture = Architecture {
    model_types: &["deepseek_v2"],
    base: "model.",
    table: TABLE,
    marks: Marks::tensors(&[AttnKvDown]),
    config: |reader| config(reader, &V2),
};

pub(super) const DEEPSEEK_V3: Architecture = Architecture {
    model_types: &["deepseek_v3", "kimi_k2"],
    base: "model.",
    table: TABLE,
    marks: Marks { fields: &["scoring_func"], ..Marks::tensors(&[AttnKvDown]) },
    config: |reader| config(reader, &V3),
};

pub(super) const GLM4_MOE_LITE: Architecture = Architecture {
    model_types: &["glm4_moe_lite"],
    base: "model.",
    table: TABLE,
    marks: Marks { fields: &["mlp_layer_types"], ..Marks::tensors(&[AttnKvDown]) },
    config: |reader| config(reader, &GLM_LITE),
};

pub(super) const MISTRAL4: Architecture = Architecture {
    model_types: &["mistral4"],
    base: "model.",
    table: TABLE,
    marks: Marks { fields: &["n_routed_experts", "rope_parameters"], ..Marks::tensors(&[AttnKvDown]) },
    config: |reader| {
        reader.need_rotation()?;
        let mut config = config(reader, &MISTRAL)?;
        if let Some(rope) = reader.fields.object("rope_parameters", "rope_parameters.")? {
            let factor = rope.f32("llama_4_scaling_beta")?.filter(|factor| *factor != 0.0);
            let original = rope.u32("original_max_position_embeddings")?;
            let growth = |factor| -> Result<QueryGrowth> {
                let needed = || rope.need_u32("original_max_position_embeddings");
                Ok(QueryGrowth::rotated(factor, original.map_or_else(needed, Ok)?))
            };
            config.model.query_growth = factor.map(growth).transpose()?;
        }
        Ok(config)
    },
};

const TABLE: NameTable = NameTable {
    rules: join_rules!(MODEL, PRE_NORMS, ATTENTION_PAIRS, GATED_FFN, EXPERTS, JOINED_EXPERTS, SHARED),
    ignored: IGNORED,
};

const EXPERTS: &[NameRule] = &[
    rows("layers.{}.mlp.gate.e_score_correction_bias", &[RouterChoiceBias]),
    rows("layers.{}.mlp.experts.{e}.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.experts.{e}.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.experts.{e}.down_proj.weight", &[ExpertDown]),
    // MLX
    rows("layers.{}.mlp.switch_mlp.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.mlp.switch_mlp.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mlp.switch_mlp.down_proj.weight", &[ExpertDown]),
];

const SHARED: &[NameRule] = &[
    rows("layers.{}.mlp.shared_experts.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.mlp.shared_experts.up_proj.weight", &[SharedUp]),
    rows("layers.{}.mlp.shared_experts.down_proj.weight", &[SharedDown]),
];

/// What a configuration class takes for the fields that are not there.
struct Family {
    model: Defaults,
    latent: Latent,
    router: RouterScore,
    /// Largest scores of a group that are its own.
    best: u32,
    /// Whether groups count without being asked for by `topk_method`.
    groups: Option<(u32, u32)>,
    experts: u32,
    used: Option<u32>,
    expert_ffn: u32,
    shared: u32,
    dense: u32,
    normalize: bool,
    scale: f32,
}

const V2: Family = Family {
    model: Defaults {
        vocab: 102_400,
        hidden: 4096,
        ffn: 11_008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    },
    latent: Latent {
        q_rank: Some(1536),
        kv_rank: 512,
        unrotated: 128,
        rotated: 64,
        value_dim: Some(128),
        whole_heads: false,
    },
    router: RouterScore::Softmax,
    best: 1,
    groups: None,
    experts: 64,
    used: None,
    expert_ffn: 1407,
    shared: 2,
    dense: 0,
    normalize: false,
    scale: 1.0,
};

const V3: Family = Family {
    model: Defaults {
        vocab: 129_280,
        hidden: 7168,
        ffn: 18_432,
        layers: 61,
        heads: 128,
        kv_heads: None,
        head_dim: None,
        max_positions: 4096,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    },
    router: RouterScore::Sigmoid,
    best: 2,
    groups: Some((8, 4)),
    experts: 256,
    used: Some(8),
    expert_ffn: 2048,
    shared: 1,
    dense: 3,
    normalize: true,
    scale: 2.5,
    ..V2
};

const GLM_LITE: Family = Family {
    model: Defaults {
        vocab: 154_880,
        hidden: 2048,
        ffn: 10_240,
        layers: 47,
        heads: 20,
        kv_heads: None,
        head_dim: None,
        max_positions: 202_752,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    },
    latent: Latent {
        q_rank: Some(768),
        kv_rank: 512,
        unrotated: 192,
        rotated: 64,
        value_dim: Some(256),
        whole_heads: false,
    },
    groups: Some((1, 1)),
    experts: 64,
    used: Some(4),
    expert_ffn: 1536,
    dense: 1,
    scale: 1.8,
    ..V3
};

const MISTRAL: Family = Family {
    model: Defaults {
        vocab: 131_072,
        hidden: 4096,
        ffn: 12_288,
        layers: 36,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 1_048_576,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    },
    latent: Latent {
        q_rank: Some(1024),
        kv_rank: 256,
        unrotated: 64,
        rotated: 64,
        value_dim: Some(128),
        whole_heads: true,
    },
    router: RouterScore::Softmax,
    groups: Some((1, 1)),
    experts: 128,
    used: Some(4),
    dense: 0,
    scale: 1.0,
    ..V3
};

fn config(reader: &Reader<'_>, family: &Family) -> Result<SourceConfig> {
    let mut model = reader.with_latents(&family.model, &family.latent)?;
    reader.only("mlp_bias", false)?;
    reader.only("rope_interleave", true)?;
    model.experts = experts(reader, family, &model)?;
    Ok(plain(model))
}

fn experts(reader: &Reader<'_>, family: &Family, model: &ModelConfig) -> Result<Option<Experts>> {
    let fields = reader.fields;
    let dense_layers = dense_layers(reader, family, model.layers)?;
    if dense_layers.len() == model.layers as usize {
        return Ok(None);
    }
    reader.only_str(
        "scoring_func",
        if family.router == RouterScore::Softmax { "softmax" } else { "sigmoid" },
    )?;
    if fields.u32("moe_layer_freq")?.is_some_and(|every| every != 1) {
        return Err(RuntimeError::unsupported(fields.path, "moe_layer_freq other than 1", "only 1 is"));
    }
    let count =
        reader.dimension(&["n_routed_experts", "num_local_experts", "num_experts"], family.experts)?;
    let used = match (fields.u32("num_experts_per_tok")?, family.used) {
        (Some(used), _) | (None, Some(used)) => used,
        (None, None) => fields.need_u32("num_experts_per_tok")?,
    };
    let ffn = reader.dimension(&["moe_intermediate_size"], family.expert_ffn)?;
    let shared = fields.u32("n_shared_experts")?.unwrap_or(family.shared);
    let shared = (shared > 0).then(|| SharedExperts { ffn: shared.saturating_mul(ffn), gated: false });
    let scale = fields.f32("routed_scaling_factor")?.unwrap_or(family.scale);
    Ok(Some(Experts {
        count,
        used,
        ffn,
        // DeepSeek V2 has the field, and transformers does not heed it.
        normalize_weights: family.normalize && fields.bool("norm_topk_prob")?.unwrap_or(true),
        dense_layers,
        score: family.router,
        choice_bias: family.router == RouterScore::Sigmoid,
        margin: None,
        groups: groups(reader, family)?,
        weight_scale: (scale != 1.0).then_some(scale),
        weigh_inputs: false,
        beside_ffn: false,
        shared,
    }))
}

/// `topk_method` of DeepSeek V2; all others choose groups by the sum of two scores.
fn groups(reader: &Reader<'_>, family: &Family) -> Result<Option<ExpertGroups>> {
    let fields = reader.fields;
    let method = fields.str("topk_method")?;
    let limited = match (family.router, method) {
        (RouterScore::Softmax | RouterScore::SparseMixer, None) => family.groups.is_some(),
        (RouterScore::Softmax, Some("greedy")) => false,
        (RouterScore::Softmax, Some("group_limited_greedy")) => true,
        (RouterScore::Sigmoid, None | Some("noaux_tc")) => true,
        (_, Some(other)) => {
            let what = format!("topk_method {}", quote(other));
            let supported = "supported: greedy, group_limited_greedy (deepseek_v2), noaux_tc (deepseek_v3)";
            return Err(RuntimeError::unsupported(fields.path, what, supported));
        }
    };
    if !limited {
        return Ok(None);
    }
    let given = |name, default: Option<u32>| match fields.u32(name)?.or(default) {
        Some(value) => Ok(value),
        None => fields.need_u32(name),
    };
    let count = given("n_group", family.groups.map(|(count, _)| count))?;
    let used = given("topk_group", if count == 1 { Some(1) } else { family.groups.map(|(_, used)| used) })?;
    reader.expert_groups(count, used, family.best)
}

/// The first layers, or those of `mlp_layer_types`.
fn dense_layers(reader: &Reader<'_>, family: &Family, layers: u32) -> Result<Vec<u32>> {
    if let Some(dense) = reader.dense_layers(layers)? {
        return Ok(dense);
    }
    let first = reader.fields.u32("first_k_dense_replace")?.unwrap_or(family.dense);
    Ok((0..first.min(layers)).collect())
}
