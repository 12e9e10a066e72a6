//! What a session promises: sequences that go through the model together get the bits that each gets alone, and one that was saved
//! goes on with the bits of the original.

use std::path::Path;
use std::sync::Arc;

use crate::random_model::RandomModel;
use crate::recurrent::{beside_attention, gated_delta, mamba1, mamba2, short_conv};
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, SlidingWindow};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::generate::{Flow, GenerateRequest, StopReason, generate};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::session::{
    Session, SessionOptions, TextAsked, TextListener, TogetherOptions, generate_together,
};
use qsf_runtime::{Activations, Decoder, KvKeep, KvOptions, KvPolicy, Model, RuntimeError, source};

const MODEL: [u8; 32] = [7; 32];

fn config() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 3,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 24,
        ffn: 100,
        vocab: 90,
        max_positions: 700,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    }
}

fn windowed() -> ModelConfig {
    ModelConfig { sliding_window: Some(SlidingWindow { size: 20, layers: vec![0, 2] }), ..config() }
}

/// Plain layers in floats and in 8 bits, windows, and the three kinds of recurrence.
fn random_decoders() -> Vec<(&'static str, Decoder)> {
    let of = |name, config, quant| (name, RandomModel::new(config, quant).decoder(cpu(2), None));
    vec![
        of("plain", config(), QuantType::F32),
        of("8 bits", config(), QuantType::Q8),
        of("windows", windowed(), QuantType::Q8),
        of("mamba1", mamba1(config()), QuantType::Q8),
        of("beside attention", beside_attention(config()), QuantType::F32),
        of("gated delta", gated_delta(config()), QuantType::Q8),
        of("short convolutions", short_conv(config()), QuantType::F32),
        of("Mamba-2", mamba2(config()), QuantType::F32),
    ]
}

/// Learned positions, latent attention, ALiBi, experts, shared keys and inputs of layers.
fn golden_decoders() -> Vec<(&'static str, Decoder)> {
    let names = ["gpt2", "deepseek_v3", "bloom", "mixtral", "gemma4", "qwen3_next"];
    names.map(|name| (name, golden(name))).into()
}

fn golden(name: &str) -> Decoder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name);
    let model = Model::load(&*source::open(&path).unwrap()).unwrap();
    Decoder::new(Arc::new(model), cpu(2), Some(Activations::F32))
}

fn cpu(threads: usize) -> Cpu {
    Cpu::with_threads(Isa::best(), threads).unwrap()
}

fn tokens(seed: u32, count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * (37 + 2 * seed) + 11 * seed + 5) % 80).collect()
}

fn options(sequences: usize, context: usize, step: usize, kv: KvOptions) -> SessionOptions {
    SessionOptions { sequences, step, kv, ..SessionOptions::new(context, MODEL) }
}

/// Logits behind a text that runs alone, in steps of `step`.
fn alone(decoder: &Decoder, tokens: &[u32], kv: KvOptions) -> Vec<f32> {
    let mut state = decoder.state_with(tokens.len(), 16, kv).unwrap();
    let mut rows = 0;
    for step in tokens.chunks(16) {
        decoder.forward(&mut state, step).unwrap();
        rows = step.len();
    }
    let mut logits = vec![0.0; decoder.model().config.vocab as usize];
    decoder.logits(&mut state, rows - 1..rows, &mut logits).unwrap();
    logits
}

#[test]
fn sequences_that_run_together_get_the_bits_that_each_gets_alone() {
    for (name, decoder) in random_decoders().into_iter().chain(golden_decoders()) {
        let kv = KvOptions::default();
        let mut session = Session::new(decoder.clone(), options(4, 40, 24, kv)).unwrap();
        let texts: Vec<Vec<u32>> = [(1, 33), (2, 1), (3, 17), (4, 40)].map(|(s, n)| tokens(s, n)).into();
        // Prompts of all lengths, more than a step; then some go on by a token, by several, or not at all.
        let first: Vec<(usize, &[u32])> =
            [(2, &texts[2][..9]), (0, &texts[0][..30]), (3, &texts[3][..1]), (1, &texts[1][..])].into();
        session.run(&first).unwrap();
        for (sequence, tokens) in &first {
            assert!(session.logits(*sequence).unwrap() == alone(&decoder, tokens, kv), "{name} {sequence}");
        }
        session.run(&[(3, &texts[3][1..40]), (0, &texts[0][30..31]), (2, &texts[2][9..10])]).unwrap();
        session.run(&[(0, &texts[0][31..]), (2, &texts[2][10..])]).unwrap();
        for (sequence, tokens) in texts.iter().enumerate() {
            assert_eq!(session.tokens(sequence), tokens);
            assert!(session.logits(sequence).unwrap() == alone(&decoder, tokens, kv), "{name} {sequence}");
        }
    }
}

