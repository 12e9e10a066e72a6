//! Decoding a token takes no memory from the allocator: every buffer is there when the first tokens have been decoded.

use std::sync::atomic::Ordering;

use crate::random_model::RandomModel;
use qsf_format::{
    Activation, Experts, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, VocabClusters,
};
use qsf_runtime::ClusteredHead;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::sample::{Sampler, SamplerOptions};

use super::{TAKEN, alone};

/// Prompt, long enough for attention to be spread over threads.
const PROMPT: usize = 140;
/// Tokens of a round.
const TOKENS: usize = 12;
const ROUNDS: usize = 12;

/// Matrices large enough to be spread over threads.
fn config() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 2,
        hidden: 512,
        heads: 8,
        kv_heads: 4,
        head_dim: 64,
        ffn: 640,
        vocab: 600,
        max_positions: 256,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    }
}

fn experts() -> ModelConfig {
    let experts = Experts {
        count: 5,
        used: 2,
        ffn: 512,
        normalize_weights: true,
        dense_layers: vec![0],
        ..Experts::default()
    };
    ModelConfig { experts: Some(experts), ..config() }
}

/// Clusters of different sizes whose centroids point anywhere, so that every token looks at others.
fn clusters(config: &ModelConfig) -> VocabClusters {
    let count = 20;
    // Of an f16 between 1 and 2, either sign.
    let centroids = (0..count * config.hidden).flat_map(|i| [i as u8, 0x3C | (i * 37 / 11 % 2 * 128) as u8]);
    VocabClusters {
        cols: config.hidden,
        centroids: centroids.collect(),
        leads: vec![0.0; count as usize],
        cluster_of: (0..config.vocab).map(|token| (token * token / 5 % count) as u16).collect(),
        positions: 0,
        containments: Vec::new(),
    }
}

/// Rounds of tokens, all behind the same prompt, during which memory was taken.
fn rounds_that_allocate(model: &RandomModel, clustered: bool, threads: usize) -> usize {
    let mut decoder = model.decoder(Cpu::with_threads(Isa::best(), threads).unwrap(), None);
    if clustered {
        let head = ClusteredHead::new(decoder.model(), &clusters(&model.config), 5).unwrap();
        decoder = decoder.with_clusters(head);
    }
    let mut state = decoder.state(PROMPT + TOKENS, PROMPT).unwrap();
    let mut sampler = Sampler::new(SamplerOptions::new(1.0, 0, 0.95, 0.0, 7).unwrap());
    let mut logits = vec![0.0; model.config.vocab as usize];
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| i * 37 % model.config.vocab).collect();
    decoder.forward(&mut state, &prompt).unwrap();
    let mut round = || {
        state.rewind(PROMPT).unwrap();
        let before = TAKEN.load(Ordering::Relaxed);
        let mut token = 1;
        for _ in 0..TOKENS {
            decoder.forward(&mut state, &[token]).unwrap();
            decoder.logits(&mut state, 0..1, &mut logits).unwrap();
            token = sampler.sample(&logits).unwrap();
        }
        TAKEN.load(Ordering::Relaxed) != before
    };
    (0..ROUNDS).filter(|_| round()).count()
}

/// A thread takes its memory when it first has a task of a kind, and on a busy machine workers may be late for that and spoil a
/// round each time. What is taken for tokens spoils them all.
#[test]
fn no_token_takes_memory_once_every_thread_has_had_its_first() {
    if !alone("memory::allocations::no_token_takes_memory_once_every_thread_has_had_its_first") {
        return;
    }
    for (config, quant, clustered) in [
        (config(), QuantType::Q4, false),
        (config(), QuantType::F32, false),
        (experts(), QuantType::Q4, false),
        (config(), QuantType::Q4, true),
    ] {
        let model = RandomModel::new(config, quant);
        for threads in [1, 2] {
            let spoiled = rounds_that_allocate(&model, clustered, threads);
            let (quant, experts) = (model.quant, model.config.experts.is_some());
            assert!(
                spoiled <= ROUNDS / 2,
                "{quant}, experts: {experts}, clusters: {clustered}, {threads} threads: {spoiled} of {ROUNDS} rounds"
            );
        }
    }
}
