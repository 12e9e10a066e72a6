//! Falcon, CodeGen, BitNet, Phi-3.5-MoE, and models that are LLaMA or Granite under another name.

use super::*;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![
        falcon(json!({"multi_query": true}), 16, ONE_NORM),
        falcon(json!({"multi_query": false, "alibi": true, "parallel_attn": false}), 24, IN_TURN),
        falcon(json!({"new_decoder_architecture": true, "num_kv_heads": 1}), 16, SIDE_BY_SIDE),
        codegen(),
        bitnet(),
        phimoe(),
        internlm3(),
        hyperclovax(),
        llama4(),
    ]
}

const ONE_NORM: Shapes<'_> = &[("input_layernorm.weight", &[8]), ("input_layernorm.bias", &[8])];
const IN_TURN: Shapes<'_> = &[
    ("input_layernorm.weight", &[8]),
    ("input_layernorm.bias", &[8]),
    ("post_attention_layernorm.weight", &[8]),
    ("post_attention_layernorm.bias", &[8]),
];
const SIDE_BY_SIDE: Shapes<'_> =
    &[("ln_attn.weight", &[8]), ("ln_attn.bias", &[8]), ("ln_mlp.weight", &[8]), ("ln_mlp.bias", &[8])];

/// Two heads of 4, and this many rows of queries, keys and values.
fn falcon(fields: Value, rows: usize, norms: Shapes<'_>) -> TinyModel {
    let config = json!({
        "model_type": "falcon", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
        "ffn_hidden_size": 12, "vocab_size": 10, "max_position_embeddings": 16, "tie_word_embeddings": true,
    });
    let of_model: Shapes<'_> = &[
        ("transformer.word_embeddings.weight", &[10, 8]),
        ("transformer.ln_f.weight", &[8]),
        ("transformer.ln_f.bias", &[8]),
    ];
    let joined = [rows, 8];
    let layer: Shapes<'_> = &[
        ("self_attention.query_key_value.weight", &joined),
        ("self_attention.dense.weight", &[8, 8]),
        ("mlp.dense_h_to_4h.weight", &[12, 8]),
        ("mlp.dense_4h_to_h.weight", &[8, 12]),
    ];
    model(merged(config, fields), of_model, "transformer.h.", &[norms, layer].concat())
}

fn codegen() -> TinyModel {
    let config = json!({
        "model_type": "codegen", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 12, "n_positions": 16,
        "rotary_dim": 2, "vocab_size": 10,
    });
    let of_model: Shapes<'_> = &[
        ("transformer.wte.weight", &[10, 8]),
        ("transformer.ln_f.weight", &[8]),
        ("transformer.ln_f.bias", &[8]),
        ("lm_head.weight", &[10, 8]),
        ("lm_head.bias", &[10]),
    ];
    let layer: Shapes<'_> = &[
        ("ln_1.weight", &[8]),
        ("ln_1.bias", &[8]),
        ("attn.qkv_proj.weight", &[24, 8]),
        ("attn.out_proj.weight", &[8, 8]),
        ("mlp.fc_in.weight", &[12, 8]),
        ("mlp.fc_in.bias", &[12]),
        ("mlp.fc_out.weight", &[8, 12]),
        ("mlp.fc_out.bias", &[8]),
    ];
    model(config, of_model, "transformer.h.", layer)
}

fn bitnet() -> TinyModel {
    let norms: Shapes<'_> = &[("self_attn.attn_sub_norm.weight", &[12]), ("mlp.ffn_sub_norm.weight", &[12])];
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, norms, LLAMA_FFN].concat();
    model(llama_config("bitnet"), LLAMA_MODEL, "model.layers.", &layer)
}

fn phimoe() -> TinyModel {
    let config = merged(
        llama_config("phimoe"),
        json!({
            "num_local_experts": 2, "num_experts_per_tok": 2, "router_jitter_noise": 0.01, "input_jitter_noise": 0.0,
            "lm_head_bias": true,
        }),
    );
    let ends: Shapes<'_> = &[("model.norm.bias", &[8]), ("lm_head.bias", &[10])];
    let layer: Shapes<'_> = &[
        ("input_layernorm.bias", &[8]),
        ("post_attention_layernorm.bias", &[8]),
        ("block_sparse_moe.gate.weight", &[2, 8]),
        ("block_sparse_moe.experts.0.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.0.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.0.w3.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.1.w3.weight", &[12, 8]),
    ];
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, layer].concat();
    model(config, &[LLAMA_MODEL, ends].concat(), "model.layers.", &layer)
}

fn internlm3() -> TinyModel {
    let config = merged(llama_config("internlm3"), json!({"qkv_bias": false, "bias": false}));
    model(config, LLAMA_MODEL, "model.layers.", &[LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN].concat())
}

fn hyperclovax() -> TinyModel {
    let norms: Shapes<'_> = &[("post_norm1.weight", &[8]), ("post_norm2.weight", &[8])];
    let config = merged(llama_config("hyperclovax"), json!({"use_post_norm": true, "logits_scaling": 0.5}));
    model(config, LLAMA_MODEL, "model.layers.", &[LLAMA_NORMS, norms, LLAMA_ATTENTION, LLAMA_FFN].concat())
}

/// A layer without experts and one with them.
fn llama4() -> TinyModel {
    let config = merged(
        llama_config("llama4_text"),
        json!({
            "intermediate_size": 4, "intermediate_size_mlp": 12, "num_local_experts": 2, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2, "attention_chunk_size": 4, "no_rope_layers": [], "floor_scale": 4,
        }),
    );
    let tiny = model(config, LLAMA_MODEL, "model.layers.", &[LLAMA_NORMS, LLAMA_ATTENTION].concat());
    let of_layers: [(&str, &[usize]); 9] = [
        ("0.feed_forward.gate_proj.weight", &[12, 8]),
        ("0.feed_forward.up_proj.weight", &[12, 8]),
        ("0.feed_forward.down_proj.weight", &[8, 12]),
        ("1.feed_forward.router.weight", &[2, 8]),
        ("1.feed_forward.experts.gate_up_proj", &[2, 8, 8]),
        ("1.feed_forward.experts.down_proj", &[2, 4, 8]),
        ("1.feed_forward.shared_expert.gate_proj.weight", &[4, 8]),
        ("1.feed_forward.shared_expert.up_proj.weight", &[4, 8]),
        ("1.feed_forward.shared_expert.down_proj.weight", &[8, 4]),
    ];
    let mut first = 1000;
    of_layers.iter().fold(tiny, |tiny, (name, shape)| {
        first += 200;
        tiny.with_tensor(&format!("model.layers.{name}"), Plain::f32(shape, first as f32))
    })
}
