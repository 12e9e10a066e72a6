//! Matrices whose rows are in parts of several types compute on a graphics processor what they compute on the CPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::panels::{PANEL_ROWS, interleave};
use qsf_format::{
    BlockSize, Experts, GateClip, Layout, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType,
    RowParts, TensorId, TensorKind,
};
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::generate::{Flow, GenerateRequest, generate};
use qsf_runtime::gpu::{Gpu, GpuDecoder};
use qsf_runtime::linear::LowRank;
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::source::adapter::{Adapter, Update};
use qsf_runtime::source::{self, Tensor, TensorInfo, WeightSource};
use qsf_runtime::{Activations, Decoder, Model, Result, Runner};

use crate::gpu::{
    LIMIT, all_logits, assert_close, assert_close_on, assert_likeliest_are_chosen, cpu_decoder, distance,
    gpu_decoder, llama, tokens,
};
use crate::gpu_experts::Altered;
use crate::random_model::RandomModel;

const HEAD: TensorId = TensorId::of_model(TensorKind::Head);

/// Types of the parts: floats, in panels, in rows, and of learned levels.
const TYPES: [QuantType; 4] = [QuantType::F16, QuantType::Q4, QuantType::N3, QuantType::Q8];

/// A model some of whose matrices are in parts.
struct InParts {
    model: Altered,
    /// Values of each type.
    of_types: Vec<RandomModel>,
    /// The part of a row of a matrix that is in parts; of a stack, that of an expert.
    part: fn(TensorKind, usize) -> Option<u8>,
    infos: Vec<TensorInfo>,
}

impl InParts {
    fn new(config: ModelConfig, biases: bool, part: fn(TensorKind, usize) -> Option<u8>) -> InParts {
        let of_types = TYPES.map(|quant| RandomModel::new(config.clone(), quant)).into();
        let model = Altered::new(config, None, false, biases);
        let infos = model.tensors().to_vec();
        InParts { model, of_types, part, infos }
    }

    fn with_head_bias(mut self) -> InParts {
        let id = TensorId::of_model(TensorKind::HeadBias);
        let (rows, cols) = (1, self.config().vocab as usize);
        let stored = QuantType::F32.into();
        self.infos.push(TensorInfo { id, name: id.to_string(), rows, cols, stored });
        self
    }

    fn in_parts(&self, id: TensorId, rows: usize, of_row: impl Fn(usize) -> u8) -> Result<Tensor> {
        let all = RowParts::of((0..rows).map(of_row)).unwrap();
        let part = |part: usize| {
            let stored = self.of_types[part].load(id)?;
            let (native, cols) = (stored.native().unwrap(), stored.cols());
            let bytes: Vec<u8> =
                all.rows_in(part).flat_map(|row| native.rows(row..row + 1).to_vec()).collect();
            let (quant, rows) = (native.quant(), all.rows_of(part));
            let whole = self.config().stacked(id).is_none() || (rows / PANEL_ROWS) * PANEL_ROWS == rows;
            let (layout, bytes) = match quant == QuantType::Q4 && whole {
                true => (Layout::Panels16, interleave(quant, BlockSize::B64, cols, &bytes)),
                false => (Layout::Rows, bytes),
            };
            Ok(Tensor::with_layout(rows, cols, quant, BlockSize::B64, layout, bytes.into()).unwrap())
        };
        Ok(Tensor::of_parts((0..all.parts()).map(part).collect::<Result<_>>()?, all))
    }
}

impl WeightSource for InParts {
    fn path(&self) -> &Path {
        self.model.path()
    }

    fn config(&self) -> &ModelConfig {
        self.model.config()
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

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        let info = self.infos.iter().find(|info| info.id == id).unwrap();
        if id.kind == TensorKind::HeadBias {
            let bias: Vec<f32> = (0..info.cols).map(|i| ((i * 37 % 101) as f32 - 50.0) / 100.0).collect();
            return Ok(Tensor::from_f32(1, info.cols, &bias));
        }
        let share = info.rows / self.config().stacked(id).map_or(info.rows, |count| count as usize);
        match (self.part)(id.kind, 0) {
            Some(_) => self.in_parts(id, info.rows, |row| (self.part)(id.kind, row / share).unwrap()),
            None => self.model.load(id),
        }
    }

