//! Statistics against sums in f64, and the quantized stream against models that are quantized as far.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use qsf_calibration::*;
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::progress::{Cancel, Unwatched};
use qsf_runtime::source::{Replaced, Tensor, WeightSource, open};
use qsf_runtime::{InputObserver, LayerRunner, LayerWeights, LinearInput, RuntimeError};

/// Models of random weights and awkward shapes: a plain one, norms before and behind, attention beside the feed-forward,
/// experts.
const MODELS: [&str; 4] = ["llama", "gemma2", "phi", "mixtral"];

fn model(name: &str) -> Box<dyn WeightSource> {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name)).unwrap()
}

fn best() -> Cpu {
    Cpu::new(Isa::best())
}

/// Two chunks and a part of a third.
fn tokens(source: &dyn WeightSource) -> Vec<u32> {
    let config = source.config();
    let chunk = config.max_positions.min(512);
    (0..2 * chunk + chunk / 3).map(|i| (i * 37 + 11) % config.vocab).collect()
}

fn statistics(source: &dyn WeightSource, cpu: &Cpu, detail: Detail) -> Statistics {
    collect(source, cpu, &tokens(source), detail, &Unwatched, &Cancel::default()).unwrap()
}

/// Keeps all rows of all inputs.
#[derive(Default)]
struct Record(BTreeMap<LinearInput, (usize, Vec<f32>)>);

impl InputObserver for Record {
    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        let kept = self.0.entry(input).or_default();
        kept.0 = cols;
        kept.1.extend(rows);
        ControlFlow::Continue(())
    }
}