/// Every way of keeping keys and values that there is.
fn ways() -> Vec<KvOptions> {
    let of = |types: &str| KvOptions { types: types.parse().unwrap(), ..KvOptions::default() };
    let keep = |positions, policy| Some(KvKeep { positions, policy });
    vec![
        of("f32"),
        of("f16"),
        of("8bit,4bit"),
        of("2bit"),
        KvOptions { whole: true, ..of("f16") },
        KvOptions { keep: keep(16, KvPolicy::Window), ..of("f32") },
        KvOptions { keep: keep(32, KvPolicy::HeavyHitters), ..of("8bit") },
    ]
}

#[test]
fn a_restored_sequence_goes_on_bit_for_bit() {
    for (name, decoder) in random_decoders().into_iter().chain(golden_decoders()) {
        for kv in ways() {
            let context = decoder.model().config.max_positions.min(300);
            let (past, more) = (tokens(1, context * 2 / 5), tokens(5, context / 5));
            let options = options(2, context as usize, 16, kv);
            let Ok(mut session) = Session::new(decoder.clone(), options) else {
                // Models that weigh positions by distance let none go.
                assert!(kv.keep.is_some() && ["bloom"].contains(&name), "{name} {kv:?}");
                continue;
            };
            session.run(&[(0, &past), (1, &tokens(2, 3))]).unwrap();
            let saved = session.save(0).unwrap();
            let expected = session.logits(0).unwrap().to_vec();
            // Another process would have a decoder and a session of its own; sequences may change places.
            let mut other = Session::new(decoder.clone(), options).unwrap();
            other.run(&[(1, &tokens(3, context / 6)), (0, &tokens(4, 20))]).unwrap();
            other.restore(1, &saved).unwrap();
            assert_eq!(other.tokens(1), past);
            assert!(other.logits(1).unwrap() == expected, "{name} {kv:?}");
            assert!(other.save(1).unwrap() == saved, "{name}: saved again it is the same");
            session.run(&[(0, &more)]).unwrap();
            // Positions are let go between steps, so that these must be the same there.
            let beside: &[(usize, &[u32])] = if kv.keep.is_some() { &[] } else { &[(0, &[1])] };
            other.run(&[beside, &[(1, &more)]].concat()).unwrap();
            assert!(session.logits(0).unwrap() == other.logits(1).unwrap(), "{name} {kv:?}");
        }
    }
}

#[test]
fn tokens_are_taken_back_and_what_layers_have_let_go_is_refused() {
    let (kv, text) = (KvOptions::default(), tokens(1, 100));
    for (name, decoder) in random_decoders() {
        let mut session = Session::new(decoder.clone(), options(2, 120, 16, kv)).unwrap();
        session.run(&[(0, &text), (1, &text[..50])]).unwrap();
        let recurrent = decoder.model().config.recurrent.is_some();
        match session.rewind(0, 4) {
            Ok(()) => {
                assert!(!recurrent, "{name}");
                assert!(session.logits(0).is_none(), "the logits were those of a token that is gone");
                assert_eq!(session.tokens(0), &text[..96]);
            }
            Err(error) => {
                assert!(recurrent && error.to_string().contains("recurrent"), "{name}: {error}");
                assert_eq!(session.tokens(0).len(), 100, "a refusal changes nothing");
                session.rewind(0, 100).unwrap();
                session.run(&[(0, &text[..96])]).unwrap();
            }
        }
        let goes_on = [&text[..96], &tokens(7, 5)].concat();
        session.run(&[(0, &tokens(7, 5))]).unwrap();
        assert!(session.logits(0).unwrap() == alone(&decoder, &goes_on, kv), "{name}");
        assert!(session.logits(1).unwrap() == alone(&decoder, &text[..50], kv), "the other sequence stays");
        assert!(session.rewind(0, 102).unwrap_err().to_string().contains("102 tokens"));
    }
}

