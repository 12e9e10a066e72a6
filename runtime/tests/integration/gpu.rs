//! Models on a graphics processor compute what they compute on the CPU. Where there is no other, lavapipe is one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::random_model::RandomModel;
use qsf_format::{
    Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, TensorId, TensorKind,
};
use qsf_runtime::cpu::{Cpu, Isa, KvTypes};
use qsf_runtime::eval::{GoldenExpectation, compare_golden};
use qsf_runtime::generate::{Flow, GenerateRequest, generate};
use qsf_runtime::gpu::{Gpu, GpuDecoder};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::source::adapter::Adapter;
use qsf_runtime::{Activations, Decoder, Model, Runner, Sequence, source};

/// The largest distance of logits from the CPU's, relative to their norm: multiplication by matrix units rounds inputs to f16.
pub const LIMIT: f64 = 5e-3;

/// That of a model: a state carries what was rounded along, and random ones let it grow (Mamba-2: 1.0e-2 on an H100).
fn limit_of(gpu: &GpuDecoder) -> f64 {
    let carries = gpu.activations() == "f16" && gpu.config().recurrent.is_some();
    if carries { 4.0 * LIMIT } else { LIMIT }
}

pub fn cpu_decoder(source: &dyn source::WeightSource) -> Decoder {
    let model = Model::load(source).unwrap();
    Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32))
}

pub fn gpu_decoder(cpu: &Decoder) -> GpuDecoder {
    GpuDecoder::new(Gpu::open(true).unwrap(), cpu).unwrap()
}

pub fn distance(found: &[f32], expected: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value).powi(2);
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| square(a - b)).sum();
    (difference / expected.iter().map(|b| square(*b)).sum::<f64>()).sqrt()
}

/// Logits of every position: a prompt in steps of several lengths, a turn back, and single tokens.
pub fn all_logits<R: Runner>(runner: &R, tokens: &[u32]) -> Vec<f32> {
    all_logits_with(runner, tokens, KvTypes::F16)
}

/// Logits of every position, with keys and values in these types.
pub fn all_logits_with<R: Runner>(runner: &R, tokens: &[u32], kv: KvTypes) -> Vec<f32> {
    let vocab = runner.config().vocab as usize;
    let mut state = runner.state_with(tokens.len(), 40, kv.into()).unwrap();
    let mut logits = Vec::new();
    let mut run = |state: &mut R::State, tokens: &[u32]| {
        for step in tokens.chunks(state.batch()) {
            runner.forward(state, step).unwrap();
            let mut out = vec![0.0; step.len() * vocab];
            runner.logits(state, 0..step.len(), &mut out).unwrap();
            logits.extend(out);
        }
    };
    let (prompt, rest) = tokens.split_at(tokens.len() - 8);
    for step in prompt.chunks(37) {
        run(&mut state, step);
    }
    state.mark().unwrap();
    run(&mut state, &rest[..3]);
    state.rewind(prompt.len()).unwrap();
    run(&mut state, &rest[..5]);
    rest[5..].iter().for_each(|token| run(&mut state, &[*token]));
    logits
}

pub fn tokens(vocab: u32, count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect()
}

pub fn assert_close(source: &dyn source::WeightSource, name: &str) {
    assert_close_on(Gpu::open(true).unwrap(), source, name);
}

pub fn assert_close_on(gpu: Gpu, source: &dyn source::WeightSource, name: &str) {
    let cpu = cpu_decoder(source);
    let gpu = GpuDecoder::new(gpu, &cpu).unwrap();
    let count = 100.min(source.config().max_positions as usize);
    let tokens = tokens(source.config().vocab, count);
    let (expected, found) = (all_logits(&cpu, &tokens), all_logits(&gpu, &tokens));
    let distance = distance(&found, &expected);
    println!("{name}: {distance:.2e}");
    assert!(distance <= limit_of(&gpu), "{name} on {}: {distance:.2e}", gpu.gpu().summary().name);
}

