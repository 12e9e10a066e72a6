//! What a decoder promises beyond the right numbers, which are checked against other implementations elsewhere: a token's
//! result does not depend on what else is computed with it, on threads or on the instruction set.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::random_model::RandomModel;
use crate::recurrent::{beside_attention, by_channel, by_mixer, gated_delta, mamba1, mamba2, short_conv};
use crate::streams::with_streams;
use qsf_format::{
    Activation, Experts, FullAttention, LatentAttention, ModelConfig, NormConfig, NormKind, NormPlacement,
    PerLayerEmbedding, PositionConfig, QkNorm, QuantType, Residual, SharedKv, SlidingWindow, TensorId,
    TensorKind,
};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::{Replaced, Tensor, WeightSource};
use qsf_runtime::{
    Activations, Decoder, InputObserver, LEAST_WIDE_TOKENS, LayerRunner, LayerWeights, LinearInput, Model,
};

fn best() -> Cpu {
    Cpu::new(Isa::best())
}

fn llama() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 2,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 24,
        ffn: 100,
        vocab: 150,
        max_positions: 64,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        tied_head: false,
        bos: None,
        stop_tokens: Vec::new(),
        pad: None,
        ..ModelConfig::default()
    }
}

fn gpt2() -> ModelConfig {
    ModelConfig {
        kv_heads: 4,
        head_dim: 16,
        norm: NormConfig::new(NormKind::LayerNorm, 1e-5),
        activation: Activation::GeluTanh,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: true,
        ..llama()
    }
}

/// Norms of 1 + w before and behind, caps, scales, a short window with a base of its own, a layer without rotation.
fn gemma() -> ModelConfig {
    ModelConfig {
        norm: NormConfig { gain_plus_one: true, placement: NormPlacement::PreAndPost, ..llama().norm },
        position: PositionConfig::Rope {
            theta: 1e6,
            scaling: None,
            dims: None,
            sliding_theta: Some(1e4),
            unrotated_layers: vec![1],
        },
        qk_norm: Some(QkNorm::Head),
        attention_scale: Some(0.2),
        attention_softcap: Some(5.0),
        logit_softcap: Some(3.0),
        embedding_scale: Some(8.0),
        sliding_window: Some(SlidingWindow { size: 4, layers: vec![0] }),
        ..llama()
    }
}

/// ALiBi and a norm of the embedding.
fn bloom() -> ModelConfig {
    ModelConfig { position: PositionConfig::alibi(), embedding_norm: true, ..gpt2() }
}

/// Attention and feed-forward side by side, a part of each head rotated.
fn phi(residual: Residual) -> ModelConfig {
    let position = PositionConfig::Rope {
        theta: 1e4,
        scaling: None,
        dims: Some(6),
        sliding_theta: None,
        unrotated_layers: Vec::new(),
    };
    ModelConfig { position, residual, ..gpt2() }
}

/// Norms behind only, one over all heads.
fn olmo2() -> ModelConfig {
    let norm = NormConfig { placement: NormPlacement::Post, ..llama().norm };
    ModelConfig { norm, qk_norm: Some(QkNorm::Projection), ..llama() }
}

/// Two of five experts in the second layer.
fn experts() -> ModelConfig {
    let experts = Experts {
        count: 5,
        used: 2,
        ffn: 132,
        normalize_weights: true,
        dense_layers: vec![0],
        ..Experts::default()
    };
    ModelConfig { experts: Some(experts), ..llama() }
}

/// Attention by way of latents, of queries too or not.
fn latent(q_rank: Option<u32>) -> ModelConfig {
    let position = PositionConfig::Rope {
        theta: 1e4,
        scaling: None,
        dims: Some(8),
        sliding_theta: None,
        unrotated_layers: Vec::new(),
    };
    let latent = LatentAttention { q_rank, kv_rank: 36, shared_dim: 8, value_dim: 20, norm_epsilon: 1e-6 };
    ModelConfig { kv_heads: 4, position, latent: Some(latent), ..llama() }
}

