//! `config.json` (and `generation_config.json`) to [`ModelConfig`].
//!
//! Two spellings are in use: transformers 3 and 4 wrote `rope_theta` beside `rope_scaling`, version 5 writes one
//! `rope_parameters`. Anything that changes what the model computes and that the decoder does not do is refused here.

use std::path::Path;

use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig};

use super::fields::{Fields, describe};
use super::files;
use super::rope::rope_positions;
use crate::error::{Result, RuntimeError};
use qsf_format::printable::quote;

/// The architectures that can be read, for messages.
const SUPPORTED: &str = "supported model types: llama, gpt2";

/// Everything that the loader takes from the configuration.
#[derive(Debug, PartialEq)]
pub(super) struct SourceConfig {
    /// What the decoder needs.
    pub model: ModelConfig,
    /// Which tensor names to expect.
    pub architecture: Architecture,
    /// Whether the attention projections have biases; `None`: the configuration does not say.
    pub attention_bias: Option<bool>,
    /// Whether the feed-forward projections have biases; `None`: the configuration does not say.
    pub ffn_bias: Option<bool>,
}

/// The families of tensor names that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    /// `model.layers.N.self_attn.q_proj.weight` and so on, `[out, in]`.
    Llama,
    /// `transformer.h.N.attn.c_attn.weight` and so on, projections `[in, out]`.
    Gpt2,
}

/// Reads `config.json` at `path` and the file `generation_config`, where there is one.
pub(super) fn read_config(path: &Path, generation_config: Option<&Path>) -> Result<SourceConfig> {
    let map = files::read_object(path)?;
    let fields = Fields { path, within: "", map: &map };
    refuse_quantized(fields)?;
    let mut config = match fields.need_str("model_type")? {
        "llama" => llama(fields)?,
        "gpt2" => gpt2(fields)?,
        other => return Err(unsupported(path, format!("model type {}", quote(other)), SUPPORTED)),
    };
    let model = &mut config.model;
    model.bos = token_id(fields, "bos_token_id")?;
    model.pad = pad_token(fields)?;
    model.stop_tokens = fields.token_ids("eos_token_id")?;
    if let Some(path) = generation_config {
        let map = files::read_object(path)?;
        let fields = Fields { path, within: "", map: &map };
        // Chat models end a turn with a token of their own, which often is listed only here.
        model.stop_tokens.extend(fields.token_ids("eos_token_id")?);
        model.bos = model.bos.or(token_id(fields, "bos_token_id")?);
    }
    keep_first_of_each(&mut model.stop_tokens);
    model.check().map_err(|problem| {
        RuntimeError::bad_input(path, "the configuration", "a model that can be run", problem)
    })?;
    Ok(config)
}

