//! Decoding a token takes no memory from the allocator: every buffer is there when the first tokens have been decoded.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::RandomModel;
use qsf_format::{Activation, Experts, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::sample::{Sampler, SamplerOptions};

/// Counts what all threads take.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let experts = Experts { count: 5, used: 2, ffn: 512, normalize_weights: true, dense_layers: vec![0] };
    ModelConfig { experts: Some(experts), ..config() }
}

/// Rounds of tokens, all behind the same prompt, during which memory was taken.
fn rounds_that_allocate(model: &RandomModel, threads: usize) -> usize {
    let decoder = model.decoder(Cpu::with_threads(Isa::best(), threads).unwrap(), None);
    let mut state = decoder.state(PROMPT + TOKENS, PROMPT).unwrap();
    let mut sampler = Sampler::new(SamplerOptions::new(1.0, 0, 0.95, 0.0, 7).unwrap());
    let mut logits = vec![0.0; model.config.vocab as usize];
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| i * 37 % model.config.vocab).collect();
    decoder.forward(&mut state, &prompt).unwrap();
    let mut round = || {
        state.rewind(PROMPT);
        let before = TAKEN.load(Ordering::Relaxed);
        let mut token = 1;
        for _ in 0..TOKENS {
            decoder.forward(&mut state, &[token]).unwrap();
            decoder.logits(&mut state, 0..1, &mut logits);
            token = sampler.sample(&logits).unwrap();
        }
        TAKEN.load(Ordering::Relaxed) != before
    };
    (0..ROUNDS).filter(|_| round()).count()
}

/// One test, so that nothing else runs in this process. A thread takes its memory when it first has a task of a kind, and
/// there are two kinds, matrices and attention. Workers may be late for their first, and spoil a round each time, but not more.
#[test]
fn no_token_takes_memory_once_every_thread_has_had_its_first() {
    for (config, quant) in [(config(), QuantType::Q4), (config(), QuantType::F32), (experts(), QuantType::Q4)]
    {
        let model = RandomModel::new(config, quant);
        for threads in [1, 2] {
            let spoiled = rounds_that_allocate(&model, threads);
            let first = 1 + 2 * (threads - 1);
            let (quant, experts) = (model.quant, model.config.experts.is_some());
            assert!(
                spoiled <= first,
                "{quant}, experts: {experts}, {threads} threads: {spoiled} of {ROUNDS} rounds"
            );
        }
    }
}
