use qsf_runtime::cpu::Isa;
use qsf_runtime::ggml::{GgmlType, decode_row};

use super::super::{Effort, Feedback};
use super::points::point_shape_of;
use super::{GgmlMatrix, quantize_ggml};

const COLS: usize = 512;
const ROWS: usize = 19;

fn values() -> Vec<f32> {
    // Sums of sines of unrelated periods: near to normally distributed, and the same everywhere.
    (0..ROWS * COLS)
        .map(|i| {
            [0.37f32, 1.13, 2.71, 0.91].iter().map(|f| ((i * i % 7919) as f32 * f).sin()).sum::<f32>() * 0.02
        })
        .collect()
}

fn decoded(ty: GgmlType, bytes: &[u8]) -> Vec<f32> {
    let row_bytes = COLS / ty.block_len() * ty.block_bytes();
    let mut out = vec![0.0; bytes.len() / row_bytes * COLS];
    for (bytes, out) in bytes.chunks_exact(row_bytes).zip(out.chunks_exact_mut(COLS)) {
        decode_row(Isa::SCALAR, ty, bytes, out);
    }
    out
}

fn relative_error(original: &[f32], found: &[f32]) -> f64 {
    let square = |v: f32| f64::from(v).powi(2);
    let error: f64 = original.iter().zip(found).map(|(a, b)| square(a - b)).sum();
    (error / original.iter().map(|v| square(*v)).sum::<f64>()).sqrt()
}

/// Largest relative errors: a little above what these quantizers leave of these values.
const MOST: [(GgmlType, f64); 22] = [
    (GgmlType::IQ1_S, 0.45),
    (GgmlType::IQ1_M, 0.42),
    (GgmlType::IQ2_XXS, 0.34),
    (GgmlType::IQ2_XS, 0.3),
    (GgmlType::IQ2_S, 0.25),
    (GgmlType::IQ3_XXS, 0.185),
    (GgmlType::IQ3_S, 0.135),
    (GgmlType::TQ1_0, 0.43),
    (GgmlType::TQ2_0, 0.43),
    (GgmlType::MXFP4, 0.12),
    (GgmlType::Q2_K, 0.32),
    (GgmlType::Q3_K, 0.17),
    (GgmlType::IQ4_XS, 0.085),
    (GgmlType::Q4_K, 0.08),
    (GgmlType::IQ4_NL, 0.085),
    (GgmlType::Q4_0, 0.095),
    (GgmlType::Q4_1, 0.08),
    (GgmlType::Q5_K, 0.04),
    (GgmlType::Q5_0, 0.05),
    (GgmlType::Q5_1, 0.04),
    (GgmlType::Q6_K, 0.022),
    (GgmlType::Q8_0, 0.006),
];

#[test]
fn every_type_reads_back_near_its_values() {
    let values = values();
    for (ty, most) in MOST {
        let matrix = GgmlMatrix { isa: Isa::best(), ty, cols: COLS };
        let bytes = quantize_ggml(&matrix, &values, None, None, Effort::FULL).unwrap();
        let error = relative_error(&values, &decoded(ty, &bytes));
        assert!(error < most && error > most / 3.0, "{ty}: {error}");
    }
}

#[test]
fn the_bytes_are_the_same_on_every_processor_and_zeros_stay_zeros() {
    let values = values();
    for (ty, _) in MOST {
        let of = |isa| {
            let matrix = GgmlMatrix { isa, ty, cols: COLS };
            quantize_ggml(&matrix, &values, None, None, Effort::FULL).unwrap()
        };
        let scalar = of(Isa::SCALAR);
        for isa in Isa::available() {
            assert!(of(isa) == scalar, "{ty} {isa:?}");
        }
        let matrix = GgmlMatrix { isa: Isa::best(), ty, cols: COLS };
        let zeros = quantize_ggml(&matrix, &[0.0; COLS], None, None, Effort::FULL).unwrap();
        assert!(decoded(ty, &zeros).iter().all(|v| *v == 0.0), "{ty}");
    }
}

#[test]
fn feedback_makes_the_error_of_outputs_smaller() {
    // Inputs that are alike: for codes of one column neighbours, for wide ones columns far from each other, as in models.
    for (step, wide) in [(1usize, false), (37, true)] {
        let place = |i: usize| i * step % COLS;
        let moment: Vec<f32> =
            (0..COLS * COLS).map(|i| 0.9f32.powi(place(i / COLS).abs_diff(place(i % COLS)) as i32)).collect();
        let of_points = |ty: &GgmlType| point_shape_of(*ty).is_some();
        let types = MOST.iter().map(|(ty, _)| *ty).filter(|ty| of_points(ty) == wide);
        feedback_pays(&moment, types);
    }
}

fn feedback_pays(moment: &[f32], types: impl Iterator<Item = GgmlType>) {
    let values = values();
    let feedback = Feedback::new(Isa::best(), moment, 0.01).unwrap();
    let loss = |found: &[f32]| -> f64 {
        let errors: Vec<f64> = values.iter().zip(found).map(|(a, b)| f64::from(a - b)).collect();
        let rows = errors.chunks_exact(COLS).map(|e| {
            let product = |i: usize| (0..COLS).map(|j| e[j] * f64::from(moment[i * COLS + j])).sum::<f64>();
            (0..COLS).map(|i| e[i] * product(i)).sum::<f64>()
        });
        rows.sum()
    };
    for ty in types {
        let matrix = GgmlMatrix { isa: Isa::best(), ty, cols: COLS };
        let of = |feedback, effort| {
            loss(&decoded(ty, &quantize_ggml(&matrix, &values, feedback, None, effort).unwrap()))
        };
        let (alone, fed) = (of(None, Effort::FULL), of(Some(&feedback), Effort::QUICK));
        let descended = of(Some(&feedback), Effort::FULL);
        assert!(fed < 0.6 * alone, "{ty}: {fed} of {alone}");
        assert!(descended <= fed * 1.0001, "{ty}: {descended} after {fed}");
    }
}
