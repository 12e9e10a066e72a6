//! Falcon: attention and feed-forward side by side, heads of keys shared. 40B and 180B have two norms, or one (Falcon 2); 7B has
//! one; older ones go through one part after the other and have ALiBi.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use super::rope::{self, RopeDefaults};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const FALCON: Architecture = Architecture {
    model_types: &["falcon"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("word_embeddings.weight", &[TokenEmbedding]),
            rows("ln_f.weight", &[FinalNorm]),
            rows("ln_f.bias", &[FinalNormBias]),
            rows("lm_head.weight", &[Head]),
            // Where there are two norms side by side.
            rows("h.{}.ln_attn.weight", &[AttnNorm]),
            rows("h.{}.ln_attn.bias", &[AttnNormBias]),
            rows("h.{}.ln_mlp.weight", &[FfnNorm]),
            rows("h.{}.ln_mlp.bias", &[FfnNormBias]),
            rows("h.{}.input_layernorm.weight", &[AttnNorm]),
            rows("h.{}.input_layernorm.bias", &[AttnNormBias]),
            rows("h.{}.post_attention_layernorm.weight", &[FfnNorm]),
            rows("h.{}.post_attention_layernorm.bias", &[FfnNormBias]),
            formed("h.{}.self_attention.query_key_value.weight", &[AttnQ, AttnK, AttnV], Form::GroupByGroup),
            formed(
                "h.{}.self_attention.query_key_value.bias",
                &[AttnQBias, AttnKBias, AttnVBias],
                Form::GroupByGroup,
            ),
            rows("h.{}.self_attention.dense.weight", &[AttnOutput]),
            rows("h.{}.self_attention.dense.bias", &[AttnOutputBias]),
            rows("h.{}.mlp.dense_h_to_4h.weight", &[FfnUp]),
            rows("h.{}.mlp.dense_h_to_4h.bias", &[FfnUpBias]),
            rows("h.{}.mlp.dense_4h_to_h.weight", &[FfnDown]),
            rows("h.{}.mlp.dense_4h_to_h.bias", &[FfnDownBias]),
        ],
        ignored: &[".rotary_emb.inv_freq", ".rotary.inv_freq"],
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let hidden = reader.dimension(&["n_embed", "hidden_size"], 4544)?;
    let heads = reader.dimension(&["num_attention_heads"], 71)?;
    let head_dim = reader.head_dim("hidden_size", hidden, "num_attention_heads", heads)?;
    let new = fields.bool("new_decoder_architecture")?.unwrap_or(false);
    let one_head = !new && fields.bool("multi_query")?.unwrap_or(true);
    // What the field says counts in the new architecture only.
    let kv_heads = match new {
        true => fields.u32("num_kv_heads")?.unwrap_or(heads),
        false if one_head => 1,
        false => heads,
    };
    let ffn = match fields.u32("ffn_hidden_size")? {
        Some(ffn) => ffn,
        None => {
            hidden.checked_mul(4).ok_or_else(|| fields.wrong("hidden_size", "at most 1048576", hidden))?
        }
    };
    let positions = fields.u32("max_position_embeddings")?.unwrap_or(2048);
    let (position, max_positions) = if fields.bool("alibi")?.unwrap_or(false) {
        // The slopes are added before scores are scaled.
        let scale = 1.0 / (head_dim as f32).sqrt();
        (PositionConfig::Alibi { slope_scale: Some(scale) }, positions)
    } else {
        let rope = rope::positions(fields, &RopeDefaults::new(10_000.0, head_dim, positions))?;
        (rope.position, rope.max_positions)
    };
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["num_hidden_layers"], 32)?,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 65_024)?,
        max_positions,
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: reader.activation("activation", "gelu")?,
        gated_ffn: false,
        position,
        tied_head: reader.tied_head(true)?,
        residual: residual(reader, new)?,
        ..without_parts()
    };
    let with_bias = fields.bool("bias")?.unwrap_or(false);
    let of_matrices = [AttnQBias, AttnKBias, AttnVBias, AttnOutputBias, FfnUpBias, FfnDownBias];
    let mut biases = declared(&of_matrices, with_bias);
    biases.extend(declared(&[AttnNormBias, FinalNormBias], true));
    biases.push((FfnNormBias, model.residual != Residual::ParallelOneNorm));
    Ok(SourceConfig { model, declared: biases })
}

/// How attention and feed-forward are joined, and by how many norms.
fn residual(reader: &Reader<'_>, new: bool) -> Result<Residual> {
    let fields = reader.fields;
    let parallel = fields.bool("parallel_attn")?.unwrap_or(true);
    let norms = fields.u32("num_ln_in_parallel_attn")?.unwrap_or(if new { 2 } else { 1 });
    match (new, parallel, norms) {
        (true, true, 2) => Ok(Residual::Parallel),
        (_, true, 1) => Ok(Residual::ParallelOneNorm),
        (false, false, _) => Ok(Residual::Sequential),
        _ => Err(RuntimeError::unsupported(
            fields.path,
            format!(
                "num_ln_in_parallel_attn = {norms} with new_decoder_architecture = {new} and parallel_attn = {parallel}"
            ),
            "supported: 1, or 2 in the new architecture, both with parallel_attn",
        )),
    }
}
