//! Nemotron-H and Nemotron 3: each layer is one part alone: Mamba-2, attention without rotation, a feed-forward without gate, or
//! experts beside one for all tokens.

use qsf_format::TensorKind::*;
use qsf_format::printable::quote;
use qsf_format::{
    Experts, HalfLayers, ModelConfig, NormConfig, NormKind, PositionConfig, RouterScore, SharedExperts,
};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mamba::{MAMBA_MIXER, Mamba2Fields, declared_mixer_conv_bias, mamba2_mixer, only_silu};
use super::reader::without_parts;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const NEMOTRON_H: Architecture = Architecture {
    model_types: &["nemotron_h"],
    base: "backbone.",
    table: NameTable {
        rules: join_rules!(PARTS, MAMBA_MIXER, ATTENTION, FEED_FORWARD, EXPERTS),
        ignored: MORE_TOKENS,
    },
    marks: Marks { fields: &["mamba_num_heads"], ..Marks::NONE },
    config,
};

/// Layers that predict more than the next token.
const MORE_TOKENS: &[&str] = &["mtp."];

const PARTS: &[NameRule] = &[
    rows("embeddings.weight", &[TokenEmbedding]),
    rows("norm_f.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.norm.weight", &[AttnNorm]),
    rows("layers.{}.norm.weight", &[FfnNorm]),
];

const ATTENTION: &[NameRule] = &[
    rows("layers.{}.mixer.q_proj.weight", &[AttnQ]),
    rows("layers.{}.mixer.k_proj.weight", &[AttnK]),
    rows("layers.{}.mixer.v_proj.weight", &[AttnV]),
    rows("layers.{}.mixer.o_proj.weight", &[AttnOutput]),
];

const FEED_FORWARD: &[NameRule] = &[
    rows("layers.{}.mixer.up_proj.weight", &[FfnUp]),
    rows("layers.{}.mixer.up_proj.bias", &[FfnUpBias]),
    rows("layers.{}.mixer.down_proj.weight", &[FfnDown]),
    rows("layers.{}.mixer.down_proj.bias", &[FfnDownBias]),
];

const EXPERTS: &[NameRule] = &[
    rows("layers.{}.mixer.gate.weight", &[Router]),
    rows("layers.{}.mixer.gate.e_score_correction_bias", &[RouterChoiceBias]),
    rows("layers.{}.mixer.experts.{e}.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.mixer.experts.{e}.down_proj.weight", &[ExpertDown]),
    // As transformers 5 has them in memory and may save them.
    rows("layers.{}.mixer.experts.up_proj", &[ExpertUp]),
    rows("layers.{}.mixer.experts.down_proj", &[ExpertDown]),
    rows("layers.{}.mixer.shared_experts.up_proj.weight", &[SharedUp]),
    rows("layers.{}.mixer.shared_experts.down_proj.weight", &[SharedDown]),
];

const NAMES: Mamba2Fields =
    Mamba2Fields { heads: ("mamba_num_heads", 128), groups: 8, state: ("ssm_state_size", 128) };

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    only_silu(reader, "mamba_hidden_act")?;
    reader.only("attention_bias", false)?;
    let parts = parts(reader)?;
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let of = |wanted: &[Part]| -> Vec<u32> {
        (0..count).zip(&parts).filter(|(_, part)| wanted.contains(part)).map(|(layer, _)| layer).collect()
    };
    let hidden = reader.dimension(&["hidden_size"], 4096)?;
    let [heads, kv_heads, head_dim] = match parts.contains(&Part::Attention) {
        true => {
            let heads = reader.dimension(&["num_attention_heads"], 32)?;
            let (head_dim, kv_heads) = reader.heads(hidden, heads, Some(128), Some(8))?;
            [heads, kv_heads, head_dim]
        }
        false => ModelConfig::WITHOUT_ATTENTION,
    };
    let (state_spaces, mixtures) = (of(&[Part::Mamba]), of(&[Part::Experts]));
    let epsilon = fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5);
    let halves = HalfLayers {
        mixer: of(&[Part::Mamba, Part::Attention]),
        feed_forward: of(&[Part::FeedForward, Part::Experts]),
    };
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: count,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn: reader.dimension(&["intermediate_size"], 21_504)?,
        vocab: reader.dimension(&["vocab_size"], 131_072)?,
        max_positions: fields.u32("max_position_embeddings")?.unwrap_or(4096),
        norm: NormConfig::new(NormKind::RmsNorm, epsilon),
        activation: reader.activation("mlp_hidden_act", "relu2")?,
        position: PositionConfig::unrotated(count),
        tied_head: reader.tied_head(false)?,
        recurrent: match state_spaces.is_empty() {
            true => None,
            false => {
                let head_dim = reader.dimension(&["mamba_head_dim"], 64)?;
                Some(mamba2_mixer(reader, &NAMES, head_dim, state_spaces)?)
            }
        },
        experts: if mixtures.is_empty() { None } else { Some(experts(reader, of(&[Part::FeedForward]))?) },
        half_layers: Some(halves),
        ..without_parts()
    };
    let mut declared = reader.declare("mlp_bias", &[FfnUpBias, FfnDownBias])?;
    declared.extend(declared_mixer_conv_bias(reader)?);
    Ok(SourceConfig { declared, model })
}

