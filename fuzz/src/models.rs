//! The smallest models that open: LLaMA and GPT-2 of one layer.

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// Names and shapes of tensors.
pub type Shapes = Vec<(&'static str, Vec<usize>)>;

/// LLaMA: hidden 8, 2 heads of 4, 1 key-value head, ffn 12, vocabulary 10, tied head.
pub fn llama_config() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": 1, "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true, "bos_token_id": 1,
        "eos_token_id": 2,
    })
}

/// Tensors of [`llama_config`].
pub fn llama_shapes() -> Shapes {
    vec![
        ("model.embed_tokens.weight", vec![10, 8]),
        ("model.layers.0.input_layernorm.weight", vec![8]),
        ("model.layers.0.mlp.down_proj.weight", vec![8, 12]),
        ("model.layers.0.mlp.gate_proj.weight", vec![12, 8]),
        ("model.layers.0.mlp.up_proj.weight", vec![12, 8]),
        ("model.layers.0.post_attention_layernorm.weight", vec![8]),
        ("model.layers.0.self_attn.k_proj.weight", vec![4, 8]),
        ("model.layers.0.self_attn.o_proj.weight", vec![8, 8]),
        ("model.layers.0.self_attn.q_proj.weight", vec![8, 8]),
        ("model.layers.0.self_attn.v_proj.weight", vec![4, 8]),
        ("model.norm.weight", vec![8]),
    ]
}

/// GPT-2: hidden 4, 2 heads of 2, ffn 16, vocabulary 10, 6 positions.
pub fn gpt2_config() -> Value {
    json!({
        "model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_inner": null, "n_positions": 6,
        "vocab_size": 10, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
    })
}

/// Tensors of [`gpt2_config`].
pub fn gpt2_shapes() -> Shapes {
    vec![
        ("h.0.attn.c_attn.bias", vec![12]),
        ("h.0.attn.c_attn.weight", vec![4, 12]),
        ("h.0.attn.c_proj.bias", vec![4]),
        ("h.0.attn.c_proj.weight", vec![4, 4]),
        ("h.0.ln_1.bias", vec![4]),
        ("h.0.ln_1.weight", vec![4]),
        ("h.0.ln_2.bias", vec![4]),
        ("h.0.ln_2.weight", vec![4]),
        ("h.0.mlp.c_fc.bias", vec![16]),
        ("h.0.mlp.c_fc.weight", vec![4, 16]),
        ("h.0.mlp.c_proj.bias", vec![4]),
        ("h.0.mlp.c_proj.weight", vec![16, 4]),
        ("ln_f.bias", vec![4]),
        ("ln_f.weight", vec![4]),
        ("wpe.weight", vec![6, 4]),
        ("wte.weight", vec![10, 4]),
    ]
}

/// A safetensors file of these tensors in bf16, all of small values.
pub fn safetensors_file(shapes: &[(&str, Vec<usize>)]) -> Vec<u8> {
    let data: Vec<Vec<u8>> = shapes
        .iter()
        .map(|(_, shape)| (0..shape.iter().product()).flat_map(|i: usize| [i as u8, 0x3d]).collect())
        .collect();
    let views = shapes.iter().zip(&data).map(|((name, shape), bytes)| {
        (*name, TensorView::new(Dtype::BF16, shape.clone(), bytes).expect("matching sizes"))
    });
    safetensors::serialize(views, None).expect("a safetensors file")
}
