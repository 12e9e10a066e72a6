//! What feedback promises: less error in the outputs, by the amounts it states, and the same bytes everywhere.

use qsf_format::{BUILT_IN, BlockSize, QuantType, decode_row};
use qsf_runtime::cpu::Isa;

use super::super::*;
use super::{Random, block_types};

fn learned() -> impl Iterator<Item = QuantType> {
    QuantType::ALL.into_iter().filter(|quant| quant.is_learned())
}

/// The mean of x x' over inputs whose columns hang together and differ in size, as those of models do.
fn moment(random: &mut Random, n: usize) -> Vec<f32> {
    let common: Vec<Vec<f32>> = (0..6).map(|_| random.gaussian(n, 1.0)).collect();
    let size: Vec<f64> = (0..n).map(|_| (0.7 * random.normal()).exp()).collect();
    let mut moment = vec![0.0f64; n * n];
    let samples = 2 * n;
    for _ in 0..samples {
        let parts: Vec<f64> = common.iter().map(|_| random.normal()).collect();
        let x: Vec<f64> = (0..n)
            .map(|j| {
                let shared: f64 = common.iter().zip(&parts).map(|(c, p)| f64::from(c[j]) * p).sum();
                size[j] * (0.6 * random.normal() + 0.4 * shared)
            })
            .collect();
        for i in 0..n {
            for j in 0..n {
                moment[i * n + j] += x[i] * x[j] / samples as f64;
            }
        }
    }
    moment.iter().map(|v| *v as f32).collect()
}

/// `tr(E M E')` in f64.
fn loss(moment: &[f32], n: usize, errors: &[f64]) -> f64 {
    let of_row = |row: &[f64]| -> f64 {
        (0..n).map(|i| row[i] * (0..n).map(|j| row[j] * f64::from(moment[i * n + j])).sum::<f64>()).sum()
    };
    errors.chunks_exact(n).map(of_row).sum()
}

fn decode(quant: QuantType, cols: usize, bytes: &[u8]) -> Vec<f32> {
    let row_bytes = quant.row_bytes(BlockSize::B32, cols as u64).unwrap() as usize;
    let mut out = vec![f32::NAN; bytes.len() / row_bytes * cols];
    for (bytes, out) in bytes.chunks_exact(row_bytes).zip(out.chunks_exact_mut(cols)) {
        decode_row(quant, BlockSize::B32, &BUILT_IN, bytes, out);
    }
    out
}

fn errors(values: &[f32], decoded: &[f32]) -> Vec<f64> {
    values.iter().zip(decoded).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect()
}

fn matrix(isa: Isa, quant: QuantType, cols: usize) -> Matrix<'static> {
    Matrix { isa, quant, block: BlockSize::B32, tables: &BUILT_IN, cols }
}

#[test]
fn feedback_makes_the_outputs_of_every_learned_type_more_exact() {
    let mut random = Random(11);
    for n in [33, 300, 576] {
        let moment = moment(&mut random, n);
        let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
        let diagonal: Vec<f32> = (0..n).map(|i| moment[i * n + i]).collect();
        let values = random.gaussian(20 * n, 0.02);
        for quant in learned() {
            let of = |feedback, effort| {
                let matrix = matrix(Isa::best(), quant, n);
                let bytes = quantize_matrix(&matrix, &values, feedback, Some(&diagonal), effort).unwrap();
                loss(&moment, n, &errors(&values, &decode(quant, n, &bytes)))
            };
            let without = of(None, Effort::FULL);
            let fed = of(Some(&feedback), Effort { descents: 0, ..Effort::QUICK });
            let descended = of(Some(&feedback), Effort::FULL);
            assert!(fed < 0.9 * without, "{quant} {n}: {fed} after {without}");
            // Of a trellis twice the paths gain little, and nothing where 8 bits have only 64 futures.
            let gain = if quant.is_trellis() { 1.03 } else { 0.99 };
            assert!(descended < gain * fed, "{quant} {n}: {descended} after {fed}");
        }
    }
}

#[test]
fn bytes_depend_neither_on_the_instruction_set_nor_on_the_threads() {
    let mut random = Random(12);
    let n = 96;
    let moment = moment(&mut random, n);
    let values = random.gaussian(35 * n, 1.0);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for quant in learned().chain(block_types()) {
        let bytes = |isa| {
            let feedback = Feedback::new(isa, &moment, 0.01).unwrap();
            quantize_matrix(&matrix(isa, quant, n), &values, Some(&feedback), None, Effort::FULL).unwrap()
        };
        let expected = one.install(|| bytes(Isa::SCALAR));
        for isa in Isa::available() {
            assert!(bytes(isa) == expected, "{quant} on {isa:?}");
        }
    }
}