/// What a layer is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Mamba,
    Attention,
    FeedForward,
    Experts,
}

/// The layers, under the names of transformers 5 and 4, or as letters of a pattern.
fn parts(reader: &Reader<'_>) -> Result<Vec<Part>> {
    let fields = reader.fields;
    let unknown = |what: &str| {
        let what = format!("layer type {}", quote(what));
        RuntimeError::unsupported(fields.path, what, "supported: mamba (M), attention (*), mlp (-), moe (E)")
    };
    let types = match fields.strs("layers_block_type")? {
        Some(types) => Some(types),
        None => fields.strs("layer_types")?,
    };
    let found: Vec<Part> = match (types, fields.str("hybrid_override_pattern")?) {
        (Some(types), _) => {
            let part = |kind: &&str| match *kind {
                "linear_attention" | "mamba" => Ok(Part::Mamba),
                "full_attention" | "attention" => Ok(Part::Attention),
                "mlp" => Ok(Part::FeedForward),
                "moe" => Ok(Part::Experts),
                other => Err(unknown(other)),
            };
            types.iter().map(part).collect::<Result<_>>()?
        }
        (None, Some(pattern)) => {
            let part = |letter: char| match letter {
                'M' => Ok(Part::Mamba),
                '*' => Ok(Part::Attention),
                '-' => Ok(Part::FeedForward),
                'E' => Ok(Part::Experts),
                other => Err(unknown(&other.to_string())),
            };
            pattern.chars().map(part).collect::<Result<_>>()?
        }
        (None, None) => {
            let expected = "the parts of the layers, or hybrid_override_pattern";
            return Err(fields.wrong("layers_block_type", expected, "neither"));
        }
    };
    let stated = fields.u32("num_hidden_layers")?;
    if let Some(stated) = stated.filter(|&stated| stated as usize != found.len()) {
        let expected = format!("{}, the layers of the pattern", found.len());
        return Err(fields.wrong("num_hidden_layers", expected, stated));
    }
    Ok(found)
}

fn experts(reader: &Reader<'_>, dense_layers: Vec<u32>) -> Result<Experts> {
    let fields = reader.fields;
    if fields.u32("moe_latent_size")?.is_some() {
        return Err(RuntimeError::unsupported(
            fields.path,
            "moe_latent_size",
            "experts that read latents are not there",
        ));
    }
    if reader.fields.bool("mlp_bias")? == Some(true) {
        return Err(RuntimeError::unsupported(fields.path, "mlp_bias with experts", "only without biases"));
    }
    let groups = [fields.u32("n_group")?.unwrap_or(1), fields.u32("topk_group")?.unwrap_or(1)];
    Ok(Experts {
        count: reader.dimension(&["n_routed_experts", "num_local_experts"], 8)?,
        used: reader.dimension(&["num_experts_per_tok"], 2)?,
        ffn: reader.dimension(&["moe_intermediate_size"], 7688)?,
        normalize_weights: fields.bool("norm_topk_prob")?.unwrap_or(true),
        dense_layers,
        score: RouterScore::Sigmoid,
        choice_bias: true,
        groups: reader.expert_groups(groups[0], groups[1], 2)?,
        weight_scale: fields.f32("routed_scaling_factor")?.filter(|&scale| scale != 1.0),
        shared: Some(SharedExperts {
            ffn: reader.dimension(&["moe_shared_expert_intermediate_size"], 7688)?,
            gated: false,
        }),
        ..Experts::default()
    })
}
