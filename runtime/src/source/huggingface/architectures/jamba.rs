//! Jamba: layers of Mamba-1, with a layer of attention without rotation among them now and then, and experts in some of them.

use qsf_format::TensorKind::*;
use qsf_format::{Experts, ModelConfig, NormConfig, NormKind, PositionConfig, Recurrent, RecurrentMixer};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::bamba::PARTS;
use super::mamba::{declared_conv_bias, only_silu};
use super::mamba1::rank;
use super::names::{ATTENTION, IGNORED};
use super::reader::without_parts;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const JAMBA: Architecture = Architecture {
    model_types: &["jamba"],
    base: "model.",
    table: NameTable { rules: join_rules!(PARTS, ATTENTION, MIXER, EXPERTS), ignored: IGNORED },
    marks: Marks { fields: &["mamba_dt_rank", "attn_layer_period"], ..Marks::NONE },
    config,
};

const MIXER: &[NameRule] = &[
    rows("layers.{}.mamba.in_proj.weight", &[MixerIn, MixerGate]),
    formed("layers.{}.mamba.conv1d.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.mamba.conv1d.bias", &[MixerConvBias]),
    rows("layers.{}.mamba.x_proj.weight", &[MixerSelect]),
    rows("layers.{}.mamba.dt_layernorm.weight", &[MixerStepNorm]),
    rows("layers.{}.mamba.b_layernorm.weight", &[MixerBNorm]),
    rows("layers.{}.mamba.c_layernorm.weight", &[MixerCNorm]),
    rows("layers.{}.mamba.dt_proj.weight", &[MixerStepUp]),
    rows("layers.{}.mamba.dt_proj.bias", &[MixerStepBias]),
    formed("layers.{}.mamba.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.mamba.D", &[MixerSkip]),
    rows("layers.{}.mamba.out_proj.weight", &[MixerOutput]),
];

const EXPERTS: &[NameRule] = &[
    rows("layers.{}.feed_forward.router.weight", &[Router]),
    rows("layers.{}.feed_forward.experts.{e}.gate_proj.weight", &[ExpertGate]),
    rows("layers.{}.feed_forward.experts.{e}.up_proj.weight", &[ExpertUp]),
    rows("layers.{}.feed_forward.experts.{e}.down_proj.weight", &[ExpertDown]),
    // As transformers 5 has them in memory and may save them.
    formed("layers.{}.feed_forward.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.feed_forward.experts.down_proj", &[ExpertDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    only_silu(reader, "hidden_act")?;
    reader.only("mamba_proj_bias", false)?;
    let layers = reader.layers(&["num_hidden_layers"], 32)?;
    let hidden = reader.dimension(&["hidden_size"], 4096)?;
    let heads = reader.dimension(&["num_attention_heads"], 32)?;
    let (head_dim, kv_heads) = reader.heads(hidden, heads, None, Some(8))?;
    let epsilon = fields.f32("rms_norm_eps")?.unwrap_or(1e-6);
    let attention = every(reader, layers, ["attn_layer_period", "attn_layer_offset"], [8, 4])?;
    let mixer = RecurrentMixer::Mamba1 {
        width: fields.u32("mamba_expand")?.unwrap_or(2).saturating_mul(hidden),
        state: fields.u32("mamba_d_state")?.unwrap_or(16),
        rank: rank(reader, "mamba_dt_rank", hidden)?,
        norm_epsilon: Some(epsilon),
        norm_gains: true,
    };
    let taps = fields.u32("mamba_d_conv")?.unwrap_or(4);
    let others = |those: &[u32]| (0..layers).filter(|layer| !those.contains(layer)).collect::<Vec<_>>();
    let state_spaces = others(&attention);
    let ffn = reader.dimension(&["intermediate_size"], 14_336)?;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 65_536)?,
        max_positions: fields.u32("max_position_embeddings")?.unwrap_or(262_144),
        norm: NormConfig::new(NormKind::RmsNorm, epsilon),
        gated_ffn: true,
        position: PositionConfig::unrotated(layers),
        tied_head: reader.tied_head(false)?,
        recurrent: (!state_spaces.is_empty()).then(|| Recurrent::new(mixer, taps, state_spaces)),
        experts: match fields.u32("num_experts")?.unwrap_or(16) {
            1 => None,
            count => Some(Experts {
                count,
                used: fields.u32("num_experts_per_tok")?.unwrap_or(2),
                ffn,
                dense_layers: others(&every(
                    reader,
                    layers,
                    ["expert_layer_period", "expert_layer_offset"],
                    [2, 1],
                )?),
                ..Experts::default()
            }),
        },
        ..without_parts()
    };
    Ok(SourceConfig { declared: declared_conv_bias(reader)?, model })
}

/// Layers at an offset of every period.
fn every(reader: &Reader<'_>, layers: u32, names: [&str; 2], defaults: [u32; 2]) -> Result<Vec<u32>> {
    let fields = reader.fields;
    let period = fields.u32(names[0])?.unwrap_or(defaults[0]);
    let offset = fields.u32(names[1])?.unwrap_or(defaults[1]);
    if offset >= period {
        return Err(fields.wrong(names[1], format!("below {} = {period}", names[0]), offset));
    }
    Ok((0..layers).filter(|layer| layer % period == offset).collect())
}
