//! Panels against the definitions: bytes back, values as plain rows have them.

use proptest::prelude::*;

use super::bits::{gather_bits, spread_bits};
use super::*;
use crate::code_tables::BUILT_IN;
use crate::decode::{decode_panel_row, decode_row};

/// All types that have panels.
fn panel_types() -> Vec<QuantType> {
    QuantType::ALL.into_iter().filter(|quant| !quant.is_float()).collect()
}

/// Those whose blocks have a scale of their own.
fn linear_types() -> Vec<QuantType> {
    panel_types().into_iter().filter(|quant| !quant.is_learned()).collect()
}

fn arbitrary_bytes(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    // One bit pattern for all NaNs: arbitrary scales are some.
    values.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_row_has_the_same_values_in_panels_as_in_rows(
        quant in prop::sample::select(panel_types()),
        block in prop::sample::select(&BlockSize::ALL[..]),
        rows in 1usize..50,
        cols in 1usize..600,
        seed in any::<u64>(),
    ) {
        // Arbitrary bytes: among the ternary ones are zeros with a sign, which has no effect.
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
        let plain = arbitrary_bytes(rows * row_bytes, seed);
        let panels = interleave(quant, block, cols, &plain);
        prop_assert_eq!(panels.len(), plain.len());
        let in_panels = rows / 16 * 16;
        let (mut expected, mut found) = (vec![0.0; cols], vec![0.0; cols]);
        for row in 0..rows {
            decode_row(quant, block, &BUILT_IN, &plain[row * row_bytes..][..row_bytes], &mut expected);
            if row < in_panels {
                let panel = &panels[row / 16 * 16 * row_bytes..][..16 * row_bytes];
                decode_panel_row(quant, block, &BUILT_IN, panel, row % 16, &mut found);
            } else {
                decode_row(quant, block, &BUILT_IN, &panels[row * row_bytes..][..row_bytes], &mut found);
            }
            prop_assert_eq!(bits(&expected), bits(&found), "{} {} row {} of {}", quant, block, row, rows);
        }
    }

    #[test]
    fn a_panel_of_copied_rows_is_the_panel_of_the_rows_in_that_order(
        quant in prop::sample::select(panel_types()),
        block in prop::sample::select(&BlockSize::ALL[..]),
        cols in 1usize..600,
        order in Just((0..16).collect::<Vec<usize>>()).prop_shuffle(),
        seed in any::<u64>(),
    ) {
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
        let plain = arbitrary_bytes(16 * row_bytes, seed);
        let (from, mut to) = (interleave(quant, block, cols, &plain), vec![0; 16 * row_bytes]);
        for (row, &from_row) in order.iter().enumerate() {
            copy_panel_row(quant, quant.block_size(block), &from, from_row, &mut to, row);
        }
        let rows: Vec<&[u8]> = order.iter().map(|row| &plain[row * row_bytes..][..row_bytes]).collect();
        let mut expected = vec![0; 16 * row_bytes];
        pack_panel(quant, block, &rows, &mut expected);
        prop_assert!(to == expected, "{} {} order {:?}", quant, block, order);
    }

    #[test]
    fn every_block_comes_back_from_a_panel_and_missing_rows_are_zeros(
        quant in prop::sample::select(linear_types()),
        block in prop::sample::select(&BlockSize::ALL[..]),
        count in 0usize..=16,
        blocks in 1usize..5,
        seed in any::<u64>(),
    ) {
        let size = quant.block_bytes(block);
        let plain = arbitrary_bytes(count * blocks * size, seed);
        let rows: Vec<&[u8]> = plain.chunks_exact(blocks * size).collect();
        let mut panel = vec![0xFF; panel_bytes(quant, block, blocks)];
        pack_panel(quant, block, &rows, &mut panel);
        let mut found = vec![0xFF; size];
        for (j, superblock) in panel.chunks_exact(16 * size).enumerate() {
            for row in 0..16 {
                block_of_row(quant, block, superblock, row, &mut found);
                let expected = match rows.get(row) {
                    None => vec![0; size],
                    Some(row) if quant == QuantType::Ternary => two_bit_codes(&row[j * size..][..size]),
                    Some(row) => row[j * size..][..size].to_vec(),
                };
                prop_assert_eq!(&expected, &found, "{} {} superblock {} row {}", quant, block, j, row);
            }
        }
    }
}