#[test]
fn statistics_are_the_means_over_all_tokens() {
    for name in MODELS {
        let source = model(name);
        let tokens = tokens(&*source);
        let stats = statistics(&*source, &best(), Detail::Full);
        assert_eq!(stats.tokens(), tokens.len() as u64);
        let mut runner = LayerRunner::new(&*source, best()).unwrap();
        let mut chunks: Vec<Vec<f32>> =
            tokens.chunks(runner.chunk()).map(|chunk| runner.embed(chunk).unwrap().to_vec()).collect();
        for layer in 0..source.config().layers {
            let weights = LayerWeights::load(&*source, layer).unwrap();
            let (mut record, mut cosines) = (Record::default(), 0.0);
            for chunk in &mut chunks {
                let before = chunk.clone();
                let _ = runner.run(layer as usize, &weights, chunk, &mut record).unwrap();
                let width = source.config().hidden as usize;
                cosines +=
                    before.chunks(width).zip(chunk.chunks(width)).map(|(a, b)| cosine(a, b)).sum::<f64>();
            }
            let found = stats.layer(Some(layer)).unwrap();
            let influence = 1.0 - cosines / tokens.len() as f64;
            assert!((found.influence.unwrap() - influence).abs() < 1e-5, "{name} layer {layer}: {influence}");
            assert_eq!(
                found.inputs.keys().collect::<Vec<_>>(),
                record.0.keys().collect::<Vec<_>>(),
                "{name}"
            );
            for (input, (cols, rows)) in &record.0 {
                check(&format!("{name} layer {layer} {input:?}"), &found.inputs[input], *cols, rows);
            }
        }
        let rows: Vec<f32> =
            chunks.iter().flat_map(|chunk| runner.head_input(chunk).unwrap().to_vec()).collect();
        let head = &stats.layer(None).unwrap().inputs[&LinearInput::Head];
        check(&format!("{name} head"), head, source.config().hidden as usize, &rows);
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Compares with sums in f64.
fn check(what: &str, found: &Moments, cols: usize, rows: &[f32]) {
    let tokens = (rows.len() / cols) as f64;
    assert_eq!((found.cols(), found.tokens()), (cols, tokens as u64), "{what}");
    let mean_of = |f: &dyn Fn(&[f32]) -> f64| rows.chunks(cols).map(f).sum::<f64>() / tokens;
    let second = found.second_moment().unwrap();
    let squares: Vec<f64> = (0..cols).map(|i| mean_of(&|row| f64::from(row[i]).powi(2))).collect();
    for i in 0..cols {
        assert!((found.mean_square()[i] - squares[i]).abs() <= 1e-12 * squares[i], "{what}");
        assert!(
            (found.mean()[i] - mean_of(&|row| f64::from(row[i]))).abs() <= 1e-9 * squares[i].sqrt(),
            "{what}"
        );
        for j in (0..cols).step_by(3) {
            let expected = mean_of(&|row| f64::from(row[i]) * f64::from(row[j]));
            let error = (f64::from(second[i * cols + j]) - expected).abs();
            assert!(error <= 2e-6 * (squares[i] * squares[j]).sqrt(), "{what}: {i}, {j}: {error}");
            assert_eq!(second[i * cols + j], second[j * cols + i], "{what}");
        }
    }
}

#[test]
fn statistics_have_the_same_bits_on_every_instruction_set_and_thread_count() {
    let source = model("mixtral");
    let oracle = statistics(&*source, &Cpu::with_threads(Isa::SCALAR, 1).unwrap(), Detail::Full);
    for isa in Isa::available() {
        for threads in [1, 3] {
            let found = statistics(&*source, &Cpu::with_threads(isa, threads).unwrap(), Detail::Full);
            assert!(found == oracle, "{isa:?}, {threads} threads");
        }
    }
    let cheap = statistics(&*source, &best(), Detail::Diagonal);
    for id in source.tensors().iter().map(|info| info.id) {
        assert_eq!(cheap.importance(id, false), oracle.importance(id, false), "{id}");
    }
}

/// Quantizes by halving the values of the middle of each matrix of a stage, and keeps the steps.
struct Halving<'a> {
    source: &'a dyn WeightSource,
    replaced: Replaced<'a>,
    steps: Vec<(u32, Step)>,
    /// Layers below were quantized before.
    finished: u32,
}

impl<'a> Halving<'a> {
    fn new(source: &'a dyn WeightSource) -> Halving<'a> {
        Halving { source, replaced: Replaced::new(source), steps: Vec::new(), finished: 0 }
    }

    fn replace(&mut self, layer: u32, stages: &[Stage]) {
        for id in self.source.tensors().iter().map(|info| info.id) {
            if id.layer == Some(layer) && stage_of(id.kind).is_some_and(|stage| stages.contains(&stage)) {
                self.replaced.replace(id, halved(&self.source.load(id).unwrap())).unwrap();
            }
        }
    }
}

impl LayerQuantizer for Halving<'_> {
    type Error = RuntimeError;

    fn finished(&mut self, layer: u32) -> Result<Option<LayerWeights>, RuntimeError> {
        if layer >= self.finished {
            return Ok(None);
        }
        self.replace(layer, &Stage::ALL);
        LayerWeights::load(&self.replaced, layer).map(Some)
    }

    fn quantize(&mut self, layer: u32, step: Step) -> Result<LayerWeights, RuntimeError> {
        assert_eq!(step.stats.layer, Some(layer));
        self.replace(layer, step.stage.as_slice());
        self.steps.push((layer, step));
        LayerWeights::load(&self.replaced, layer)
    }
}

fn stage_of(kind: TensorKind) -> Option<Stage> {
    use TensorKind::*;
    match kind {
        AttnQ | AttnK | AttnV => Some(Stage::Attention),
        AttnOutput => Some(Stage::AttnOutput),
        FfnGate | FfnUp | ExpertGate | ExpertUp => Some(Stage::Ffn),
        FfnDown | ExpertDown => Some(Stage::FfnDown),
        _ => None,
    }
}

fn halved(tensor: &Tensor) -> Tensor {
    let mut values = tensor.to_f32();
    let len = values.len();
    values[len / 3..2 * len / 3].iter_mut().for_each(|value| *value *= 0.5);
    Tensor::from_f32(tensor.rows(), tensor.cols(), &values)
}

fn run(quantizer: &mut Halving<'_>) -> Step {
    let source = quantizer.source;
    let (tokens, cancel) = (tokens(source), Cancel::default());
    run_streams(source, source, &best(), &tokens, quantizer, &Unwatched, &cancel).unwrap()
}

/// The model quantized up to, and without, a stage of a layer.
fn quantized_before(source: &dyn WeightSource, layer: u32, stage: Stage) -> Replaced<'_> {
    let mut quantizer = Halving::new(source);
    (0..layer).for_each(|layer| quantizer.replace(layer, &Stage::ALL));
    Stage::ALL
        .into_iter()
        .filter(|before| *before < stage)
        .for_each(|before| quantizer.replace(layer, &[before]));
    quantizer.replaced
}

#[test]
fn every_step_sees_what_all_that_is_quantized_before_leaves() {
    for name in MODELS {
        let source = model(name);
        let mut quantizer = Halving::new(&*source);
        let head = run(&mut quantizer);
        assert_eq!(quantizer.steps.len(), source.config().layers as usize * Stage::ALL.len());
        for (layer, step) in &quantizer.steps {
            let before = quantized_before(&*source, *layer, step.stage.unwrap());
            let expected = statistics(&before, &best(), Detail::Full);
            let expected = &expected.layer(Some(*layer)).unwrap().inputs;
            let expected: BTreeMap<_, _> =
                expected.iter().filter(|(input, _)| Stage::of(**input) == step.stage).collect();
            let found: BTreeMap<_, _> = step.stats.inputs.iter().collect();
            assert!(found == expected, "{name} layer {layer} {:?}", step.stage);
            assert!(!found.is_empty());
        }
        let whole = statistics(&quantizer.replaced, &best(), Detail::Full);
        assert!(head.stats == *whole.layer(None).unwrap(), "{name}: the head");
    }
}

