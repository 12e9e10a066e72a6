//! What a decoder promises of layers that carry a state: any steps give the same bits, a step that fails changes nothing, and what
//! cannot be done with such a state is refused.

use std::sync::Arc;

use crate::random_model::RandomModel;
use qsf_format::{
    EarlyExits, HalfLayers, ModelConfig, Multipliers, NormPlacement, QkNorm, QuantType, Recurrent,
    RecurrentMixer,
};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::progress::Cancel;
use qsf_runtime::{Activations, Decoder, DecoderState, KvKeep, KvOptions, KvPolicy, StateBytes};

/// Delta nets but in the second layer, which has gated attention.
pub fn gated_delta(config: ModelConfig) -> ModelConfig {
    let mixer = RecurrentMixer::GatedDelta { key_heads: 2, key_dim: 20, value_heads: 6, value_dim: 12 };
    let layers = (0..config.layers).filter(|layer| *layer != 1).collect();
    ModelConfig {
        recurrent: Some(Recurrent::new(mixer, 4, layers)),
        attention_gate: true,
        qk_norm: Some(QkNorm::Head),
        ..config
    }
}

/// Delta nets in which each channel of a key decays for itself.
pub fn by_channel(config: ModelConfig) -> ModelConfig {
    let mut config = gated_delta(config);
    if let Some(recurrent) = &mut config.recurrent {
        recurrent.mixer =
            RecurrentMixer::GatedDelta { key_heads: 3, key_dim: 20, value_heads: 3, value_dim: 12 };
        recurrent.channel_rank = Some(7);
    }
    config
}

/// Delta nets with norms before their parts and rates up to 2, and attention with norms behind its parts.
pub fn by_mixer(config: ModelConfig) -> ModelConfig {
    let mut config = gated_delta(config);
    config.norm.placement = NormPlacement::ByMixer;
    if let Some(recurrent) = &mut config.recurrent {
        (recurrent.beta_scale, recurrent.norm_epsilon) = (Some(2.0), Some(1e-3));
    }
    config
}

/// A short convolution in the first layer.
pub fn short_conv(config: ModelConfig) -> ModelConfig {
    let recurrent = Recurrent::new(RecurrentMixer::ShortConv {}, 3, vec![0]);
    ModelConfig { recurrent: Some(recurrent), ..config }
}

/// Mamba-2 in all layers but the last.
pub fn mamba2(config: ModelConfig) -> ModelConfig {
    let mixer = RecurrentMixer::Mamba2 { heads: 4, head_dim: 12, groups: 2, state: 20 };
    let recurrent = Recurrent::new(mixer, 4, (0..config.layers - 1).collect());
    ModelConfig { recurrent: Some(recurrent), ..config }
}

/// Mamba-1 with norms in all layers but the last.
pub fn mamba1(config: ModelConfig) -> ModelConfig {
    let mixer =
        RecurrentMixer::Mamba1 { width: 52, state: 20, rank: 5, norm_epsilon: Some(1e-5), norm_gains: true };
    let recurrent = Recurrent::new(mixer, 4, (0..config.layers - 1).collect());
    ModelConfig { recurrent: Some(recurrent), ..config }
}

/// Mamba-2 without a norm beside attention in the first layers, and factors of all parts.
pub fn beside_attention(config: ModelConfig) -> ModelConfig {
    let mut config = mamba2(config);
    if let Some(recurrent) = &mut config.recurrent {
        (recurrent.beside_attention, recurrent.without_norm) = (true, true);
    }
    let multipliers = Multipliers {
        attention: 0.9,
        mixer: 1.25,
        mixer_gate: 0.75,
        mixer_inputs: [1.1, 0.8, 1.3],
        mixer_step: 0.7,
        ffn_gate: 1.4,
        ffn: 0.6,
    };
    ModelConfig { multipliers: Some(multipliers), ..config }
}

