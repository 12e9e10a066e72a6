//! Where things stand in a file: alignments, and the rule that puts tensor data on 64-byte boundaries (SPEC.md section 2).

use crate::layout::{Layout, PANEL_ROWS};

/// Tensor data, sections and the directory start at multiples of this; the embedding section starts 16 bytes before one.
pub const ALIGN: u64 = 64;
/// Layers start at multiples of this, so that they can be read past the page cache.
pub const LAYER_ALIGN: u64 = 4096;
/// Raw bytes of one chunk of a layer, the last one of a layer excepted.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a tensor header and of the embedding header.
pub const TENSOR_HEADER_BYTES: u64 = 16;

/// The next multiple of 64, `None` beyond `u64`.
pub fn align64(at: u64) -> Option<u64> {
    at.checked_next_multiple_of(ALIGN)
}

/// Offset of the tensor header that follows bytes ending at `end`: the data behind the header is 64-byte aligned.
pub fn next_tensor_header(end: u64) -> Option<u64> {
    Some(align64(end.checked_add(TENSOR_HEADER_BYTES)?)? - TENSOR_HEADER_BYTES)
}

/// Rows of one embedding chunk: as many as fit into 1 MiB, at least one; in panels, whole panels of them.
pub fn embedding_rows_per_chunk(layout: Layout, row_bytes: u64) -> u64 {
    let rows = CHUNK_BYTES as u64 / row_bytes.max(1);
    let step = match layout {
        Layout::Rows => 1,
        Layout::Panels16 => PANEL_ROWS as u64,
    };
    (rows - rows % step).max(step)
}

/// Offset of the first non-zero byte.
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tensor_header_of_a_layer_stands_at_48_and_data_is_aligned() {
        assert_eq!(next_tensor_header(0), Some(48));
        assert_eq!(next_tensor_header(48), Some(48));
        assert_eq!(next_tensor_header(49), Some(112));
        assert_eq!(next_tensor_header(u64::MAX - 3), None);
    }

    #[test]
    fn chunks_of_the_embedding_never_cut_a_panel() {
        for (row_bytes, rows, in_panels) in
            [(36, 29127, 29120), (576, 1820, 1808), (65_536, 16, 16), (65_537, 15, 16), (1 << 21, 1, 16)]
        {
            assert_eq!(embedding_rows_per_chunk(Layout::Rows, row_bytes), rows);
            assert_eq!(embedding_rows_per_chunk(Layout::Panels16, row_bytes), in_panels);
        }
    }
}
