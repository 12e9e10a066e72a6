//! Parts of layers, of every architecture that there is a small model of: halves that do what the whole does, and outputs that are
//! added where an observer was told.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::{InputObserver, LayerRunner, LayerWeights, LinearInput};

const TOKENS: usize = 7;

/// What a matrix is given, and what its outputs are added to.
#[derive(Default)]
struct Added {
    told: BTreeMap<LinearInput, (Vec<f32>, f32)>,
    read: BTreeMap<LinearInput, Vec<f32>>,
}

impl InputObserver for Added {
    fn adds_to(&mut self, input: LinearInput, stream: &[f32], factor: f32) {
        assert!(!self.read.contains_key(&input), "told too late of {input:?}");
        self.told.insert(input, (stream.to_vec(), factor));
    }

    fn observe(&mut self, input: LinearInput, _cols: usize, rows: &[f32]) -> ControlFlow<()> {
        self.read.insert(input, rows.to_vec());
        ControlFlow::Continue(())
    }
}

/// All models that the reference implementation has made outputs of.
fn for_each_model(mut work: impl FnMut(&str, &dyn WeightSource)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names.iter().filter(|name| folder.join(name).join("config.json").exists()) {
        let model = source::open(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        work(name, &*model);
    }
}

fn tokens(source: &dyn WeightSource) -> Vec<u32> {
    (0..TOKENS as u32).map(|i| (i * 37 + 11) % source.config().vocab).collect()
}

#[test]
fn halves_of_a_layer_give_the_same_bits_as_the_layer() {
    let mut split = 0;
    for_each_model(|name, source| {
        let tokens = tokens(source);
        let mut runner = LayerRunner::new(source, Cpu::new(Isa::best())).unwrap();
        let mut hidden = runner.embed(&tokens).unwrap().to_vec();
        for layer in 0..source.config().layers {
            let load = || LayerWeights::load(source, layer).unwrap();
            let halves = load().in_halves(source.config());
            let mut by_halves = hidden.clone();
            runner.choose(0, &tokens);
            for half in &halves {
                let flow = runner.run(layer as usize, half, &mut by_halves, &mut Added::default()).unwrap();
                assert!(flow.is_continue());
            }
            let flow = runner.run(layer as usize, &load(), &mut hidden, &mut Added::default()).unwrap();
            assert!(flow.is_continue());
            assert!(hidden == by_halves, "{name}, layer {layer}, in {}", halves.len());
            split += halves.len() - 1;
        }
    });
    assert!(split > 100, "{split} layers in halves");
}

#[test]
fn outputs_of_a_matrix_are_added_where_the_observer_is_told() {
    let (mut behind_attention, mut behind_down) = (0, 0);
    for_each_model(|name, source| {
        let config = source.config();
        let (tokens, width) = (tokens(source), config.hidden as usize);
        let mut runner = LayerRunner::new(source, Cpu::new(Isa::best())).unwrap();
        let mut hidden = runner.embed(&tokens).unwrap().to_vec();
        for layer in 0..config.layers {
            let weights = LayerWeights::load(source, layer).unwrap();
            let (plain, alone) =
                (weights.scale.is_none() && weights.per_layer.is_none(), weights.ffn.is_none());
            let mut added = Added::default();
            runner.choose(0, &tokens);
            assert!(runner.run(layer as usize, &weights, &mut hidden, &mut added).unwrap().is_continue());
            let check = |input, kind, bias, then: &[f32]| {
                let Some((stream, factor)) = added.told.get(&input) else { return 0 };
                let matrix = source.load(TensorId::of_layer(layer, kind)).unwrap();
                let bias = source.load(TensorId::of_layer(layer, bias)).map(|bias| bias.to_f32());
                let (matrix, cols) = (matrix.to_f32(), matrix.cols());
                for (t, x) in added.read[&input].chunks_exact(cols).enumerate() {
                    for (i, row) in matrix.chunks_exact(cols).enumerate() {
                        let dot: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                        let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
                        let expected = f64::from(stream[t * width + i]) + f64::from(*factor) * (dot + bias);
                        let found = f64::from(then[t * width + i]);
                        let close = (found - expected).abs() <= 1e-4 * expected.abs().max(1.0);
                        assert!(close, "{name}, layer {layer}, {input:?}: {found} for {expected}");
                    }
                }
                1
            };
            let then = match added.told.get(&LinearInput::FfnDown) {
                Some((stream, _)) => Some(stream.as_slice()),
                None if alone => Some(hidden.as_slice()),
                None => None,
            };
            use TensorKind::*;
            if let Some(then) = then {
                behind_attention += check(LinearInput::AttnOutput, AttnOutput, AttnOutputBias, then);
                behind_attention += check(LinearInput::MixerOutput, MixerOutput, MixerOutputBias, then);
            }
            if plain {
                behind_down += check(LinearInput::FfnDown, FfnDown, FfnDownBias, &hidden);
            }
        }
    });
    assert!(behind_attention > 60 && behind_down > 60, "{behind_attention} and {behind_down}");
}
