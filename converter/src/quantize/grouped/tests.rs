use qsf_format::QuantType;
use qsf_runtime::cpu::Isa;
use qsf_runtime::grouped::{GroupType, GroupZero};

use super::super::{Effort, Feedback};
use super::{GroupMatrix, quantize_groups};

const COLS: usize = 256;
const ROWS: usize = 19;
const ZEROS: [GroupZero; 3] = [GroupZero::Middle, GroupZero::Code, GroupZero::Bias];

fn values() -> Vec<f32> {
    // Sums of sines of unrelated periods: near to normally distributed, and the same everywhere.
    (0..ROWS * COLS)
        .map(|i| {
            [0.37f32, 1.13, 2.71, 0.91].iter().map(|f| ((i * i % 7919) as f32 * f).sin()).sum::<f32>() * 0.02
        })
        .collect()
}

fn types() -> impl Iterator<Item = GroupType> {
    let of = |zero| {
        [2, 3, 4, 5, 6, 8].into_iter().flat_map(move |bits| {
            GroupType::GROUPS.into_iter().flat_map(move |group| {
                let scales = [QuantType::F16, QuantType::Bf16, QuantType::F32];
                scales.into_iter().map(move |scale| GroupType { bits, group, zero, scale })
            })
        })
    };
    ZEROS.into_iter().flat_map(of)
}

fn decoded(ty: GroupType, bytes: &[u8]) -> Vec<f32> {
    let row_bytes = ty.row_bytes(COLS).unwrap();
    let mut out = vec![0.0; bytes.len() / row_bytes * COLS];
    for (bytes, out) in bytes.chunks_exact(row_bytes).zip(out.chunks_exact_mut(COLS)) {
        ty.decode_row(Isa::SCALAR, bytes, out);
    }
    out
}

fn quantized(isa: Isa, ty: GroupType, values: &[f32], feedback: Option<&Feedback>) -> Vec<u8> {
    quantize_groups(&GroupMatrix { isa, ty, cols: COLS }, values, feedback, None, Effort::FULL).unwrap()
}

fn relative_error(original: &[f32], found: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v).powi(2);
    let error: f64 = original.iter().zip(found).map(|(a, b)| square(a - b)).sum();
    (error / original.iter().map(|v| square(*v)).sum::<f64>()).sqrt()
}

/// What rounding to the nearest code leaves, with the scale that clips nothing.
fn rounded_plainly(ty: GroupType, values: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    for group in values.chunks_exact(ty.group) {
        let (low, high) = group.iter().fold((0.0f32, 0.0f32), |(l, h), v| (l.min(*v), h.max(*v)));
        let top = f32::from(ty.top());
        let (step, zero) = match ty.zero {
            GroupZero::Middle => (high.max(-low) / ((top - 1.0) / 2.0), (top + 1.0) / 2.0),
            _ => ((high - low) / top, (-low / ((high - low) / top)).round()),
        };
        out.extend(group.iter().map(|v| step * ((v / step + zero).round().clamp(0.0, top) - zero)));
    }
    out
}

#[test]
fn every_type_is_nearer_than_plain_rounding_and_more_bits_are_nearer_than_fewer() {
    let values = values();
    for zero in ZEROS {
        for group in GroupType::GROUPS {
            let mut before = f64::INFINITY;
            for bits in [2, 3, 4, 5, 6, 8] {
                let ty = GroupType { bits, group, zero, scale: QuantType::F32 };
                let found = relative_error(&values, &decoded(ty, &quantized(Isa::best(), ty, &values, None)));
                let plain = relative_error(&values, &rounded_plainly(ty, &values));
                assert!(found <= plain, "{ty}: {found} against {plain}");
                assert!(found < 0.62 * before, "{ty}: {found} after {before}");
                before = found;
            }
        }
    }
}

#[test]
fn bytes_are_the_same_on_every_instruction_set_and_scales_of_16_bits_cost_little() {
    let values = values();
    for ty in types() {
        let bytes = quantized(Isa::SCALAR, ty, &values, None);
        for isa in Isa::available() {
            assert!(bytes == quantized(isa, ty, &values, None), "{ty} on {isa:?}");
        }
        let exact = GroupType { scale: QuantType::F32, ..ty };
        let best = relative_error(&values, &decoded(exact, &quantized(Isa::best(), exact, &values, None)));
        // Eight bits of a bf16 are as coarse as eight bits of code.
        let most = if ty.scale == QuantType::Bf16 && ty.bits > 4 { 1.6 } else { 1.05 };
        assert!(relative_error(&values, &decoded(ty, &bytes)) < most * best, "{ty}");
    }
}

#[test]
fn feedback_makes_the_error_of_outputs_smaller() {
    let values = values();
    // Inputs that are nearly the same in neighbouring columns.
    let moment: Vec<f32> =
        (0..COLS * COLS).map(|i| 0.9f32.powi((i / COLS).abs_diff(i % COLS) as i32)).collect();
    let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
    let loss = |bytes: &[u8], ty: GroupType| -> f64 {
        let found = decoded(ty, bytes);
        let errors: Vec<f32> = found.iter().zip(&values).map(|(a, b)| a - b).collect();
        let of_row = |row: &[f32]| -> f64 {
            let pulls = moment.chunks_exact(COLS).map(|m| m.iter().zip(row).map(|(m, e)| m * e).sum::<f32>());
            pulls.zip(row).map(|(pull, e)| f64::from(pull * e)).sum()
        };
        errors.chunks_exact(COLS).map(of_row).sum()
    };
    for ty in types() {
        let (alone, fitted) =
            (quantized(Isa::best(), ty, &values, None), quantized(Isa::best(), ty, &values, Some(&feedback)));
        let (alone, fitted) = (loss(&alone, ty), loss(&fitted, ty));
        assert!(fitted < 0.7 * alone, "{ty}: {fitted} against {alone}");
    }
}

#[test]
fn groups_of_zeros_and_of_one_value_come_back() {
    for ty in types() {
        let mut values = vec![0.0; 2 * COLS];
        values[COLS..].fill(0.25);
        let found = decoded(ty, &quantized(Isa::best(), ty, &values, None));
        assert!(found[..COLS].iter().all(|v| *v == 0.0), "{ty}");
        let near = |v: &f32| (v - 0.25).abs() < 0.01 * 0.25;
        assert!(found[COLS..].iter().all(near), "{ty}: {:?}", &found[COLS..COLS + 4]);
    }
}