#[test]
fn generated_tokens_are_those_of_the_loop_and_end_with_the_context_or_a_stop() {
    let decoder = golden("llama");
    let sampler = || Sampler::new(SamplerOptions::new(0.8, 40, 0.9, 0.0, 5).unwrap());
    let mut session = Session::new(decoder.clone(), SessionOptions::new(30, MODEL)).unwrap();
    assert!(session.generate(0, &mut sampler()).err().unwrap().to_string().contains("no logits"));
    session.run(&[(0, &[5, 7, 11])]).unwrap();
    let found: Vec<u32> = session.generate(0, &mut sampler()).unwrap().map(Result::unwrap).collect();
    let mut state = decoder.state(30, 3).unwrap();
    let request = GenerateRequest { prompt: &[5, 7, 11], max_tokens: 27, stop_tokens: &[] };
    let go_on = |_| Ok(Flow::Continue);
    let expected = generate(&decoder, &mut state, request, &mut sampler(), go_on).unwrap();
    // The last one is chosen without room to run it.
    assert_eq!(found[..27], expected.tokens);
    assert_eq!((found.len(), session.tokens(0).len()), (28, 30));
    let cancel = qsf_runtime::progress::Cancel::default();
    let mut session = Session::new(decoder.stop_on(&cancel), SessionOptions::new(30, MODEL)).unwrap();
    session.run(&[(0, &[5, 7, 11])]).unwrap();
    let mut sampler = sampler();
    let mut generated = session.generate(0, &mut sampler).unwrap();
    assert_eq!(generated.next().unwrap().unwrap(), found[0]);
    cancel.request();
    assert!(generated.next().is_none());
}

/// Texts as they come, and why each ended.
struct Heard(Vec<(Vec<u32>, Option<StopReason>)>);

impl TextListener for Heard {
    fn token(&mut self, text: usize, token: u32) -> Result<Flow, RuntimeError> {
        self.0[text].0.push(token);
        // A stop text, as it were.
        Ok(if self.0[text].0.len() == 13 && text == 2 { Flow::Stop } else { Flow::Continue })
    }

    fn end(&mut self, text: usize, stop: StopReason) -> Result<(), RuntimeError> {
        assert!(self.0[text].1.replace(stop).is_none(), "a text ends once");
        Ok(())
    }
}

#[test]
fn many_texts_at_once_are_those_of_each_alone() {
    for (name, decoder) in random_decoders().into_iter().chain(golden_decoders()) {
        let sampler = |text: usize| {
            let temperature = if text.is_multiple_of(2) { 0.0 } else { 0.9 };
            Sampler::new(SamplerOptions::new(temperature, 40, 0.9, 0.0, text as u64).unwrap())
        };
        let asked = |text: usize| TextAsked {
            prompt: tokens(text as u32, 1 + (text as u32 * 13) % 37),
            max_tokens: [20, 1, 25, 7, 30][text % 5],
            // Some tokens that come early or late.
            stop_tokens: (0..7).map(|i| i * 11 + text as u32 % 10).collect(),
            sampler: sampler(text),
        };
        let count = 9;
        let mut expected = Vec::new();
        for number in 0..count {
            let TextAsked { prompt, max_tokens, stop_tokens, mut sampler } = asked(number);
            let mut state = decoder.state(prompt.len() + max_tokens, 64).unwrap();
            let request = GenerateRequest { prompt: &prompt, max_tokens, stop_tokens: &stop_tokens };
            let mut heard = Heard(vec![(Vec::new(), None); count]);
            let found =
                generate(&decoder, &mut state, request, &mut sampler, |token| heard.token(number, token));
            let found = found.unwrap();
            expected.push((found.tokens, Some(found.stop)));
        }
        for (sequences, step) in [(4, 16), (1, 64), (64, 5), (3, 512)] {
            let mut heard = Heard(vec![(Vec::new(), None); count]);
            let mut texts: Vec<TextAsked> = (0..count).map(asked).collect();
            let options = TogetherOptions { sequences, step, kv: KvOptions::default() };
            generate_together(&decoder, &mut texts, options, &mut heard).unwrap();
            assert!(heard.0 == expected, "{name}, {sequences} at once: {:?} for {expected:?}", heard.0);
        }
    }
}

