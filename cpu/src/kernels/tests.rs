use proptest::prelude::*;
use qsf_format::{BlockSize, CodeTables, Encoding, GridLevels, QuantType};

use super::*;
use crate::Cpu;
use crate::activations::{ACT_BLOCK, Int8Rows};
use crate::isa::Isa;
use qsf_format::panels::{PANEL_ROWS, interleave};

fn block_types() -> impl Iterator<Item = QuantType> {
    QuantType::ALL.into_iter().filter(|quant| !quant.is_float())
}

/// A fixed stream of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 >> 12)
    }

    fn float(&mut self) -> f32 {
        (self.next() % 20_001) as f32 / 5_000.0 - 2.0
    }
}

/// Tables with any entries that a file may have: of the sums the one table takes what the other leaves.
fn tables() -> CodeTables {
    let mut random = Random(11);
    let mut up_to = |limit: i64| ((random.next() as i64 & 0xFFFF) % (2 * limit + 1) - limit) as i8;
    let mut tables = CodeTables::default();
    let shifts = [-127, 127, up_to(127), up_to(9), -3];
    let sums = [(100, 27), (7, 120)];
    for (i, quant) in block_types().filter(|quant| quant.is_learned()).enumerate() {
        if let Some(grid) = tables.grid_mut(quant) {
            grid.shift = shifts[i % shifts.len()];
            if matches!(quant.encoding(), Encoding::Grid { levels: GridLevels::Table(_), .. }) {
                grid.levels_mut().fill_with(|| up_to(127));
                grid.levels_mut()[2..4].copy_from_slice(&[127, -127]);
            }
        }
        if let Some(tables) = tables.sums_mut(quant) {
            let (newest, oldest) = sums[i % 2];
            tables.newest.fill_with(|| up_to(newest));
            tables.oldest.fill_with(|| up_to(oldest));
            // The largest sums, of both signs.
            (tables.newest[1], tables.oldest[2]) = (newest as i8, oldest as i8);
            (tables.newest[3], tables.oldest[4]) = (-newest as i8, -oldest as i8);
        }
    }
    tables
}

/// Rows of random codes with scales near one.
fn weights(random: &mut Random, quant: QuantType, block: BlockSize, rows: usize, cols: usize) -> Vec<u8> {
    let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
    let mut bytes: Vec<u8> = (0..rows * row_bytes).map(|_| random.next() as u8).collect();
    let scaled = if quant.is_learned() { row_bytes } else { quant.block_bytes(block) };
    for block in bytes.chunks_exact_mut(scaled) {
        let halves = if quant.encoding().has_min() { 2 } else { 1 };
        for half in block.chunks_exact_mut(2).take(halves) {
            half.copy_from_slice(&half::f16::from_f32(random.float()).to_le_bytes());
        }
    }
    bytes
}

/// The sizes of blocks that files can have of a type.
fn block_sizes(quant: QuantType) -> impl Iterator<Item = BlockSize> {
    BlockSize::ALL.into_iter().filter(move |block| quant.block_size(*block) == *block)
}

fn quantized(isa: Isa, x: &[f32], m: usize) -> Int8Rows {
    let mut input = Int8Rows::new();
    input.quantize(&Cpu::new(isa), x, m, x.len() / m);
    input
}

/// Results of `rows` plain rows, m x rows.
fn run(
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    weights: &[u8],
    rows: usize,
    x: &[f32],
    m: usize,
) -> Vec<f32> {
    let input = &quantized(isa, x, m);
    let kernel = KernelTable::of(isa).int8(quant).unwrap();
    let mut out = vec![f32::NAN; m * rows];
    let (block, tables) = (quant.block_size(block), &tables());
    let task = RowTask { weights, rows, block, tables, input, tokens: 0..m };
    // SAFETY: there is room for all results.
    unsafe {
        let out = PanelOut { start: out.as_mut_ptr(), stride: rows };
        kernel.matmul_rows(&task, &mut RowScratch::default(), out);
    }
    out
}