/// What enters each layer, and the inputs in it, of all tokens.
fn recorded(source: &dyn WeightSource) -> Vec<(Vec<f32>, Record)> {
    let mut runner = LayerRunner::new(source, best()).unwrap();
    let mut chunks: Vec<Vec<f32>> =
        tokens(source).chunks(runner.chunk()).map(|chunk| runner.embed(chunk).unwrap().to_vec()).collect();
    let layer = |layer| {
        let weights = LayerWeights::load(source, layer).unwrap();
        let (entering, mut record) = (chunks.concat(), Record::default());
        for chunk in &mut chunks {
            let _ = runner.run(layer as usize, &weights, chunk, &mut record).unwrap();
        }
        (entering, record)
    };
    (0..source.config().layers).map(layer).collect()
}

#[test]
fn residual_moments_are_of_what_the_stream_lacks_that_outputs_are_added_to() {
    let source = model("llama");
    let mut quantizer = Halving::new(&*source);
    run(&mut quantizer);
    let full = recorded(&*source);
    let width = source.config().hidden as usize;
    for (layer, step) in &quantizer.steps {
        let stage = step.stage.unwrap();
        let quantized = recorded(&quantized_before(&*source, *layer, stage));
        let [full, quantized] = [&full[*layer as usize], &quantized[*layer as usize]];
        // Behind attention, the stream is what enters the layer and what the matrix makes of its input.
        let behind = |(entering, record): &(Vec<f32>, Record), model: &dyn WeightSource| -> Vec<f64> {
            let mut stream: Vec<f64> = entering.iter().map(|v| f64::from(*v)).collect();
            if stage == Stage::FfnDown {
                let output = model.load(TensorId::of_layer(*layer, TensorKind::AttnOutput)).unwrap().to_f32();
                let (cols, rows) = &record.0[&LinearInput::AttnOutput];
                for (stream, x) in stream.chunks_exact_mut(width).zip(rows.chunks_exact(*cols)) {
                    for (stream, w) in stream.iter_mut().zip(output.chunks_exact(*cols)) {
                        *stream += w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
                    }
                }
            }
            stream
        };
        let input = match stage {
            Stage::AttnOutput => LinearInput::AttnOutput,
            Stage::FfnDown => LinearInput::FfnDown,
            _ => {
                assert!(step.residual.is_empty());
                continue;
            }
        };
        let (cols, rows) = &quantized.1.0[&input];
        let tokens = rows.len() / cols;
        let (full, quantized) =
            (behind(full, &*source), behind(quantized, &quantized_before(&*source, *layer, stage)));
        let found = &step.residual[&input];
        assert_eq!((found.rows(), found.cols(), found.tokens()), (width, *cols, tokens as u64));
        let found = found.clone().into_mean();
        let lacking = |t: usize, i: usize| full[t * width + i] - quantized[t * width + i];
        for at in (0..width * cols).step_by(7) {
            let (i, j) = (at / cols, at % cols);
            let mean = |of: &dyn Fn(usize) -> f64| (0..tokens).map(of).sum::<f64>() / tokens as f64;
            let expected = mean(&|t| lacking(t, i) * f64::from(rows[t * cols + j]));
            let size = mean(&|t| lacking(t, i).powi(2)) * mean(&|t| f64::from(rows[t * cols + j]).powi(2));
            let error = (f64::from(found[at]) - expected).abs();
            assert!(error <= 1e-5 * size.sqrt() + 1e-7, "{layer} {stage:?}: {i}, {j}: {error}");
        }
        // Before the first layer nothing is quantized here.
        assert_eq!(found.iter().all(|v| *v == 0.0), *layer == 0 && stage == Stage::AttnOutput);
    }
}

