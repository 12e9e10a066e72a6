//! Models on devices whose buffers are small compute what they compute on the CPU.

use std::path::Path;

use qsf_format::{Activation, Experts, ModelConfig, PerLayerEmbedding, QuantType, SharedExperts};
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::gpu::{Gpu, GpuDecoder};
use qsf_runtime::source;
use qsf_runtime::{Runner, Sequence};

use crate::gpu::{assert_close_on, assert_likeliest_are_chosen, cpu_decoder, golden_models, llama};
use crate::random_model::RandomModel;

/// A device whose buffers have so many bytes at most.
fn small(most_bytes: u64) -> Gpu {
    Gpu::open_small(true, most_bytes).unwrap()
}

/// Gemma 3n with a table for layers of 3000 x 72 f32, which are 864 kB; the token embedding has 768 kB in panels.
fn with_table_of_layers() -> RandomModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/gemma3n");
    let config = source::open(&path).unwrap().config().clone();
    let of_layers = config.per_layer_embedding.unwrap();
    let per_layer_embedding = Some(PerLayerEmbedding { vocab: 2990, ..of_layers });
    RandomModel::new(ModelConfig { vocab: 3000, per_layer_embedding, ..config }, QuantType::F32)
}

#[test]
fn a_table_of_what_layers_get_of_tokens_may_be_larger_than_a_buffer_and_takes_no_memory_there() {
    let source = with_table_of_layers();
    assert_close_on(small(800_000), &source, "a table of layers");
    let gpu = GpuDecoder::new(small(800_000), &cpu_decoder(&source)).unwrap();
    assert!(gpu.room().bytes < 768_000 + 2990 * 72 * 4, "{:?}", gpu.room());
    // The step of a token that was chosen there needs its row.
    assert_likeliest_are_chosen(&gpu);
}

/// Twenty experts, of which a token goes through three. As f32, gate and up projection of one have 39 kB, its down projection 21 kB.
fn mixture(config: ModelConfig) -> ModelConfig {
    let experts = Experts { count: 20, used: 3, ffn: 44, normalize_weights: true, ..Experts::default() };
    let shared = Some(SharedExperts { ffn: 70, gated: true });
    ModelConfig { experts: Some(Experts { shared, ..experts }), ..config }
}

#[test]
fn experts_that_one_buffer_cannot_have_are_in_several() {
    // One in a buffer, or two, and three times as many. Steps have at least four tokens: single ones are quantized to integers, by which
    // one of the hundred would choose another expert.
    let types = [(QuantType::F32, 45_000), (QuantType::Q4, 18_000), (QuantType::N3, 18_000)];
    for (quant, most_bytes) in types.into_iter().flat_map(|(quant, few)| [(quant, few), (quant, 3 * few)]) {
        let source = RandomModel::new(mixture(llama()), quant);
        assert_close_on(small(most_bytes), &source, &format!("experts in buffers of {most_bytes}"));
    }
    // Gates and ups that are not put together at once.
    let apart = ModelConfig { gated_ffn: false, activation: Activation::Relu2, ..mixture(llama()) };
    assert_close_on(small(100_000), &RandomModel::new(apart, QuantType::F32), "without gates");
}

#[test]
fn an_expert_that_no_buffer_can_have_is_refused_with_what_to_do() {
    let source = RandomModel::new(mixture(llama()), QuantType::F32);
    let Err(error) = GpuDecoder::new(small(30_000), &cpu_decoder(&source)) else { panic!("accepted") };
    let text = error.to_string();
    assert!(text.contains("30000 bytes at most") && text.contains("smaller type"), "{text}");
}

#[test]
fn matrices_that_no_buffer_can_have_are_in_several() {
    let heads = [(true, "an embedding that is the head"), (false, "an embedding and a head")];
    for (tied_head, what) in heads {
        let config = ModelConfig { vocab: 1000, tied_head, ..llama() };
        for quant in [QuantType::F32, QuantType::Bf16, QuantType::Q4, QuantType::T3, QuantType::X4] {
            let source = RandomModel::new(config.clone(), quant);
            assert_close_on(small(60_000), &source, &format!("{what}, {quant}"));
        }
        let source = RandomModel::new(config, QuantType::Q8);
        assert_likeliest_are_chosen(&GpuDecoder::new(small(60_000), &cpu_decoder(&source)).unwrap());
    }
}

#[test]
fn steps_have_as_many_tokens_as_buffers_have_room_for() {
    let source = RandomModel::new(llama(), QuantType::Q4);
    let cpu = cpu_decoder(&source);
    let batch = |most_bytes| {
        let gpu = GpuDecoder::new(small(most_bytes), &cpu).unwrap();
        gpu.state_with(100, 80, KvTypes::F16.into()).map(|state| state.batch())
    };
    assert_eq!(batch(1 << 20).unwrap(), 80);
    // Gate and up projection make 2 x 512 f32 for a token.
    assert_eq!(batch(40 * 4096).unwrap(), 40);
    assert_eq!(batch(41 * 4096 - 1).unwrap(), 40);
}

#[test]
fn a_context_that_no_buffer_can_have_is_refused_with_what_to_do() {
    let source = RandomModel::new(ModelConfig { kv_heads: 6, ..llama() }, QuantType::Q4);
    let gpu = GpuDecoder::new(small(60_000), &cpu_decoder(&source)).unwrap();
    assert!(gpu.state_with(200, 1, KvTypes::F16.into()).is_ok());
    // 6 x 24 f16 of each position.
    let Err(error) = gpu.state_with(220, 1, KvTypes::F16.into()) else { panic!("accepted") };
    let text = error.to_string();
    assert!(text.contains("60000 bytes at most: 63360") && text.contains("smaller --ctx-size"), "{text}");
    assert!(gpu.state_with(220, 1, KvTypes::EIGHT_BIT.into()).is_ok());
}

#[test]
fn every_architecture_runs_on_a_device_of_small_buffers() {
    for path in golden_models() {
        let source = source::open(&path).unwrap();
        assert_close_on(small(24_000), source.as_ref(), &path.display().to_string());
    }
}
