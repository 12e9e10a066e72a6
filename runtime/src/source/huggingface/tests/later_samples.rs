//! Tiny models, written by hand, of the architectures that have the names of LLaMA but for some, and mixtures of experts.
//! Hidden 8, ffn 12, vocabulary 10, 2 layers, two heads of 6 with one of keys.

use serde_json::json;

use super::architectures::{
    LLAMA_ATTENTION, LLAMA_FFN, LLAMA_MODEL, LLAMA_NORMS, Shapes, llama_config, merged, model,
};
use super::*;

/// One of each.
pub(super) fn samples() -> Vec<TinyModel> {
    vec![
        of("gemma", json!({"tie_word_embeddings": true}), TIED, &[LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN]),
        qwen2_moe(),
        of("olmo", json!({"clip_qkv": 2.0}), OLMO_MODEL, &[LLAMA_ATTENTION, LLAMA_FFN]),
        of("olmo3", json!({}), LLAMA_MODEL, &[POST_NORMS, LLAMA_ATTENTION, PROJECTION_NORMS, LLAMA_FFN]),
        olmoe(),
        of("granite", json!({"residual_multiplier": 0.5}), LLAMA_MODEL, PLAIN),
        granitemoe(false),
        granitemoe(true),
        of(
            "glm",
            json!({"partial_rotary_factor": 0.67}),
            LLAMA_MODEL,
            &[LLAMA_NORMS, LLAMA_ATTENTION, JOINED_FFN],
        ),
        of(
            "glm4",
            json!({"partial_rotary_factor": 0.67}),
            LLAMA_MODEL,
            &[GLM4_NORMS, LLAMA_ATTENTION, JOINED_FFN],
        ),
        deepseek_like("glm4_moe", json!({"use_qk_norm": true, "partial_rotary_factor": 0.67}), &[HEAD_NORMS]),
        cohere(),
        of(
            "cohere2",
            json!({"tie_word_embeddings": true}),
            TIED,
            &[&LLAMA_NORMS[..1], LLAMA_ATTENTION, LLAMA_FFN],
        ),
        of("ernie4_5", json!({}), LLAMA_MODEL, PLAIN),
        ernie4_5_moe(),
        of(
            "seed_oss",
            json!({"attention_bias": true, "attention_out_bias": false}),
            LLAMA_MODEL,
            &[LLAMA_NORMS, LLAMA_ATTENTION, QKV_BIASES, LLAMA_FFN],
        ),
        of("exaone4", json!({}), LLAMA_MODEL, &[POST_NORMS, LLAMA_ATTENTION, HEAD_NORMS, LLAMA_FFN]),
        starcoder2(),
        of(
            "stablelm",
            json!({"partial_rotary_factor": 0.34, "use_qkv_bias": true}),
            BIASED_MODEL,
            &[LLAMA_NORMS, NORM_BIASES, LLAMA_ATTENTION, QKV_BIASES, LLAMA_FFN],
        ),
        of("ministral", json!({}), LLAMA_MODEL, PLAIN),
        of("ministral3", json!({"rope_parameters": {"rope_theta": 1e6}}), LLAMA_MODEL, PLAIN),
        gpt_oss(),
        of("arcee", json!({}), LLAMA_MODEL, &[LLAMA_NORMS, LLAMA_ATTENTION, &LLAMA_FFN[1..]]),
        of(
            "nemotron",
            json!({"partial_rotary_factor": 0.34}),
            BIASED_MODEL,
            &[LLAMA_NORMS, NORM_BIASES, LLAMA_ATTENTION, &LLAMA_FFN[1..]],
        ),
        of("helium", json!({}), LLAMA_MODEL, PLAIN),
        of(
            "mimo_v2_flash",
            json!({
                "layer_types": ["sliding_attention", "sliding_attention"], "sliding_window": 4, "v_head_dim": 6,
                "swa_num_key_value_heads": 1, "mlp_layer_types": ["dense", "dense"],
            }),
            LLAMA_MODEL,
            &[LLAMA_NORMS, LLAMA_ATTENTION, &[("self_attn.attention_sink_bias", &[2])], LLAMA_FFN],
        ),
        of(
            "hunyuan_v1_dense",
            json!({}),
            LLAMA_MODEL,
            &[LLAMA_NORMS, LLAMA_ATTENTION, HUNYUAN_NORMS, LLAMA_FFN],
        ),
        hunyuan_moe(),
        deepseek_like("dots1", json!({"n_shared_experts": 1}), &[HEAD_NORMS]),
        solar_open(),
        apertus(),
        minimax_m2(),
    ]
}