/// Whether a device runs the model; what it cannot compute it names.
fn runs_there(path: &Path) -> bool {
    let source = source::open(path).unwrap();
    match GpuDecoder::new(Gpu::open(true).unwrap(), &cpu_decoder(source.as_ref())) {
        Ok(_) => true,
        Err(error) if error.to_string().contains("do not run there; use --device cpu") => false,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Those of the repository, or of the folder `QSF_GOLDEN`, but for those that are refused by name.
pub fn golden_models() -> Vec<PathBuf> {
    let other = std::env::var_os("QSF_GOLDEN").map(PathBuf::from);
    let least = if other.is_some() { 1 } else { 112 };
    let folder = other.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden"));
    let mut models: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.sort();
    models.retain(|path| runs_there(path));
    assert!(models.len() >= least, "{models:?}");
    models
}

#[test]
fn every_architecture_computes_what_transformers_and_the_cpu_compute() {
    for path in golden_models() {
        let source = source::open(&path).unwrap();
        let name = path.display().to_string();
        assert_close(source.as_ref(), &name);
        let golden = path.join("expected.safetensors");
        let expected = GoldenExpectation::read(&golden).unwrap();
        let gpu = gpu_decoder(&cpu_decoder(source.as_ref()));
        let report = compare_golden(&gpu, KvTypes::F16, &golden, &expected).unwrap();
        assert!(report.logits_relative_error <= limit_of(&gpu), "{name}: {report:?}");
    }
}

#[test]
fn adapters_change_there_what_they_change_in_peft() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut run = 0;
    for name in ["gpt2", "gpt_neox", "gptj", "llama", "mistral", "phi3"] {
        let (path, of_adapter) = (fixtures.join("golden").join(name), fixtures.join("lora").join(name));
        if !runs_there(&path) {
            continue;
        }
        run += 1;
        let source = source::open(&path).unwrap();
        let adapter = Adapter::open(&of_adapter, source.config(), 1.0).unwrap();
        let mut model = Model::load(source.as_ref()).unwrap();
        model.adapt(vec![adapter]).unwrap();
        let adapted = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32));
        let gpu = gpu_decoder(&adapted);
        let tokens = tokens(source.config().vocab, 50);
        let found = all_logits(&gpu, &tokens);
        let off = distance(&found, &all_logits(&adapted, &tokens));
        assert!(off <= LIMIT, "{name}: {off:.2e}");
        let plain = distance(&found, &all_logits(&cpu_decoder(source.as_ref()), &tokens));
        assert!(plain > 10.0 * LIMIT, "{name}: as without an adapter, {plain:.2e}");
        let golden = of_adapter.join("expected.safetensors");
        let expected = GoldenExpectation::read(&golden).unwrap();
        let report = compare_golden(&gpu, KvTypes::F16, &golden, &expected).unwrap();
        assert!(report.logits_relative_error <= LIMIT, "{name}: {report:?}");
    }
    assert!(run >= 4, "{run} models");
}

/// Larger models than the repository has: files that `QSF_MODELS` names, separated by colons.
#[test]
fn models_that_were_named_compute_what_the_cpu_computes() {
    for path in std::env::var("QSF_MODELS").iter().flat_map(|paths| paths.split(':')) {
        let source = source::open(Path::new(path)).unwrap();
        let (cpu, tokens) = (cpu_decoder(source.as_ref()), tokens(source.config().vocab, 100));
        let gpu = gpu_decoder(&cpu);
        let distance = distance(&all_logits(&gpu, &tokens), &all_logits(&cpu, &tokens));
        println!("{path} on {}: {distance:.2e}", gpu.gpu().summary().name);
        assert!(distance <= limit_of(&gpu), "{path}: {distance:.2e}");
    }
}

pub fn llama() -> ModelConfig {
    ModelConfig {
        architecture: "llama".into(),
        layers: 2,
        hidden: 96,
        heads: 6,
        kv_heads: 2,
        head_dim: 24,
        ffn: 300,
        vocab: 150,
        max_positions: 2048,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    }
}

#[test]
fn every_type_is_multiplied_with() {
    for quant in QuantType::ALL {
        assert_close(&RandomModel::new(llama(), quant), quant.name());
    }
}

/// Gains of norms before feed-forwards are 3000 times as large, so that products of gates are some 10^6.
struct LargeGates(RandomModel);

