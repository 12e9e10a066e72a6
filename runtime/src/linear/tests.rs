use std::sync::Arc;

use qsf_cpu::{Cpu, Function, Int8Rows, Int8x128Rows, Isa, gated, lanes};
use qsf_format::panels::interleave;
use qsf_format::{BlockSize, Layout, Outliers, QuantType};

use super::{Adapted, Input, Products as _};
use crate::tensor::{Tensor, TensorBytes};

fn floats(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 1_000.0 - 1.0).collect()
}

/// A tensor whose bytes start at an odd address.
fn tensor(quant: QuantType, block: BlockSize, rows: usize, cols: usize) -> Tensor {
    let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
    let mut bytes = vec![0u8];
    for row in 0..rows {
        let values = floats(row + 1, cols);
        match quant {
            QuantType::F32 => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            QuantType::F16 => {
                bytes.extend(values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()));
            }
            QuantType::Bf16 => {
                bytes.extend(values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()));
            }
            _ if quant.is_learned() => {
                // A row scale of about one, any block scales and codes.
                bytes.extend([0x2C, 0x3C]);
                bytes.extend((2..row_bytes).map(|i| (i * 37 + row * 5) as u8));
            }
            _ => {
                // Small scales (the high byte of each half is below that of one), any codes.
                let size = quant.block_bytes(block);
                for b in 0..row_bytes / size {
                    let mut block: Vec<u8> = (0..size).map(|i| (i * 37 + b * 11 + row * 5) as u8).collect();
                    (block[1], block[3]) = (0x2C, 0xAD);
                    bytes.extend(block);
                }
            }
        }
    }
    let range = 1..bytes.len();
    Tensor::new(rows, cols, quant, block, TensorBytes::Owned(bytes.into(), range)).unwrap()
}

fn run(cpu: &Cpu, weight: &Tensor, bias: Option<&[f32]>, x: &[f32], int8: bool) -> Vec<u32> {
    let k = weight.cols();
    let mut codes = Int8Rows::new();
    codes.quantize(cpu, x, x.len() / k, k);
    let input = if int8 { Input::with_int8(x, k, &codes) } else { Input::float(x, k) };
    let mut out = vec![f32::NAN; input.rows() * weight.rows()];
    cpu.linear(weight, bias, &input, &mut out);
    out.iter().map(|v| v.to_bits()).collect()
}

/// A tensor of these values in panels.
fn in_panels(weight: &Tensor) -> Tensor {
    let native = weight.native().unwrap();
    let bytes = interleave(native.quant(), native.block(), weight.cols(), native.bytes());
    let (rows, cols) = (weight.rows(), weight.cols());
    Tensor::with_layout(rows, cols, native.quant(), native.block(), Layout::Panels16, bytes.into()).unwrap()
}

#[test]
fn a_matrix_in_panels_gives_the_results_of_its_rows() {
    for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_float()) {
        for (rows, cols) in [(5, 40), (16, 64), (50, 300)] {
            let weight = tensor(quant, BlockSize::B64, rows, cols);
            let panels = in_panels(&weight);
            for m in [1, 3] {
                let x = floats(97, m * cols);
                let cpu = Cpu::new(Isa::best());
                for int8 in [false, true] {
                    let expected = run(&cpu, &weight, None, &x, int8);
                    let out = run(&cpu, &panels, None, &x, int8);
                    assert_eq!(out, expected, "{quant} {rows} x {cols}, {m} tokens, int8: {int8}");
                }
            }
        }
    }
}

#[test]
fn the_float_path_is_the_lane_dot_of_the_decoded_row_on_every_instruction_set() {
    for quant in QuantType::ALL {
        for (i, cols) in [1, 31, 33, 63, 65, 300].into_iter().enumerate() {
            let (rows, m) = (1 + (i * 5) % 7, 1 + (i * 3) % 8);
            let weight = tensor(quant, BlockSize::B64, rows, cols);
            let (x, bias) = (floats(99, m * cols), floats(98, rows));
            let mut expected = Vec::new();
            for x in x.chunks_exact(cols) {
                for (row, bias) in bias.iter().enumerate() {
                    let mut w = vec![0.0; cols];
                    weight.decode_row(Isa::SCALAR, row, &mut w);
                    expected.push((lanes::dot(&w, x) + bias).to_bits());
                }
            }
            for isa in Isa::available() {
                let out = run(&Cpu::new(isa), &weight, Some(&bias), &x, false);
                assert_eq!(out, expected, "{quant} {isa:?} {rows}x{cols}, {m} tokens");
            }
        }
    }
}