    fn release(&self, _layer: Option<u32>) {}
}

/// Of 1003 rows of an embedding, 716 are `f16`, 91 `4bit` in panels, 196 `n3`.
fn part_of_token(row: usize) -> u8 {
    if row % 11 == 5 { 1 } else { u8::from(row % 5 == 3) * 2 }
}

fn tied(kind: TensorKind, row: usize) -> Option<u8> {
    (kind == TensorKind::TokenEmbedding).then(|| part_of_token(row))
}

/// A head whose parts are of other rows than those of the embedding.
fn untied(kind: TensorKind, row: usize) -> Option<u8> {
    let of_head = if row < 40 || row % 7 == 1 { 0 } else { 1 + u8::from(row % 3 == 1) + u8::from(row > 500) };
    match kind {
        TensorKind::Head => Some(of_head),
        kind => tied(kind, row),
    }
}

fn with_tied_head() -> InParts {
    InParts::new(ModelConfig { vocab: 1003, tied_head: true, ..llama() }, false, tied)
}

/// Learned positions, norms with biases, capped logits.
fn with_own_head() -> InParts {
    let config = ModelConfig {
        vocab: 1003,
        position: PositionConfig::Learned {},
        max_positions: 300,
        norm: NormConfig::new(NormKind::LayerNorm, 1e-5),
        logit_softcap: Some(3.0),
        embedding_scale: Some(1.5),
        ..llama()
    };
    InParts::new(config, false, untied).with_head_bias()
}

#[test]
fn embeddings_and_heads_in_parts_give_every_token_its_row_and_its_logit() {
    assert_close(&with_tied_head(), "a tied head in parts");
    assert_close(&with_own_head(), "an embedding and a head in parts, with a bias");
}

/// Tokens behind a prompt, each the likeliest.
fn greedy<R: Runner>(runner: &R) -> Vec<u32> {
    let prompt = tokens(runner.config().vocab, 12);
    let mut state = runner.state_with(60, 12, KvTypes::F16.into()).unwrap();
    let request = GenerateRequest { prompt: &prompt, max_tokens: 30, stop_tokens: &[] };
    let mut sampler = Sampler::new(SamplerOptions::greedy());
    generate(runner, &mut state, request, &mut sampler, |_| Ok(Flow::Continue)).unwrap().tokens
}

#[test]
fn tokens_chosen_of_a_head_in_parts_are_the_likeliest() {
    for source in [with_tied_head(), with_own_head()] {
        let cpu = cpu_decoder(&source);
        let gpu = gpu_decoder(&cpu);
        assert_likeliest_are_chosen(&gpu);
        assert_eq!(greedy(&gpu), greedy(&cpu));
    }
}

#[test]
fn parts_take_the_memory_of_their_types() {
    let (source, id) = (with_tied_head(), TensorId::of_model(TensorKind::TokenEmbedding));
    let config = source.config().clone();
    let bytes = |tensor: &Tensor| {
        tensor.rows().next_multiple_of(PANEL_ROWS) as u64 * tensor.native().unwrap().row_bytes() as u64
    };
    let of_parts: u64 = source.load(id).unwrap().stored_parts().iter().map(bytes).sum();
    // All else is of this type.
    let plain = RandomModel::new(config, QuantType::Q4);
    let of_plain = bytes(&plain.load(id).unwrap());
    let room = gpu_decoder(&cpu_decoder(&source)).room();
    assert_eq!(room.bytes - of_parts, gpu_decoder(&cpu_decoder(&plain)).room().bytes - of_plain);
    assert_eq!(room.widened_bytes, 0);
}

