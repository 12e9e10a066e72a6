//! Models on devices whose buffers are small compute what they compute on the CPU.

use std::path::Path;

use qsf_format::{ModelConfig, PerLayerEmbedding, QuantType};
use qsf_runtime::gpu::{Gpu, GpuDecoder};
use qsf_runtime::source;

use crate::gpu::{assert_close_on, assert_likeliest_are_chosen, cpu_decoder};
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
