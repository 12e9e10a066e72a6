//! Real model directories, where the machine has them.

use qsf_format::{PositionConfig, QuantType, RopeScaling, TensorId, TensorKind};

use super::*;
use crate::cpu::Isa;
use crate::source::WeightSource;
use crate::test_data::shared;

#[test]
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
        let Some(dir) = shared(name) else { continue };
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
fn stored_values_are_decoded_where_they_belong() {
    let Some(dir) = shared("golden/gpt2") else { return };
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
fn rotary_scaling_of_llama_3_is_found() {
    let Some(dir) = shared("golden/llama3") else { return };
    let expected = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 64,
    };
    let position = open_huggingface(&dir).unwrap().config().position.clone();
    assert_eq!(position, PositionConfig::rope(500_000.0, Some(expected)));
}
