//! Transposition of plain values. GPT-2 stores its projections as `[in, out]`; a row must be one output here, as
//! everywhere else.

use std::ops::Range;

/// Side of the square that is moved at once: its rows and columns stay in the first-level cache together.
const TILE: usize = 32;

/// The columns `part` of the matrix in `bytes` (`cols` values of `width` bytes per row) as rows, one after the other.
/// Values outside of `part` are not read.
///
/// `width` is 2 or 4; `bytes` holds whole rows and `part` lies inside of them.
pub(super) fn transpose(bytes: &[u8], width: usize, cols: usize, part: Range<usize>) -> Vec<u8> {
    match width {
        2 => transpose_values::<2>(bytes, cols, part),
        _ => transpose_values::<4>(bytes, cols, part),
    }
}

fn transpose_values<const WIDTH: usize>(bytes: &[u8], cols: usize, part: Range<usize>) -> Vec<u8> {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    let rows = values.len().checked_div(cols).unwrap_or(0);
    let mut out = vec![[0u8; WIDTH]; rows * part.len()];
    for first_row in (0..rows).step_by(TILE) {
        let tile_rows = first_row..rows.min(first_row + TILE);
        for first_col in part.clone().step_by(TILE) {
            for col in first_col..part.end.min(first_col + TILE) {
                let out_row = &mut out[(col - part.start) * rows..][..rows];
                for row in tile_rows.clone() {
                    out_row[row] = values[row * cols + col];
                }
            }
        }
    }
    out.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered<const WIDTH: usize>(rows: usize, cols: usize) -> Vec<u8> {
        (0..rows * cols).flat_map(|i| (i as u32).to_le_bytes()[..WIDTH].to_vec()).collect()
    }

    #[test]
    fn every_value_lands_at_its_mirrored_place_for_sizes_off_the_tile() {
        for (rows, cols, part) in [(1, 1, 0..1), (33, 65, 0..65), (64, 96, 32..64), (70, 51, 17..34)] {
            let from = numbered::<2>(rows, cols);
            let to = transpose(&from, 2, cols, part.clone());
            let value = |bytes: &[u8], i: usize| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
            for row in 0..rows {
                for col in part.clone() {
                    let found = value(&to, (col - part.start) * rows + row);
                    assert_eq!(found, value(&from, row * cols + col), "{rows}x{cols} {part:?}: {row},{col}");
                }
            }
        }
    }

    #[test]
    fn transposing_twice_gives_the_matrix_back() {
        let from = numbered::<4>(45, 67);
        assert_eq!(transpose(&transpose(&from, 4, 67, 0..67), 4, 45, 0..45), from);
        assert!(transpose(&[], 4, 0, 0..0).is_empty());
    }
}