fn llama(fields: Fields<'_>) -> Result<SourceConfig> {
    let hidden = fields.need_u32("hidden_size")?;
    let heads = fields.need_u32("num_attention_heads")?;
    let head_dim = match fields.u32("head_dim")? {
        Some(head_dim) => head_dim,
        None => divide(fields, ("hidden_size", hidden), ("num_attention_heads", heads))?,
    };
    let model = ModelConfig {
        architecture: "llama".to_owned(),
        layers: fields.need_u32("num_hidden_layers")?,
        hidden,
        heads,
        kv_heads: fields.u32("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        ffn: fields.need_u32("intermediate_size")?,
        vocab: fields.need_u32("vocab_size")?,
        max_positions: fields.u32("max_position_embeddings")?.unwrap_or(2048),
        norm: NormConfig::new(NormKind::RmsNorm, fields.f32("rms_norm_eps")?.unwrap_or(1e-6)),
        activation: activation(fields, "hidden_act", "silu")?,
        gated_ffn: true,
        position: rope_positions(fields)?,
        tied_head: fields.bool("tie_word_embeddings")?.unwrap_or(false),
        ..ModelConfig::default()
    };
    Ok(SourceConfig {
        model,
        architecture: Architecture::Llama,
        attention_bias: fields.bool("attention_bias")?,
        ffn_bias: fields.bool("mlp_bias")?,
    })
}

fn gpt2(fields: Fields<'_>) -> Result<SourceConfig> {
    for (name, supported) in [
        ("scale_attn_by_inverse_layer_idx", false),
        ("scale_attn_weights", true),
        ("add_cross_attention", false),
    ] {
        if fields.bool(name)?.is_some_and(|value| value != supported) {
            let advice = format!("only {name} = {supported} is");
            return Err(unsupported(fields.path, format!("{name} = {}", !supported), &advice));
        }
    }
    let hidden = fields.need_u32("n_embd")?;
    let heads = fields.need_u32("n_head")?;
    let ffn = match fields.u32("n_inner")? {
        Some(ffn) => ffn,
        None => hidden.checked_mul(4).ok_or_else(|| fields.wrong("n_embd", "at most 1048576", hidden))?,
    };
    let max_positions = match fields.u32("n_positions")? {
        Some(positions) => positions,
        None => fields.need_u32("n_ctx")?,
    };
    let model = ModelConfig {
        architecture: "gpt2".to_owned(),
        layers: fields.need_u32("n_layer")?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: divide(fields, ("n_embd", hidden), ("n_head", heads))?,
        ffn,
        vocab: fields.need_u32("vocab_size")?,
        max_positions,
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: activation(fields, "activation_function", "gelu_new")?,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: fields.bool("tie_word_embeddings")?.unwrap_or(true),
        ..ModelConfig::default()
    };
    Ok(SourceConfig { model, architecture: Architecture::Gpt2, attention_bias: None, ffn_bias: None })
}

/// Weights quantized by another tool are packed in tensors that would be misread as plain numbers.
fn refuse_quantized(fields: Fields<'_>) -> Result<()> {
    for name in ["quantization_config", "compression_config"] {
        if let Some(found) = fields.get(name) {
            let method = found["quant_method"].as_str().unwrap_or("unknown method");
            return Err(unsupported(
                fields.path,
                format!("a model that is already quantized ({name}, {})", quote(method)),
                "use the original model in f16, bf16 or f32",
            ));
        }
    }
    Ok(())
}

fn activation(fields: Fields<'_>, name: &str, default: &str) -> Result<Activation> {
    match fields.str(name)?.unwrap_or(default) {
        "silu" | "swish" => Ok(Activation::Silu),
        "relu" => Ok(Activation::Relu),
        "gelu" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        other => Err(unsupported(
            fields.path,
            format!("{name} {}", quote(other)),
            "supported: silu, relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast",
        )),
    }
}

fn divide(fields: Fields<'_>, (name, value): (&str, u32), (by_name, by): (&str, u32)) -> Result<u32> {
    match value.checked_rem(by) {
        Some(0) => Ok(value / by),
        _ => Err(fields.wrong(name, format!("a multiple of {by_name} = {by}"), value)),
    }
}

fn token_id(fields: Fields<'_>, name: &str) -> Result<Option<u32>> {
    // A list of start tokens is accepted by transformers too; the first starts the text.
    Ok(fields.token_ids(name)?.first().copied())
}

fn pad_token(fields: Fields<'_>) -> Result<Option<u32>> {
    // The first LLaMA conversions wrote -1 for "no padding token".
    if fields.get("pad_token_id").is_some_and(|value| value.as_i64() == Some(-1)) {
        return Ok(None);
    }
    match fields.get("pad_token_id") {
        Some(list) if list.is_array() => Err(fields.wrong("pad_token_id", "a token id", describe(list))),
        _ => fields.u32("pad_token_id"),
    }
}

fn keep_first_of_each(ids: &mut Vec<u32>) {
    let mut seen = std::collections::HashSet::new();
    ids.retain(|&id| seen.insert(id));
}

/// An error about something that this version does not do.
pub(super) fn unsupported(path: &Path, what: impl Into<String>, supported: &str) -> RuntimeError {
    RuntimeError::Unsupported { path: path.to_owned(), what: what.into(), supported: supported.to_owned() }
}
