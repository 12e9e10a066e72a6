//! Mixtures of experts as fields.

use qsf_format::{Experts, ModelConfig};
use serde_json::json;

use super::described::Fields;
use super::number::number;

/// The fields of a mixture, in the words of the architecture.
pub(super) fn expert_fields(config: &ModelConfig, experts: &Experts, model_type: &str) -> Fields {
    match model_type {
        "ernie4_5_moe" => return of_ernie(config, experts),
        "hunyuan_v1_moe" => {
            return vec![("num_experts", json!(experts.count)), ("moe_topk", json!(experts.used))];
        }
        "nemotron_h" => return of_nemotron(experts),
        // Which layers have them it has said among its own.
        "jamba" => {
            return vec![("num_experts", json!(experts.count)), ("num_experts_per_tok", json!(experts.used))];
        }
        _ => {}
    }
    let mut fields = vec![("num_experts_per_tok", json!(experts.used))];
    match model_type {
        "mixtral" | "granitemoe" | "granitemoeshared" | "granitemoehybrid" => {
            fields.push(("num_local_experts", json!(experts.count)));
            if let Some(shared) = experts.shared {
                fields.push(("shared_intermediate_size", json!(shared.ffn)));
            }
        }
        // These have said it among their own.
        "llama4_text" | "gemma4_text" => return Vec::new(),
        "phimoe" => {
            fields.push(("num_local_experts", json!(experts.count)));
            fields.push(("router_jitter_noise", number(experts.margin.unwrap_or(0.0) / 2.0)));
        }
        "kimi_linear" => {
            let kind = |layer| if experts.dense_layers.contains(&layer) { "dense" } else { "sparse" };
            let shared = experts.shared.map_or(0, |shared| shared.ffn / experts.ffn.max(1));
            let groups = experts.groups.map_or((1, 1), |groups| (groups.count, groups.used));
            fields.extend([
                ("num_experts", json!(experts.count)),
                ("num_experts_per_token", json!(experts.used)),
                ("moe_intermediate_size", json!(experts.ffn)),
                ("moe_renormalize", json!(experts.normalize_weights)),
                ("num_expert_group", json!(groups.0)),
                ("topk_group", json!(groups.1)),
                ("num_shared_experts", json!(shared)),
                ("routed_scaling_factor", number(experts.weight_scale.unwrap_or(1.0))),
                ("mlp_layer_types", json!((0..config.layers).map(kind).collect::<Vec<_>>())),
            ]);
        }
        "minimax_m2" | "gpt_oss" => {
            fields.push(("num_local_experts", json!(experts.count)));
            fields.push(("intermediate_size", json!(experts.ffn)));
        }
        "lfm2_moe" => {
            fields.push(("num_experts", json!(experts.count)));
            fields.push(("moe_intermediate_size", json!(experts.ffn)));
            fields.push(("num_dense_layers", json!(experts.dense_layers.len())));
            fields.push(("norm_topk_prob", json!(experts.normalize_weights)));
            fields.push(("use_expert_bias", json!(experts.choice_bias)));
            fields.push(("routed_scaling_factor", number(experts.weight_scale.unwrap_or(1.0))));
        }
        "qwen2_moe" | "qwen3_moe" | "qwen3_next" | "qwen3_5_moe_text" | "olmoe" => {
            fields.push(("num_experts", json!(experts.count)));
            fields.push(("norm_topk_prob", json!(experts.normalize_weights)));
            if model_type != "olmoe" {
                fields.push(("moe_intermediate_size", json!(experts.ffn)));
                fields.push(("mlp_only_layers", json!(experts.dense_layers)));
                fields.push(("decoder_sparse_step", json!(1)));
            }
            if let Some(shared) = experts.shared {
                fields.push(("shared_expert_intermediate_size", json!(shared.ffn)));
            }
        }
        _ => fields.extend(of_deepseek(config, experts, model_type)),
    }
    fields
}

/// DeepSeek, GLM, dots and others that have its names.
fn of_deepseek(config: &ModelConfig, experts: &Experts, model_type: &str) -> Fields {
    let groups = experts.groups.map_or((1, 1), |groups| (groups.count, groups.used));
    let shared = experts.shared.map_or(0, |shared| shared.ffn / experts.ffn.max(1));
    let mut fields = vec![
        ("n_routed_experts", json!(experts.count)),
        ("moe_intermediate_size", json!(experts.ffn)),
        ("norm_topk_prob", json!(experts.normalize_weights)),
        ("first_k_dense_replace", json!(experts.dense_layers.len())),
        ("routed_scaling_factor", number(experts.weight_scale.unwrap_or(1.0))),
        ("n_group", json!(groups.0)),
        ("topk_group", json!(groups.1)),
        ("n_shared_experts", json!(shared)),
    ];
    if model_type == "deepseek_v2" {
        let method = if experts.groups.is_some() { "group_limited_greedy" } else { "greedy" };
        fields.push(("topk_method", json!(method)));
    }
    if model_type == "glm4_moe_lite" {
        let kind = |layer| if experts.dense_layers.contains(&layer) { "dense" } else { "sparse" };
        fields.push(("mlp_layer_types", json!((0..config.layers).map(kind).collect::<Vec<_>>())));
    }
    fields
}

/// Layers with experts are a run of all, or every so many.
fn of_ernie(config: &ModelConfig, experts: &Experts) -> Fields {
    let with: Vec<u32> = (0..config.layers).filter(|layer| !experts.dense_layers.contains(layer)).collect();
    let first = with.first().copied().unwrap_or(config.layers);
    let interval = with.get(1).map_or(1, |second| second - first);
    let shared = experts.shared.map_or(0, |shared| shared.ffn / experts.ffn.max(1));
    vec![
        ("moe_num_experts", json!(experts.count)),
        ("moe_k", json!(experts.used)),
        ("moe_intermediate_size", json!(experts.ffn)),
        ("moe_num_shared_experts", json!(shared)),
        ("moe_layer_start_index", json!(first)),
        ("moe_layer_end_index", json!(with.last())),
        ("moe_layer_interval", json!(interval)),
    ]
}

fn of_nemotron(experts: &Experts) -> Fields {
    let groups = experts.groups.map_or((1, 1), |groups| (groups.count, groups.used));
    vec![
        ("n_routed_experts", json!(experts.count)),
        ("num_experts_per_tok", json!(experts.used)),
        ("moe_intermediate_size", json!(experts.ffn)),
        ("norm_topk_prob", json!(experts.normalize_weights)),
        ("routed_scaling_factor", number(experts.weight_scale.unwrap_or(1.0))),
        ("n_group", json!(groups.0)),
        ("topk_group", json!(groups.1)),
        ("moe_shared_expert_intermediate_size", json!(experts.shared.map(|shared| shared.ffn))),
    ]
}