/// Heads of two widths, keys that are values, two layers that share those of the first two, embeddings of layers.
fn gemma4() -> ModelConfig {
    ModelConfig {
        layers: 4,
        position: PositionConfig::Rope {
            theta: 1e6,
            scaling: None,
            dims: None,
            sliding_theta: Some(1e4),
            unrotated_layers: Vec::new(),
        },
        qk_norm: Some(QkNorm::Head),
        attention_scale: Some(0.3),
        sliding_window: Some(SlidingWindow { size: 4, layers: vec![0, 2] }),
        full_attention: Some(FullAttention { kv_heads: 1, head_dim: 32, keys_are_values: true }),
        shared_kv: Some(SharedKv { layers: 2, ffn: Some(120) }),
        value_norm: true,
        per_layer_embedding: Some(PerLayerEmbedding { width: 12, vocab: 100 }),
        layer_scale: true,
        ..llama()
    }
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 37 + 11) % 150).collect()
}

/// Logits of every position, with steps of the given sizes.
fn logits(decoder: &Decoder, tokens: &[u32], steps: &[usize]) -> Vec<f32> {
    let vocab = decoder.model().config.vocab as usize;
    let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
    let mut out = Vec::new();
    let mut at = 0;
    for &step in steps {
        decoder.forward(&mut state, &tokens[at..at + step]).unwrap();
        let mut rows = vec![0.0; step * vocab];
        decoder.logits(&mut state, 0..step, &mut rows).unwrap();
        out.extend(rows);
        at += step;
    }
    assert_eq!(at, tokens.len());
    out
}

fn cases() -> Vec<(RandomModel, Option<Activations>)> {
    vec![
        (RandomModel::new(llama(), QuantType::F32), None),
        (RandomModel::new(gpt2(), QuantType::F32), None),
        (RandomModel::new(llama(), QuantType::Q4), None),
        (RandomModel::new(gpt2(), QuantType::Q4), Some(Activations::Int8)),
        (RandomModel::new(llama(), QuantType::Q4), Some(Activations::F32)),
        (RandomModel::new(gemma(), QuantType::F32), None),
        (RandomModel::new(bloom(), QuantType::F32), None),
        (RandomModel::new(phi(Residual::Parallel), QuantType::F32), None),
        (RandomModel::new(phi(Residual::ParallelOneNorm), QuantType::Q4), None),
        (RandomModel::new(olmo2(), QuantType::F32), None),
        (RandomModel::new(experts(), QuantType::F32), None),
        (RandomModel::new(experts(), QuantType::Q4), None),
        (RandomModel::new(gated_delta(llama()), QuantType::F32), None),
        (RandomModel::new(gated_delta(llama()), QuantType::Q4), None),
        (RandomModel::new(short_conv(llama()), QuantType::F32), None),
        (RandomModel::new(latent(None), QuantType::F32), None),
        (RandomModel::new(latent(Some(40)), QuantType::F32), None),
        (RandomModel::new(latent(Some(40)), QuantType::Q4), None),
        (RandomModel::new(gemma4(), QuantType::F32), None),
        (RandomModel::new(gemma4(), QuantType::Q4), None),
        (RandomModel::new(with_streams(gemma4()), QuantType::F32), None),
        (RandomModel::new(with_streams(gemma4()), QuantType::Q4), None),
        (RandomModel::new(mamba2(llama()), QuantType::Q4), None),
        (RandomModel::new(beside_attention(llama()), QuantType::Q4), None),
        (RandomModel::new(mamba1(llama()), QuantType::F32), None),
        (RandomModel::new(by_mixer(llama()), QuantType::F32), None),
        (RandomModel::new(by_channel(llama()), QuantType::F32), None),
    ]
}

/// Sees everything, and keeps how many rows each input had.
#[derive(Default)]
struct Rows(BTreeMap<LinearInput, usize>);

impl InputObserver for Rows {
    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        *self.0.entry(input).or_default() += rows.len() / cols;
        ControlFlow::Continue(())
    }
}

/// Breaks off at what the output projection of a mixer reads.
struct UntilOutput;