#[test]
fn rows_are_coded_as_if_they_were_alone() {
    let mut random = Random(13);
    let n = 64;
    let moment = moment(&mut random, n);
    let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
    let values = random.gaussian(21 * n, 1.0);
    for quant in learned() {
        let matrix = matrix(Isa::best(), quant, n);
        let quantize =
            |values: &[f32]| quantize_matrix(&matrix, values, Some(&feedback), None, Effort::QUICK).unwrap();
        let together = quantize(&values);
        let alone: Vec<u8> = values.chunks_exact(n).flat_map(quantize).collect();
        assert!(together == alone, "{quant}");
    }
}

#[test]
fn a_column_that_no_input_used_and_rows_of_zeros_do_no_harm() {
    let mut random = Random(14);
    let n = 64;
    let mut moment = moment(&mut random, n);
    for i in 0..n {
        (moment[i * n + 7], moment[7 * n + i]) = (0.0, 0.0);
    }
    let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
    let mut values = random.gaussian(3 * n, 1.0);
    values[n..2 * n].fill(0.0);
    for quant in learned() {
        let matrix = matrix(Isa::best(), quant, n);
        let bytes = quantize_matrix(&matrix, &values, Some(&feedback), None, Effort::FULL).unwrap();
        let decoded = decode(quant, n, &bytes);
        assert!(decoded[n..2 * n].iter().all(|v| *v == 0.0), "{quant}");
        assert!((decoded[7] - values[7]).abs() < 1.5, "{quant}: {} for {}", decoded[7], values[7]);
    }
}

#[test]
fn what_is_no_second_moment_is_an_error() {
    let with = |at: usize, value| {
        let mut moment = vec![0.0; 9];
        for i in 0..3 {
            moment[4 * i] = 1.0;
        }
        moment[at] = value;
        Feedback::new(Isa::best(), &moment, 0.01).map(|_| ())
    };
    assert_eq!(with(0, 1.0), Ok(()));
    assert_eq!(with(5, f32::INFINITY), Err(MomentError::NotFinite { row: 1, col: 2, value: f32::INFINITY }));
    assert_eq!(with(4, -1.0), Err(MomentError::Negative { col: 1, value: -1.0 }));
    assert_eq!(with(1, 1e30), Err(MomentError::NotPositive));
}

#[test]
fn a_singular_moment_is_damped_until_it_has_a_factor() {
    // One input only: of rank 1.
    let x: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin()).collect();
    let moment: Vec<f32> = x.iter().flat_map(|a| x.iter().map(move |b| a * b)).collect();
    let feedback = Feedback::new(Isa::best(), &moment, 0.0).unwrap();
    let values = Random(15).gaussian(40, 1.0);
    let bytes = quantize_matrix(
        &matrix(Isa::best(), QuantType::N3, 40),
        &values,
        Some(&feedback),
        None,
        Effort::FULL,
    );
    let error = errors(&values, &decode(QuantType::N3, 40, &bytes.unwrap()));
    let whole: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    assert!(loss(&moment, 40, &error) < 1e-4 * loss(&moment, 40, &whole));
    assert!(Feedback::new(Isa::best(), &vec![0.0; 1600], 0.0).is_ok(), "no input at all");
}

#[test]
fn feedback_makes_the_outputs_of_plain_types_more_exact_at_every_block_size() {
    let mut random = Random(16);
    let n = 300;
    let moment = moment(&mut random, n);
    let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
    let diagonal: Vec<f32> = (0..n).map(|i| moment[i * n + i]).collect();
    let values = random.gaussian(17 * n, 0.02);
    for quant in block_types() {
        for block in [32, 128, 256] {
            let block = BlockSize::new(block).unwrap();
            let of = |feedback| {
                let matrix = Matrix { isa: Isa::best(), quant, block, tables: &BUILT_IN, cols: n };
                let bytes =
                    quantize_matrix(&matrix, &values, feedback, Some(&diagonal), Effort::FULL).unwrap();
                let row_bytes = quant.row_bytes(block, n as u64).unwrap() as usize;
                let mut decoded = vec![0.0; values.len()];
                for (bytes, out) in bytes.chunks_exact(row_bytes).zip(decoded.chunks_exact_mut(n)) {
                    decode_row(quant, block, &BUILT_IN, bytes, out);
                }
                loss(&moment, n, &errors(&values, &decoded))
            };
            let (with, without) = (of(Some(&feedback)), of(None));
            assert!(with < 0.85 * without, "{quant} {block:?}: {with} after {without}");
        }
    }
}