impl source::WeightSource for LargeGates {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        None
    }

    fn chat_template(&self) -> Option<&[u8]> {
        None
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn tensors(&self) -> &[source::TensorInfo] {
        self.0.tensors()
    }

    fn load(&self, id: TensorId) -> qsf_runtime::Result<source::Tensor> {
        let tensor = self.0.load(id)?;
        if id.kind != TensorKind::FfnNorm {
            return Ok(tensor);
        }
        let gains: Vec<f32> = tensor.to_f32().iter().map(|gain| 3000.0 * gain).collect();
        Ok(source::Tensor::from_f32(tensor.rows(), tensor.cols(), &gains))
    }

    fn release(&self, _: Option<u32>) {}
}

/// On matrix units inputs are f16, which has nothing above 65504.
#[test]
fn products_of_gates_are_of_any_size() {
    for quant in [QuantType::F32, QuantType::Q4] {
        assert_close(&LargeGates(RandomModel::new(llama(), quant)), &format!("large gates, {quant}"));
    }
}

#[test]
fn a_long_context_is_shared_out_and_put_together() {
    let source = RandomModel::new(llama(), QuantType::Q4);
    let cpu = cpu_decoder(&source);
    let gpu = gpu_decoder(&cpu);
    let tokens = tokens(150, 1400);
    let last = |logits: Vec<f32>| logits[logits.len() - 150..].to_vec();
    let distance = distance(&last(all_logits(&gpu, &tokens)), &last(all_logits(&cpu, &tokens)));
    assert!(distance <= LIMIT, "{distance:.2e}");
}

/// Against the same runner with f16. What else is rounded there, as inputs of matrix units are, differs from one run to the other and is
/// added.
fn assert_eight_bits_cost_as_on_the_cpu(source: &dyn source::WeightSource, count: usize, name: &str) {
    let cpu = cpu_decoder(source);
    let gpu = gpu_decoder(&cpu);
    let config = source.config();
    let count = count.min(config.max_positions as usize);
    let cost = |found: &[f32], expected: &[f32]| {
        if config.experts.is_none() {
            return distance(found, expected);
        }
        // Which experts a token goes through can hang on one code, and few tokens then make up all of the distance.
        let rows = found.chunks(config.vocab as usize).zip(expected.chunks(config.vocab as usize));
        let mut rows: Vec<f64> = rows.map(|(found, expected)| distance(found, expected)).collect();
        rows.sort_by(f64::total_cmp);
        rows[rows.len() / 2]
    };
    // One text by itself costs one of the two up to a third more: where codes fall is chance.
    let (mut cost_on_cpu, mut cost_on_gpu, mut rounding) = (0.0, 0.0, 0.0);
    for text in 0..3 {
        let mut tokens = tokens(config.vocab, count);
        tokens.iter_mut().for_each(|token| *token = (*token + text * (*token + 3)) % config.vocab);
        let (of_cpu, of_gpu) = (all_logits(&cpu, &tokens), all_logits(&gpu, &tokens));
        cost_on_cpu += cost(&all_logits_with(&cpu, &tokens, KvTypes::EIGHT_BIT), &of_cpu) / 3.0;
        cost_on_gpu += cost(&all_logits_with(&gpu, &tokens, KvTypes::EIGHT_BIT), &of_gpu) / 3.0;
        rounding += cost(&of_gpu, &of_cpu) / 3.0;
    }
    println!("{name}: {cost_on_gpu:.2e} on the GPU, {cost_on_cpu:.2e} on the CPU");
    assert!(
        cost_on_gpu <= 1.2 * cost_on_cpu + rounding && cost_on_gpu > 0.3 * cost_on_cpu,
        "{name}: {cost_on_gpu:.2e} on the GPU, {cost_on_cpu:.2e} on the CPU"
    );
}

#[test]
fn keys_and_values_of_eight_bits_cost_as_little_as_on_the_cpu() {
    for path in golden_models() {
        let source = source::open(&path).unwrap();
        let config = source.config();
        if !(0..config.layers).any(|layer| config.has_attention(layer)) {
            continue;
        }
        assert_eight_bits_cost_as_on_the_cpu(source.as_ref(), 100, &path.display().to_string());
    }
    for head_dim in [24, 64, 128] {
        let source = RandomModel::new(ModelConfig { head_dim, ..llama() }, QuantType::Q4);
        assert_eight_bits_cost_as_on_the_cpu(&source, 400, &format!("heads of {head_dim}"));
    }
}

