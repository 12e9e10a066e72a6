//! Tuning of small models whose matrices are numbers by chance, with scales of rows.

use std::collections::BTreeMap;
use std::path::Path;

use half::f16;
use qsf_format::{BlockSize, Layout, QuantType, TensorId, TensorKind};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::progress::{Cancel, Unwatched};
use qsf_runtime::source::{Replaced, Tensor, WeightSource, open};

use super::factors::FactorGradients;
use super::{Factors, TuningState, TuningText};
use crate::gradient::{GradientText, Predictions, Target};

fn golden(name: &str) -> Box<dyn WeightSource> {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name)).unwrap()
}

/// A matrix as large as `original`, whose values are by chance.
fn by_chance(original: &Tensor, quant: QuantType) -> Tensor {
    let (rows, cols, block) = (original.rows(), original.cols(), BlockSize::B32);
    let with_scales = |scale: f32| {
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
        let mut state = 1_u32;
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(rows * row_bytes)
        .collect();
        for row in bytes.chunks_exact_mut(row_bytes) {
            row[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        }
        Tensor::with_layout(rows, cols, quant, block, Layout::Rows, bytes.into()).unwrap()
    };
    let length = |tensor: &Tensor| tensor.to_f32().iter().map(|x| x * x).sum::<f32>().sqrt();
    with_scales(length(original) / length(&with_scales(1.0)))
}

/// The model with such matrices in every layer.
fn stored(source: &dyn WeightSource) -> Replaced<'_> {
    let mut stored = Replaced::new(source);
    for info in source.tensors() {
        let is_gate = info.id.kind == TensorKind::Router;
        if info.id.layer.is_some() && info.id.kind.is_matrix() && !is_gate {
            let quant = if info.rows > info.cols { QuantType::X3 } else { QuantType::N4 };
            stored.replace(info.id, by_chance(&source.load(info.id).unwrap(), quant)).unwrap();
        }
    }
    stored
}

fn text_of(source: &dyn WeightSource) -> Vec<Vec<u32>> {
    let of = |seed: u32| (0..24_u32).map(|i| (i * i * 7 + seed * 31 + i) % source.config().vocab).collect();
    (0..4).map(of).collect()
}

fn text<'a>(
    source: &'a dyn WeightSource,
    cpu: &'a Cpu,
    sequences: &'a [&'a [u32]],
    cancel: &'a Cancel,
) -> GradientText<'a> {
    GradientText { source, cpu, sequences, from: 0, progress: &Unwatched, cancel }
}

/// Small steps along the gradient change the loss by what the gradient says: of rows in both types, of experts, of norms that
/// multiply with one more than they store.
#[test]
fn gradients_at_factors_are_those_of_small_steps() {
    for name in ["llama", "gemma2", "qwen3_moe"] {
        let source = golden(name);
        let (stored, cpu, cancel) = (stored(&*source), Cpu::from_env().unwrap(), Cancel::default());
        let texts = text_of(&*source);
        let sequences: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let wanted = Predictions::of(&text(&*source, &cpu, &sequences, &cancel)).unwrap();
        let ones = Factors::ones(&stored).unwrap();
        let model = ones.applied(&stored).unwrap();
        let found = BTreeMap::new();
        let mut at = FactorGradients { cpu: &cpu, model: &model, factors: &ones, found };
        text(&model, &cpu, &sequences, &cancel).gradients(Target::Predictions(&wanted), &mut at).unwrap();
        let found = at.found;
        assert_eq!(
            found.keys().copied().collect::<Vec<TensorId>>(),
            ones.iter().map(|(id, _)| id).collect::<Vec<_>>()
        );
        let mut compared = 0;
        for (id, gradient) in &found {
            let length = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
            // Behind the last experts nothing chooses any: a step that makes others be chosen is no small one.
            let last = Some(source.config().layers - 1);
            let chooses = source.config().experts(0).is_some()
                && !(id.layer == last && matches!(id.kind, TensorKind::ExpertUp | TensorKind::ExpertDown));
            if length < 1e-6 || chooses {
                continue;
            }
            compared += 1;
            // Far enough that rounded scales say nothing.
            let step = 0.01 * (gradient.len() as f64).sqrt();
            let loss = |sign: f64| {
                let moved = gradient.iter().map(|x| (1.0 + sign * step * x / length) as f32).collect();
                let moved = Factors::from_iter([(*id, moved)]);
                let model = moved.applied(&stored).unwrap();
                text(&model, &cpu, &sequences, &cancel).loss(Target::Predictions(&wanted)).unwrap()
            };
            let slope = (loss(1.0) - loss(-1.0)) / (2.0 * step);
            assert!((slope / length - 1.0).abs() < 0.1, "{name}: {id}: {slope}, the gradient says {length}");
        }
        assert!(compared > 1, "{name}");
    }
}

/// The loss falls on the text that it is tuned on, and every processor finds the same factors.
#[test]
fn a_tuned_model_loses_less_and_the_same_on_every_processor() {
    let source = golden("llama");
    let (stored, cancel, texts) = (stored(&*source), Cancel::default(), text_of(&*source));
    let sequences: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let tuned = |cpu: &Cpu| {
        let text = TuningText {
            source: &*source,
            stored: &stored,
            cpu,
            sequences: &sequences,
            batch: 1,
            rate: 0.001,
            progress: &Unwatched,
            cancel: &cancel,
        };
        assert_eq!(text.steps(), 4);
        let mut state = TuningState::new(Factors::ones(&stored).unwrap());
        for _ in 0..5 {
            // The fifth is one too many: the text is over.
            text.step(&mut state).unwrap();
        }
        assert_eq!(state.steps, 4);
        let loss = |factors: &Factors| text.loss(factors, &sequences).unwrap();
        let (before, after) = (loss(&Factors::ones(&stored).unwrap()), loss(&state.factors));
        assert!(after < before, "{before} before, {after} after");
        (state, before, after)
    };
    let expected = tuned(&Cpu::with_threads(Isa::SCALAR, 1).unwrap());
    assert_eq!(tuned(&Cpu::with_threads(Isa::best(), 3).unwrap()), expected);
}