const TIED: Shapes<'_> = &[LLAMA_MODEL[0], LLAMA_MODEL[1]];
const OLMO_MODEL: Shapes<'_> = &[LLAMA_MODEL[0], LLAMA_MODEL[2]];
const BIASED_MODEL: Shapes<'_> = &[LLAMA_MODEL[0], LLAMA_MODEL[1], LLAMA_MODEL[2], ("model.norm.bias", &[8])];
const PLAIN: &[Shapes<'_>] = &[LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN];
const POST_NORMS: Shapes<'_> =
    &[("post_attention_layernorm.weight", &[8]), ("post_feedforward_layernorm.weight", &[8])];
const NORM_BIASES: Shapes<'_> = &[("input_layernorm.bias", &[8]), ("post_attention_layernorm.bias", &[8])];
const GLM4_NORMS: Shapes<'_> = &[
    ("input_layernorm.weight", &[8]),
    ("post_self_attn_layernorm.weight", &[8]),
    ("post_attention_layernorm.weight", &[8]),
    ("post_mlp_layernorm.weight", &[8]),
];
const HEAD_NORMS: Shapes<'_> = &[("self_attn.q_norm.weight", &[6]), ("self_attn.k_norm.weight", &[6])];
const HUNYUAN_NORMS: Shapes<'_> =
    &[("self_attn.query_layernorm.weight", &[6]), ("self_attn.key_layernorm.weight", &[6])];
const PROJECTION_NORMS: Shapes<'_> = &[("self_attn.q_norm.weight", &[12]), ("self_attn.k_norm.weight", &[6])];
const QKV_BIASES: Shapes<'_> =
    &[("self_attn.q_proj.bias", &[12]), ("self_attn.k_proj.bias", &[6]), ("self_attn.v_proj.bias", &[6])];
const JOINED_FFN: Shapes<'_> = &[("mlp.gate_up_proj.weight", &[24, 8]), ("mlp.down_proj.weight", &[8, 12])];
/// Two experts of 12.
const EXPERTS: Shapes<'_> = &[
    ("mlp.gate.weight", &[2, 8]),
    ("mlp.experts.0.gate_proj.weight", &[12, 8]),
    ("mlp.experts.0.up_proj.weight", &[12, 8]),
    ("mlp.experts.0.down_proj.weight", &[8, 12]),
    ("mlp.experts.1.gate_proj.weight", &[12, 8]),
    ("mlp.experts.1.up_proj.weight", &[12, 8]),
    ("mlp.experts.1.down_proj.weight", &[8, 12]),
];
const SHARED_EXPERTS: Shapes<'_> = &[
    ("mlp.shared_experts.gate_proj.weight", &[12, 8]),
    ("mlp.shared_experts.up_proj.weight", &[12, 8]),
    ("mlp.shared_experts.down_proj.weight", &[8, 12]),
];

fn of(model_type: &str, fields: Value, of_model: Shapes<'_>, layer: &[Shapes<'_>]) -> TinyModel {
    model(merged(llama_config(model_type), fields), of_model, "model.layers.", &layer.concat())
}

fn qwen2_moe() -> TinyModel {
    let shared: Shapes<'_> = &[
        ("mlp.shared_expert.gate_proj.weight", &[5, 8]),
        ("mlp.shared_expert.up_proj.weight", &[5, 8]),
        ("mlp.shared_expert.down_proj.weight", &[8, 5]),
        ("mlp.shared_expert_gate.weight", &[1, 8]),
    ];
    let fields = json!({
        "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 12,
        "shared_expert_intermediate_size": 5,
    });
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, QKV_BIASES, EXPERTS, shared];
    of("qwen2_moe", fields, LLAMA_MODEL, &layer)
}

fn olmoe() -> TinyModel {
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, PROJECTION_NORMS, EXPERTS];
    of("olmoe", json!({"num_experts": 2, "num_experts_per_tok": 1}), LLAMA_MODEL, &layer)
}

fn granitemoe(shared: bool) -> TinyModel {
    let experts: Shapes<'_> = &[
        ("block_sparse_moe.router.layer.weight", &[2, 8]),
        ("block_sparse_moe.input_linear.weight", &[2, 24, 8]),
        ("block_sparse_moe.output_linear.weight", &[2, 8, 12]),
    ];
    let of_all: Shapes<'_> =
        &[("shared_mlp.input_linear.weight", &[10, 8]), ("shared_mlp.output_linear.weight", &[8, 5])];
    let fields = json!({
        "num_local_experts": 2, "num_experts_per_tok": 1, "shared_intermediate_size": 5,
    });
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, experts, of_all];
    let (name, layer) = if shared { ("granitemoeshared", &layer[..]) } else { ("granitemoe", &layer[..3]) };
    of(name, fields, LLAMA_MODEL, layer)
}

