//! Files that llama.cpp's own converter wrote.

use std::path::Path;
use std::sync::Arc;

use qsf_format::{ModelConfig, PositionConfig};

use super::*;
use crate::decoder::Decoder;
use crate::eval::{GoldenExpectation, compare_golden};
use crate::source::{WeightSource, open_huggingface};
use crate::weights::Model;
use qsf_cpu::{Cpu, Isa, KvTypes};

/// Models as llama.cpp's own converter wrote them (scripts/convert_with_llama_cpp.py), and what they came from.
fn converted_by_llama_cpp() -> Vec<(String, PathBuf, PathBuf)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut models: Vec<(String, PathBuf, PathBuf)> = fs::read_dir(fixtures.join("gguf"))
        .unwrap()
        .map(|entry| {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let folder = fixtures.join("golden").join(&name);
            (name, file, folder)
        })
        .collect();
    models.sort();
    assert_eq!(models.len(), 15);
    models
}

/// What these files do not say: llama.cpp knows one value only. Not of the list: tokens, for there is no tokenizer.
fn forget(name: &str, config: &mut ModelConfig) {
    config.bos = None;
    config.stop_tokens.clear();
    match (name, &mut config.position) {
        // Factors of the frequencies stand for the numbers that they were computed from.
        ("llama3", PositionConfig::Rope { scaling, .. }) => *scaling = None,
        ("smollm3", PositionConfig::Rope { unrotated_layers, .. }) => unrotated_layers.clear(),
        ("gemma2" | "gemma3", _) => {
            config.attention_scale = None;
            config.sliding_window.as_mut().unwrap().layers.clear();
        }
        _ => {}
    }
}

#[test]
fn a_model_that_comes_both_ways_is_the_same_model() {
    for (name, file, folder) in converted_by_llama_cpp() {
        let (gguf, huggingface) = (open_gguf(&file).unwrap(), open_huggingface(&folder).unwrap());
        let [mut one, mut other] = [gguf.config(), huggingface.config()].map(ModelConfig::clone);
        forget(&name, &mut one);
        forget(&name, &mut other);
        assert_eq!(one, other, "{name}");
        let ids =
            |source: &dyn WeightSource| -> Vec<_> { source.tensors().iter().map(|info| info.id).collect() };
        assert_eq!(ids(&gguf), ids(&huggingface), "{name}");
        for id in ids(&gguf) {
            let (one, other) = (gguf.load(id).unwrap(), huggingface.load(id).unwrap());
            let announced = gguf.tensors().iter().find(|info| info.id == id).unwrap().stored;
            assert_eq!(one.stored_type(), announced, "{name} {id}");
            assert!(one.to_f32() == other.to_f32(), "{name} {id}");
        }
    }
}

#[test]
fn models_of_llama_cpp_compute_what_transformers_computes() {
    let cpu = Cpu::new(Isa::best());
    for (name, file, folder) in converted_by_llama_cpp() {
        // Their queries, windows and rotations are not those that llama.cpp knows for the architecture.
        if matches!(name.as_str(), "gemma2" | "gemma3" | "smollm3") {
            continue;
        }
        let expected = folder.join("expected.safetensors");
        let golden = GoldenExpectation::read(&expected).unwrap();
        let model = Arc::new(Model::load(&open_gguf(&file).unwrap()).unwrap());
        let report =
            compare_golden(&Decoder::new(model, cpu.clone(), None), KvTypes::default(), &expected, &golden)
                .unwrap();
        assert!(
            report.logits_relative_error < 1e-5 && report.nll_mean_abs_error < 5e-5,
            "{name}: {report:?}"
        );
        assert!(report.greedy_equal, "{name}: {report:?}");
    }
}
