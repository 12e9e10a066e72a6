//! Layers that are left out: what is computed is what a model computes that never had them.

use crate::random_model::RandomModel;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::{Decoder, Model};

fn model() -> Model {
    let config = ModelConfig {
        architecture: "llama".into(),
        layers: 6,
        hidden: 64,
        heads: 2,
        kv_heads: 2,
        head_dim: 32,
        ffn: 96,
        vocab: 300,
        max_positions: 16,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    };
    Model::load(&RandomModel::new(config, QuantType::Q4)).unwrap()
}

/// Logits behind a prompt and behind each token after it.
fn logits(decoder: &Decoder) -> Vec<f32> {
    let mut state = decoder.state(8, 8).unwrap();
    let mut all = Vec::new();
    for step in [&[1, 2, 3, 4][..], &[5], &[6]] {
        decoder.forward(&mut state, step).unwrap();
        let mut out = vec![0.0; step.len() * 300];
        decoder.logits(&mut state, 0..step.len(), &mut out).unwrap();
        all.extend(out);
    }
    all
}

#[test]
fn a_model_without_some_layers_is_one_that_never_had_them() {
    let decoder = |model: Model| Decoder::new(model.into(), Cpu::new(Isa::best()), None);
    let whole = logits(&decoder(model()));
    for skipped in [&[2][..], &[3, 4], &[0], &[5], &[0, 1, 2, 3, 4, 5]] {
        let mut less = model();
        for layer in skipped.iter().rev() {
            less.layers.remove(*layer);
        }
        let (less, all) = (decoder(less), decoder(model()).without_layers(skipped));
        assert_eq!(all.bytes_per_token(), less.bytes_per_token());
        let found = logits(&all);
        assert_eq!(found, logits(&less), "without {skipped:?}");
        assert!(found != whole);
    }
}
