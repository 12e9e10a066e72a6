//! Models of the time of layer norms.

use super::*;

pub(super) fn gpt2() -> TinyModel {
    let config = json!({
        "model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 12, "n_positions": 6,
        "vocab_size": 10,
    });
    let of_model: Shapes<'_> = &[
        ("transformer.wte.weight", &[10, 8]),
        ("transformer.wpe.weight", &[6, 8]),
        ("transformer.ln_f.weight", &[8]),
        ("transformer.ln_f.bias", &[8]),
    ];
    let layer: Shapes<'_> = &[
        ("ln_1.weight", &[8]),
        ("ln_1.bias", &[8]),
        ("attn.c_attn.weight", &[8, 24]),
        ("attn.c_attn.bias", &[24]),
        ("attn.c_proj.weight", &[8, 8]),
        ("attn.c_proj.bias", &[8]),
        ("ln_2.weight", &[8]),
        ("ln_2.bias", &[8]),
        ("mlp.c_fc.weight", &[8, 12]),
        ("mlp.c_fc.bias", &[12]),
        ("mlp.c_proj.weight", &[12, 8]),
        ("mlp.c_proj.bias", &[8]),
    ];
    model(config, of_model, "transformer.h.", layer)
}

pub(super) fn gpt_neox() -> TinyModel {
    let config = json!({
        "model_type": "gpt_neox", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16, "rotary_pct": 0.5,
    });
    let of_model: Shapes<'_> = &[
        ("gpt_neox.embed_in.weight", &[10, 8]),
        ("gpt_neox.final_layer_norm.weight", &[8]),
        ("gpt_neox.final_layer_norm.bias", &[8]),
        ("embed_out.weight", &[10, 8]),
    ];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("input_layernorm.bias", &[8]),
        ("attention.query_key_value.weight", &[24, 8]),
        ("attention.query_key_value.bias", &[24]),
        ("attention.dense.weight", &[8, 8]),
        ("attention.dense.bias", &[8]),
        ("post_attention_layernorm.weight", &[8]),
        ("post_attention_layernorm.bias", &[8]),
        ("mlp.dense_h_to_4h.weight", &[12, 8]),
        ("mlp.dense_h_to_4h.bias", &[12]),
        ("mlp.dense_4h_to_h.weight", &[8, 12]),
        ("mlp.dense_4h_to_h.bias", &[8]),
    ];
    model(config, of_model, "gpt_neox.layers.", layer)
}

pub(super) fn bloom() -> TinyModel {
    let config = json!({
        "model_type": "bloom", "n_embed": 8, "num_attention_heads": 2, "n_layer": 2, "vocab_size": 10,
    });
    let of_model: Shapes<'_> = &[
        ("word_embeddings.weight", &[10, 8]),
        ("word_embeddings_layernorm.weight", &[8]),
        ("word_embeddings_layernorm.bias", &[8]),
        ("ln_f.weight", &[8]),
        ("ln_f.bias", &[8]),
    ];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("input_layernorm.bias", &[8]),
        ("self_attention.query_key_value.weight", &[24, 8]),
        ("self_attention.query_key_value.bias", &[24]),
        ("self_attention.dense.weight", &[8, 8]),
        ("self_attention.dense.bias", &[8]),
        ("post_attention_layernorm.weight", &[8]),
        ("post_attention_layernorm.bias", &[8]),
        ("mlp.dense_h_to_4h.weight", &[32, 8]),
        ("mlp.dense_h_to_4h.bias", &[32]),
        ("mlp.dense_4h_to_h.weight", &[8, 32]),
        ("mlp.dense_4h_to_h.bias", &[8]),
    ];
    model(config, of_model, "h.", layer)
}

