//! The bytes of a matrix in panels of sixteen rows, as kernels read them: those of the file where they are in panels there.

use half::f16;
use qsf_format::panels::{PANEL_ROWS, interleave};
use qsf_format::{BlockSize, QuantType};

use super::wgsl::codes::PanelCodes;
use crate::tensor::{NativeRows, StoredType, Tensor};
use qsf_cpu::Isa;

/// How a tensor is kept: its own type, and floats of other containers as floats.
pub fn codes_of(tensor: &Tensor) -> PanelCodes {
    match (tensor.native(), tensor.stored_type()) {
        (Some(native), _) => PanelCodes { quant: native.quant(), block: native.block() },
        (None, StoredType::Native(quant)) if quant.is_float() => PanelCodes { quant, block: BlockSize::B32 },
        // A type of another container: its values.
        _ => PanelCodes { quant: QuantType::F32, block: BlockSize::B32 },
    }
}

/// Bytes of `rows` x `cols` in panels.
pub fn panel_bytes(codes: PanelCodes, rows: usize, cols: usize) -> usize {
    rows.div_ceil(PANEL_ROWS) * words_per_panel(codes, cols) * 4
}

/// Words of a panel.
pub fn words_per_panel(codes: PanelCodes, cols: usize) -> usize {
    codes.head_words() + cols.div_ceil(codes.block().get()) * codes.superblock_words()
}

/// Hands over the bytes of all panels in order, in pieces.
pub fn write_panels(tensor: &Tensor, isa: Isa, mut write: impl FnMut(&[u8])) {
    let codes = codes_of(tensor);
    match tensor.native() {
        Some(native) if !native.quant().is_float() => {
            write_blocks(native, tensor.rows(), tensor.cols(), &mut write);
        }
        _ => write_floats(tensor, codes, isa, &mut write),
    }
}

/// Panels of the file as they are; other rows, sixteen at a time, in the same order.
fn write_blocks(native: &NativeRows, rows: usize, cols: usize, write: &mut impl FnMut(&[u8])) {
    write(native.rows(0..native.panel_rows()));
    let mut first = native.panel_rows();
    while first < rows {
        let end = rows.min(first + PANEL_ROWS);
        let mut plain = native.rows(first..end).to_vec();
        // Blocks of zeros are rows of zeros in every type.
        plain.resize(PANEL_ROWS * native.row_bytes(), 0);
        write(&interleave(native.quant(), native.block(), cols, &plain));
        first = end;
    }
}

fn write_floats(tensor: &Tensor, codes: PanelCodes, isa: Isa, write: &mut impl FnMut(&[u8])) {
    let (rows, cols) = (tensor.rows(), tensor.cols());
    let padded = cols.next_multiple_of(codes.block().get());
    let bytes = if codes.quant == QuantType::F32 { 4 } else { 2 };
    let mut row = vec![0.0; cols];
    let mut panel = vec![0u8; PANEL_ROWS * padded * bytes];
    for first in (0..rows).step_by(PANEL_ROWS) {
        panel.fill(0);
        for r in 0..PANEL_ROWS.min(rows - first) {
            tensor.decode_row(isa, first + r, &mut row);
            for (column, value) in row.iter().enumerate() {
                let per_word = 4 / bytes;
                let at = 4 * (PANEL_ROWS * (column / per_word) + r) + bytes * (column % per_word);
                match codes.quant {
                    QuantType::F16 => panel[at..at + 2].copy_from_slice(&f16::from_f32(*value).to_le_bytes()),
                    QuantType::Bf16 => panel[at..at + 2].copy_from_slice(&value.to_le_bytes()[2..]),
                    _ => panel[at..at + 4].copy_from_slice(&value.to_le_bytes()),
                }
            }
        }
        write(&panel);
    }
}
