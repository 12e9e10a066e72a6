//! Kimi Linear: gated delta rules in which each channel of a key decays for itself (Kimi Delta Attention), among them attention by
//! way of latents without rotation, and the router of DeepSeek V3.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, Experts, ModelConfig, PositionConfig, Recurrent, RecurrentMixer, RouterScore};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::latent::{ATTENTION_HALVES, Latent};
use super::names::{GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS, SHARED_EXPERTS};
use super::reader::{Defaults, plain};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const KIMI_LINEAR: Architecture = Architecture {
    model_types: &["kimi_linear"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION_HALVES,
            DELTA,
            GATED_FFN,
            SAVED_FFN,
            EXPERTS,
            SHARED_EXPERTS,
            JOINED_EXPERTS,
            CHOICE_BIAS
        ),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[MixerGateDown]),
    config,
};

/// As the hub has them, and where transformers 5 has other names in memory these.
const DELTA: &[NameRule] = &[
    formed("layers.{}.self_attn.q_proj.weight", &[MixerIn], Form::Piece),
    formed("layers.{}.self_attn.k_proj.weight", &[MixerIn], Form::Piece),
    formed("layers.{}.self_attn.v_proj.weight", &[MixerIn], Form::Piece),
    formed("layers.{}.self_attn.q_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.self_attn.k_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.self_attn.v_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.self_attn.conv1d.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.self_attn.f_a_proj.weight", &[MixerStep]),
    rows("layers.{}.self_attn.forget_gate.f_a_proj.weight", &[MixerStep]),
    rows("layers.{}.self_attn.f_b_proj.weight", &[MixerStepUp]),
    rows("layers.{}.self_attn.forget_gate.f_b_proj.weight", &[MixerStepUp]),
    rows("layers.{}.self_attn.dt_bias", &[MixerStepBias]),
    rows("layers.{}.self_attn.forget_gate.dt_bias", &[MixerStepBias]),
    formed("layers.{}.self_attn.A_log", &[MixerDecay], Form::MinusExp),
    formed("layers.{}.self_attn.forget_gate.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.self_attn.b_proj.weight", &[MixerBeta]),
    rows("layers.{}.self_attn.g_a_proj.weight", &[MixerGateDown]),
    rows("layers.{}.self_attn.g_b_proj.weight", &[MixerGate]),
    rows("layers.{}.self_attn.o_norm.weight", &[MixerNorm]),
    rows("layers.{}.self_attn.o_proj.weight", &[MixerOutput]),
];

/// What transformers 5 saves feed-forwards without experts as.
const SAVED_FFN: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.gate_proj.weight", &[FfnGate]),
    rows("layers.{}.block_sparse_moe.up_proj.weight", &[FfnUp]),
    rows("layers.{}.block_sparse_moe.down_proj.weight", &[FfnDown]),
];

const EXPERTS: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.gate.weight", &[Router]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w1.weight", &[ExpertGate]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w3.weight", &[ExpertUp]),
    rows("layers.{}.block_sparse_moe.experts.{e}.w2.weight", &[ExpertDown]),
    rows("layers.{}.block_sparse_moe.shared_experts.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.block_sparse_moe.shared_experts.up_proj.weight", &[SharedUp]),
    rows("layers.{}.block_sparse_moe.shared_experts.down_proj.weight", &[SharedDown]),
];

