//! The forward pass against the decoder, gradients against small steps, and the bits of several threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::eval::GoldenExpectation;
use qsf_runtime::progress::{Cancel, Unwatched};
use qsf_runtime::source::{Replaced, Tensor, WeightSource, open};
use qsf_runtime::{Activations, Decoder, Model, Result};

use super::{
    GradientError, GradientText, GradientVisitor, OutputMoments, Predictions, Target, check_gradients,
};

/// Gradients of all tensors, in f32.
#[derive(Default, PartialEq)]
struct Kept(BTreeMap<TensorId, Vec<f32>>);

impl GradientVisitor for Kept {
    fn gradient(&mut self, id: TensorId, gradient: &[f32]) -> Result<()> {
        assert!(self.0.insert(id, gradient.to_vec()).is_none(), "{id} comes twice");
        Ok(())
    }
}

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(folder)
}

fn tokens_of(name: &str) -> Vec<u32> {
    let path = fixtures("golden").join(name).join("expected.safetensors");
    GoldenExpectation::read(&path).unwrap().input_ids
}

/// Names of all golden models, and which part of them has no gradient.
fn golden() -> Vec<(String, Option<String>)> {
    let folders = std::fs::read_dir(fixtures("golden")).unwrap();
    let mut all: Vec<(String, Option<String>)> = folders
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| {
            let source = open(&fixtures("golden").join(&name)).unwrap();
            let refused = match check_gradients(&*source) {
                Ok(()) => None,
                Err(GradientError::Unsupported { part }) => Some(part),
                Err(other) => panic!("{name}: {other}"),
            };
            (name, refused)
        })
        .collect();
    all.sort();
    all
}

fn with_text<T>(
    source: &dyn WeightSource,
    cpu: &Cpu,
    sequences: &[&[u32]],
    work: impl FnOnce(&GradientText<'_>) -> T,
) -> T {
    work(&GradientText { source, cpu, sequences, from: 0, progress: &Unwatched, cancel: &Cancel::default() })
}

#[test]
fn models_without_gradients_are_refused_by_the_part_that_has_none() {
    let all = golden();
    let refused: Vec<&(String, Option<String>)> = all.iter().filter(|(_, part)| part.is_some()).collect();
    for (name, part) in &refused {
        println!("{name}: {}", part.as_deref().unwrap_or_default());
    }
    let part = |name: &str| all.iter().find(|(n, _)| n == name).and_then(|(_, part)| part.clone());
    assert_eq!(part("mamba2").as_deref(), Some("recurrent mixers"));
    assert_eq!(part("deepseek_v3").as_deref(), Some("attention by way of latents"));
    assert_eq!(part("gemma3n").as_deref(), Some("layers that use keys and values of others"));
    assert_eq!((part("llama"), part("gpt2"), part("gpt_oss")), (None, None, None));
    assert!(all.len() - refused.len() >= 70, "{} models have gradients", all.len() - refused.len());
}

#[test]
fn what_is_differentiated_is_what_the_decoder_computes() {
    let cpu = Cpu::from_env().unwrap();
    for (name, _) in golden().iter().filter(|(_, refused)| refused.is_none()) {
        let source = open(&fixtures("golden").join(name)).unwrap();
        let tokens = tokens_of(name);
        let vocab = source.config().vocab as usize;
        let model = Arc::new(Model::load(&*source).unwrap());
        let decoder = Decoder::new(model, cpu.clone(), Some(Activations::F32));
        let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
        decoder.forward(&mut state, &tokens).unwrap();
        let mut expected = vec![0.0; tokens.len() * vocab];
        decoder.logits(&mut state, 0..tokens.len(), &mut expected).unwrap();
        let found = with_text(&*source, &cpu, &[&tokens], |text| {
            Predictions::of(text).unwrap().logits(&cpu, 0, 0..tokens.len()).unwrap()
        });
        let of = |f: &dyn Fn(f32, f32) -> f32| -> f64 {
            expected.iter().zip(&found).map(|(a, b)| f64::from(f(*a, *b)).powi(2)).sum::<f64>().sqrt()
        };
        let error = of(&|a, b| a - b) / of(&|a, _| a);
        assert!(error < 1e-5, "{name}: {error}");
    }
}

/// Numbers between -1 and 1 that are the same everywhere.
fn noise(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    })
}

