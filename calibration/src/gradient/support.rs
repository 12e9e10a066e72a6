//! Which models have gradients: said by name, before any work is done.

use qsf_format::{FullAttention, ModelConfig, NormPlacement};
use qsf_runtime::source::WeightSource;

use super::error::{GradientError, GradientResult};

/// That gradients of all parts of the model can be computed.
///
/// # Errors
/// The first part of which they cannot.
pub fn check_gradients(source: &dyn WeightSource) -> GradientResult<()> {
    if !source.adapters()?.is_empty() {
        return Err(unsupported("adapters in the file"));
    }
    // Every field of a model: whoever adds one says here whether a gradient passes it.
    let ModelConfig {
        norm,
        latent,
        full_attention,
        shared_kv,
        per_layer_embedding,
        streams,
        laurel,
        gate_sparsity,
        recurrent,
        experts,
        // Passed by `attention`, `place` and `attend`.
        heads: _,
        kv_heads: _,
        head_dim: _,
        position: _,
        qk_norm: _,
        value_norm: _,
        attention_scale: _,
        attention_softcap: _,
        qkv_clip: _,
        attention_sinks: _,
        window_sinks: _,
        value_heads: _,
        query_growth: _,
        sliding_window: _,
        window_chunks: _,
        attention_gate: _,
        // By `feed_forward`, `function` and `norm`.
        ffn: _,
        activation: _,
        gated_ffn: _,
        gate_clip: _,
        sub_norms: _,
        // By `layer`.
        residual: _,
        residual_scale: _,
        multipliers: _,
        layer_scale: _,
        half_layers: _,
        // By `ends`.
        embedding_scale: _,
        embedding_norm: _,
        tied_head: _,
        logit_scale: _,
        logit_softcap: _,
        // Sizes and names.
        layers: _,
        hidden: _,
        vocab: _,
        max_positions: _,
        architecture: _,
        bos: _,
        stop_tokens: _,
        pad: _,
    } = source.config();
    let refused = [
        (recurrent.is_some(), "recurrent mixers"),
        (latent.is_some(), "attention by way of latents"),
        (shared_kv.is_some(), "layers that use keys and values of others"),
        (per_layer_embedding.is_some(), "embeddings of layers"),
        (streams.is_some(), "residual streams beside each other"),
        (laurel.is_some(), "what is added beside attention"),
        (!gate_sparsity.is_empty(), "gates that are cut off"),
        (norm.placement == NormPlacement::ByMixer, "norms whose place depends on the mixer"),
        (experts.as_ref().is_some_and(|experts| experts.beside_ffn), "experts beside a feed-forward"),
        (
            full_attention.is_some_and(|full: FullAttention| full.keys_are_values),
            "keys that are values as well",
        ),
    ];
    refused.into_iter().find(|(there, _)| *there).map_or(Ok(()), |(_, part)| Err(unsupported(part)))
}

fn unsupported(part: &str) -> GradientError {
    GradientError::Unsupported { part: part.into() }
}