/// A ternary block with its planes as 2-bit codes, element by element.
fn two_bit_codes(block: &[u8]) -> Vec<u8> {
    let (d, planes) = block.split_at(2);
    let (sign, zero) = planes.split_at(planes.len() / 2);
    let n = 8 * sign.len();
    let mut codes = vec![0; n / 4];
    for i in 0..n {
        let bit = |plane: &[u8]| (plane[i / 8] >> (i % 8)) & 1;
        let code = if bit(zero) == 1 { 1 } else { 2 * (1 - bit(sign)) };
        codes[i % (n / 4)] |= code << (2 * (i / (n / 4)));
    }
    [d, &codes].concat()
}

#[test]
fn bit_4j_plus_c_of_a_high_word_moves_to_8c_plus_j() {
    for j in 0..8 {
        for c in 0..4 {
            assert_eq!(spread_bits(1 << (4 * j + c)), 1 << (8 * c + j), "quad {j}, code {c}");
            assert_eq!(gather_bits(1 << (8 * c + j)), 1 << (4 * j + c), "quad {j}, code {c}");
        }
    }
}

/// One block of row 5 in the superblock of a panel, all other rows zeros.
fn in_row_5(quant: QuantType, block: &[u8]) -> Vec<u8> {
    let zeros = vec![0; block.len()];
    let rows: [&[u8]; 6] = std::array::from_fn(|row| if row == 5 { block } else { &zeros[..] });
    let mut panel = vec![0; panel_bytes(quant, BlockSize::B64, 1)];
    pack_panel(quant, BlockSize::B64, &rows, &mut panel);
    panel
}

#[test]
fn the_examples_of_the_specification_hold() {
    let example: [u8; 36] = [
        0x66, 0x2E, 0x00, 0xBA, 0x33, 0xAA, 0x11, 0x88, 0xFF, 0x66, 0xDD, 0x44, 0x0B, 0x02, 0x09, 0x00, 0x07,
        0x0E, 0x05, 0x0C, 0x03, 0x0A, 0x01, 0x08, 0x0F, 0x06, 0x0D, 0x04, 0x0B, 0x02, 0x09, 0x00, 0x07, 0x0E,
        0x05, 0x0C,
    ];
    let panel = in_row_5(QuantType::Q4, &example);
    assert_eq!(panel.len(), 576);
    for (at, bytes) in [
        (10, &[0x66, 0x2E][..]),
        (42, &[0x00, 0xBA]),
        (84, &[0x33, 0xAA, 0x11, 0x88]),
        (148, &[0xFF, 0x66, 0xDD, 0x44]),
        (212, &[0x0B, 0x02, 0x09, 0x00]),
        (532, &[0x07, 0x0E, 0x05, 0x0C]),
    ] {
        assert_eq!(&panel[at..at + bytes.len()], bytes, "byte {at}");
    }
    let mut block = [0; 28];
    block[4 + 16..][..4].copy_from_slice(&[0x61, 0, 0, 0x80]);
    let panel = in_row_5(QuantType::Q3, &block);
    assert_eq!((panel.len(), &panel[340..344]), (448, &[1, 2, 2, 0x80][..]));
    // Elements 0, 16, 32, 48 are 1, 0, -1, 1; all others 1.
    let mut block = [0; 18];
    block[2 + 4] = 1;
    block[2 + 8 + 2] = 1;
    let panel = in_row_5(QuantType::Ternary, &block);
    assert_eq!((panel.len(), panel[32 + 4 * 5]), (288, 0x86));
}

#[test]
fn a_ternary_code_of_3_is_twice_d() {
    let block = BlockSize::B64;
    let mut panel = vec![0; panel_bytes(QuantType::Ternary, block, 1)];
    panel[2 * 5..][..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
    // Word 0 of row 5, byte 1: element 1 (code 3), 17 (2), 33 (1), 49 (0).
    panel[32 + 4 * 5 + 1] = 0b00_01_10_11;
    let mut values = [0.0; 64];
    decode_panel_row(QuantType::Ternary, block, &BUILT_IN, &panel, 5, &mut values);
    assert_eq!([values[1], values[17], values[33], values[49]], [1.0, 0.5, 0.0, -0.5]);
}

#[test]
#[should_panic(expected = "no panels")]
fn a_float_type_has_no_panels() {
    panel_bytes(QuantType::F16, BlockSize::B64, 1);
}