impl InputObserver for UntilOutput {
    fn observe(&mut self, input: LinearInput, _cols: usize, _rows: &[f32]) -> ControlFlow<()> {
        if matches!(input, LinearInput::AttnOutput | LinearInput::MixerOutput) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn layers_one_by_one_give_the_same_bits_as_the_whole_model() {
    for (model, _) in cases() {
        let name = format!("{} {:?}", model.config.architecture, model.quant);
        let tokens = tokens(13);
        let mut runner = LayerRunner::new(&model, best()).unwrap();
        let mut hidden = runner.embed(&tokens).unwrap().to_vec();
        for index in 0..model.config.layers {
            let layer = LayerWeights::load(&model, index).unwrap();
            let before = hidden.clone();
            runner.choose(0, &tokens);
            let flow = runner.run(index as usize, &layer, &mut hidden, &mut UntilOutput);
            assert!(
                flow.unwrap().is_break() && hidden == before,
                "{name}: nothing changes where it breaks off"
            );
            let mut seen = Rows::default();
            assert!(runner.run(index as usize, &layer, &mut hidden, &mut seen).unwrap().is_continue());
            assert_eq!(seen.0[&LinearInput::Attention], 13, "{name}");
            assert_eq!(seen.0[&LinearInput::Ffn], 13, "{name}");
            let sum = |of: fn(&LinearInput) -> bool| -> usize {
                seen.0.iter().filter(|(input, _)| of(input)).map(|(_, rows)| rows).sum()
            };
            let routed = (
                sum(|input| matches!(input, LinearInput::ExpertFfn(_))),
                sum(|input| matches!(input, LinearInput::ExpertDown(_))),
            );
            let of_experts = model.config.experts(index).map_or(0, |experts| 13 * experts.used as usize);
            assert_eq!(routed, (of_experts, of_experts), "{name}: every token in each of its experts");
            assert_eq!(seen.0.contains_key(&LinearInput::FfnDown), of_experts == 0, "{name}");
        }
        let mut found = vec![0.0; 13 * model.config.vocab as usize];
        runner.logits(&hidden, &mut found).unwrap();
        let expected = logits(&model.decoder(best(), Some(Activations::F32)), &tokens, &[13]);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_layer_runner_refuses_what_is_no_chunk_of_its_model() {
    let model = RandomModel::new(llama(), QuantType::F32);
    let mut runner = LayerRunner::new(&model, best()).unwrap();
    assert_eq!(runner.chunk(), 64, "the positions of the model");
    let layer = LayerWeights::load(&model, 0).unwrap();
    let mut run = |index, len| runner.run(index, &layer, &mut vec![0.0; len], &mut Rows::default()).is_err();
    assert!(run(2, 64) && run(0, 0) && run(0, 63) && run(0, 65 * 64));
    assert!(!run(1, 64 * 64));
    assert!(runner.embed(&[]).is_err() && runner.embed(&[150]).is_err() && runner.embed(&[0; 65]).is_err());
}

#[test]
fn a_replaced_tensor_is_what_a_model_runs_with_and_everything_else_stays() {
    let model = RandomModel::new(experts(), QuantType::F32);
    let id = TensorId::of_layer(1, TensorKind::ExpertDown);
    let tensor = model.load(id).unwrap();
    let run = |source: &dyn WeightSource| {
        let model = Arc::new(Model::load(source).unwrap());
        logits(&Decoder::new(model, best(), None), &tokens(9), &[9])
    };
    let same = run(&model);
    let mut replaced = Replaced::new(&model);
    replaced.replace(id, tensor.clone()).unwrap();
    assert_eq!(run(&replaced), same);
    let zeros = Tensor::from_f32(tensor.rows(), tensor.cols(), &vec![0.0; tensor.rows() * tensor.cols()]);
    replaced.replace(id, zeros).unwrap();
    assert_ne!(run(&replaced), same);
    assert!(replaced.replace(TensorId::of_layer(0, TensorKind::ExpertDown), tensor).is_err(), "none there");
    let error = replaced.replace(id, Tensor::from_f32(1, 2, &[0.0; 2])).unwrap_err().to_string();
    assert!(error.contains("320 x 132"), "{error}");
    assert!(error.contains("1 x 2"), "{error}");
}

/// Each part of a configuration must matter: a decoder that overlooks one computes another model.
#[test]
fn every_part_of_a_configuration_changes_the_result() {
    let result = |config: ModelConfig| {
        config.check().unwrap();
        logits(&RandomModel::new(config, QuantType::F32).decoder(best(), None), &tokens(9), &[9])
    };
    let unrotated = |layers: Vec<u32>, sliding_theta| PositionConfig::Rope {
        theta: 1e6,
        scaling: None,
        dims: None,
        sliding_theta,
        unrotated_layers: layers,
    };
    let whole = result(gemma());
    for (name, config) in [
        (
            "gain_plus_one",
            ModelConfig { norm: NormConfig { gain_plus_one: false, ..gemma().norm }, ..gemma() },
        ),
        ("placement", ModelConfig { norm: NormConfig { gain_plus_one: true, ..llama().norm }, ..gemma() }),
        ("sliding_theta", ModelConfig { position: unrotated(vec![1], None), ..gemma() }),
        ("unrotated_layers", ModelConfig { position: unrotated(vec![], Some(1e4)), ..gemma() }),
        ("qk_norm", ModelConfig { qk_norm: None, ..gemma() }),
        ("attention_scale", ModelConfig { attention_scale: None, ..gemma() }),
        ("attention_softcap", ModelConfig { attention_softcap: None, ..gemma() }),
        ("logit_softcap", ModelConfig { logit_softcap: None, ..gemma() }),
        ("embedding_scale", ModelConfig { embedding_scale: None, ..gemma() }),
        ("sliding_window", ModelConfig { sliding_window: None, ..gemma() }),
    ] {
        assert_ne!(result(config), whole, "{name}");
    }
    assert_ne!(result(bloom()), result(ModelConfig { embedding_norm: false, ..bloom() }), "embedding_norm");
    assert_ne!(result(phi(Residual::Parallel)), result(phi(Residual::ParallelOneNorm)), "residual");
    let whole = result(gemma4());
    let one_layer = Some(SharedKv { layers: 1, ffn: None });
    for (name, config) in [
        ("shared_kv", ModelConfig { shared_kv: one_layer, ..gemma4() }),
        ("value_norm", ModelConfig { value_norm: false, ..gemma4() }),
        ("per_layer_embedding", ModelConfig { per_layer_embedding: None, ..gemma4() }),
        ("layer_scale", ModelConfig { layer_scale: false, ..gemma4() }),
        ("full_attention", ModelConfig { full_attention: None, ..gemma4() }),
    ] {
        assert_ne!(result(config), whole, "{name}");
    }
    let less_exact = latent(Some(40)).latent.map(|latent| LatentAttention { norm_epsilon: 0.1, ..latent });
    assert_ne!(result(latent(Some(40))), result(ModelConfig { latent: less_exact, ..latent(Some(40)) }));
    let unscaled = Experts { normalize_weights: false, ..experts().experts.unwrap() };
    assert_ne!(result(experts()), result(ModelConfig { experts: Some(unscaled), ..experts() }), "experts");
}

#[test]
fn a_window_sees_as_many_positions_as_it_says() {
    let config =
        |size| ModelConfig { sliding_window: Some(SlidingWindow { size, layers: vec![0, 1] }), ..llama() };
    let result =
        |config| logits(&RandomModel::new(config, QuantType::F32).decoder(best(), None), &tokens(9), &[9]);
    let vocab = llama().vocab as usize;
    let (all, three) = (result(llama()), result(config(3)));
    assert_eq!(result(config(9)), all, "a window as long as the text is none");
    assert_eq!(three[..3 * vocab], all[..3 * vocab], "the first three positions see everything");
    assert_ne!(three[3 * vocab..4 * vocab], all[3 * vocab..4 * vocab], "the fourth does not see the first");
}

#[test]
fn a_prompt_in_one_step_gives_the_same_bits_as_token_by_token() {
    for (model, activations) in cases() {
        let decoder = model.decoder(best(), activations);
        let tokens = tokens(13);
        let whole = logits(&decoder, &tokens, &[13]);
        assert!(whole.iter().all(|v| v.is_finite()));
        assert_eq!(
            whole,
            logits(&decoder, &tokens, &[1; 13]),
            "{} {:?}",
            model.config.architecture,
            model.quant
        );
        assert_eq!(
            whole,
            logits(&decoder, &tokens, &[5, 1, 7]),
            "{} {:?}",
            model.config.architecture,
            model.quant
        );
    }
}

#[test]
fn every_instruction_set_and_thread_count_gives_the_same_bits() {
    for (model, activations) in cases() {
        let tokens = tokens(9);
        let oracle = logits(&model.decoder(Cpu::new(Isa::SCALAR), activations), &tokens, &[9]);
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let cpu = Cpu::with_threads(isa, threads).unwrap();
                let found = logits(&model.decoder(cpu, activations), &tokens, &[9]);
                assert_eq!(oracle, found, "{isa:?}, {threads} threads, {:?}", model.quant);
            }
        }
    }
}

#[test]
fn int8_activations_stay_near_the_float_reference() {
    let model = RandomModel::new(llama(), QuantType::Q4);
    let tokens = tokens(12);
    let reference = logits(&model.decoder(best(), Some(Activations::F32)), &tokens, &[12]);
    let int8 = logits(&model.decoder(best(), None), &tokens, &[12]);
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let error = norm(&mut reference.iter().zip(&int8).map(|(a, b)| a - b));
    let relative = error / norm(&mut reference.iter().copied());
    assert!(relative > 0.0, "int8 activations were not used");
    assert!(relative < 0.03, "relative error {relative}");
}

#[test]
fn prompts_in_wide_groups_are_near_the_float_reference_and_short_steps_are_int8() {
    let cpu = best();
    if !cpu.kernels().has_wide() {
        eprintln!("skipped: this processor has no matrix unit");
        return;
    }
    let tokens = tokens(LEAST_WIDE_TOKENS as u32 + 3);
    for quant in [QuantType::Q4, QuantType::N3, QuantType::T2, QuantType::X4, QuantType::Q8] {
        let model = RandomModel::new(ModelConfig { max_positions: 128, ..llama() }, quant);
        let run = |how, steps: &[usize]| logits(&model.decoder(cpu.clone(), Some(how)), &tokens, steps);
        let whole = [tokens.len()];
        let reference = run(Activations::F32, &whole);
        let error = |found: &[f32]| -> f64 {
            let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            norm(&mut reference.iter().zip(found).map(|(a, b)| a - b)) / norm(&mut reference.iter().copied())
        };
        let (wide, int8) =
            (error(&run(Activations::Int8Wide, &whole)), error(&run(Activations::Int8, &whole)));
        assert!(wide != int8 && wide < 3.0 * int8, "{quant}: {wide} in wide groups, {int8} in narrow ones");
        let steps = [LEAST_WIDE_TOKENS - 1, tokens.len() - LEAST_WIDE_TOKENS + 1];
        assert_eq!(run(Activations::Int8Wide, &steps), run(Activations::Int8, &steps), "{quant}");
    }
    // Without blocks attention alone is the unit's.
    let model = RandomModel::new(ModelConfig { max_positions: 128, ..llama() }, QuantType::F32);
    let run = |how| logits(&model.decoder(cpu.clone(), Some(how)), &tokens, &[tokens.len()]);
    let (exact, by_unit) = (run(Activations::F32), run(Activations::Int8Wide));
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let error = norm(&mut exact.iter().zip(&by_unit).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied());
    // In bytes it is off by more than in bfloat16.
    assert!(error > 0.0 && error < 0.05, "attention by the unit is {error} off");
}

#[test]
fn rewinding_forgets_what_came_later() {
    let decoder = RandomModel::new(llama(), QuantType::F32).decoder(best(), None);
    let vocab = decoder.model().config.vocab as usize;
    let (first, second) = (tokens(6), [3, 1, 4]);
    let mut state = decoder.state(16, 16).unwrap();
    let run = |state: &mut qsf_runtime::DecoderState| {
        decoder.forward(state, &second).unwrap();
        let mut row = vec![0.0; vocab];
        decoder.logits(state, 2..3, &mut row).unwrap();
        row
    };
    decoder.forward(&mut state, &first).unwrap();
    let before = run(&mut state);
    state.rewind(6).unwrap();
    assert_eq!(state.position(), 6);
    assert_eq!(before, run(&mut state));
    state.rewind(0).unwrap();
    assert_ne!(before, run(&mut state), "positions and past must matter");
}

#[test]
fn tokens_beyond_the_vocabulary_and_full_contexts_are_errors() {
    let decoder = RandomModel::new(gpt2(), QuantType::F32).decoder(best(), None);
    let mut state = decoder.state(4, 4).unwrap();
    let error = decoder.forward(&mut state, &[150]).unwrap_err().to_string();
    assert!(error.contains("150"), "{error}");
    decoder.forward(&mut state, &[1, 2, 3, 4]).unwrap();
    decoder.forward(&mut state, &[5]).unwrap_err();
    let error = decoder.state(65, 1).err().unwrap().to_string();
    assert!(error.contains("65") && error.contains("64"), "{error}");
}
