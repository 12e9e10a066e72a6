//! Weights in floats of 8 bits and in doubles.

use qsf_format::{Failure, TensorId, TensorKind};
use serde_json::json;

use super::*;
use crate::source::WeightSource;

const UP: &str = "model.layers.0.mlp.up_proj";

/// 12 x 8 values of E4M3: 1 in even rows, 2 in odd ones.
fn ones_and_twos() -> Plain {
    let bytes = (0..12).flat_map(|row| [if row % 2 == 0 { 0x38 } else { 0x40 }; 8]).collect();
    Plain { dtype: Dtype::F8_E4M3, shape: vec![12, 8], bytes }
}

fn up(model: TinyModel) -> Vec<f32> {
    let source = model.open().unwrap();
    let info = source.tensors().iter().find(|info| info.id.kind == TensorKind::FfnUp).unwrap();
    assert!(info.stored.is_quantized());
    source.load(TensorId::of_layer(0, TensorKind::FfnUp)).unwrap().to_f32()
}

fn with_scale(end: &str, scale: Plain, config: Value) -> TinyModel {
    TinyModel::llama()
        .with("quantization_config", config)
        .with_tensor(&format!("{UP}.weight"), ones_and_twos())
        .with_tensor(&format!("{UP}.{end}"), scale)
}

#[test]
fn floats_of_8_bits_without_scales_are_the_values_themselves() {
    let values = up(TinyModel::llama().with_tensor(&format!("{UP}.weight"), ones_and_twos()));
    assert!(values.chunks(8).enumerate().all(|(row, values)| values == [1.0 + (row % 2) as f32; 8]));
}

#[test]
fn scales_of_blocks_apply_to_their_rows_and_columns() {
    let config = json!({"quant_method": "fp8", "weight_block_size": [5, 3]});
    let scales = Plain::f32(&[3, 3], 1.0);
    let values = up(with_scale("weight_scale_inv", scales, config));
    for (i, value) in values.into_iter().enumerate() {
        let (row, col) = (i / 8, i % 8);
        let scale = (1 + row / 5 * 3 + col / 3) as f32;
        assert_eq!(value, scale * (1 + row % 2) as f32, "row {row}, column {col}");
    }
    // Without a configuration, blocks are 128 x 128: one here.
    let one = TinyModel::llama().with_tensor(&format!("{UP}.weight"), ones_and_twos());
    let one = one.with_tensor(&format!("{UP}.weight_scale_inv"), Plain::f32(&[1, 1], 3.0));
    assert_eq!(up(one)[8], 6.0);
}

#[test]
fn scales_of_rows_and_of_a_whole_matrix_apply() {
    let config = json!({"quant_method": "compressed-tensors", "format": "float-quantized"});
    let by_row = up(with_scale("weight_scale", Plain::f32(&[12, 1], 1.0), config.clone()));
    assert_eq!((by_row[0], by_row[8], by_row[16]), (1.0, 4.0, 3.0));
    for shape in [&[][..], &[1]] {
        let input = Plain::f32(shape, 7.0);
        let model = with_scale("weight_scale", Plain::f32(shape, 0.5), config.clone())
            .with_tensor(&format!("{UP}.input_scale"), input);
        assert_eq!(up(model)[8], 1.0);
    }
}

#[test]
fn scales_that_fit_no_block_are_named_with_both_shapes() {
    let config = json!({"quant_method": "fp8", "weight_block_size": [5, 3]});
    let wrong = with_scale("weight_scale_inv", Plain::f32(&[3, 2], 1.0), config.clone());
    assert_says(
        &wrong.refusal(),
        &["up_proj.weight_scale_inv", "5 x 3 of shape [12, 8]", "found shape [3, 2]"],
    );
    for (block, says) in [(json!([0, 3]), "0 x 3"), (json!([5]), "two numbers"), (json!("x"), "a list")] {
        let config = json!({"quant_method": "fp8", "weight_block_size": block});
        assert_says(&with_scale("weight_scale_inv", Plain::f32(&[3, 3], 1.0), config).refusal(), &[says]);
    }
    // A scale whose matrix is no float of 8 bits would be dropped silently.
    let stray = TinyModel::llama().with_tensor(&format!("{UP}.weight_scale_inv"), Plain::f32(&[1, 1], 1.0));
    assert_says(&stray.refusal(), &["up_proj.weight_scale_inv", "this one too"]);
}

#[test]
fn doubles_become_floats_and_other_types_are_refused_by_name() {
    let norm = "model.norm.weight";
    let bytes = (0..8).flat_map(|i| (f64::from(i) + 0.1).to_le_bytes()).collect();
    let doubles = Plain { dtype: Dtype::F64, shape: vec![8], bytes };
    let source = TinyModel::llama().with_tensor(norm, doubles).open().unwrap();
    let tensor = source.load(TensorId::of_model(TensorKind::FinalNorm)).unwrap();
    assert_eq!((tensor.to_f32()[3], tensor.stored_type().is_quantized()), (3.1, false));
    for method in ["bitsandbytes", "hqq", "compressed-tensors"] {
        let model = TinyModel::llama().with("quantization_config", json!({"quant_method": method}));
        let error = model.open().unwrap_err();
        assert_eq!(error.failure(), Failure::Unsupported);
        assert_says(&error.to_string(), &[method, "already quantized"]);
    }
}
