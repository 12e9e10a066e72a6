//! The stored bytes themselves.

use proptest::prelude::*;

use super::*;

/// Values of all kinds that a row can hold: ordinary, repeated, tiny, large, zeros of either sign.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -1.0f32..1.0,
        1 => prop_oneof![Just(0.0f32), Just(-0.0), Just(0.5), Just(-0.5)],
        1 => -1e-6f32..1e-6,
        1 => -1000.0f32..1000.0,
        1 => prop::num::f32::SUBNORMAL,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_instruction_set_writes_the_same_bytes(
        values in prop::collection::vec(value(), 1..700),
        scale in prop_oneof![Just(1.0f32), Just(1e-6), Just(30.0)],
        weights in prop::option::of(prop::collection::vec(0.0f32..1e3, 700)),
        rows in 1usize..3,
    ) {
        let cols = values.len() / rows;
        prop_assume!(cols > 0);
        let values: Vec<f32> = values[..rows * cols].iter().map(|v| v * scale).collect();
        let importance = weights.as_ref().map(|w| &w[..cols]);
        for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_learned()) {
            for block in BlockSize::ALL {
                let bytes = quant.tensor_bytes(block, rows as u64, cols as u64).unwrap() as usize;
                let outputs: Vec<_> = Isa::available().into_iter().map(|isa| {
                    let mut out = vec![0xA5; bytes];
                    quantize_rows(isa, quant, block, cols, &values, importance, &mut out).map(|()| out)
                }).collect();
                for output in &outputs {
                    prop_assert_eq!(output, &outputs[0], "{} {}", quant, block);
                }
            }
        }
    }

    #[test]
    fn no_value_comes_back_further_away_than_the_range_of_its_block(
        values in prop::collection::vec(value(), 1..300),
    ) {
        for quant in block_types() {
            for block in BlockSize::ALL {
                let decoded = round_trip(quant, block, &values, None);
                for (values, decoded) in values.chunks(block.get()).zip(decoded.chunks(block.get())) {
                    let largest = values.iter().fold(1e-7f32, |a, v| a.max(v.abs()));
                    for (v, d) in values.iter().zip(decoded) {
                        prop_assert!((v - d).abs() <= 2.1 * largest, "{quant} {block}: {v} became {d}");
                    }
                }
            }
        }
    }
}

#[test]
fn padding_codes_are_zero_in_all_bits() {
    let padded = |quant: QuantType, block: BlockSize, used: usize| {
        // All true codes are made as large as they get, so that only padding is zero.
        let mut values = vec![1.0; used];
        values[0] = -1.0;
        let bytes = quantize(quant, block, &values, None).unwrap();
        let scales = match quant {
            QuantType::Q2Sym | QuantType::Ternary | QuantType::Q8 => 2,
            QuantType::Q2 | QuantType::Q3 | QuantType::Q4 => 4,
            without_own_blocks!() => unreachable!("no blocks of its own"),
        };
        let (n, codes) = (block.get(), bytes[scales..].to_vec());
        let bit = |plane: &[u8], i: usize| (plane[i / 8] >> (i % 8)) & 1;
        (used..n).all(|i| {
            let low = (codes[i % (n / 4)] >> (2 * (i / (n / 4)))) & 3;
            match quant {
                QuantType::Q2Sym | QuantType::Q2 => low == 0,
                QuantType::Q3 => low == 0 && bit(&codes[n / 4..], i) == 0,
                QuantType::Q4 => (codes[i % (n / 2)] >> (4 * (i / (n / 2)))) & 15 == 0,
                QuantType::Ternary => bit(&codes, i) == 0 && bit(&codes[n / 8..], i) == 0,
                QuantType::Q8 => codes[i] == 0,
                without_own_blocks!() => unreachable!("no blocks of its own"),
            }
        })
    };
    for quant in block_types() {
        for block in BlockSize::ALL {
            for used in [1, 17, block.get() - 1] {
                assert!(padded(quant, block, used), "{quant} {block} {used}");
            }
        }
    }
}

#[test]
fn a_value_that_the_codes_can_hold_comes_back_exactly() {
    let block = BlockSize::B64;
    let value = |quant: QuantType, i: usize| match quant {
        QuantType::Q2Sym => 2.0 * (i % 4) as f32 - 3.0,
        QuantType::Q2 => (i % 4) as f32 - 28.0,
        QuantType::Q3 => (i % 8) as f32 + 12.0,
        QuantType::Q4 => (i % 16) as f32 - 4.0,
        QuantType::Ternary => (i % 3) as f32 - 1.0,
        QuantType::Q8 => (i * 4 % 255) as f32 - 127.0,
        without_own_blocks!() => unreachable!("no blocks of its own"),
    };
    for quant in block_types() {
        let values: Vec<f32> = (0..64).map(|i| 0.25 * value(quant, i)).collect();
        assert_eq!(round_trip(quant, block, &values, None), values, "{quant}");
    }
}

#[test]
fn a_ternary_zero_has_no_sign_bit() {
    let values: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { -1e-4 } else { -1.0 }).collect();
    let bytes = quantize(QuantType::Ternary, BlockSize::B64, &values, None).unwrap();
    let (sign, zero) = bytes[2..].split_at(8);
    assert!(sign.iter().zip(zero).all(|(s, z)| s & z == 0 && *s == 0xAA && *z == 0x55));
}

#[test]
fn float_types_round_to_the_nearest_and_keep_finite_values_finite() {
    let values = [1.0, -2.5, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, f32::MAX, -f32::MAX, 1e-40, -0.0];
    let block = BlockSize::B64;
    assert_eq!(round_trip(QuantType::F32, block, &values, None), values);
    let bf16 = round_trip(QuantType::Bf16, block, &values, None);
    assert_eq!(bf16[..4], [1.0, -2.5, 1.0, 1.0 + 4.0 / 256.0]);
    assert!(bf16.iter().all(|v| v.is_finite()));
    let values = [65519.0, -65504.0, 1e-8, 0.1];
    let expected = values.map(|v| f16::from_f32(v).to_f32());
    assert_eq!(round_trip(QuantType::F16, block, &values, None), expected);
}
