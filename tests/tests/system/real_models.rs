//! Models that others wrote, as directories and as GGUF files.

use std::fs;

use qsf_format::{PositionConfig, QuantType, RopeScaling, TensorId, TensorKind};
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::gguf::{GgufFile, open_gguf};
use qsf_runtime::source::{WeightSource as _, open_huggingface};
use qsf_tests::*;

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn every_reference_model_opens_and_all_its_tensors_load() {
    // Name, tensors, parameters (a tied head counted once), type.
    let cases = [
        ("models/llama-53m", 1 + 14 * 9 + 1, 52_443_648, QuantType::F16),
        ("models/gpt2-17m", 1 + 6 * 16 + 3, 17_332_224, QuantType::F16),
        ("models/demo-1m", 1 + 4 * 9 + 1, 1_049_728, QuantType::F16),
        ("golden/llama", 1 + 3 * 9 + 2, 0, QuantType::Bf16),
        ("golden/llama3", 1 + 3 * 9 + 1, 0, QuantType::Bf16),
        ("golden/gpt2", 1 + 3 * 16 + 3, 0, QuantType::Bf16),
    ];
    for (name, count, parameters, quant) in cases {
        let dir = shared(name);
        let source = open_huggingface(&dir).unwrap();
        assert_eq!(source.tensors().len(), count, "{name}");
        let mut total = 0;
        for info in source.tensors() {
            let tensor = source.load(info.id).unwrap();
            assert_eq!(
                (tensor.rows(), tensor.cols(), tensor.stored_type()),
                (info.rows, info.cols, quant.into()),
                "{name}"
            );
            total += tensor.rows() * tensor.cols();
            let values = tensor.to_f32();
            assert!(
                values.iter().all(|v| v.is_finite()) && values.iter().any(|&v| v != 0.0),
                "{name} {}",
                info.id
            );
        }
        assert!(parameters == 0 || total == parameters, "{name}: {total}");
        assert!(source.tokenizer_json().is_some_and(|json| json.starts_with(b"{")));
        assert_eq!((source.config().bos, source.config().stop_tokens.as_slice()), (Some(0), &[0][..]));
        for layer in (0..source.config().layers).map(Some).chain([None]) {
            source.release(layer);
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn stored_values_are_decoded_where_they_belong() {
    let dir = shared("golden/gpt2");
    let source = open_huggingface(&dir).unwrap();
    let file = fs::read(dir.join("model.safetensors")).unwrap();
    let stored = safetensors::SafeTensors::deserialize(&file).unwrap();
    let joined = stored.tensor("transformer.h.1.attn.c_attn.weight").unwrap();
    let value = |input: usize, output: usize| {
        let at = 2 * (192 * input + output);
        f32::from_bits(u32::from(u16::from_le_bytes([joined.data()[at], joined.data()[at + 1]])) << 16)
    };
    for (kind, first) in [(TensorKind::AttnQ, 0), (TensorKind::AttnK, 64), (TensorKind::AttnV, 128)] {
        let tensor = source.load(TensorId::of_layer(1, kind)).unwrap();
        let mut row = [0.0; 64];
        for output in [0, 17, 63] {
            tensor.decode_row(Isa::best(), output, &mut row);
            for (input, found) in row.iter().enumerate() {
                assert_eq!(*found, value(input, first + output), "{kind} {output},{input}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn rotary_scaling_of_llama_3_is_found() {
    let dir = shared("golden/llama3");
    let expected = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 64,
    };
    let position = open_huggingface(&dir).unwrap().config().position.clone();
    assert_eq!(position, PositionConfig::rope(500_000.0, Some(expected)));
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn a_llama_of_260_thousand_parameters_opens() {
    let path = shared("gguf/stories260K.gguf");
    let source = open_gguf(&path).unwrap();
    let config = source.config();
    assert_eq!(
        (config.layers, config.hidden, config.heads, config.kv_heads, config.vocab),
        (5, 64, 8, 4, 512)
    );
    assert_eq!(config.position, PositionConfig::rope(10_000.0, None));
    assert_eq!((config.bos, config.stop_tokens.as_slice()), (Some(1), &[2][..]));
    let values: usize = source.tensors().iter().map(|info| info.rows * info.cols).sum();
    let stored: usize =
        source.tensors().iter().map(|info| source.load(info.id).unwrap().stored_bytes() as usize).sum();
    assert_eq!(stored, 4 * values);
    assert_eq!(source.files(), [path]);
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn vocabularies_open_as_files_and_not_as_models() {
    let folder = shared("vocab");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            let file = GgufFile::open(&path).unwrap();
            assert!(file.metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap().len() > 30_000);
            assert!(open_gguf(&path).is_err());
        }
    }
}
