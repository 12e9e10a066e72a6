//! What a decoder promises of its key/value cache: its type costs precision and nothing else, and a layer that keeps only its
//! window computes what it would with everything.

use crate::random_model::RandomModel;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, SlidingWindow};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::{Decoder, DecoderState, KvOptions};

fn model(window: Option<u32>) -> RandomModel {
    let config = ModelConfig {
        architecture: "llama".into(),
        layers: 3,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 24,
        ffn: 100,
        vocab: 150,
        max_positions: 600,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        sliding_window: window.map(|size| SlidingWindow { size, layers: vec![0, 2] }),
        ..ModelConfig::default()
    };
    RandomModel::new(config, QuantType::F32)
}

fn options(types: &str, whole: bool) -> KvOptions {
    KvOptions { whole, types: types.parse().unwrap(), keep: None }
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 37 + 11) % 150).collect()
}

/// Logits of every position behind `state`.
fn logits(decoder: &Decoder, state: &mut DecoderState, tokens: &[u32], step: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for tokens in tokens.chunks(step) {
        decoder.forward(state, tokens).unwrap();
        let mut rows = vec![0.0; tokens.len() * 150];
        decoder.logits(state, 0..tokens.len(), &mut rows).unwrap();
        out.extend(rows);
    }
    out
}

#[test]
fn every_type_gives_the_same_bits_on_every_instruction_set_and_in_every_batch() {
    let (model, tokens) = (model(None), tokens(90));
    for types in ["f32", "f16", "8bit", "8bit,4bit", "4bit", "2bit"] {
        let run = |isa: Isa, threads: usize, step: usize| {
            let decoder = model.decoder(Cpu::with_threads(isa, threads).unwrap(), None);
            let mut state = decoder.state_with(90, 90, options(types, false)).unwrap();
            logits(&decoder, &mut state, &tokens, step)
        };
        let expected = run(Isa::SCALAR, 1, 90);
        for isa in Isa::available() {
            for (threads, step) in [(1, 90), (2, 90), (1, 1), (2, 7)] {
                assert!(run(isa, threads, step) == expected, "{types} {isa:?} {threads} {step}");
            }
        }
    }
}

#[test]
fn fewer_bits_are_further_from_f32_and_not_too_far() {
    let decoder = model(None).decoder(Cpu::new(Isa::best()), None);
    let tokens = tokens(300);
    let run = |types: &str| {
        let mut state = decoder.state_with(300, 64, options(types, false)).unwrap();
        logits(&decoder, &mut state, &tokens, 64)
    };
    let exact = run("f32");
    let norm =
        |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    let mut last = 0.0;
    for (types, most) in [("f16", 1e-2), ("8bit", 0.1), ("8bit,4bit", 0.5), ("4bit", 0.9), ("2bit", 1.5)] {
        let difference = norm(&mut run(types).iter().zip(&exact).map(|(a, b)| a - b));
        let error = difference / norm(&mut exact.iter().copied());
        assert!(error > last && error < most, "{types}: {error}, before {last}");
        last = error;
    }
}

#[test]
fn layers_that_keep_their_window_give_the_bits_of_layers_that_keep_everything() {
    let tokens = tokens(500);
    for (window, step) in [(16, 1), (16, 13), (100, 40), (1, 5)] {
        let decoder = model(Some(window)).decoder(Cpu::new(Isa::best()), None);
        for types in ["f32", "f16", "4bit"] {
            let run = |whole| {
                let mut state = decoder.state_with(500, step, options(types, whole)).unwrap();
                logits(&decoder, &mut state, &tokens, step)
            };
            assert!(run(false) == run(true), "window {window}, steps of {step}, {types}");
        }
    }
}

#[test]
fn going_back_is_exact_or_an_error() {
    let decoder = model(Some(16)).decoder(Cpu::new(Isa::best()), None);
    let tokens = tokens(500);
    for (whole, back, possible) in
        [(false, 495, true), (false, 490, true), (false, 30, false), (true, 30, true)]
    {
        let mut state = decoder.state_with(600, 8, options("4bit", whole)).unwrap();
        let expected = logits(&decoder, &mut state, &tokens, 8);
        match state.rewind(back) {
            Ok(()) => {
                assert!(possible, "{back}");
                assert!(logits(&decoder, &mut state, &tokens[back..], 8) == expected[back * 150..], "{back}");
            }
            Err(error) => {
                assert!(!possible, "{back}: {error}");
                assert!(error.to_string().contains("sliding window"), "{error}");
                assert_eq!(state.position(), 500, "a refusal changes nothing");
            }
        }
        // From the start always.
        state.rewind(0).unwrap();
        assert!(logits(&decoder, &mut state, &tokens[..40], 8) == expected[..40 * 150]);
    }
}

#[test]
fn a_context_that_no_memory_could_hold_is_refused_before_anything_is_computed() {
    if std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "1") {
        eprintln!("skipped: this system promises any memory");
        return;
    }
    let mut model = model(None);
    model.config.max_positions = u32::MAX;
    let decoder = model.decoder(Cpu::new(Isa::best()), None);
    let error = decoder.state(u32::MAX as usize, 1).err().unwrap().to_string();
    assert!(error.contains("not enough memory for the key/value cache of 4294967295 positions"), "{error}");
}