fn length(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Half along the gradient and half anywhere, of length 1.
fn direction(gradient: &[f32], seed: u64) -> Vec<f64> {
    let along: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
    let any: Vec<f64> = noise(seed).take(along.len()).collect();
    let (a, b) = (length(&along).max(1e-30), length(&any));
    let both: Vec<f64> = along.iter().zip(&any).map(|(x, y)| x / a + y / b).collect();
    let c = length(&both);
    both.iter().map(|value| value / c).collect()
}

/// The largest error of derivatives in some direction of each tensor, as a part of the gradient's length.
fn worst_step(name: &str, cpu: &Cpu) -> (f64, String) {
    let source = open(&fixtures("golden").join(name)).unwrap();
    let tokens = tokens_of(name);
    let tokens = &tokens[..tokens.len().min(40)];
    let sequences: [&[u32]; 2] = [&tokens[..25], &tokens[25..]];
    let mut kept = Kept::default();
    with_text(&*source, cpu, &sequences, |text| text.gradients(Target::Text, &mut kept)).unwrap();
    let mut worst = (0.0, String::new());
    for (seed, (id, gradient)) in kept.0.iter().enumerate() {
        let values: Vec<f64> = source.load(*id).unwrap().to_f32().iter().map(|v| f64::from(*v)).collect();
        let size = length(&gradient.iter().map(|value| f64::from(*value)).collect::<Vec<_>>());
        let direction = direction(gradient, seed as u64 + 1);
        let loss = |step: f64| {
            let moved = values.iter().zip(&direction).map(|(v, d)| (v + step * d) as f32);
            let moved: Vec<f32> = moved.collect();
            let real: f64 =
                moved.iter().zip(&values).zip(&direction).map(|((m, v), d)| (f64::from(*m) - v) * d).sum();
            let shape = source.load(*id).unwrap();
            let mut other = Replaced::new(&*source);
            other.replace(*id, Tensor::from_f32(shape.rows(), shape.cols(), &moved)).unwrap();
            (with_text(&other, cpu, &sequences, |text| text.loss(Target::Text)).unwrap(), real)
        };
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * d).sum();
        let (here, _) = loss(0.0);
        // Steps that change the loss by about a thousandth, or the tensor by a hundredth.
        let errors = [2e-3, 5e-4].map(|change| {
            let step = (change / size.max(1e-9)).min(1e-2 * length(&values).max(0.1));
            let ((above, up), (below, down)) = (loss(step), loss(-step));
            let slopes = [(above - below) / (up - down), (above - here) / up, (below - here) / down];
            // Where a token goes to another expert behind one of the steps, the loss jumps there.
            let sides = if source.config().experts.is_some() { 3 } else { 1 };
            slopes[..sides].iter().map(|slope| (slope - expected).abs()).fold(f64::INFINITY, f64::min)
        });
        let error = errors[0].min(errors[1]) / size.max(LEAST);
        if error > worst.0 {
            worst = (error, format!("{id}: {error:.2e} of {size:.2e}"));
        }
    }
    worst
}

