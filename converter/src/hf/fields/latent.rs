//! Attention by way of latents as fields, and the factors of MiniCPM 3.

use qsf_format::{LatentAttention, ModelConfig, PositionConfig, RopeScaling};
use serde_json::{Value, json};

use super::described::Fields;
use super::number::{number, shortest};

/// The fields of DeepSeek. The width of a head is not among them: what it counts differs from one model to the next.
pub(super) fn latent_fields(config: &ModelConfig, latent: &LatentAttention, model_type: &str) -> Fields {
    let &LatentAttention { q_rank, kv_rank, shared_dim, value_dim, .. } = latent;
    let mut fields = vec![
        ("q_lora_rank", json!(q_rank)),
        ("kv_lora_rank", json!(kv_rank)),
        ("qk_rope_head_dim", json!(shared_dim)),
        ("qk_nope_head_dim", json!(config.head_dim.saturating_sub(shared_dim))),
        ("v_head_dim", json!(value_dim)),
    ];
    if config.experts.is_none() && model_type != "minicpm3" {
        fields.push(("first_k_dense_replace", json!(config.layers)));
    }
    if model_type == "minicpm3" {
        fields.extend(minicpm3(config));
    }
    fields
}

fn minicpm3(config: &ModelConfig) -> Fields {
    let (layers, hidden) = (f64::from(config.layers), f64::from(config.hidden));
    let depth = config.residual_scale.map(|scale| {
        let of = |depth: f64| (depth / layers.sqrt()) as f32 == scale;
        shortest(f64::from(scale) * layers.sqrt(), of)
    });
    let base = config
        .logit_scale
        .map_or(hidden, |scale| shortest(f64::from(scale) * hidden, |base| (base / hidden) as f32 == scale));
    // transformers takes no fraction here.
    let base = if base.fract() == 0.0 { json!(base as u64) } else { json!(base) };
    vec![
        ("scale_emb", number(config.embedding_scale.unwrap_or(1.0))),
        ("scale_depth", json!(depth)),
        ("dim_model_base", base),
    ]
}

/// Adds what makes the factor of scores of a YaRN that of the model.
pub(super) fn add_scale_of_yarn(config: &ModelConfig, rope: &mut Value) {
    let PositionConfig::Rope { scaling: Some(RopeScaling::Yarn { factor, .. }), .. } = config.position else {
        return;
    };
    let (Some(scale), true) = (config.attention_scale, factor > 1.0) else { return };
    let (root, ln) = (f64::from(config.head_dim).sqrt(), f64::from(factor).ln());
    let scale_of = |all: f64| {
        let mscale = 0.1 * all * ln + 1.0;
        (mscale * mscale / root) as f32
    };
    let all = ((f64::from(scale) * root).sqrt() - 1.0) / (0.1 * ln);
    rope["mscale_all_dim"] = json!(shortest(all, |all| scale_of(all) == scale));
}
