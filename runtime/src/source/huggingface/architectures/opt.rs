//! OPT: learned positions behind two rows that mean nothing, ReLU.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::QKV_BIASES;
use super::reader::{declared, without_parts};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const OPT: Architecture = Architecture {
    model_types: &["opt"],
    base: "model.decoder.",
    table: NameTable { rules: join_rules!(NAMES, QKV_BIASES), ignored: &["decoder.version"] },
    marks: Marks::NONE,
    config,
};

const NAMES: &[NameRule] = &[
    rows("embed_tokens.weight", &[TokenEmbedding]),
    // Position 0 is row 2: the first rows were meant for padding.
    formed("embed_positions.weight", &[Positions], Form::Skip(2)),
    rows("final_layer_norm.weight", &[FinalNorm]),
    rows("final_layer_norm.bias", &[FinalNormBias]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.self_attn_layer_norm.weight", &[AttnNorm]),
    rows("layers.{}.self_attn_layer_norm.bias", &[AttnNormBias]),
    rows("layers.{}.self_attn.q_proj.weight", &[AttnQ]),
    rows("layers.{}.self_attn.k_proj.weight", &[AttnK]),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.out_proj.weight", &[AttnOutput]),
    rows("layers.{}.self_attn.out_proj.bias", &[AttnOutputBias]),
    rows("layers.{}.final_layer_norm.weight", &[FfnNorm]),
    rows("layers.{}.final_layer_norm.bias", &[FfnNormBias]),
    rows("layers.{}.fc1.weight", &[FfnUp]),
    rows("layers.{}.fc1.bias", &[FfnUpBias]),
    rows("layers.{}.fc2.weight", &[FfnDown]),
    rows("layers.{}.fc2.bias", &[FfnDownBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    reader.only("do_layer_norm_before", true)?;
    reader.only("_remove_final_layer_norm", false)?;
    reader.only("layer_norm_elementwise_affine", true)?;
    let hidden = reader.dimension(&["hidden_size"], 768)?;
    if let Some(width) = fields.u32("word_embed_proj_dim")?.filter(|&width| width != hidden) {
        let what = format!("word_embed_proj_dim = {width} beside hidden_size = {hidden}");
        return Err(RuntimeError::unsupported(
            fields.path,
            what,
            "only embeddings as wide as the layers are",
        ));
    }
    let heads = reader.dimension(&["num_attention_heads"], 12)?;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["num_hidden_layers"], 12)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: reader.head_dim("hidden_size", hidden, "num_attention_heads", heads)?,
        ffn: reader.dimension(&["ffn_dim"], 3072)?,
        vocab: reader.dimension(&["vocab_size"], 50_272)?,
        max_positions: reader.dimension(&["max_position_embeddings"], 2048)?,
        // transformers leaves the epsilon of PyTorch's LayerNorm.
        norm: NormConfig::new(NormKind::LayerNorm, 1e-5),
        activation: reader.activation("activation_function", "relu")?,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: reader.tied_head(true)?,
        ..without_parts()
    };
    let with_bias = fields.bool("enable_bias")?.unwrap_or(true);
    let mut biases =
        declared(&[AttnQBias, AttnKBias, AttnVBias, AttnOutputBias, FfnUpBias, FfnDownBias], with_bias);
    biases.extend(declared(&[AttnNormBias, FfnNormBias, FinalNormBias], true));
    Ok(SourceConfig { model, declared: biases })
}