#[test]
fn bytes_that_are_damaged_or_of_something_else_are_refused_by_name() {
    for (name, decoder) in random_decoders() {
        let usual = options(1, 100, 16, KvOptions::default());
        let mut session = Session::new(decoder.clone(), usual).unwrap();
        session.run(&[(0, &tokens(1, 40))]).unwrap();
        let saved = session.save(0).unwrap();
        let f16 = KvOptions { types: "f16".parse().unwrap(), ..KvOptions::default() };
        for (other, part) in [
            (options(1, 101, 16, usual.kv), "context: expected 101, found 100"),
            (options(1, 100, 17, usual.kv), "step: expected 17, found 16"),
            (options(1, 100, 16, f16), "key and value types: expected f16, found f32"),
            (SessionOptions { model: [8; 32], ..usual }, "model: expected 0808"),
        ] {
            let mut other = Session::new(decoder.clone(), other).unwrap();
            other.run(&[(0, &[3, 4])]).unwrap();
            let error = other.restore(0, &saved).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
            assert_eq!(other.tokens(0), [3, 4], "a refusal changes nothing");
        }
        // Cut anywhere, or with any byte changed; also where the checksum was made anew, which must not panic.
        for at in (0..saved.len()).step_by(saved.len() / 150 + 1) {
            assert!(matches!(session.restore(0, &saved[..at]), Err(RuntimeError::Request(_))), "{name} {at}");
            let mut changed = saved.clone();
            changed[at] ^= 0x41;
            assert!(session.restore(0, &changed).is_err(), "{name} {at}");
            for mut bytes in [changed, saved[..at].to_vec()] {
                let end = bytes.len().saturating_sub(4);
                let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
                bytes.truncate(end);
                bytes.extend(sum);
                if session.restore(0, &bytes).is_ok() {
                    session.run(&[(0, &[1])]).unwrap();
                }
            }
        }
        session.restore(0, &saved).unwrap();
        assert_eq!(session.tokens(0).len(), 40);
    }
}

#[test]
fn what_no_step_can_be_made_of_is_refused_and_changes_nothing() {
    let (_, decoder) = random_decoders().remove(0);
    let mut session = Session::new(decoder.clone(), options(2, 10, 4, KvOptions::default())).unwrap();
    session.run(&[(0, &[1, 2])]).unwrap();
    let long = [1; 9];
    for (parts, part) in [
        (vec![(2, &[1][..])], "sequence 2"),
        (vec![(0, &[1][..]), (0, &[2][..])], "comes twice"),
        (vec![(1, &[][..])], "no token"),
        (vec![(1, &[1][..]), (0, &long[..])], "9 tokens behind 2"),
        (vec![(1, &[1][..]), (0, &[90][..])], "token 90"),
    ] {
        let error = session.run(&parts).unwrap_err();
        assert!(matches!(&error, RuntimeError::Request(text) if text.contains(part)), "{error}");
        assert_eq!((session.tokens(0).len(), session.tokens(1).len()), (2, 0));
    }
    assert!(session.save(2).is_err() && session.restore(2, &[]).is_err() && session.rewind(2, 0).is_err());
    let mut state = decoder.states(2, 10, 4, KvOptions::default()).unwrap();
    assert!(decoder.forward_together(&mut state, &[(0, &[1]), (0, &[1])]).is_err());
    assert!(decoder.forward_together(&mut state, &[]).is_err());
    assert!(decoder.forward_together(&mut state, &[(0, &[1, 2, 3]), (1, &[1, 2])]).is_err());
    assert!(decoder.states(1, 701, 4, KvOptions::default()).is_err());
}
