//! Layers that carry a state, on a graphics processor: they compute what they compute on the CPU, and a step that was run ahead leaves no
//! mark on the state.

use crate::gpu::{LIMIT, assert_close, cpu_decoder, distance, gpu_decoder, llama, tokens};
use crate::random_model::RandomModel;
use crate::recurrent::{
    beside_attention, by_channel, by_mixer, gated_delta, half_layers, mamba1, mamba2, short_conv,
};
use qsf_format::{ModelConfig, QuantType, RecurrentMixer};
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::gpu::{GpuDecoder, GpuState};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::{Runner, Sequence};

/// Of three layers, without the gate of attention.
fn with(change: impl Fn(ModelConfig) -> ModelConfig, mixer: Option<RecurrentMixer>) -> ModelConfig {
    let config = ModelConfig { layers: 3, ..llama() };
    let mut config = ModelConfig { attention_gate: false, ..change(config) };
    if let (Some(recurrent), Some(mixer)) = (&mut config.recurrent, mixer) {
        recurrent.mixer = mixer;
    }
    config
}

fn delta(key_dim: u32, value_dim: u32, heads: [u32; 2]) -> Option<RecurrentMixer> {
    let [key_heads, value_heads] = heads;
    Some(RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim })
}

fn models() -> Vec<(&'static str, ModelConfig)> {
    let state_space = |state| Some(RecurrentMixer::Mamba2 { heads: 4, head_dim: 40, groups: 2, state });
    vec![
        ("delta", with(gated_delta, None)),
        ("delta, large heads", with(gated_delta, delta(128, 128, [2, 4]))),
        ("delta, uneven heads", with(gated_delta, delta(100, 70, [2, 2]))),
        ("delta, very large keys", with(gated_delta, delta(256, 33, [1, 3]))),
        ("delta by mixer", with(by_mixer, None)),
        ("delta by channel", with(by_channel, None)),
        ("delta by channel, large heads", with(by_channel, delta(128, 128, [2, 2]))),
        ("short convolution", with(short_conv, None)),
        ("mamba 1", with(mamba1, None)),
        ("mamba 2", with(mamba2, None)),
        ("mamba 2, large state", with(mamba2, state_space(128))),
        ("mamba 2, uneven state", with(mamba2, state_space(70))),
        ("beside attention", with(beside_attention, None)),
        ("half layers", with(half_layers, None)),
    ]
}

#[test]
fn mixers_of_every_kind_compute_what_the_cpu_computes() {
    for (name, config) in models() {
        for quant in [QuantType::F32, QuantType::Q4] {
            assert_close(&RandomModel::new(config.clone(), quant), name);
        }
    }
}

fn logits(gpu: &GpuDecoder, state: &mut GpuState, tokens: &[u32]) -> Vec<f32> {
    gpu.forward(state, tokens).unwrap();
    let vocab = gpu.config().vocab as usize;
    let mut out = vec![0.0; vocab];
    gpu.logits(state, tokens.len() - 1..tokens.len(), &mut out).unwrap();
    out
}

fn state(gpu: &GpuDecoder) -> GpuState {
    gpu.state_with(60, 20, KvTypes::F16.into()).unwrap()
}

#[test]
fn a_step_that_was_run_ahead_leaves_no_mark() {
    for (name, config) in models() {
        let gpu = gpu_decoder(&cpu_decoder(&RandomModel::new(config, QuantType::Q4)));
        let prompt = tokens(150, 20);
        let mut sampler = Sampler::new(SamplerOptions::greedy());
        let mut room = vec![0.0; 150];
        let mut ahead = state(&gpu);
        gpu.forward(&mut ahead, &prompt).unwrap();
        let first = gpu.sample(&mut ahead, 19, &mut sampler, &mut room).unwrap();
        // Once it is gone on with, then not.
        gpu.forward(&mut ahead, &[first]).unwrap();
        let second = gpu.sample(&mut ahead, 0, &mut sampler, &mut room).unwrap();
        let other = (second + 1) % 150;
        let found = logits(&gpu, &mut ahead, &[other]);
        let mut plain = state(&gpu);
        gpu.forward(&mut plain, &prompt).unwrap();
        gpu.forward(&mut plain, &[first]).unwrap();
        let expected = logits(&gpu, &mut plain, &[other]);
        let off = distance(&found, &expected);
        assert!(off <= LIMIT / 100.0, "{name}: {off:.2e}");
        // As if it had been that one.
        let of_second = logits(&gpu, &mut plain, &[second]);
        assert!(distance(&of_second, &expected) > LIMIT, "{name}");
    }
}

#[test]
fn the_beginning_and_what_is_marked_can_be_gone_back_to() {
    let source = RandomModel::new(with(gated_delta, None), QuantType::Q4);
    let gpu = gpu_decoder(&cpu_decoder(&source));
    let all = tokens(150, 12);
    let mut state = state(&gpu);
    let expected = logits(&gpu, &mut state, &all);
    assert_eq!((state.way_back(12), state.way_back(7)), (12, 0));
    let refused = state.rewind(7).unwrap_err().to_string();
    assert!(refused.contains("position 7 cannot be gone back to: recurrent layers keep"), "{refused}");
    state.rewind(12).unwrap();
    state.rewind(0).unwrap();
    assert_eq!(state.position(), 0);
    gpu.forward(&mut state, &all[..7]).unwrap();
    state.mark().unwrap();
    for _ in 0..2 {
        gpu.forward(&mut state, &[3, 4, 5]).unwrap();
        assert_eq!((state.way_back(9), state.way_back(6)), (7, 0));
        state.rewind(7).unwrap();
        assert_eq!(state.position(), 7);
    }
    let found = logits(&gpu, &mut state, &all[7..]);
    assert!(distance(&found, &expected) <= LIMIT, "{:.2e}", distance(&found, &expected));
}