#[test]
fn gradients_are_what_small_steps_change_the_loss_by() {
    let cpu = Cpu::from_env().unwrap();
    let mut wrong = Vec::new();
    for (name, _) in golden().iter().filter(|(_, refused)| refused.is_none()) {
        let (error, which) = worst_step(name, &cpu);
        println!("{name}: {which}");
        if error.is_nan() || error > STEP_TOLERANCE {
            wrong.push(format!("{name}: {which}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Errors of shorter gradients are parts of this: a bias of all keys changes no weight of attention, and its gradient is 0 but for
/// rounding.
const LEAST: f64 = 1e-2;

/// Of the gradient's length: steps are finite, and losses are made of logits in f32.
const STEP_TOLERANCE: f64 = 5e-3;

/// What torch says (`scripts/make_gradients.py`): its gradients lie in a directory as a model would.
#[test]
fn gradients_are_those_of_torch() {
    let cpu = Cpu::from_env().unwrap();
    let mut models = 0;
    for entry in std::fs::read_dir(fixtures("gradients")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let (source, expected) = (open(&fixtures("golden").join(&name)).unwrap(), open(&folder).unwrap());
        let tokens = tokens_of(&name);
        let mut kept = Kept::default();
        with_text(&*source, &cpu, &[&tokens], |text| text.gradients(Target::Text, &mut kept)).unwrap();
        let mut worst = (0.0, String::new());
        for info in expected.tensors() {
            let expected: Vec<f32> = expected.load(info.id).unwrap().to_f32();
            let found = kept.0.get(&info.id).unwrap_or_else(|| panic!("{name}: {} has none", info.id));
            let pairs = || expected.iter().zip(found).map(|(a, b)| (f64::from(*a), f64::from(*b)));
            let difference = length(&pairs().map(|(a, b)| a - b).collect::<Vec<_>>());
            let size = length(&pairs().map(|(a, _)| a).collect::<Vec<_>>());
            let error = difference / size.max(LEAST);
            if error > worst.0 {
                worst = (error, format!("{}: {error:.1e} of {size:.1e}", info.id));
            }
        }
        assert_eq!(kept.0.len(), expected.tensors().len(), "{name}: as many gradients as tensors");
        println!("{name}: {}", worst.1);
        assert!(worst.0 <= 1e-4, "{name}: {}", worst.1);
        models += 1;
    }
    assert_eq!(models, 5);
}

#[test]
fn every_instruction_set_and_thread_count_gives_the_same_bits() {
    for name in ["llama", "gpt2", "gemma2", "qwen3_moe", "gpt_oss"] {
        let source = open(&fixtures("golden").join(name)).unwrap();
        let tokens = tokens_of(name);
        let sequences: [&[u32]; 2] = [&tokens[..40], &tokens[20..]];
        let all = |cpu: &Cpu| {
            let mut kept = Kept::default();
            let base = with_text(&*source, cpu, &sequences, |text| Predictions::of(text).unwrap().rows);
            let loss = with_text(&*source, cpu, &sequences, |text| text.gradients(Target::Text, &mut kept));
            (kept, loss.unwrap(), base)
        };
        let oracle = all(&Cpu::with_threads(Isa::SCALAR, 1).unwrap());
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let found = all(&Cpu::with_threads(isa, threads).unwrap());
                assert!(found == oracle, "{name}: {isa:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn a_model_has_no_divergence_from_itself_and_the_gradient_of_another_is_what_steps_change() {
    let cpu = Cpu::from_env().unwrap();
    let source = open(&fixtures("golden/qwen3")).unwrap();
    let tokens = tokens_of("qwen3");
    let sequences: [&[u32]; 2] = [&tokens[..40], &tokens[20..]];
    let id = TensorId::of_layer(1, TensorKind::AttnQ);
    let stored = source.load(id).unwrap();
    let moved = |by: f64| {
        let values = stored.to_f32();
        let moved: Vec<f32> =
            values.iter().zip(noise(3)).map(|(v, n)| (f64::from(*v) + by * n) as f32).collect();
        let mut other = Replaced::new(&*source);
        other.replace(id, Tensor::from_f32(stored.rows(), stored.cols(), &moved)).unwrap();
        other
    };
    with_text(&*source, &cpu, &sequences, |text| {
        let base = Predictions::of(text).unwrap();
        let target = Target::Predictions(&base);
        let loss_of =
            |source: &Replaced<'_>| with_text(source, &cpu, &sequences, |text| text.loss(target)).unwrap();
        assert!(loss_of(&moved(0.0)) < 1e-9);
        let mut kept = Kept::default();
        let found =
            with_text(&moved(0.2), &cpu, &sequences, |text| text.gradients(target, &mut kept)).unwrap();
        assert!((found - loss_of(&moved(0.2))).abs() < 1e-12 && found > 1e-5, "{found}");
        let expected: f64 = kept.0[&id].iter().zip(noise(3)).map(|(g, n)| f64::from(*g) * n).sum();
        let measured = (loss_of(&moved(0.21)) - loss_of(&moved(0.19))) / 0.02;
        assert!((expected - measured).abs() < 1e-2 * measured.abs(), "{expected} {measured}");
    });
}

/// Without a head that shares it, the gradient of an embedding's row is the one at the only place of its token.
#[test]
fn the_moment_at_the_embedding_is_that_of_its_rows_gradients() {
    let cpu = Cpu::from_env().unwrap();
    let source = open(&fixtures("golden").join("llama")).unwrap();
    let tokens: Vec<u32> = (0..30).map(|i| i * 7 % source.config().vocab).collect();
    let (mut kept, mut moment) = (Kept::default(), Vec::new());
    with_text(&*source, &cpu, &[&tokens], |text| {
        text.gradients(Target::Drawn(5), &mut kept).unwrap();
        let mut receive = |layer: Option<u32>, mut found: OutputMoments| {
            if layer.is_none() {
                moment = found.moments.remove(&TensorKind::TokenEmbedding).unwrap_or_default();
            }
            Ok(())
        };
        text.output_moments(5, &mut receive).unwrap();
    });
    let gradient = &kept.0[&TensorId::of_model(TensorKind::TokenEmbedding)];
    let (width, count) = (source.config().hidden as usize, tokens.len() as f64);
    for i in 0..width {
        for j in i..width {
            let rows = gradient.chunks_exact(width);
            let sum: f64 = rows.map(|row| f64::from(row[i]) * f64::from(row[j])).sum();
            let (expected, found) = (sum * count * count, f64::from(moment[i * width + j]));
            assert!(
                (expected - found).abs() <= 1e-4 * expected.abs() + 1e-7,
                "{i}, {j}: {found}, {expected}"
            );
        }
    }
}

/// What experts that nothing comes of lose says nothing: types by what goes through an expert need each one's own sum.
#[test]
fn experts_have_their_own_sums_of_squares() {
    let cpu = Cpu::from_env().unwrap();
    let source = open(&fixtures("golden").join("qwen3_moe")).unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % source.config().vocab).collect();
    let (mut layers, mut seen) = (0, BTreeSet::new());
    with_text(&*source, &cpu, &[&tokens], |text| {
        let mut receive = |layer: Option<u32>, found: OutputMoments| {
            let Some(experts) = layer.and_then(|layer| source.config().experts(layer)) else { return Ok(()) };
            for kind in [TensorKind::ExpertGate, TensorKind::ExpertUp, TensorKind::ExpertDown] {
                let sums = &found.experts[&kind];
                assert_eq!(sums.len(), experts.count as usize);
                assert!(sums.iter().any(|sum| *sum > 0.0), "{kind:?}: {sums:?}");
                seen.extend(sums.iter().map(|sum| sum.to_bits()));
            }
            let moment = &found.moments[&TensorKind::ExpertDown];
            let n = moment.len().isqrt();
            let (all, of_experts): (f32, f32) = (
                (0..n).map(|i| moment[i * n + i]).sum(),
                found.experts[&TensorKind::ExpertDown].iter().sum(),
            );
            assert!((all - of_experts).abs() <= 1e-4 * all, "{all} {of_experts}");
            layers += 1;
            Ok(())
        };
        text.output_moments(5, &mut receive).unwrap();
    });
    assert!(layers > 0 && seen.len() > 3 * layers, "{layers} layers, {seen:?}");
}
