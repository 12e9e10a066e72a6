//! Shapes that go by a name, as the `config.json` of a model that has them.

/// The `config.json` of the shape `name`; `None`: no shape has that name.
pub fn shape_text(name: &str) -> Option<String> {
    let llama =
        |layers, hidden, ffn, heads, kv_heads, vocab| Llama { layers, hidden, ffn, heads, kv_heads, vocab };
    Some(match name {
        "llama-1b" => llama(22, 2048, 5632, 32, 4, 16_384).config(),
        "llama-7b" => llama(32, 4096, 11_008, 32, 32, 32_000).config(),
        "llama-13b" => llama(40, 5120, 13_824, 40, 40, 32_000).config(),
        "gpt2-small" => gpt2(12, 768, 12),
        "gpt2-medium" => gpt2(24, 1024, 16),
        "gpt2-large" => gpt2(36, 1280, 20),
        // https://huggingface.co/microsoft/phi-2/blob/main/config.json
        "phi-2" => r#"{"model_type": "phi", "num_hidden_layers": 32, "hidden_size": 2560, "intermediate_size": 10240,
            "num_attention_heads": 32, "vocab_size": 51200, "max_position_embeddings": 2048, "layer_norm_eps": 1e-5,
            "hidden_act": "gelu_new", "partial_rotary_factor": 0.4, "rope_theta": 10000.0, "qk_layernorm": false,
            "tie_word_embeddings": false}"#
            .to_owned(),
        _ => return None,
    })
}

/// What distinguishes models of this architecture.
struct Llama {
    layers: u32,
    hidden: u32,
    ffn: u32,
    heads: u32,
    kv_heads: u32,
    vocab: u32,
}

impl Llama {
    fn config(&self) -> String {
        let Llama { layers, hidden, ffn, heads, kv_heads, vocab } = self;
        format!(
            r#"{{"model_type": "llama", "num_hidden_layers": {layers}, "hidden_size": {hidden}, "intermediate_size": {ffn},
            "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "vocab_size": {vocab},
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": false}}"#
        )
    }
}

fn gpt2(layers: u32, hidden: u32, heads: u32) -> String {
    format!(
        r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_embd": {hidden}, "n_head": {heads}, "vocab_size": 50257,
            "n_positions": 1024, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}}"#
    )
}
