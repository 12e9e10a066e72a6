//! Blocks that are all one value, tiny, huge or lopsided.

use super::*;

fn repeated(value: f32) -> Vec<f32> {
    vec![value; 100]
}

#[test]
fn zeros_of_either_sign_come_back_as_exactly_zero() {
    for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_learned()) {
        for block in BlockSize::ALL {
            for zero in [0.0, -0.0] {
                let decoded = round_trip(quant, block, &repeated(zero), None);
                assert!(decoded.iter().all(|v| *v == 0.0), "{quant} {block}");
            }
        }
    }
}

#[test]
fn a_constant_comes_back_as_the_nearest_half_from_types_with_a_min() {
    for value in [1.0, -0.3, 1e-7, 3.3e4, -65000.0] {
        for quant in [QuantType::Q2, QuantType::Q3, QuantType::Q4] {
            let decoded = round_trip(quant, BlockSize::B64, &repeated(value), None);
            assert!(decoded.iter().all(|v| *v == f16::from_f32(value).to_f32()), "{quant} {value}");
        }
    }
}

#[test]
fn a_constant_comes_back_within_one_rounding_from_symmetric_types() {
    for value in [1.0, -0.3, 1e-3, -3e4] {
        for quant in [QuantType::Q2Sym, QuantType::Ternary, QuantType::Q8] {
            for decoded in round_trip(quant, BlockSize::B64, &repeated(value), None) {
                assert!((decoded - value).abs() <= value.abs() * 0.001, "{quant} {value} {decoded}");
            }
        }
    }
}

#[test]
fn one_outlier_does_not_poison_the_rest_more_than_its_own_error_would() {
    let mut values = Random(5).gaussian(64, 0.02);
    values[17] = 10.0;
    for quant in block_types() {
        let ours = squares(&values, &round_trip(quant, BlockSize::B64, &values, None), |_| 1.0);
        let plain = squares(&values, &plain(quant, BlockSize::B64, &values), |_| 1.0);
        assert!(ours <= plain, "{quant}: {ours} > {plain}");
    }
}

#[test]
fn values_too_small_for_a_binary16_scale_give_zero_or_near_and_never_nan() {
    for magnitude in [f32::from_bits(1), 1e-40, 1e-30, 1e-20, 1e-9, 3e-8] {
        let values: Vec<f32> = (0..100).map(|i| magnitude * ((i % 7) as f32 - 3.0)).collect();
        for quant in block_types() {
            for block in BlockSize::ALL {
                let decoded = round_trip(quant, block, &values, None);
                let error = squares(&values, &decoded, |_| 1.0);
                let zero = squares(&values, &vec![0.0; 100], |_| 1.0);
                assert!(decoded.iter().all(|v| v.is_finite()), "{quant} {magnitude:e}");
                assert!(
                    error <= zero * 1.0001 || quant == QuantType::Q2Sym,
                    "{quant} {magnitude:e}: {error} {zero}"
                );
            }
        }
    }
}

#[test]
fn tiny_blocks_use_the_best_of_the_few_scales_that_binary16_has_there() {
    let smallest = 2f32.powi(-24);
    let values: Vec<f32> = (0..64).map(|i| smallest * (i as f32 * 0.71).sin() * 4.0).collect();
    let (top, block) = (3.0, BlockSize::B64);
    let ours = squares(&values, &round_trip(QuantType::Q2, block, &values, None), |_| 1.0);
    let mut best = f64::MAX;
    for scale in 0..8 {
        for min in -8..8 {
            let (scale, min) = (scale as f32 * smallest, min as f32 * smallest);
            let nearest = |v: &f32| {
                let code = if scale == 0.0 { 0.0 } else { ((v - min) / scale).round().clamp(0.0, top) };
                scale * code + min
            };
            let decoded: Vec<f32> = values.iter().map(nearest).collect();
            best = best.min(squares(&values, &decoded, |_| 1.0));
        }
    }
    assert!(ours <= best * 1.000_001, "{ours} > {best}");
}

#[test]
fn an_offset_far_above_the_range_is_not_lost_to_the_rounding_of_min() {
    // Halves are 0.5 apart at 1000: the nearest min alone would leave an error of 0.2 in every value.
    let values: Vec<f32> = (0..64).map(|i| 1000.2 + 0.05 * (i as f32).sin()).collect();
    let decoded = round_trip(QuantType::Q4, BlockSize::B64, &values, None);
    let worst = values.iter().zip(&decoded).fold(0.0f32, |a, (v, d)| a.max((v - d).abs()));
    assert!(worst < 0.06, "{worst}");
}

#[test]
fn a_scale_or_value_beyond_binary16_is_reported_and_never_saturated() {
    for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_learned()) {
        let mut values = repeated(0.5);
        values[70] = 1e38;
        let result = quantize(quant, BlockSize::B64, &values, None);
        let holds = matches!(quant, QuantType::F32 | QuantType::Bf16);
        assert_eq!(result.is_ok(), holds, "{quant}");
        values[70] = -f32::MAX;
        values[71] = f32::MAX;
        assert_eq!(quantize(quant, BlockSize::B64, &values, None).is_ok(), holds, "{quant}");
    }
    for quant in [QuantType::Q2, QuantType::Q3, QuantType::Q4] {
        assert_eq!(quantize(quant, BlockSize::B64, &repeated(70_000.0), None), Err(ScaleOverflow));
    }
    assert_eq!(quantize(QuantType::F16, BlockSize::B64, &[65520.0], None), Err(ScaleOverflow));
}

#[test]
fn columns_without_importance_cost_nothing_and_break_nothing() {
    let values = Random(6).gaussian(130, 1.0);
    let mut importance = vec![0.0; 130];
    importance[10] = 1.0;
    importance[129] = f32::MIN_POSITIVE / 4.0;
    for quant in block_types() {
        let decoded = round_trip(quant, BlockSize::B64, &values, Some(&importance));
        assert!(decoded.iter().all(|v| v.is_finite()), "{quant}");
        assert!((decoded[10] - values[10]).abs() <= values[10].abs() * 0.002, "{quant}");
    }
}

#[test]
fn no_rows_are_no_bytes() {
    let nothing = quantize_rows(Isa::best(), QuantType::Q4, BlockSize::B64, 64, &[], None, &mut []);
    assert_eq!(nothing, Ok(()));
}