/// In most rows some, up to the last column.
fn outliers(rows: usize, cols: usize) -> Arc<Outliers> {
    let mut outliers = Outliers::default();
    for row in 0..rows {
        let cols =
            (0..cols).filter(|col| (col * 31 + row * 17) % 41 == 0 || (row % 3 == 1 && col + 1 == cols));
        outliers
            .push_row(&cols.map(|col| (col as u16, (row + col) as f32 * 0.37 - 20.0)).collect::<Vec<_>>());
    }
    Arc::new(outliers)
}

#[test]
fn outliers_are_added_to_what_the_blocks_give_with_the_activations_that_the_kernel_saw() {
    for quant in [QuantType::Q2, QuantType::Q4, QuantType::N3, QuantType::T2, QuantType::X4, QuantType::Q8] {
        for (rows, cols, m) in [(5, 40, 1), (50, 300, 3), (33, 96, 17)] {
            let plain = in_panels(&tensor(quant, BlockSize::B64, rows, cols));
            let weight = plain.clone().with_outliers(outliers(rows, cols), 0);
            let (x, bias) = (floats(97, m * cols), floats(98, rows));
            let cpu = Cpu::new(Isa::SCALAR);
            let mut codes = Int8Rows::new();
            codes.quantize(&cpu, &x, m, cols);
            let mut expected: Vec<f32> =
                run(&cpu, &plain, None, &x, true).into_iter().map(f32::from_bits).collect();
            for (token, out) in expected.chunks_exact_mut(rows).enumerate() {
                for (row, out) in out.iter_mut().enumerate() {
                    let (cols, values) = weight.outliers(row);
                    for (col, value) in cols.iter().zip(values) {
                        *out += value * codes.value(token, usize::from(*col));
                    }
                    *out += bias[row];
                }
            }
            let expected: Vec<u32> = expected.iter().map(|v| v.to_bits()).collect();
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let cpu = Cpu::with_threads(isa, threads).unwrap();
                    let out = run(&cpu, &weight, Some(&bias), &x, true);
                    assert_eq!(out, expected, "{quant} {isa:?} {rows} x {cols}, {m} tokens");
                }
            }
            // And so it is, but for roundings, the product of the decoded weights with the decoded activations.
            let seen: Vec<f32> =
                (0..m).flat_map(|t| (0..cols).map(move |c| (t, c))).map(|(t, c)| codes.value(t, c)).collect();
            let decoded =
                run(&cpu, &Tensor::from_f32(rows, cols, &weight.to_f32()), Some(&bias), &seen, false);
            for (out, decoded) in expected.iter().zip(decoded) {
                let (out, decoded) = (f32::from_bits(*out), f32::from_bits(decoded));
                assert!((out - decoded).abs() <= 1e-3 * decoded.abs().max(10.0), "{quant}: {out}, {decoded}");
            }
        }
    }
}

#[test]
fn slices_and_decoded_rows_have_their_outliers_and_the_float_path_uses_them() {
    let (rows, cols) = (48, 70);
    let plain = in_panels(&tensor(QuantType::N4, BlockSize::B64, rows, cols));
    let weight = plain.clone().with_outliers(outliers(rows, cols), 0);
    let mut values = plain.to_f32();
    for (row, values) in values.chunks_exact_mut(cols).enumerate() {
        let (cols, outliers) = weight.outliers(row);
        cols.iter().zip(outliers).for_each(|(col, value)| values[usize::from(*col)] += value);
    }
    assert_eq!(weight.to_f32(), values);
    assert_eq!(weight.slice_rows(16..48).slice_rows(16..32).to_f32(), values[32 * cols..]);
    assert!(weight.stored_bytes() > plain.stored_bytes());
    let (cpu, x) = (Cpu::new(Isa::best()), floats(5, 2 * cols));
    let floats = Tensor::from_f32(rows, cols, &values);
    assert_eq!(run(&cpu, &weight, None, &x, false), run(&cpu, &floats, None, &x, false));
}

