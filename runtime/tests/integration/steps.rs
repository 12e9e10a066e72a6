//! Models whose parts are not in `decoder`'s cases: prompts of any length give the same bits whatever steps they come in.

use crate::random_model::RandomModel;
use qsf_format::{
    Activation, Experts, ModelConfig, NormConfig, NormKind, PositionConfig, QkNorm, QuantType, QueryGrowth,
    RouterScore, SlidingWindow,
};
use qsf_runtime::Decoder;
use qsf_runtime::cpu::{Cpu, Isa};

const VOCAB: usize = 90;

fn llama() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 2,
        hidden: 40,
        heads: 4,
        kv_heads: 1,
        head_dim: 12,
        ffn: 56,
        vocab: VOCAB as u32,
        max_positions: 320,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    }
}

/// BitNet: norms before output projections.
fn bitnet() -> ModelConfig {
    ModelConfig { activation: Activation::Relu2, sub_norms: true, ..llama() }
}

/// Phi-3.5-MoE: a router that weighs among near scores.
fn sparse_mixer(margin: f32) -> ModelConfig {
    let experts = Experts {
        count: 6,
        used: 2,
        ffn: 20,
        score: RouterScore::SparseMixer,
        margin: Some(margin),
        ..Experts::default()
    };
    ModelConfig { experts: Some(experts), ..llama() }
}

/// The older Falcon: slopes that are scaled as scores are.
fn scaled_slopes(scale: Option<f32>) -> ModelConfig {
    ModelConfig { position: PositionConfig::Alibi { slope_scale: scale }, ..llama() }
}

/// Llama 4: chunks, plain norms behind rotation, and queries that grow in layers without.
fn chunks(on: bool) -> ModelConfig {
    let position = PositionConfig::Rope {
        theta: 10_000.0,
        scaling: None,
        dims: None,
        sliding_theta: None,
        unrotated_layers: vec![1],
    };
    ModelConfig {
        position,
        sliding_window: Some(SlidingWindow { size: 10, layers: vec![0] }),
        window_chunks: on,
        qk_norm: Some(QkNorm::RotatedHeadPlain),
        query_growth: Some(QueryGrowth {
            factor: 0.3,
            original_positions: 5,
            from_one: true,
            unrotated_only: true,
        }),
        ..llama()
    }
}

fn decoder(config: ModelConfig, quant: QuantType) -> Decoder {
    RandomModel::new(config, quant).decoder(Cpu::new(Isa::best()), None)
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 37 + 11) % VOCAB as u32).collect()
}

fn in_steps(decoder: &Decoder, tokens: &[u32], step: usize) -> Vec<f32> {
    let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
    let run = |tokens: &[u32]| {
        decoder.forward(&mut state, tokens).unwrap();
        let mut rows = vec![0.0; tokens.len() * VOCAB];
        decoder.logits(&mut state, 0..tokens.len(), &mut rows).unwrap();
        rows
    };
    tokens.chunks(step).flat_map(run).collect()
}

#[test]
fn prompts_in_one_step_in_two_and_token_by_token_give_the_same_bits() {
    for config in [bitnet(), sparse_mixer(0.02), scaled_slopes(Some(0.25)), chunks(true)] {
        for quant in [QuantType::F32, QuantType::Q8] {
            let decoder = decoder(config.clone(), quant);
            for count in [1, 7, 64, 65, 300] {
                let tokens = tokens(count);
                let whole = in_steps(&decoder, &tokens, tokens.len());
                assert!(whole.iter().all(|logit| logit.is_finite()));
                for step in [tokens.len().div_ceil(2), 1] {
                    let same = in_steps(&decoder, &tokens, step) == whole;
                    assert!(same, "{count} tokens in steps of {step}: {config:?}");
                }
            }
        }
    }
}

#[test]
fn each_of_these_parts_changes_the_result() {
    let result = |config| in_steps(&decoder(config, QuantType::F32), &tokens(9), 9);
    assert_ne!(result(bitnet()), result(ModelConfig { sub_norms: false, ..bitnet() }));
    assert_ne!(result(sparse_mixer(0.02)), result(sparse_mixer(2.0)));
    let growth = chunks(true).query_growth.map(|growth| QueryGrowth { unrotated_only: false, ..growth });
    for other in [
        chunks(false),
        ModelConfig { qk_norm: None, ..chunks(true) },
        ModelConfig { query_growth: growth, ..chunks(true) },
    ] {
        let result = |config| in_steps(&decoder(config, QuantType::F32), &tokens(15), 15);
        assert_ne!(result(chunks(true)), result(other));
    }
    assert_ne!(result(scaled_slopes(Some(0.25))), result(scaled_slopes(None)));
}
