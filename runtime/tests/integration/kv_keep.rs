//! A cache that keeps some positions of a text: what it keeps is unchanged, generation goes on, and nothing is lost early.

use crate::random_model::RandomModel;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, SlidingWindow};
use qsf_runtime::cpu::{Attention, AttentionBuffer, Cpu, Isa, KvLayer, KvShape, Slabs};
use qsf_runtime::{Decoder, KvCache, KvKeep, KvOptions, KvPolicy};

fn config() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 2,
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
        ..ModelConfig::default()
    }
}

fn options(types: &str, keep: Option<(usize, KvPolicy)>) -> KvOptions {
    let keep = keep.map(|(positions, policy)| KvKeep { positions, policy });
    KvOptions { keep, ..KvOptions { types: types.parse().unwrap(), ..KvOptions::default() } }
}

/// Logits of every position of a text of `len` tokens.
fn logits(decoder: &Decoder, len: u32, step: usize, kv: KvOptions) -> Vec<f32> {
    let mut state = decoder.state_with(len as usize, step, kv).unwrap();
    let tokens: Vec<u32> = (0..len).map(|i| (i * 37 + 11) % 150).collect();
    let mut out = Vec::new();
    for tokens in tokens.chunks(step) {
        decoder.forward(&mut state, tokens).unwrap();
        let mut rows = vec![0.0; tokens.len() * 150];
        decoder.logits(&mut state, 0..tokens.len(), &mut rows).unwrap();
        out.extend(rows);
    }
    assert_eq!(state.position(), len as usize);
    if kv.keep.is_some_and(|keep| keep.positions + KvKeep::SLACK < len as usize) {
        let error = state.rewind(3).unwrap_err().to_string();
        assert!(error.contains("--kv-window"), "{error}");
    }
    state.rewind(0).unwrap();
    out
}

fn floats(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
}

const POLICIES: [KvPolicy; 2] = [KvPolicy::Window, KvPolicy::HeavyHitters];

#[test]
fn nothing_changes_until_there_are_too_many_positions_and_then_text_goes_on() {
    let decoder = RandomModel::new(config(), QuantType::F32).decoder(Cpu::new(Isa::best()), None);
    for types in ["f32", "8bit,4bit"] {
        let whole = logits(&decoder, 500, 1, options(types, None));
        for policy in POLICIES {
            let kept = logits(&decoder, 500, 1, options(types, Some((100, policy))));
            let same = kept.chunks(150).zip(whole.chunks(150)).take_while(|(a, b)| a == b).count();
            assert_eq!(same, 100 + KvKeep::SLACK, "{types} {policy:?}");
            assert!(kept.iter().all(|logit| logit.is_finite()));
        }
    }
}

#[test]
fn what_is_kept_is_the_same_on_every_instruction_set_and_number_of_threads() {
    let model = RandomModel::new(config(), QuantType::F32);
    for policy in POLICIES {
        for step in [1, 9, 70] {
            let run = |isa, threads| {
                let decoder = model.decoder(Cpu::with_threads(isa, threads).unwrap(), None);
                logits(&decoder, 400, step, options("4bit", Some((64, policy))))
            };
            let expected = run(Isa::SCALAR, 1);
            for isa in Isa::available() {
                assert!(run(isa, 2) == expected, "{policy:?} {isa:?} {step}");
            }
        }
    }
}

#[test]
fn memory_is_that_of_the_kept_positions() {
    let all = KvCache::bytes(&config(), 600, 8, options("f16", None));
    for policy in POLICIES {
        let some = KvCache::bytes(&config(), 600, 8, options("f16", Some((64, policy))));
        assert!(some < all / 3, "{policy:?}: {some} of {all}");
        // A context without end costs nothing more.
        let endless = KvCache::bytes(&config(), 1 << 40, 8, options("f16", Some((64, policy))));
        assert_eq!(some, endless);
    }
}