/// Results of a kernel for rows that are a multiple of 16, as panels.
fn run_panels(
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    plain: &[u8],
    rows: usize,
    x: &[f32],
    m: usize,
) -> Vec<f32> {
    let input = &quantized(isa, x, m);
    let (cols, panels) = (x.len() / m, rows / PANEL_ROWS);
    let weights = &interleave(quant, block, cols, plain);
    let mut out = vec![f32::NAN; m * rows];
    let (block, tables) = (quant.block_size(block), &tables());
    let blocks = cols.div_ceil(block.get());
    let task = PanelTask { weights, panels, blocks, block, tables, input, tokens: 0..m };
    // SAFETY: there is room for all results.
    unsafe {
        let out = PanelOut { start: out.as_mut_ptr(), stride: rows };
        KernelTable::of(isa).int8(quant).unwrap().matmul(&task, out);
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check_same_bits(quant: QuantType, block: BlockSize, rows: usize, cols: usize, m: usize, seed: u64) {
    let mut random = Random(seed);
    let bytes = weights(&mut random, quant, block, rows, cols);
    let x: Vec<f32> = (0..m * cols).map(|_| random.float()).collect();
    let expected = run(Isa::SCALAR, quant, block, &bytes, rows, &x, m);
    for isa in Isa::available() {
        let out = run(isa, quant, block, &bytes, rows, &x, m);
        assert_eq!(bits(&out), bits(&expected), "{isa:?} {quant} {block} {rows}x{cols}, {m} tokens");
        if rows.is_multiple_of(PANEL_ROWS) {
            let out = run_panels(isa, quant, block, &bytes, rows, &x, m);
            assert_eq!(
                bits(&out),
                bits(&expected),
                "{isa:?} {quant} {block} {rows}x{cols}, {m} tokens: panels"
            );
        }
        for (x, batch) in x.chunks_exact(cols).zip(out.chunks_exact(rows)) {
            let alone = run(isa, quant, block, &bytes, rows, x, 1);
            assert_eq!(bits(&alone), bits(batch), "{isa:?} {quant} {block}: a token of {m} is another alone");
        }
    }
}

#[test]
fn every_instruction_set_gives_the_oracles_bits_for_all_types_blocks_and_odd_sizes() {
    for quant in block_types() {
        for block in block_sizes(quant) {
            for (i, cols) in [1, 31, 32, 33, 63, 64, 65, 257, 300, 512].into_iter().enumerate() {
                check_same_bits(quant, block, 1 + i * 5 % 18, cols, 1 + (i * 3) % 9, i as u64);
                check_same_bits(quant, block, 32, cols, 1 + (i * 5) % 14, i as u64);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_instruction_set_gives_the_oracles_bits(
        quant in prop::sample::select(block_types().collect::<Vec<_>>()),
        block in prop::sample::select(&BlockSize::ALL[..]),
        rows in 1usize..40,
        cols in 1usize..600,
        m in 1usize..14,
        seed: u64,
    ) {
        check_same_bits(quant, block, rows, cols, m, seed);
    }
}

#[test]
fn batches_of_more_tokens_and_columns_than_are_worked_through_at_once_give_the_oracles_bits() {
    // 32 tokens on aarch64, 128 on x86-64, where 16 groups of columns are unpacked at a time.
    for quant in block_types() {
        check_same_bits(quant, BlockSize::B64, PANEL_ROWS, 545, 129 + quant as usize % 9, 7);
    }
    check_same_bits(QuantType::Q4, BlockSize::ALL[3], PANEL_ROWS, 545, 270, 7);
}

#[test]
fn tokens_outside_the_range_are_left_alone() {
    let (block, cols, m, rows) = (BlockSize::B64, 65, 9, 2 * PANEL_ROWS);
    let mut random = Random(3);
    for quant in block_types() {
        let plain = weights(&mut random, quant, block, rows, cols);
        let x: Vec<f32> = (0..m * cols).map(|_| random.float()).collect();
        let all = run(Isa::SCALAR, quant, block, &plain, rows, &x, m);
        for isa in Isa::available() {
            let input = &quantized(isa, &x, m);
            let weights = &interleave(quant, block, cols, &plain);
            for tokens in [0..2, 3..8, 4..5, 2..9, 6..6] {
                let mut out = vec![7.0; m * rows];
                let (block, tables, all_tokens) = (quant.block_size(block), &tables(), tokens.clone());
                let blocks = cols.div_ceil(block.get());
                let task = PanelTask { weights, panels: 2, blocks, block, tables, input, tokens: all_tokens };
                // SAFETY: there is room for all results.
                unsafe {
                    let out = PanelOut { start: out.as_mut_ptr(), stride: rows };
                    KernelTable::of(isa).int8(quant).unwrap().matmul(&task, out);
                }
                for (t, (out, all)) in out.chunks_exact(rows).zip(all.chunks_exact(rows)).enumerate() {
                    let expected = if tokens.contains(&t) { all } else { &[7.0; 2 * PANEL_ROWS] };
                    assert_eq!(bits(out), bits(expected), "{isa:?} {quant}: token {t}, computing {tokens:?}");
                }
            }
        }
    }
}

#[test]
fn the_result_is_as_near_to_the_true_product_as_eight_bits_allow() {
    let mut random = Random(5);
    for quant in block_types() {
        for block in block_sizes(quant) {
            let (rows, cols) = (3, 301);
            let bytes = weights(&mut random, quant, block, rows, cols);
            let x: Vec<f32> = (0..cols).map(|_| random.float()).collect();
            let out = run(Isa::best(), quant, block, &bytes, rows, &x, 1);
            for (bytes, out) in bytes.chunks_exact(bytes.len() / rows).zip(out) {
                let mut w = vec![0.0; cols];
                qsf_format::decode_row(quant, block, &tables(), bytes, &mut w);
                let mut exact = 0.0;
                let mut bound = 0.0;
                for (x, w) in x.chunks(ACT_BLOCK).zip(w.chunks(ACT_BLOCK)) {
                    let top = x.iter().fold(0.0f32, |top, v| top.max(v.abs()));
                    for (x, w) in x.iter().zip(w) {
                        exact += f64::from(*x) * f64::from(*w);
                        // Half a step of the code, and rounding of the sums, to which scale and offset go apart.
                        bound += f64::from(w.abs()) * f64::from(top) / 254.0 + 64.0 * f64::from(top) * 1e-6;
                    }
                }
                let error = (f64::from(out) - exact).abs();
                assert!(error <= bound, "{quant} {block}: {out}, expected {exact} within {bound}");
            }
        }
    }
}

#[test]
fn the_oracle_multiplies_the_values_that_the_format_defines() {
    let (mut random, tables) = (Random(6), tables());
    for quant in block_types() {
        for cols in [1, 32, 63, 300] {
            let bytes = weights(&mut random, quant, BlockSize::B64, PANEL_ROWS, cols);
            let x: Vec<f32> = (0..cols).map(|_| random.float()).collect();
            let input = quantized(Isa::SCALAR, &x, 1);
            let out = run_panels(Isa::SCALAR, quant, BlockSize::B64, &bytes, PANEL_ROWS, &x, 1);
            for (bytes, out) in bytes.chunks_exact(bytes.len() / PANEL_ROWS).zip(out) {
                let mut w = vec![0.0; cols];
                qsf_format::decode_row(quant, BlockSize::B64, &tables, bytes, &mut w);
                let (mut exact, mut size) = (0.0, 0.0);
                for (i, w) in w.iter().enumerate() {
                    let x = f64::from(input.scales()[i / ACT_BLOCK]) * f64::from(input.codes()[i]);
                    exact += x * f64::from(*w);
                    // Scale and offset go to sums of their own, whose rounding a small weight does not show.
                    size += x.abs() * (f64::from(w.abs()) + if quant.is_trellis() { 0.0 } else { 1.0 });
                }
                let error = (f64::from(out) - exact).abs();
                assert!(error <= 1e-5 * size, "{quant} {cols}: {out}, expected {exact}");
            }
        }
    }
}

#[test]
fn eight_bit_sums_do_not_saturate_at_extreme_codes() {
    // -128 is no legal code, but what a damaged file does must not depend on the instruction set either.
    for code in [0x7Fu8, 0x81, 0x80] {
        let mut bytes = half::f16::from_f32(1.0).to_le_bytes().to_vec();
        bytes.extend([code; 64]);
        for sign in [1.0, -1.0] {
            for isa in Isa::available() {
                let out = run(isa, QuantType::Q8, BlockSize::B64, &bytes, 1, &[sign * 127.0; 64], 1);
                assert_eq!(out, [64.0 * 127.0 * sign * f32::from(code as i8)], "{isa:?}");
            }
        }
    }
}

#[test]
fn a_damaged_activation_is_not_hidden() {
    let mut random = Random(9);
    for quant in block_types() {
        let bytes = weights(&mut random, quant, BlockSize::B64, 1, 64);
        for isa in Isa::available() {
            let mut x = [1.0; 64];
            x[40] = f32::INFINITY;
            assert!(run(isa, quant, BlockSize::B64, &bytes, 1, &x, 1)[0].is_nan(), "{quant} {isa:?}");
        }
    }
}

#[test]
fn the_table_lists_every_type_once_per_path() {
    for isa in Isa::available() {
        let entries: Vec<_> = KernelTable::of(isa).entries().collect();
        let count = |path| entries.iter().filter(|e| e.path == path).count();
        let with_blocks = block_types().count();
        assert_eq!((count("int8"), count("f32")), (with_blocks, QuantType::ALL.len()));
        let has_wide = ["avx512", "amx"].contains(&isa.name());
        assert_eq!(count("int8-128"), if has_wide { with_blocks } else { 0 });
        assert!(entries.iter().all(|e| e.kernel.starts_with(isa.name())), "{entries:?}");
    }
}
