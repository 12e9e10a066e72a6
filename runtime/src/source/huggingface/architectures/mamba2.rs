//! Mamba-2: each layer is a state space alone, without attention and without a feed-forward.

use qsf_format::TensorKind::{AttnNorm, FinalNorm, Head, TokenEmbedding};
use qsf_format::{HalfLayers, ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mamba::{
    MAMBA_MIXER, Mamba2Fields, declared_mixer_conv_bias, mamba2_mixer, only_silu, refuse_limits,
};
use super::reader::without_parts;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const MAMBA2: Architecture = Architecture {
    model_types: &["mamba2"],
    base: "backbone.",
    table: NameTable { rules: join_rules!(PARTS, MAMBA_MIXER), ignored: &[] },
    marks: Marks { fields: &["num_heads", "state_size"], ..Marks::NONE },
    config,
};

const PARTS: &[NameRule] = &[
    rows("embeddings.weight", &[TokenEmbedding]),
    rows("norm_f.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.norm.weight", &[AttnNorm]),
];

/// Nothing in the model depends on a position. llama.cpp's converter writes as much.
const POSITIONS: u32 = 1 << 20;

const NAMES: Mamba2Fields = Mamba2Fields { heads: ("num_heads", 128), groups: 8, state: ("state_size", 128) };

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    only_silu(reader, "hidden_act")?;
    refuse_limits(reader)?;
    let layers = reader.layers(&["num_hidden_layers"], 64)?;
    let hidden = reader.dimension(&["hidden_size"], 4096)?;
    let recurrent = mamba2_mixer(reader, &NAMES, head_dim(reader, hidden)?, (0..layers).collect())?;
    let epsilon = fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5);
    let [heads, kv_heads, head_dim] = ModelConfig::WITHOUT_ATTENTION;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        // No layer has a feed-forward.
        ffn: 1,
        vocab: reader.dimension(&["vocab_size"], 32_768)?,
        max_positions: POSITIONS,
        norm: NormConfig::new(NormKind::RmsNorm, epsilon),
        position: PositionConfig::unrotated(layers),
        tied_head: reader.tied_head(false)?,
        half_layers: Some(HalfLayers { mixer: (0..layers).collect(), feed_forward: Vec::new() }),
        recurrent: Some(recurrent),
        ..without_parts()
    };
    Ok(SourceConfig { declared: declared_mixer_conv_bias(reader)?, model })
}

/// The width of heads, which are `expand * hidden_size` together.
fn head_dim(reader: &Reader<'_>, hidden: u32) -> Result<u32> {
    let fields = reader.fields;
    let heads = reader.dimension(&[NAMES.heads.0], NAMES.heads.1)?;
    let inner = fields.u32("expand")?.unwrap_or(2).saturating_mul(hidden);
    let head_dim = match fields.u32("head_dim")? {
        Some(head_dim) => head_dim,
        None => inner.checked_div(heads).unwrap_or(0),
    };
    if heads.checked_mul(head_dim) == Some(inner) {
        return Ok(head_dim);
    }
    let expected = format!("expand * hidden_size / head_dim = {inner} / {head_dim}");
    Err(fields.wrong(NAMES.heads.0, expected, heads))
}