#[test]
fn parts_that_no_buffer_can_have_are_in_several() {
    // `f16` has 137 kB of 716 rows.
    let small = |most_bytes| Gpu::open_small(true, most_bytes).unwrap();
    for (source, what) in [(with_tied_head(), "a tied head"), (with_own_head(), "a head")] {
        for most_bytes in [60_000, 150_000] {
            assert_close_on(small(most_bytes), &source, &format!("{what}, buffers of {most_bytes}"));
            let gpu = GpuDecoder::new(small(most_bytes), &cpu_decoder(&source)).unwrap();
            assert_likeliest_are_chosen(&gpu);
        }
    }
}

#[test]
fn adapters_of_a_head_in_parts_change_the_logits_of_their_rows() {
    for source in [with_tied_head(), with_own_head()] {
        let (rows, inputs, rank) = (1003, 96, 3);
        let values = |count: usize, step: usize| {
            (0..count).map(|i| ((i * step % 211) as f32 - 105.0) / 400.0).collect::<Vec<f32>>()
        };
        let low_rank = LowRank::new(values(rank * inputs, 37), &values(rows * rank, 53), [rows, inputs], 1.0);
        let update = Update { id: HEAD, expert: None, module: "head".into(), low_rank };
        let (path, name) = (PathBuf::from("test"), "test".into());
        let adapter = Adapter { path, name, scale: 1.0, files: Vec::new(), updates: vec![update] };
        let mut model = Model::load(&source).unwrap();
        model.adapt(vec![adapter]).unwrap();
        let plain = cpu_decoder(&source);
        let adapted = Decoder::new(Arc::new(model), plain.cpu().clone(), Some(Activations::F32));
        let tokens = tokens(1003, 40);
        let found = all_logits(&gpu_decoder(&adapted), &tokens);
        let off = distance(&found, &all_logits(&adapted, &tokens));
        assert!(off <= LIMIT, "{off:.2e}");
        let change = distance(&found, &all_logits(&plain, &tokens));
        assert!(change > 10.0 * LIMIT, "as without an adapter: {change:.2e}");
    }
}

/// Gates and up projections of an expert are of one type.
fn alike(kind: TensorKind, expert: usize) -> Option<u8> {
    match kind {
        TensorKind::ExpertGate | TensorKind::ExpertUp => Some([2, 0, 1, 2, 2, 0, 3, 1][expert % 8]),
        TensorKind::ExpertDown => Some(u8::from(expert.is_multiple_of(3))),
        _ => None,
    }
}

/// They are not: each is multiplied by itself.
fn apart(kind: TensorKind, expert: usize) -> Option<u8> {
    if kind == TensorKind::ExpertGate {
        Some(u8::from(expert.is_multiple_of(2)))
    } else {
        alike(kind, expert)
    }
}

fn mixture(used: u32) -> ModelConfig {
    let experts = Experts { count: 9, used, ffn: 48, normalize_weights: true, ..Experts::default() };
    ModelConfig { gate_clip: Some(GateClip { alpha: 1.702, limit: 0.5 }), experts: Some(experts), ..llama() }
}

#[test]
fn experts_are_of_several_types_in_a_layer() {
    for (part, what) in [(alike as fn(_, _) -> _, "joined"), (apart, "apart")] {
        for (used, biases) in [(9, true), (9, false), (3, false)] {
            let source = InParts::new(mixture(used), biases, part);
            assert_close(&source, &format!("{what}, {used} experts of 9, biases {biases}"));
        }
        // Two or three experts in a buffer.
        let small = Gpu::open_small(true, 40_000).unwrap();
        assert_close_on(small, &InParts::new(mixture(9), true, part), &format!("{what}, small buffers"));
    }
}

/// As another writer stored them: an embedding that is the head, in two parts and in four, a head, and experts.
#[test]
fn files_with_matrices_in_parts_are_taken_up_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    for name in ["parts-embedding", "parts-embedding-four", "parts-experts", "parts-head"] {
        let source = source::open(&folder.join(name).with_extension("qsf")).unwrap();
        assert_close(source.as_ref(), name);
    }
}
