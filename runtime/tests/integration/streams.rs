//! Several residual streams, and what comes with them.

use crate::random_model::RandomModel;
use qsf_format::{
    ModelConfig, NormConfig, NormKind, NormPlacement, PerLayerEmbedding, PositionConfig, QuantType, SharedKv,
};
use qsf_runtime::cpu::{Cpu, Isa};

/// Three streams, residuals beside attention, gates of which most are 0 in the first layer; four layers of an embedding each.
pub fn with_streams(config: ModelConfig) -> ModelConfig {
    ModelConfig {
        norm: NormConfig { placement: NormPlacement::PreAndPost, ..config.norm },
        layers: 4,
        full_attention: None,
        layer_scale: false,
        shared_kv: config.shared_kv.map(|shared| SharedKv { ffn: None, ..shared }),
        per_layer_embedding: Some(PerLayerEmbedding { width: 12, vocab: 100 }),
        streams: Some(3),
        laurel: Some(12),
        gate_sparsity: vec![0.9, 0.0, 0.3, 0.0],
        ..config
    }
}

fn model() -> ModelConfig {
    with_streams(ModelConfig {
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ffn: 96,
        vocab: 150,
        max_positions: 64,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        gated_ffn: true,
        position: PositionConfig::rope(1e4, None),
        tied_head: true,
        ..ModelConfig::default()
    })
}

#[test]
fn every_part_of_several_streams_changes_the_result() {
    let result = |config: ModelConfig| {
        config.check().unwrap();
        let decoder = RandomModel::new(config, QuantType::F32).decoder(Cpu::new(Isa::SCALAR), None);
        let mut state = decoder.state(5, 5).unwrap();
        decoder.forward(&mut state, &[3, 101, 77, 8, 149]).unwrap();
        let mut logits = vec![0.0; 5 * 150];
        decoder.logits(&mut state, 0..5, &mut logits).unwrap();
        assert!(logits.iter().all(|logit| logit.is_finite()));
        logits
    };
    let whole = result(model());
    for (name, config) in [
        ("streams", ModelConfig { streams: None, ..model() }),
        ("number of streams", ModelConfig { streams: Some(4), ..model() }),
        ("laurel", ModelConfig { laurel: None, ..model() }),
        ("gate_sparsity", ModelConfig { gate_sparsity: Vec::new(), ..model() }),
        ("one sparsity", ModelConfig { gate_sparsity: vec![0.9, 0.0, 0.4, 0.0], ..model() }),
    ] {
        assert_ne!(result(config), whole, "{name}");
    }
}
