//! Files that llama.cpp's own converter wrote.

use std::path::Path;
use std::sync::Arc;

use qsf_format::{ModelConfig, PositionConfig, RecurrentMixer, RopeScaling, TensorKind};

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
    assert_eq!(models.len(), 76);
    models
}

/// Models with settings that llama.cpp does not know for the architecture, so that files do not say them: queries, windows and
/// rotations of the first, limits, factors and an epsilon of the last.
const UNUSUAL: [&str; 14] = [
    "gemma2",
    "gemma3",
    "smollm3",
    "cohere2",
    "starcoder2",
    "gpt_oss",
    "olmoe",
    "lfm2_moe",
    "minicpm3",
    "falcon_mamba",
    "mistral4",
    "mpt",
    "llama4_text",
    "phimoe",
];

/// What these files do not say: llama.cpp knows one value only. Not of the list: tokens, for there is no tokenizer.
fn forget(name: &str, config: &mut ModelConfig) {
    config.bos = None;
    config.stop_tokens.clear();
    config.pad = None;
    // Several have one name there.
    config.architecture.clear();
    match (name, &mut config.position) {
        // Factors of the frequencies stand for the numbers that they were computed from.
        ("llama3" | "apertus", PositionConfig::Rope { scaling, .. }) => *scaling = None,
        ("smollm3", PositionConfig::Rope { unrotated_layers, .. }) => unrotated_layers.clear(),
        ("llama4_text", PositionConfig::Rope { unrotated_layers, .. }) => {
            unrotated_layers.clear();
            (config.sliding_window, config.query_growth) = (None, None);
            config.window_chunks = false;
        }
        ("phimoe", PositionConfig::Rope { scaling: Some(scaling), .. }) => {
            if let RopeScaling::LongRope { attention_factor, .. } = scaling {
                *attention_factor = 1.0;
            }
            config.experts.as_mut().unwrap().margin = None;
        }
        ("mistral4", _) => config.query_growth = None,
        ("mpt", _) => config.attention_scale = None,
        ("gemma2" | "gemma3", _) => {
            config.attention_scale = None;
            config.sliding_window.as_mut().unwrap().layers.clear();
        }
        ("cohere2", PositionConfig::Rope { unrotated_layers, .. }) => {
            unrotated_layers.clear();
            config.sliding_window = None;
        }
        // The converter writes 2^20 for models whose state has no end.
        ("granitemoehybrid" | "nemotron_h", _) => config.max_positions = 0,
        // Of layers that there are not in Nemotron 3.
        ("nemotron_h_moe", _) => config.max_positions = 0,
        ("falcon_mamba", _) => {
            if let RecurrentMixer::Mamba1 { norm_epsilon, .. } = &mut config.recurrent.as_mut().unwrap().mixer
            {
                *norm_epsilon = None;
            }
        }
        ("starcoder2", _) => config.sliding_window = None,
        ("gpt_oss", _) => config.gate_clip.as_mut().unwrap().limit = 0.0,
        ("olmoe", _) => config.qkv_clip = None,
        ("lfm2_moe", _) => config.experts.as_mut().unwrap().weight_scale = None,
        ("minicpm3", _) => {
            (config.embedding_scale, config.residual_scale, config.logit_scale) = (None, None, None);
        }
        _ => {}
    }
}

#[test]
fn a_model_that_comes_both_ways_is_the_same_model() {
    let differ: Vec<String> = converted_by_llama_cpp()
        .into_iter()
        .filter_map(|(name, file, folder)| Some(format!("{name}: {}", difference(&name, &file, &folder)?)))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// What tells the file from the folder.
fn difference(name: &str, file: &Path, folder: &Path) -> Option<String> {
    let gguf = match open_gguf(file) {
        Ok(gguf) => gguf,
        Err(error) => return Some(error.to_string()),
    };
    let huggingface = open_huggingface(folder).unwrap();
    let [mut one, mut other] = [gguf.config(), huggingface.config()].map(ModelConfig::clone);
    forget(name, &mut one);
    forget(name, &mut other);
    if one != other {
        return Some(format!("{one:?}\n{other:?}"));
    }
    let ids = |source: &dyn WeightSource| -> Vec<_> { source.tensors().iter().map(|info| info.id).collect() };
    if ids(&gguf) != ids(&huggingface) {
        return Some(format!("{:?}\n{:?}", ids(&gguf), ids(&huggingface)));
    }
    ids(&gguf).into_iter().find_map(|id| {
        let (one, other) = (gguf.load(id).unwrap(), huggingface.load(id).unwrap());
        let announced = gguf.tensors().iter().find(|info| info.id == id).unwrap().stored;
        if one.stored_type() != announced {
            return Some(format!("{id}: {:?}, not {announced:?}", one.stored_type()));
        }
        // torch's exponentials, and ours.
        let near =
            |(a, b): (&f32, &f32)| id.kind == TensorKind::MixerDecay && (a - b).abs() <= 1e-6 * b.abs();
        let (one, other) = (one.to_f32(), other.to_f32());
        let same = one == other || one.len() == other.len() && one.iter().zip(&other).all(near);
        (!same).then(|| format!("values of {id}"))
    })
}

#[test]
fn models_of_llama_cpp_compute_what_transformers_computes() {
    let differ: Vec<String> = converted_by_llama_cpp()
        .into_iter()
        .filter(|(name, ..)| !UNUSUAL.contains(&name.as_str()))
        .filter_map(|(name, file, folder)| Some(format!("{name}: {}", deviation(&file, &folder)?)))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// How far logits are from those of transformers, if they are too far.
fn deviation(file: &Path, folder: &Path) -> Option<String> {
    let expected = folder.join("expected.safetensors");
    let golden = GoldenExpectation::read(&expected).unwrap();
    let source = match open_gguf(file) {
        Ok(source) => source,
        Err(error) => return Some(error.to_string()),
    };
    let decoder = Decoder::new(Arc::new(Model::load(&source).unwrap()), Cpu::new(Isa::best()), None);
    let report = compare_golden(&decoder, KvTypes::default(), &expected, &golden).unwrap();
    let agrees =
        report.logits_relative_error < 1e-5 && report.nll_mean_abs_error < 5e-5 && report.greedy_equal;
    (!agrees).then(|| format!("{report:?}"))
}