fn deepseek_like(model_type: &str, fields: Value, attention: &[Shapes<'_>]) -> TinyModel {
    let choice: Shapes<'_> = &[("mlp.gate.e_score_correction_bias", &[2])];
    let sparse = json!({
        "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 12, "first_k_dense_replace": 0,
    });
    let layer = [&[LLAMA_NORMS, LLAMA_ATTENTION, EXPERTS, SHARED_EXPERTS, choice][..], attention].concat();
    of(model_type, merged(sparse, fields), LLAMA_MODEL, &layer)
}

fn solar_open() -> TinyModel {
    let mut model = deepseek_like("solar_open", json!({}), &[]);
    // There is no such field, nor a feed-forward without experts.
    for field in ["first_k_dense_replace", "intermediate_size"] {
        model.config.as_object_mut().unwrap().remove(field);
    }
    model
}

fn cohere() -> TinyModel {
    let norms: Shapes<'_> = &[("self_attn.q_norm.weight", &[2, 6]), ("self_attn.k_norm.weight", &[1, 6])];
    let fields = json!({"tie_word_embeddings": true, "use_qk_norm": true});
    of("cohere", fields, TIED, &[&LLAMA_NORMS[..1], LLAMA_ATTENTION, norms, LLAMA_FFN])
}

fn ernie4_5_moe() -> TinyModel {
    let choice: Shapes<'_> = &[("mlp.moe_statics.e_score_correction_bias", &[1, 2])];
    let fields = json!({
        "moe_num_experts": 2, "moe_k": 1, "moe_intermediate_size": 12, "moe_num_shared_experts": 1,
        "moe_layer_start_index": 0,
    });
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, EXPERTS, SHARED_EXPERTS, choice];
    of("ernie4_5_moe", fields, LLAMA_MODEL, &layer)
}

fn starcoder2() -> TinyModel {
    let ffn: Shapes<'_> = &[
        ("mlp.c_fc.weight", &[12, 8]),
        ("mlp.c_fc.bias", &[12]),
        ("mlp.c_proj.weight", &[8, 12]),
        ("mlp.c_proj.bias", &[8]),
        ("self_attn.o_proj.bias", &[8]),
    ];
    let layer = [LLAMA_NORMS, NORM_BIASES, LLAMA_ATTENTION, QKV_BIASES, ffn];
    of("starcoder2", json!({}), BIASED_MODEL, &layer)
}

fn gpt_oss() -> TinyModel {
    let experts: Shapes<'_> = &[
        ("self_attn.o_proj.bias", &[8]),
        ("self_attn.sinks", &[2]),
        ("mlp.router.weight", &[2, 8]),
        ("mlp.router.bias", &[2]),
        ("mlp.experts.gate_up_proj", &[2, 8, 24]),
        ("mlp.experts.gate_up_proj_bias", &[2, 24]),
        ("mlp.experts.down_proj", &[2, 12, 8]),
        ("mlp.experts.down_proj_bias", &[2, 8]),
    ];
    let fields = json!({
        "num_local_experts": 2, "num_experts_per_tok": 1, "attention_bias": true,
        "rope_parameters": {"rope_theta": 150000.0, "rope_type": "default"},
    });
    of("gpt_oss", fields, LLAMA_MODEL, &[LLAMA_NORMS, LLAMA_ATTENTION, QKV_BIASES, experts])
}

fn hunyuan_moe() -> TinyModel {
    let shared: Shapes<'_> = &[
        ("mlp.gate.wg.weight", &[2, 8]),
        ("mlp.shared_mlp.gate_proj.weight", &[12, 8]),
        ("mlp.shared_mlp.up_proj.weight", &[12, 8]),
        ("mlp.shared_mlp.down_proj.weight", &[8, 12]),
    ];
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, HUNYUAN_NORMS, shared, &EXPERTS[1..]];
    of("hunyuan_v1_moe", json!({"num_experts": 2, "moe_topk": [1, 1]}), LLAMA_MODEL, &layer)
}

fn apertus() -> TinyModel {
    let others: Shapes<'_> = &[
        ("attention_layernorm.weight", &[8]),
        ("feedforward_layernorm.weight", &[8]),
        ("mlp.act_fn.alpha_p", &[1]),
        ("mlp.act_fn.alpha_n", &[1]),
    ];
    let layer = [LLAMA_ATTENTION, HEAD_NORMS, &LLAMA_FFN[1..], others];
    of("apertus", json!({"rope_scaling": {"type": "default"}}), LLAMA_MODEL, &layer)
}

fn minimax_m2() -> TinyModel {
    let experts: Shapes<'_> = &[
        ("block_sparse_moe.e_score_correction_bias", &[2]),
        ("block_sparse_moe.gate.weight", &[2, 8]),
        ("block_sparse_moe.experts.0.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.0.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.0.w3.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.1.w3.weight", &[12, 8]),
    ];
    let fields = json!({"num_local_experts": 2, "num_experts_per_tok": 1, "rotary_dim": 4});
    of("minimax_m2", fields, LLAMA_MODEL, &[LLAMA_NORMS, LLAMA_ATTENTION, PROJECTION_NORMS, experts])
}