const CHOICE_BIAS: &[NameRule] = &[
    rows("layers.{}.block_sparse_moe.gate.e_score_correction_bias", &[RouterChoiceBias]),
    rows("layers.{}.mlp.gate.e_score_correction_bias", &[RouterChoiceBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    reader.only("mla_use_nope", true)?;
    let defaults = Defaults {
        vocab: 163_840,
        hidden: 2304,
        ffn: 9216,
        layers: 27,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: fields.u32("model_max_length")?.unwrap_or(1_048_576),
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    };
    let latent = Latent {
        q_rank: None,
        kv_rank: 512,
        unrotated: 128,
        rotated: 64,
        value_dim: Some(128),
        whole_heads: false,
    };
    let mut model = reader.with_latents(&defaults, &latent)?;
    if model.activation != Activation::Silu {
        let what = "hidden_act other than silu, which the convolution would have too";
        return Err(RuntimeError::unsupported(fields.path, what, "supported: silu"));
    }
    // What heads share of keys is not rotated either.
    if let PositionConfig::Rope { scaling, unrotated_layers, .. } = &mut model.position {
        *scaling = None;
        *unrotated_layers = (0..model.layers).collect();
    }
    model.attention_scale = None;
    delta(reader, &mut model)?;
    model.experts = experts(reader, model.layers)?;
    Ok(plain(model))
}

/// Layers with the delta rule, in the spelling of the hub counted from 1.
fn delta(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let fields = reader.fields;
    let nested = fields.object("linear_attn_config", "linear_attn_config.")?;
    let of = |inner: &str, name: &str, default: u32| -> Result<u32> {
        let found = nested.map_or(Ok(None), |nested| nested.u32(inner))?;
        Ok(found.or(fields.u32(name)?).unwrap_or(default))
    };
    let heads = of("num_heads", "linear_num_heads", 32)?;
    let dim = of("head_dim", "linear_head_dim", 128)?;
    let taps = of("short_conv_kernel_size", "linear_conv_kernel_dim", 4)?;
    let listed = nested.map_or(Ok(None), |nested| nested.u32s("kda_layers"))?;
    let layers = match (reader.layers_of_type(model.layers, "linear_attention")?, listed) {
        (Some(layers), _) => layers,
        (None, Some(mut listed)) => {
            listed.sort_unstable();
            let wrong = || fields.wrong("linear_attn_config.kda_layers", "layers counted from 1", "another");
            let from_0 = listed.into_iter().map(|layer| layer.checked_sub(1).ok_or_else(wrong));
            from_0.collect::<Result<_>>()?
        }
        (None, None) => (0..model.layers).filter(|layer| *layer == 0 || layer % 4 != 0).collect(),
    };
    if layers.is_empty() {
        return Ok(());
    }
    let mixer =
        RecurrentMixer::GatedDelta { key_heads: heads, key_dim: dim, value_heads: heads, value_dim: dim };
    let mut recurrent = Recurrent::new(mixer, taps, layers);
    recurrent.channel_rank = Some(dim);
    model.recurrent = Some(recurrent);
    Ok(())
}

fn experts(reader: &Reader<'_>, layers: u32) -> Result<Option<Experts>> {
    let fields = reader.fields;
    let one_of = |names: [&str; 2], default: u32| -> Result<u32> {
        Ok(fields.u32(names[0])?.or(fields.u32(names[1])?).unwrap_or(default))
    };
    reader.only_str("moe_router_activation_func", "sigmoid")?;
    let first = fields.u32("first_k_dense_replace")?.unwrap_or(1);
    let dense = reader.dense_layers(layers)?.unwrap_or_else(|| (0..first.min(layers)).collect());
    if let Some(freq) = fields.u32("moe_layer_freq")?.filter(|freq| *freq != 1) {
        let what = format!("moe_layer_freq {freq}");
        return Err(RuntimeError::unsupported(fields.path, what, "only 1 is"));
    }
    let count = one_of(["num_experts", "num_local_experts"], 256)?;
    if dense.len() == layers as usize || count == 0 {
        return Ok(None);
    }
    let ffn = reader.dimension(&["moe_intermediate_size"], 1024)?;
    let normalize = fields.bool("moe_renormalize")?.or(fields.bool("norm_topk_prob")?).unwrap_or(true);
    let groups = [one_of(["num_expert_group", "n_group"], 1)?, fields.u32("topk_group")?.unwrap_or(1)];
    let scale = fields.f32("routed_scaling_factor")?.unwrap_or(2.446);
    Ok(Some(Experts {
        count,
        used: one_of(["num_experts_per_token", "num_experts_per_tok"], 8)?,
        ffn,
        normalize_weights: normalize,
        dense_layers: dense,
        score: RouterScore::Sigmoid,
        choice_bias: true,
        groups: reader.expert_groups(groups[0], groups[1], 2)?,
        weight_scale: (scale != 1.0).then_some(scale),
        shared: reader.shared_experts(one_of(["num_shared_experts", "n_shared_experts"], 1)?, ffn)?,
        ..Experts::default()
    }))
}
