//! Attention of models whose fixtures need experts as well, and at lengths that fixtures do not have: what is computed on a graphics
//! processor is what the CPU computes.

use crate::gpu::{LIMIT, all_logits, all_logits_with, cpu_decoder, distance, gpu_decoder, llama, tokens};
use crate::gpu_experts::Altered;
use crate::random_model::RandomModel;
use qsf_format::{
    FullAttention, LatentAttention, ModelConfig, PositionConfig, QkNorm, QuantType, QueryGrowth,
    SlidingWindow, ValueHeads,
};
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::source::WeightSource;

/// Positions that few queries share out among workgroups, and put together.
const LONG: usize = 300;

fn assert_computed(config: ModelConfig, name: &str) {
    config.check().unwrap();
    assert_source_computed(&RandomModel::new(config, QuantType::Q4), name);
}

fn assert_source_computed(source: &dyn WeightSource, name: &str) {
    let cpu = cpu_decoder(source);
    let gpu = gpu_decoder(&cpu);
    let tokens = tokens(150, LONG);
    let expected = all_logits(&cpu, &tokens);
    let off = distance(&all_logits(&gpu, &tokens), &expected);
    println!("{name}: {off:.2e}");
    assert!(off <= LIMIT, "{name}: {off:.2e}");
    // Codes of 8 bits cost what they cost on the CPU.
    let cost = distance(&all_logits_with(&cpu, &tokens, KvTypes::EIGHT_BIT), &expected);
    let found = distance(&all_logits_with(&gpu, &tokens, KvTypes::EIGHT_BIT), &expected);
    assert!(found <= 1.2 * cost + 1e-4 && found > 0.3 * cost, "{name}: {found:.2e}, {cost:.2e} on the CPU");
}

fn rope(dims: Option<u32>, unrotated_layers: Vec<u32>) -> PositionConfig {
    PositionConfig::Rope { theta: 1e4, scaling: None, dims, sliding_theta: None, unrotated_layers }
}

#[test]
fn scores_without_values_and_heads_of_several_widths() {
    let window = |layer| Some(SlidingWindow { size: 40, layers: vec![layer] });
    let config = ModelConfig {
        attention_sinks: true,
        window_sinks: true,
        sliding_window: window(1),
        value_heads: Some(ValueHeads { dim: 16, scale: Some(0.7) }),
        full_attention: Some(FullAttention { kv_heads: 3, head_dim: 32, keys_are_values: false }),
        attention_scale: Some(0.2),
        position: rope(Some(12), Vec::new()),
        ..llama()
    };
    assert_computed(ModelConfig { window_sinks: false, ..config.clone() }, "sinks in all layers");
    assert_computed(ModelConfig { value_heads: None, ..config.clone() }, "two widths");
    assert_computed(config, "sinks in windows");
}

#[test]
fn windows_that_do_not_slide_and_layers_without_rotation() {
    let growth = QueryGrowth { factor: 0.5, original_positions: 16, from_one: true, unrotated_only: true };
    let config = ModelConfig {
        window_chunks: true,
        sliding_window: Some(SlidingWindow { size: 50, layers: vec![0] }),
        qk_norm: Some(QkNorm::RotatedHeadPlain),
        query_growth: Some(growth),
        position: rope(None, vec![1]),
        ..llama()
    };
    assert_computed(config, "chunks");
}

#[test]
fn gates_of_attention() {
    let config = ModelConfig { attention_gate: true, qk_norm: Some(QkNorm::Head), ..llama() };
    assert_computed(config, "gates");
    let config = ModelConfig { attention_gate: true, qk_norm: Some(QkNorm::Projection), ..llama() };
    assert_computed(config, "gates behind a norm of all heads");
}

#[test]
fn attention_by_way_of_latents() {
    let latent =
        LatentAttention { q_rank: None, kv_rank: 36, shared_dim: 10, value_dim: 14, norm_epsilon: 1e-5 };
    let config = ModelConfig {
        kv_heads: 6,
        latent: Some(latent),
        position: rope(Some(10), Vec::new()),
        query_growth: Some(QueryGrowth::rotated(0.3, 64)),
        ..llama()
    };
    assert_computed(config.clone(), "latents");
    let with_outliers = Altered::new(config.clone(), None, true, false);
    assert_source_computed(&with_outliers, "latents with outliers");
    let latent = Some(LatentAttention { q_rank: Some(20), kv_rank: 33, ..latent });
    assert_computed(ModelConfig { latent, ..config.clone() }, "latents of queries, and odd ones");
    let position = rope(Some(10), vec![0, 1]);
    assert_computed(ModelConfig { position, ..config }, "latents without rotation");
}
