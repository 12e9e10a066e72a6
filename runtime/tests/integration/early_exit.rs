//! Leaving the model early: what is computed until then is what a shorter model computes, and what is left in the cache is what
//! layers leave there that add nothing.

use std::sync::Arc;

use crate::random_model::RandomModel;
use qsf_format::{
    Activation, EarlyExits, LayerExit, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType,
};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::Tensor;
use qsf_runtime::{Decoder, DecoderState, FeedForward, Model, Weight};

const HIDDEN: u32 = 64;
const VOCAB: usize = 300;
const LAYERS: usize = 6;
const PROMPT: [u32; 4] = [1, 2, 3, 4];

fn model() -> Model {
    let config = ModelConfig {
        architecture: "llama".into(),
        layers: LAYERS as u32,
        hidden: HIDDEN,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        ffn: 96,
        vocab: VOCAB as u32,
        max_positions: 16,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    };
    Model::load(&RandomModel::new(config, QuantType::Q4)).unwrap()
}

fn decoder(model: Model) -> Decoder {
    Decoder::new(model.into(), Cpu::new(Isa::best()), None)
}

/// An exit behind layer 2 that is as sure as `bias` makes it.
fn exit(bias: f32) -> Arc<EarlyExits> {
    let exit = LayerExit { layer: 2, agreeing: 0, bias, weights: vec![0.0; HIDDEN as usize] };
    Arc::new(EarlyExits { cols: HIDDEN, positions: 1, exits: vec![exit] })
}

/// Logits of the last token of a prompt.
fn prompt(decoder: &Decoder, state: &mut DecoderState, tokens: &[u32]) -> Vec<f32> {
    decoder.forward(state, tokens).unwrap();
    logits(decoder, state, tokens.len() - 1)
}

/// Logits of a decoded token.
fn decode(decoder: &Decoder, state: &mut DecoderState, token: u32) -> Vec<f32> {
    decoder.decode(state, token).unwrap();
    logits(decoder, state, 0)
}

fn logits(decoder: &Decoder, state: &mut DecoderState, row: usize) -> Vec<f32> {
    let mut logits = vec![0.0; VOCAB];
    decoder.logits(state, row..row + 1, &mut logits).unwrap();
    logits
}

#[test]
fn a_token_that_leaves_early_gets_the_logits_of_a_shorter_model_and_prompts_run_whole() {
    let leaving = decoder(model()).with_early_exit(exit(4.0), 0.9).unwrap();
    let mut shorter = model();
    shorter.layers.truncate(3);
    let (whole, shorter) = (decoder(model()), decoder(shorter));
    let [mut a, mut b, mut c] = [(); 3].map(|()| whole.state(8, 8).unwrap());
    // Also in steps of one token.
    for tokens in [&PROMPT[..3], &PROMPT[3..]] {
        assert_eq!(prompt(&leaving, &mut a, tokens), prompt(&whole, &mut b, tokens));
        prompt(&shorter, &mut c, tokens);
    }
    assert_eq!(a.decoded_layers().mean(), None, "a prompt is no decoded token");
    for token in [5, 6] {
        let found = decode(&leaving, &mut a, token);
        assert_eq!(found, decode(&shorter, &mut c, token));
        assert!(found != decode(&whole, &mut b, token));
    }
    assert_eq!(a.decoded_layers().mean(), Some(3.0));
    assert_eq!(b.decoded_layers().mean(), Some(6.0));
}

#[test]
fn a_classifier_that_is_not_sure_changes_nothing_and_none_is_certain() {
    for (bias, threshold) in [(2.0, 0.9), (1e9, 1.0)] {
        let whole = decoder(model());
        let unsure = decoder(model()).with_early_exit(exit(bias), threshold).unwrap();
        let [mut a, mut b] = [(); 2].map(|()| whole.state(8, 8).unwrap());
        assert_eq!(prompt(&whole, &mut a, &PROMPT), prompt(&unsure, &mut b, &PROMPT));
        for token in [5, 6] {
            assert_eq!(
                decode(&whole, &mut a, token),
                decode(&unsure, &mut b, token),
                "{bias} at {threshold}"
            );
        }
        assert_eq!(b.decoded_layers().mean(), Some(6.0));
    }
}

#[test]
fn layers_that_were_left_out_have_keys_and_values_of_the_state_that_was_left_with() {
    let (whole, leaving) = (decoder(model()), decoder(model()).with_early_exit(exit(4.0), 0.9).unwrap());
    // Layers that add nothing still make keys and values, of what passes through them.
    let mut passing = model();
    for layer in &mut passing.layers[3..] {
        let Some(qsf_runtime::Mixer::Attention(attention)) = &mut layer.mixer else { panic!("attention") };
        attention.output.weight = zeros(&attention.output.weight);
        let Some(FeedForward::Dense(mlp)) = &mut layer.ffn else { panic!("experts") };
        mlp.down.weight = zeros(&mlp.down.weight);
    }
    let passing = decoder(passing);
    let [mut a, mut b] = [(); 2].map(|()| whole.state(8, 8).unwrap());
    prompt(&whole, &mut a, &PROMPT);
    prompt(&whole, &mut b, &PROMPT);
    assert_eq!(decode(&leaving, &mut a, 5), decode(&passing, &mut b, 5));
    assert_eq!(decode(&whole, &mut a, 6), decode(&whole, &mut b, 6));
}

/// As many weights, all 0.
fn zeros(of: &Weight) -> Weight {
    Weight::Resident(Tensor::from_f32(of.rows(), of.cols(), &vec![0.0; of.rows() * of.cols()]))
}

#[test]
fn layers_that_are_skipped_are_no_place_to_leave_and_exits_of_another_model_are_refused() {
    let skipping = decoder(model()).without_layers(&[2]).with_early_exit(exit(4.0), 0.9).unwrap();
    let without = decoder(model()).without_layers(&[2]);
    let [mut a, mut b] = [(); 2].map(|()| without.state(8, 8).unwrap());
    assert_eq!(prompt(&skipping, &mut a, &PROMPT), prompt(&without, &mut b, &PROMPT));
    assert_eq!(decode(&skipping, &mut a, 5), decode(&without, &mut b, 5));
    let narrow = EarlyExits { cols: HIDDEN - 1, ..(*exit(0.0)).clone() };
    assert!(decoder(model()).with_early_exit(narrow.into(), 0.5).is_err());
    let mut beyond = (*exit(0.0)).clone();
    beyond.exits[0].layer = LAYERS as u32;
    assert!(decoder(model()).with_early_exit(beyond.into(), 0.5).is_err());
}
