//! The reference models of all architectures are understood as their makers meant them.

use std::fs;

use qsf_format::{
    Activation, Experts, ModelConfig, NormConfig, NormKind, NormPlacement, PositionConfig, QkNorm, Residual,
    RopeScaling, SlidingWindow,
};
use qsf_runtime::source::{WeightSource as _, open_huggingface};
use qsf_tests::*;
use serde_json::Value;

/// What most of them have in common.
fn common(architecture: &str, layers: u32) -> ModelConfig {
    ModelConfig {
        architecture: architecture.to_owned(),
        layers,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ffn: 192,
        vocab: 2048,
        max_positions: 512,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-6),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        bos: Some(0),
        stop_tokens: vec![0],
        ..ModelConfig::default()
    }
}

/// Layer norms, an ordinary feed-forward, a key head for each query head.
fn older(architecture: &str, activation: Activation, position: PositionConfig) -> ModelConfig {
    ModelConfig {
        kv_heads: 4,
        norm: NormConfig::new(NormKind::LayerNorm, 1e-5),
        activation,
        gated_ffn: false,
        position,
        ..common(architecture, 3)
    }
}

fn rope(dims: Option<u32>, sliding_theta: Option<f32>, unrotated_layers: &[u32]) -> PositionConfig {
    let theta = if sliding_theta.is_some() { 1e6 } else { 1e4 };
    PositionConfig::Rope {
        theta,
        scaling: None,
        dims,
        sliding_theta,
        unrotated_layers: unrotated_layers.to_vec(),
    }
}

fn window(layers: &[u32]) -> Option<SlidingWindow> {
    Some(SlidingWindow { size: 16, layers: layers.to_vec() })
}

fn gemma(architecture: &str, layers: u32, head_dim: u32, sliding: &[u32]) -> ModelConfig {
    ModelConfig {
        head_dim,
        norm: NormConfig {
            gain_plus_one: true,
            placement: NormPlacement::PreAndPost,
            ..NormConfig::new(NormKind::RmsNorm, 1e-6)
        },
        activation: Activation::GeluTanh,
        tied_head: true,
        embedding_scale: Some(8.0),
        sliding_window: window(sliding),
        ..common(architecture, layers)
    }
}

fn experts(count: u32, ffn: u32) -> Option<Experts> {
    Some(Experts { count, used: 2, ffn, normalize_weights: true, dense_layers: vec![], ..Experts::default() })
}

/// Norms by the root of the mean square, and a gated feed-forward.
fn newer_models() -> Vec<(&'static str, ModelConfig)> {
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 64,
    };
    let epsilon = |epsilon| NormConfig::new(NormKind::RmsNorm, epsilon);
    vec![
        ("llama", common("llama", 3)),
        (
            "llama3",
            ModelConfig {
                position: PositionConfig::rope(500_000.0, Some(llama3)),
                tied_head: true,
                ..common("llama", 3)
            },
        ),
        ("mistral", ModelConfig { head_dim: 24, sliding_window: window(&[0, 1, 2]), ..common("mistral", 3) }),
        (
            "mixtral",
            ModelConfig {
                ffn: 96,
                norm: epsilon(1e-5),
                position: PositionConfig::rope(1e6, None),
                experts: experts(4, 96),
                ..common("mixtral", 2)
            },
        ),
        ("qwen2", ModelConfig { tied_head: true, ..common("qwen2", 3) }),
        (
            "qwen3",
            ModelConfig { head_dim: 32, tied_head: true, qk_norm: Some(QkNorm::Head), ..common("qwen3", 3) },
        ),
        (
            "qwen3_moe",
            ModelConfig {
                head_dim: 32,
                qk_norm: Some(QkNorm::Head),
                experts: experts(8, 64),
                ..common("qwen3_moe", 2)
            },
        ),
        (
            "gemma2",
            ModelConfig {
                attention_softcap: Some(50.0),
                logit_softcap: Some(30.0),
                ..gemma("gemma2", 4, 24, &[0, 2])
            },
        ),
        (
            "gemma3",
            ModelConfig {
                position: rope(None, Some(1e4), &[]),
                qk_norm: Some(QkNorm::Head),
                ..gemma("gemma3_text", 6, 32, &[0, 1, 2, 3, 4])
            },
        ),
        (
            "smollm3",
            ModelConfig {
                position: PositionConfig::Rope {
                    theta: 2e6,
                    scaling: None,
                    dims: None,
                    sliding_theta: None,
                    unrotated_layers: vec![3],
                },
                tied_head: true,
                ..common("smollm3", 4)
            },
        ),
        (
            "olmo2",
            ModelConfig {
                norm: NormConfig { placement: NormPlacement::Post, ..epsilon(1e-5) },
                qk_norm: Some(QkNorm::Projection),
                ..common("olmo2", 3)
            },
        ),
        ("phi3", ModelConfig { norm: epsilon(1e-5), ..common("phi3", 3) }),
    ]
}

/// Norms with a mean, and an ordinary feed-forward.
fn older_models() -> Vec<(&'static str, ModelConfig)> {
    let learned = PositionConfig::Learned {};
    vec![
        (
            "phi",
            ModelConfig {
                residual: Residual::ParallelOneNorm,
                ..older("phi", Activation::GeluTanh, rope(Some(8), None, &[]))
            },
        ),
        (
            "gpt_neox",
            ModelConfig {
                residual: Residual::Parallel,
                ..older("gpt_neox", Activation::GeluErf, rope(Some(4), None, &[]))
            },
        ),
        (
            "gpt2",
            ModelConfig { ffn: 256, tied_head: true, ..older("gpt2", Activation::GeluTanh, learned.clone()) },
        ),
        ("opt", ModelConfig { tied_head: true, pad: Some(1), ..older("opt", Activation::Relu, learned) }),
        (
            "bloom",
            ModelConfig {
                ffn: 256,
                max_positions: 2048,
                tied_head: true,
                embedding_norm: true,
                ..older("bloom", Activation::GeluTanh, PositionConfig::alibi())
            },
        ),
    ]
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn every_reference_model_opens_with_the_configuration_that_its_fields_mean() {
    for (name, expected) in newer_models().into_iter().chain(older_models()) {
        let dir = shared(&format!("golden/{name}"));
        let source = open_huggingface(&dir).unwrap();
        assert_eq!(*source.config(), expected, "{name}");
        for info in source.tensors() {
            let tensor = source.load(info.id).unwrap();
            let found = (tensor.rows(), tensor.cols(), tensor.stored_type());
            assert_eq!(found, (info.rows, info.cols, info.stored), "{name} {}", info.id);
            assert!(tensor.to_f32().iter().all(|value| value.is_finite()), "{name} {}", info.id);
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn reference_models_whose_type_is_not_named_are_known_by_their_tensors() {
    for (name, expected) in newer_models().into_iter().chain(older_models()) {
        let dir = shared(&format!("golden/{name}"));
        let copy = tempfile::tempdir().unwrap();
        fs::copy(dir.join("model.safetensors"), copy.path().join("model.safetensors")).unwrap();
        let text = fs::read_to_string(dir.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["model_type"] = Value::Null;
        fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
        assert_eq!(*open_huggingface(copy.path()).unwrap().config(), expected, "{name}");
    }
}