#[test]
fn positions_that_stay_are_moved_as_they_are_stored() {
    let (heads, dim, positions) = (2, 40, 300);
    let (keys, values) = (floats(1, heads * dim * positions), floats(2, heads * dim * positions));
    let cpu = Cpu::new(Isa::best());
    let chosen: Vec<usize> = (0..4).chain((10..250).step_by(3)).chain(260..300).collect();
    for types in ["f32", "f16", "8bit", "4bit", "2bit", "8bit,4bit"] {
        let shape = KvShape { kv_heads: heads, head_dim: dim, value_dim: dim, types: types.parse().unwrap() };
        let mut all = KvLayer::new(shape, positions);
        all.reserve(&mut Slabs::default(), positions).unwrap();
        all.store(&cpu, 0, &keys, &values);
        (0..heads).for_each(|head| all.keep(head, &chosen));
        let mut only = KvLayer::new(shape, positions);
        only.reserve(&mut Slabs::default(), positions).unwrap();
        for (at, position) in chosen.iter().enumerate() {
            let row = position * heads * dim..(position + 1) * heads * dim;
            only.store(&cpu, at, &keys[row.clone()], &values[row]);
        }
        let attention = Attention {
            heads,
            window: usize::MAX,
            first: 0,
            scale: 0.1,
            softcap: None,
            slopes: &[],
            sinks: &[],
            by_unit: false,
        };
        let q = floats(3, heads * dim);
        let run = |layer: &KvLayer| {
            let mut buffer = AttentionBuffer::new(heads, dim, positions).unwrap();
            let mut out = vec![0.0; q.len()];
            cpu.attend(&attention, layer, chosen.len() - 1, &q, &mut buffer, &mut out);
            out
        };
        assert_eq!(run(&all), run(&only), "{types}");
    }
}

#[test]
fn counted_attention_is_the_sum_of_softmaxes() {
    let (heads, kv_heads, dim, past, tokens) = (4, 2, 24, 270, 30);
    let positions = past + tokens;
    let keys = floats(1, kv_heads * dim * positions);
    let cpu = Cpu::new(Isa::best());
    let shape = KvShape { kv_heads, head_dim: dim, value_dim: dim, types: "f32".parse().unwrap() };
    let mut layer = KvLayer::new(shape, positions);
    layer.reserve(&mut Slabs::default(), positions).unwrap();
    layer.store(&cpu, 0, &keys, &keys);
    let attention = Attention {
        heads,
        window: usize::MAX,
        first: 0,
        scale: 0.2,
        softcap: None,
        slopes: &[],
        sinks: &[],
        by_unit: false,
    };
    let q = floats(3, tokens * heads * dim);
    let mut mass = vec![0.0; kv_heads * positions];
    cpu.add_mass(&attention, &layer, past, &q, &mut mass);
    let mut expected = vec![0.0; kv_heads * positions];
    for (row, q) in q.chunks(dim).enumerate() {
        let (own, kv_head) = (past + row / heads, row % heads / 2);
        let weight = |position: usize| {
            let key = &keys[(position * kv_heads + kv_head) * dim..][..dim];
            (0.2 * key.iter().zip(q).map(|(k, q)| f64::from(k * q)).sum::<f64>()).exp()
        };
        let weights: Vec<f64> = (0..=own).map(weight).collect();
        let total: f64 = weights.iter().sum();
        (0..=own).for_each(|position| expected[kv_head * positions + position] += weights[position] / total);
    }
    for (i, (found, expected)) in mass.iter().zip(&expected).enumerate() {
        assert!((f64::from(*found) - expected).abs() < 1e-4, "{i}: {found}, expected {expected}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let state = |config: ModelConfig, positions| {
        let decoder = RandomModel::new(config, QuantType::F32).decoder(Cpu::new(Isa::best()), None);
        let kv = options("f16", Some((positions, KvPolicy::Window)));
        decoder.state_with(100, 8, kv).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(state(config(), 3).contains("--kv-window 3: expected at least 16"));
    assert!(state(ModelConfig { position: PositionConfig::alibi(), ..config() }, 50).contains("ALiBi"));
    let window = Some(SlidingWindow { size: 16, layers: vec![0, 1] });
    assert!(
        state(ModelConfig { sliding_window: window, ..config() }, 50)
            .contains("no layer of the model keeps keys and values of all positions")
    );
    assert_eq!(state(config(), 50), "");
}