#[test]
fn a_seed_draws_the_same_tokens_as_from_logits_that_come_back() {
    let source = RandomModel::new(ModelConfig { vocab: 3000, ..llama() }, QuantType::Q4);
    let gpu = gpu_decoder(&cpu_decoder(&source));
    let mut state = gpu.state_with(40, 20, KvTypes::F16.into()).unwrap();
    gpu.forward(&mut state, &tokens(3000, 20)).unwrap();
    // The default of qsf-run, cuts of each kind alone, and none.
    let settings = [
        (0.7, 40, 0.9, 0.0),
        (1.0, 200, 1.0, 0.1),
        (1.3, 0, 0.3, 0.0),
        (1.0, 0, 1.0, 0.5),
        (1.0, 0, 1.0, 0.0),
    ];
    let (mut logits, mut room) = (vec![0.0; 3000], vec![0.0; 3000]);
    for row in [0, 7, 19] {
        gpu.logits(&mut state, row..row + 1, &mut logits).unwrap();
        for (temperature, top_k, top_p, min_p) in settings {
            for seed in 0..6 {
                let options = SamplerOptions::new(temperature, top_k, top_p, min_p, seed).unwrap();
                let (mut on_host, mut on_device) = (Sampler::new(options), Sampler::new(options));
                let drawn = gpu.sample(&mut state, row, &mut on_device, &mut room).unwrap();
                assert_eq!(drawn, on_host.sample(&logits).unwrap(), "row {row}, {options:?}");
            }
        }
    }
}

#[test]
pub fn tokens_that_are_chosen_on_the_device_are_the_likeliest() {
    let source = RandomModel::new(llama(), QuantType::Q4);
    assert_likeliest_are_chosen(&gpu_decoder(&cpu_decoder(&source)));
}

pub fn assert_likeliest_are_chosen(gpu: &GpuDecoder) {
    let vocab = gpu.config().vocab;
    let prompt = tokens(vocab, 12);
    let mut state = gpu.state_with(60, 12, KvTypes::F16.into()).unwrap();
    let request = GenerateRequest { prompt: &prompt, max_tokens: 30, stop_tokens: &[] };
    let mut sampler = Sampler::new(SamplerOptions::greedy());
    let generated = generate(gpu, &mut state, request, &mut sampler, |_| Ok(Flow::Continue)).unwrap().tokens;
    // What the host chooses must be that too, and again from the cache.
    state.rewind(0).unwrap();
    let mut logits = vec![0.0; vocab as usize];
    gpu.forward(&mut state, &prompt).unwrap();
    for token in &generated {
        let row = if state.position() == prompt.len() { prompt.len() - 1 } else { 0 };
        gpu.logits(&mut state, row..row + 1, &mut logits).unwrap();
        assert_eq!(sampler.sample(&logits).unwrap(), *token, "{generated:?}");
        gpu.decode(&mut state, *token).unwrap();
    }
}

#[test]
fn what_does_not_run_there_is_refused() {
    let source = RandomModel::new(llama(), QuantType::Q4);
    let gpu = gpu_decoder(&cpu_decoder(&source));
    let refused = |result: qsf_runtime::Result<_>| match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let eight = KvTypes { keys: qsf_runtime::cpu::KvType::Q8, ..KvTypes::F16 };
    assert!(refused(gpu.state_with(10, 1, eight.into())).contains("both f16 or both 8bit, and not 8bit,f16"));
    assert!(refused(gpu.state_with(4096, 1, KvTypes::F16.into())).contains("2048"));
    let mut state = gpu.state_with(10, 4, KvTypes::F16.into()).unwrap();
    assert!(gpu.forward(&mut state, &[150]).unwrap_err().to_string().contains("vocabulary"));
    assert!(gpu.forward(&mut state, &[1; 5]).unwrap_err().to_string().contains("do not fit"));
}