pub(super) fn opt() -> TinyModel {
    let config = json!({
        "model_type": "opt", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "ffn_dim": 12,
        "vocab_size": 10, "max_position_embeddings": 6,
    });
    let of_model: Shapes<'_> = &[
        ("model.decoder.embed_tokens.weight", &[10, 8]),
        ("model.decoder.embed_positions.weight", &[8, 8]),
        ("model.decoder.final_layer_norm.weight", &[8]),
        ("model.decoder.final_layer_norm.bias", &[8]),
    ];
    let layer: Shapes<'_> = &[
        ("self_attn_layer_norm.weight", &[8]),
        ("self_attn_layer_norm.bias", &[8]),
        ("self_attn.q_proj.weight", &[8, 8]),
        ("self_attn.q_proj.bias", &[8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.k_proj.bias", &[8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.v_proj.bias", &[8]),
        ("self_attn.out_proj.weight", &[8, 8]),
        ("self_attn.out_proj.bias", &[8]),
        ("final_layer_norm.weight", &[8]),
        ("final_layer_norm.bias", &[8]),
        ("fc1.weight", &[12, 8]),
        ("fc1.bias", &[12]),
        ("fc2.weight", &[8, 12]),
        ("fc2.bias", &[8]),
    ];
    model(config, of_model, "model.decoder.layers.", layer)
}

pub(super) fn gptj() -> TinyModel {
    let config = json!({
        "model_type": "gptj", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 12, "vocab_size": 10, "n_positions": 16,
        "rotary_dim": 2, "tie_word_embeddings": false,
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
        ("attn.q_proj.weight", &[8, 8]),
        ("attn.k_proj.weight", &[8, 8]),
        ("attn.v_proj.weight", &[8, 8]),
        ("attn.out_proj.weight", &[8, 8]),
        ("mlp.fc_in.weight", &[12, 8]),
        ("mlp.fc_in.bias", &[12]),
        ("mlp.fc_out.weight", &[8, 12]),
        ("mlp.fc_out.bias", &[8]),
    ];
    model(config, of_model, "transformer.h.", layer)
}

pub(super) fn mpt() -> TinyModel {
    let config = json!({ "model_type": "mpt", "d_model": 8, "n_heads": 2, "n_layers": 2, "vocab_size": 10 });
    let of_model: Shapes<'_> = &[("transformer.wte.weight", &[10, 8]), ("transformer.norm_f.weight", &[8])];
    let layer: Shapes<'_> = &[
        ("norm_1.weight", &[8]),
        ("attn.Wqkv.weight", &[24, 8]),
        ("attn.out_proj.weight", &[8, 8]),
        ("norm_2.weight", &[8]),
        ("ffn.up_proj.weight", &[32, 8]),
        ("ffn.down_proj.weight", &[8, 32]),
    ];
    model(config, of_model, "transformer.blocks.", layer)
}

pub(super) fn gpt_bigcode() -> TinyModel {
    let config = json!({
        "model_type": "gpt_bigcode", "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 12, "vocab_size": 10,
        "n_positions": 6,
    });
    let of_model: Shapes<'_> = &[
        ("transformer.wte.weight", &[10, 8]),
        ("transformer.wpe.weight", &[6, 8]),
        ("transformer.ln_f.weight", &[8]),
        ("transformer.ln_f.bias", &[8]),
    ];
    let layer: Shapes<'_> = &[
        ("ln_1.weight", &[8]),
        ("ln_1.bias", &[8]),
        ("attn.c_attn.weight", &[16, 8]),
        ("attn.c_attn.bias", &[16]),
        ("attn.c_proj.weight", &[8, 8]),
        ("attn.c_proj.bias", &[8]),
        ("ln_2.weight", &[8]),
        ("ln_2.bias", &[8]),
        ("mlp.c_fc.weight", &[12, 8]),
        ("mlp.c_fc.bias", &[12]),
        ("mlp.c_proj.weight", &[8, 12]),
        ("mlp.c_proj.bias", &[8]),
    ];
    model(config, of_model, "transformer.h.", layer)
}