#[test]
fn cross_moments_are_of_both_streams_and_of_inputs_that_all_tokens_have() {
    for name in MODELS {
        let source = model(name);
        // The cross moment of the first input, and of a stream with itself, is the second moment.
        let mut quantizer = Halving::new(&*source);
        let head = run(&mut quantizer);
        let original = statistics(&*source, &best(), Detail::Full);
        for (i, (layer, step)) in quantizer.steps.iter().enumerate() {
            for (input, cross) in &step.cross {
                let what = format!("{name} layer {layer} {input:?}");
                let moments = &step.stats.inputs[input];
                assert_eq!((cross.cols(), cross.tokens()), (moments.cols(), moments.tokens()), "{what}");
                let (cross, second) = (cross.clone().into_mean(), moments.second_moment().unwrap());
                // Beside attention, the feed-forward of the first layer reads the same stream.
                let same = i == 0 || (name, *layer, input) == ("phi", 0, &LinearInput::Ffn);
                assert_eq!(cross == second, same, "{what}");
                // By Cauchy and Schwarz, with the two streams on the right sides.
                let full = original.layer(Some(*layer)).unwrap().inputs[input].mean_square();
                let (n, quantized) = (full.len(), moments.mean_square());
                for at in 0..n * n {
                    let bound = (full[at / n] * quantized[at % n]).sqrt();
                    assert!(f64::from(cross[at].abs()) <= bound * (1.0 + 1e-5), "{what}");
                }
            }
            let shared: Vec<_> = step.stats.inputs.keys().filter(|input| !of_expert(**input)).collect();
            assert_eq!(step.cross.keys().collect::<Vec<_>>(), shared, "{name}");
        }
        assert!(head.cross.contains_key(&LinearInput::Head));
    }
}

fn of_expert(input: LinearInput) -> bool {
    matches!(input, LinearInput::ExpertFfn(_) | LinearInput::ExpertDown(_))
}

#[test]
fn layers_that_were_finished_before_lead_to_the_same_steps() {
    for name in ["gemma2", "llama"] {
        let source = model(name);
        let mut all = Halving::new(&*source);
        let head = run(&mut all);
        let mut rest = Halving { finished: 1, ..Halving::new(&*source) };
        assert!(run(&mut rest) == head);
        all.steps.retain(|(layer, _)| *layer >= 1);
        assert!(!rest.steps.is_empty() && rest.steps == all.steps);
    }
}

#[test]
fn an_expert_that_too_few_tokens_go_through_has_the_moments_of_all() {
    let source = model("mixtral");
    let config = source.config().experts.clone().unwrap();
    let few: Vec<u32> = vec![3; 2];
    let run = |tokens: &[u32]| {
        collect(&*source, &best(), tokens, Detail::Full, &Unwatched, &Cancel::default()).unwrap()
    };
    let stats = run(&few);
    let layer = stats.layer(Some(0)).unwrap();
    let coverage = layer.coverage(config.count);
    assert_eq!(coverage.iter().sum::<u64>(), 2 * u64::from(config.used));
    let never = coverage.iter().position(|tokens| *tokens == 0).unwrap() as u32;
    for expert in [never, coverage.iter().position(|tokens| *tokens > 0).unwrap() as u32] {
        let gate = layer.moments(TensorKind::ExpertGate, Some(expert)).unwrap();
        assert_eq!(*gate, layer.inputs[&LinearInput::Ffn]);
        let down = layer.moments(TensorKind::ExpertDown, Some(expert)).unwrap();
        assert_eq!(down.tokens(), 2 * u64::from(config.used));
    }
    let many = run(&(0..40_000).map(|i| (i * 37 + i / 7) % source.config().vocab).collect::<Vec<_>>());
    let layer = many.layer(Some(0)).unwrap();
    let expert = (0..config.count).max_by_key(|e| layer.coverage(config.count)[*e as usize]).unwrap();
    let gate = layer.moments(TensorKind::ExpertGate, Some(expert)).unwrap();
    assert_eq!(*gate, layer.inputs[&LinearInput::ExpertFfn(expert)]);
    let down = layer.moments(TensorKind::ExpertDown, Some(expert)).unwrap();
    assert_eq!(*down, layer.inputs[&LinearInput::ExpertDown(expert)]);
}

#[test]
fn no_column_of_a_tied_embedding_is_worthless() {
    let source = model("llama");
    let stats = statistics(&*source, &best(), Detail::Diagonal);
    let embedding = TensorId::of_model(TensorKind::TokenEmbedding);
    let (tied, head) =
        (stats.importance(embedding, true), stats.importance(TensorId::of_model(TensorKind::Head), true));
    assert!(tied.unwrap().iter().zip(head.unwrap()).all(|(tied, head)| *tied > head));
    assert_eq!(stats.importance(embedding, false), None);
    assert_eq!(stats.importance(TensorId::of_layer(0, TensorKind::FfnNorm), false), None);
}

#[test]
fn no_tokens_and_unknown_ones_and_a_stop_are_errors() {
    let source = model("llama");
    let run = |tokens: &[u32], cancel: &Cancel| {
        collect(&*source, &best(), tokens, Detail::Diagonal, &Unwatched, cancel).map(|_| ())
    };
    let message = |tokens: &[u32]| run(tokens, &Cancel::default()).unwrap_err().to_string();
    assert!(message(&[]).contains("empty"));
    assert!(message(&[source.config().vocab]).contains("beyond the model's vocabulary"));
    let cancel = Cancel::default();
    cancel.request();
    assert!(matches!(run(&[1], &cancel), Err(RuntimeError::Interrupted)));
}