/// Mamba-2 alone, attention alone, a feed-forward alone.
pub fn half_layers(config: ModelConfig) -> ModelConfig {
    let mixer = RecurrentMixer::Mamba2 { heads: 4, head_dim: 12, groups: 2, state: 20 };
    ModelConfig {
        recurrent: Some(Recurrent::new(mixer, 4, vec![0])),
        half_layers: Some(HalfLayers { mixer: vec![0, 1], feed_forward: (2..config.layers).collect() }),
        ..config
    }
}

/// With states whose rows become lanes in long steps, some of them.
fn turned(mut config: ModelConfig) -> ModelConfig {
    if let Some(recurrent) = &mut config.recurrent {
        recurrent.mixer = match recurrent.mixer {
            RecurrentMixer::GatedDelta { key_heads, value_heads, .. } => {
                RecurrentMixer::GatedDelta { key_heads, key_dim: 32, value_heads, value_dim: 50 }
            }
            RecurrentMixer::Mamba2 { heads, groups, .. } => {
                RecurrentMixer::Mamba2 { heads, head_dim: 50, groups, state: 32 }
            }
            other => other,
        };
    }
    config
}

fn config() -> ModelConfig {
    ModelConfig {
        architecture: "test".into(),
        layers: 3,
        hidden: 48,
        heads: 3,
        kv_heads: 1,
        head_dim: 24,
        ffn: 68,
        vocab: 90,
        max_positions: 700,
        gated_ffn: true,
        position: qsf_format::PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    }
}

fn models() -> Vec<RandomModel> {
    vec![
        RandomModel::new(gated_delta(config()), QuantType::F32),
        RandomModel::new(gated_delta(config()), QuantType::Q8),
        RandomModel::new(by_mixer(config()), QuantType::F32),
        RandomModel::new(by_channel(config()), QuantType::F32),
        RandomModel::new(by_channel(config()), QuantType::Q8),
        RandomModel::new(short_conv(config()), QuantType::F32),
        RandomModel::new(mamba2(config()), QuantType::F32),
        RandomModel::new(mamba1(config()), QuantType::F32),
        RandomModel::new(mamba1(config()), QuantType::Q8),
        RandomModel::new(half_layers(config()), QuantType::F32),
        RandomModel::new(beside_attention(config()), QuantType::F32),
        RandomModel::new(beside_attention(config()), QuantType::Q8),
        RandomModel::new(turned(gated_delta(config())), QuantType::F32),
        RandomModel::new(turned(by_channel(config())), QuantType::F32),
        RandomModel::new(turned(mamba2(config())), QuantType::F32),
    ]
}

fn best() -> Cpu {
    Cpu::new(Isa::best())
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 37 + 11) % 90).collect()
}

fn run(decoder: &Decoder, state: &mut DecoderState, tokens: &[u32]) -> Vec<f32> {
    decoder.forward(state, tokens).unwrap();
    let mut rows = vec![0.0; tokens.len() * 90];
    decoder.logits(state, 0..tokens.len(), &mut rows).unwrap();
    rows
}

fn in_steps(decoder: &Decoder, tokens: &[u32], step: usize) -> Vec<f32> {
    let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
    tokens.chunks(step).flat_map(|tokens| run(decoder, &mut state, tokens)).collect()
}

#[test]
fn prompts_in_one_step_in_two_and_token_by_token_give_the_same_bits_everywhere() {
    for model in models() {
        for count in [1, 7, 64, 65, 300] {
            let tokens = tokens(count);
            let decoder = model.decoder(best(), None);
            let whole = in_steps(&decoder, &tokens, tokens.len());
            assert!(whole.iter().all(|logit| logit.is_finite()));
            for step in [tokens.len().div_ceil(2), 1] {
                assert!(in_steps(&decoder, &tokens, step) == whole, "{count} tokens in steps of {step}");
            }
            let scalar = model.decoder(Cpu::with_threads(Isa::SCALAR, 1).unwrap(), None);
            assert!(count > 65 || in_steps(&scalar, &tokens, 5) == whole, "{count} tokens, plain");
        }
    }
}

