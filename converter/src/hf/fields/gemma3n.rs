//! Gemma 3n as fields: residual streams, what is added beside attention, sparse gates.

use qsf_format::ModelConfig;
use serde_json::{Value, json};

use super::described::Fields;
use super::number::number;

/// What Gemma 3n says beside the fields of all Gemma models.
pub(super) fn gemma3n_fields(config: &ModelConfig) -> Fields {
    let of_layers = config.per_layer_embedding;
    let sparsity = |layer| number(config.gate_sparsity_of(layer).unwrap_or(0.0));
    vec![
        ("hidden_size_per_layer_input", json!(of_layers.map_or(0, |of| of.width))),
        ("vocab_size_per_layer_input", json!(of_layers.map_or(config.vocab, |of| of.vocab))),
        ("num_kv_shared_layers", json!(config.shared_kv.map_or(0, |shared| shared.layers))),
        ("altup_num_inputs", json!(config.streams.unwrap_or(1))),
        ("altup_active_idx", json!(0)),
        ("altup_correct_scale", json!(true)),
        ("laurel_rank", json!(config.laurel.unwrap_or(0))),
        ("activation_sparsity_pattern", Value::Array((0..config.layers).map(sparsity).collect())),
    ]
}
