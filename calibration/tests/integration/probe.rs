//! A probe against whole models that are run from the start, and logits that are compared by the definition.

use std::path::Path;
use std::sync::Arc;

use qsf_calibration::{Probe, ProbeText, importance_tokens, layer_importance};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::{Replaced, Tensor, WeightSource, open};
use qsf_runtime::{Activations, Decoder, LayerWeights, Model};

const CTX: usize = 24;

fn model(name: &str) -> Box<dyn WeightSource> {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden").join(name)).unwrap()
}

/// The tensor with every third value halved: a norm behind it cannot undo that.
fn halved(source: &dyn WeightSource, id: TensorId) -> Replaced<'_> {
    let tensor = source.load(id).unwrap();
    let values: Vec<f32> =
        tensor.to_f32().iter().enumerate().map(|(i, v)| if i % 3 == 0 { v / 2.0 } else { *v }).collect();
    let mut replaced = Replaced::new(source);
    replaced.replace(id, Tensor::from_f32(tensor.rows(), tensor.cols(), &values)).unwrap();
    replaced
}

/// Logits of the second half of each chunk.
fn logits(source: &dyn WeightSource, tokens: &[u32]) -> Vec<f32> {
    let vocab = source.config().vocab as usize;
    let cpu = Cpu::new(Isa::best());
    let decoder = Decoder::new(Arc::new(Model::load(source).unwrap()), cpu, Some(Activations::F32));
    let mut state = decoder.state(CTX, CTX).unwrap();
    let mut all = Vec::new();
    for chunk in tokens.chunks_exact(CTX) {
        state.rewind(0).unwrap();
        decoder.forward(&mut state, chunk).unwrap();
        let mut out = vec![0.0; CTX / 2 * vocab];
        decoder.logits(&mut state, CTX / 2..CTX, &mut out).unwrap();
        all.extend(out);
    }
    all
}

/// Mean KL divergence in f64.
fn divergence(base: &[f32], other: &[f32], vocab: usize) -> f64 {
    let log_softmax = |row: &[f32]| -> Vec<f64> {
        let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
        row.iter().map(|v| f64::from(*v) - sum.ln()).collect()
    };
    let rows = base.chunks_exact(vocab).zip(other.chunks_exact(vocab));
    let count = base.len() / vocab;
    let of_row = |(base, other): (&[f32], &[f32])| -> f64 {
        let (p, q) = (log_softmax(base), log_softmax(other));
        p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
    };
    rows.map(of_row).sum::<f64>() / count as f64
}

#[test]
fn a_changed_layer_changes_predictions_as_in_a_model_run_from_the_start() {
    for name in ["llama", "gemma2", "gpt2"] {
        let source = model(name);
        let source = source.as_ref();
        let vocab = source.config().vocab as usize;
        let tokens: Vec<u32> =
            (0..3 * CTX as u32 + 5).map(|i| (i * 37 + 11) % source.config().vocab).collect();
        let text = ProbeText { tokens: &tokens, ctx: CTX, chunks: 3 };
        let mut probe = Probe::new(source, &Cpu::new(Isa::best()), text, &Cancel::default()).unwrap();
        let base = logits(source, &tokens);
        for layer in 0..source.config().layers {
            let unchanged = LayerWeights::load(source, layer).unwrap();
            assert_eq!(probe.divergence(&unchanged).unwrap(), 0.0, "{name} layer {layer}");
            for kind in [TensorKind::AttnV, TensorKind::FfnDown] {
                let changed = halved(source, TensorId::of_layer(layer, kind));
                let found = probe.divergence(&LayerWeights::load(&changed, layer).unwrap()).unwrap();
                let expected = divergence(&base, &logits(&changed, &tokens), vocab);
                assert!(expected > 1e-7, "{name} layer {layer} {kind}: the change does nothing");
                let difference = (found - expected).abs() / expected;
                assert!(difference < 1e-2, "{name} layer {layer} {kind}: {found} for {expected}");
            }
            assert!(probe.divergence_without().unwrap() > 0.0);
            probe.advance().unwrap();
        }
        let changed = halved(source, TensorId::of_model(TensorKind::TokenEmbedding));
        let found = probe.divergence_of_ends(&changed).unwrap();
        let expected = divergence(&base, &logits(&changed, &tokens), vocab);
        assert!((found - expected).abs() < 1e-2 * expected, "{name} embedding: {found} for {expected}");
        if !source.config().tied_head {
            let changed = halved(source, TensorId::of_model(TensorKind::Head));
            let (head, ends) = (probe.divergence_of_head(&changed), probe.divergence_of_ends(&changed));
            assert_eq!(head.unwrap(), ends.unwrap(), "{name}: no layer has to run again for another head");
        }
        assert_eq!(probe.divergence_of_ends(source).unwrap(), 0.0, "{name}: the probe stays as it is");
    }
}

#[test]
fn models_without_a_layer_side_by_side_diverge_as_one_after_the_other() {
    // Plain layers, experts, layers with inputs of their own and shared keys, latents, and recurrence.
    for name in ["llama", "gpt2", "qwen3_moe", "gemma4", "deepseek_v3", "qwen3_next"] {
        let source = model(name);
        let source = source.as_ref();
        let tokens: Vec<u32> =
            (0..2 * CTX as u32 + 5).map(|i| (i * 37 + 11) % source.config().vocab).collect();
        let text = ProbeText { tokens: &tokens, ctx: CTX, chunks: 2 };
        let (cpu, cancel) = (Cpu::new(Isa::best()), Cancel::default());
        let mut probe = Probe::new(source, &cpu, text, &cancel).unwrap();
        let found = layer_importance(source, &cpu, text, &cancel).unwrap();
        assert_eq!(found.len(), source.config().layers as usize);
        for (layer, found) in found.into_iter().enumerate() {
            assert_eq!(found, probe.divergence_without().unwrap(), "{name} layer {layer}");
            probe.advance().unwrap();
        }
    }
}

#[test]
fn deep_models_are_measured_with_fewer_tokens() {
    let source = model("llama");
    let config = source.config();
    let tokens = |layers: usize, text| importance_tokens(config, &vec![1 << 20; layers], text, 512);
    assert_eq!(tokens(2, 65_536), 512);
    assert_eq!(tokens(80, 32_768), 3 * 32_768 * 80 / (10 * (80 * 81 / 2 + 80 * head(config) / (1 << 20))));
    assert_eq!((tokens(400, 4096), tokens(4, 7)), (32, 7));
}

fn head(config: &qsf_format::ModelConfig) -> usize {
    config.vocab as usize * config.hidden as usize
}

#[test]
fn a_text_shorter_than_a_chunk_is_refused() {
    let source = model("llama");
    let text = ProbeText { tokens: &[1, 2, 3], ctx: CTX, chunks: 3 };
    let error = Probe::new(source.as_ref(), &Cpu::new(Isa::best()), text, &Cancel::default());
    assert!(error.map(drop).unwrap_err().to_string().contains("3 tokens"));
}