#[test]
fn a_token_gives_the_same_bits_alone_and_in_a_batch() {
    for (quant, int8) in [(QuantType::F16, false), (QuantType::Q4, false), (QuantType::Q4, true)] {
        let weight = tensor(quant, BlockSize::B64, 37, 96);
        let bias = floats(3, 37);
        for m in 1..=9 {
            let x = floats(7, m * 96);
            let cpu = Cpu::new(Isa::best());
            let batch = run(&cpu, &weight, Some(&bias), &x, int8);
            let single: Vec<u32> =
                x.chunks_exact(96).flat_map(|x| run(&cpu, &weight, Some(&bias), x, int8)).collect();
            assert_eq!(batch, single, "{quant} int8: {int8}, {m} tokens");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    // Large enough to be spread over threads.
    let cols = 512;
    let cpus = [1, 2, 3].map(|threads| Cpu::with_threads(Isa::best(), threads).unwrap());
    for (quant, int8) in [(QuantType::F16, false), (QuantType::Q3, false), (QuantType::Q3, true)] {
        let weight = tensor(quant, BlockSize::B64, 701, cols);
        for m in [1, 2, 7] {
            let x = floats(1, m * cols);
            let outs = cpus.each_ref().map(|cpu| run(cpu, &weight, None, &x, int8));
            assert_eq!(outs[0], outs[1], "{quant} int8: {int8}, {m} tokens");
            assert_eq!(outs[0], outs[2], "{quant} int8: {int8}, {m} tokens");
        }
    }
}

#[test]
fn several_weights_together_give_what_each_gives_alone() {
    let cpu = Cpu::new(Isa::best());
    let (k, m) = (320, 3);
    let sizes = [500, 1, 203];
    let weights = sizes.map(|rows| tensor(QuantType::Q4, BlockSize::B64, rows, k));
    let bias = floats(4, 1);
    let biases = [None, Some(&bias[..]), None];
    let x = floats(2, m * k);
    let mut codes = Int8Rows::new();
    codes.quantize(&cpu, &x, m, k);
    let mut outs = sizes.map(|rows| vec![f32::NAN; m * rows]);
    let pairs: Vec<_> = weights.iter().zip(biases).collect();
    let mut slices: Vec<&mut [f32]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    cpu.linears(&pairs, &Input::with_int8(&x, k, &codes), &mut slices);
    for ((weight, bias), out) in pairs.into_iter().zip(outs) {
        let together: Vec<u32> = out.iter().map(|v| v.to_bits()).collect();
        assert_eq!(together, run(&cpu, weight, bias, &x, true));
    }
}

#[test]
fn float_weights_ignore_the_codes_of_the_input() {
    let weight = tensor(QuantType::Bf16, BlockSize::B64, 5, 65);
    let x = floats(1, 2 * 65);
    let cpu = Cpu::new(Isa::best());
    assert_eq!(run(&cpu, &weight, None, &x, true), run(&cpu, &weight, None, &x, false));
}

#[test]
fn no_tokens_and_no_rows_are_no_error() {
    let cpu = Cpu::new(Isa::best());
    cpu.linear(&tensor(QuantType::F32, BlockSize::B64, 3, 8), None, &Input::float(&[], 8), &mut []);
    let none = Tensor::new(0, 8, QuantType::F32, BlockSize::B64, Vec::new().into()).unwrap();
    cpu.linear(&none, None, &Input::float(&[0.0; 8], 8), &mut []);
}

#[test]
#[should_panic(expected = "weight of other columns")]
fn an_input_of_another_width_is_refused() {
    let weight = tensor(QuantType::F32, BlockSize::B64, 3, 8);
    Cpu::new(Isa::best()).linear(&weight, None, &Input::float(&[0.0; 7], 7), &mut [0.0; 3]);
}

#[test]
fn products_in_wide_groups_have_bias_and_outliers_and_are_floats_without_a_kernel() {
    let cpu = Cpu::new(Isa::best());
    // Panels and a rest in plain rows; and plain rows alone.
    for (quant, rows, cols, m) in
        [(QuantType::Q4, 53, 300, 70), (QuantType::N3, 40, 64, 33), (QuantType::Q8, 5, 40, 1)]
    {
        let plain = tensor(quant, BlockSize::B64, rows, cols);
        for weight in [plain.clone(), in_panels(&plain)] {
            let weight = weight.with_outliers(outliers(rows, cols), 0);
            let (x, bias) = (floats(97, m * cols), floats(98, rows));
            let mut wide = Int8x128Rows::new();
            wide.quantize(&cpu, &x, m, cols);
            let mut out = vec![f32::NAN; m * rows];
            cpu.linear(&weight, Some(&bias), &Input::with_wide(&x, cols, &wide), &mut out);
            let expected = run(&cpu, &weight, Some(&bias), &x, false).into_iter().map(f32::from_bits);
            for (i, (found, expected)) in out.into_iter().zip(expected).enumerate() {
                let (mut w, x) = (vec![0.0; cols], &x[i / rows * cols..][..cols]);
                plain.decode_row(Isa::SCALAR, i % rows, &mut w);
                let top = |values: &[f32]| values.iter().fold(0.0f32, |top, v| top.max(v.abs()));
                let steps = (top(x) / 127.0, top(&w) / 127.0);
                weight.decode_row(Isa::SCALAR, i % rows, &mut w);
                // Six times what steps evenly off by up to a half would give, and one of weights may be larger than they need.
                let off = x.iter().zip(&w).map(|(x, w)| (2.0 * x * steps.1).powi(2) + (w * steps.0).powi(2));
                let off = 6.0 * (off.sum::<f32>() / 12.0).sqrt();
                let bound = if cpu.kernels().has_wide() { off } else { 0.0 };
                assert!((found - expected).abs() <= bound, "{quant} {i}: {found}, {expected} +- {bound}");
            }
        }
    }
}

#[test]
fn a_gated_pair_gives_the_bits_of_both_products_and_their_gate() {
    let cpus = [1, 3].map(|threads| Cpu::with_threads(Isa::best(), threads).unwrap());
    let clipped = Function::ClippedSilu { alpha: 1.7, limit: 0.5 };
    let functions = [Function::Silu, Function::GeluTanh, Function::GeluErf, clipped];
    let shapes = [(1, 40, 1), (50, 300, 3), (300, 64, 1), (701, 512, 70)];
    for (function, (rows, cols, m)) in functions.into_iter().zip(shapes) {
        for quants in [[QuantType::Q4, QuantType::N3], [QuantType::Q8, QuantType::F16]] {
            let weights = quants.map(|quant| tensor(quant, BlockSize::B64, rows, cols));
            let bias = floats(98, rows);
            let pair = [(&weights[0], Some(&bias[..])), (&weights[1], None)];
            let x = floats(99, m * cols);
            for cpu in &cpus {
                let threads = cpu.threads();
                let (mut int8, mut wide) = (Int8Rows::new(), Int8x128Rows::new());
                int8.quantize(cpu, &x, m, cols);
                wide.quantize(cpu, &x, m, cols);
                let inputs = [
                    Input::float(&x, cols),
                    Input::with_int8(&x, cols, &int8),
                    Input::with_wide(&x, cols, &wide),
                ];
                for input in inputs {
                    let [mut gate, mut up, mut out] = [(); 3].map(|()| vec![f32::NAN; m * rows]);
                    cpu.linears(&pair, &input, &mut [&mut gate, &mut up]);
                    gated(cpu.isa(), function, &mut gate, &up);
                    cpu.gated_linear(function, pair, &Adapted::NONE, &input, &mut out);
                    let same = out.iter().zip(&gate).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{quants:?} {rows} x {cols}, {m} tokens, {function:?}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn panels_have_the_rows_of_the_whole_product_whatever_form_the_input_has() {
    const ROWS: usize = 312;
    const COLS: usize = 512;
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(Isa::best(), threads).unwrap();
        let weight = tensor(QuantType::Q4, BlockSize::B64, ROWS, COLS);
        let x = floats(99, COLS);
        let (mut int8, mut wide) = (Int8Rows::new(), Int8x128Rows::new());
        int8.quantize(&cpu, &x, 1, COLS);
        wide.quantize(&cpu, &x, 1, COLS);
        let inputs =
            [Input::float(&x, COLS), Input::with_int8(&x, COLS, &int8), Input::with_wide(&x, COLS, &wide)];
        // The last has 8 rows.
        let panels: Vec<u32> = (0..20).filter(|panel| ![0, 3, 4, 11].contains(panel)).collect();
        for input in inputs {
            let (mut whole, mut some) = (vec![f32::NAN; ROWS], vec![f32::NAN; ROWS]);
            cpu.linear(&weight, None, &input, &mut whole);
            cpu.linear_panels(&weight, &panels, &input, &mut some);
            for (row, (some, whole)) in some.iter().zip(&whole).enumerate() {
                match panels.contains(&(row as u32 / 16)) {
                    true => assert_eq!(some.to_bits(), whole.to_bits(), "row {row}, {threads} threads"),
                    false => assert!(some.is_nan(), "row {row} was not asked for"),
                }
            }
        }
    }
}