#[test]
fn the_past_matters_beyond_what_convolutions_see() {
    let decoder =
        RandomModel::new(gated_delta(config()), QuantType::F32).decoder(best(), Some(Activations::F32));
    let (mut one, mut other) = (tokens(40), tokens(40));
    (one[0], other[0]) = (1, 2);
    let last = |tokens: &[u32]| in_steps(&decoder, tokens, 40)[39 * 90..].to_vec();
    assert_ne!(last(&one), last(&other));
}

#[test]
fn a_step_that_is_stopped_leaves_the_state_as_it_was() {
    for model in models() {
        let cancel = Cancel::default();
        let decoder = model.decoder(best(), None).stop_on(&cancel);
        let whole = in_steps(&decoder, &tokens(20), 20);
        let mut state = decoder.state(20, 20).unwrap();
        run(&decoder, &mut state, &tokens(20)[..9]);
        // Stopped behind the first layer, whose state was written.
        let watched = decoder.forward_watched(&mut state, &[1, 2, 3], &mut |_, _| cancel.request());
        assert!(watched.is_err());
        cancel.withdraw();
        assert_eq!(state.position(), 9);
        assert!(run(&decoder, &mut state, &tokens(20)[9..]) == whole[9 * 90..]);
    }
}

#[test]
fn only_the_beginning_can_be_gone_back_to() {
    for model in models() {
        let decoder = model.decoder(best(), None);
        let mut state = decoder.state(20, 20).unwrap();
        let first = run(&decoder, &mut state, &tokens(20));
        let error = state.rewind(7).unwrap_err().to_string();
        assert!(error.contains("position 7") && error.contains("recurrent"), "{error}");
        assert_eq!(state.position(), 20, "a refusal changes nothing");
        state.rewind(20).unwrap();
        state.rewind(0).unwrap();
        assert!(run(&decoder, &mut state, &tokens(20)) == first);
    }
}

#[test]
fn memory_of_states_is_counted_and_only_layers_with_attention_have_keys() {
    let whole = ModelConfig { recurrent: None, ..config() };
    let of = |config: &ModelConfig, context| StateBytes::of(config, context, 1, KvOptions::default()).kv;
    let delta = gated_delta(config());
    let states = 2 * 2 * 4 * (3 * (2 * 40 + 72) + 72 * 32);
    assert_eq!(of(&delta, 256), of(&whole, 256) / 3 + states);
    assert_eq!(of(&delta, 512) - states, 2 * (of(&delta, 256) - states));
    // Two of the three layers have both.
    let states = 2 * 2 * 4 * (3 * (48 + 2 * 2 * 20) + 48 * 32);
    assert_eq!(of(&beside_attention(config()), 256), of(&whole, 256) + states);
}

#[test]
fn positions_of_attention_can_be_let_go_and_where_there_is_none_that_is_refused() {
    let keep = Some(KvKeep { positions: 32, policy: KvPolicy::Window });
    let model = RandomModel::new(gated_delta(config()), QuantType::F32);
    let decoder = model.decoder(best(), None);
    let mut state = decoder.state_with(400, 10, KvOptions { keep, ..KvOptions::default() }).unwrap();
    for step in tokens(300).chunks(10) {
        assert!(run(&decoder, &mut state, step).iter().all(|logit| logit.is_finite()));
    }
    let mut config = gated_delta(config());
    config.recurrent.as_mut().unwrap().layers = vec![0, 1, 2];
    let decoder = RandomModel::new(config, QuantType::F32).decoder(best(), None);
    let error = decoder.state_with(400, 10, KvOptions { keep, ..KvOptions::default() }).err().unwrap();
    assert!(error.to_string().contains("--kv-window: no layer"), "{error}");
}

#[test]
fn early_exits_are_refused() {
    let exits = Arc::new(EarlyExits { cols: 48, positions: 1, exits: Vec::new() });
    let decoder = RandomModel::new(gated_delta(config()), QuantType::F32).decoder(best(), None);
    let error = decoder.with_early_exit(exits, 0.5).err().unwrap().to_string();
    assert!(error.contains("recurrent layers"), "{error}");
}
