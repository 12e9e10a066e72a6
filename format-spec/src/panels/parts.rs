//! What a block consists of, in bytes of scales and words of codes.

use crate::encoding::Encoding;
use crate::layout::PANEL_ROWS;

/// Four bytes of codes of one row.
pub(super) type Word = [u8; 4];
/// One word of each row.
pub(super) type Line = [Word; PANEL_ROWS];

/// Parts of a block of one row.
#[derive(Clone, Copy)]
pub(super) struct BlockParts {
    /// Bytes of scales.
    pub scales: usize,
    /// Words of codes whose bytes are the same in a plain row.
    pub plain: usize,
    /// Words of single bits, which a plain row has in another order.
    pub bits: usize,
}

impl BlockParts {
    /// Those of a block of `n` values.
    ///
    /// # Panics
    /// For a float type, which has no blocks.
    pub fn of(encoding: Encoding, n: usize) -> BlockParts {
        assert!(!matches!(encoding, Encoding::Float(_)), "a float type has no blocks");
        let scales = encoding.scale_bytes();
        let Some(planes) = encoding.planes() else {
            return BlockParts { scales, plain: n * encoding.code_bits() / 32, bits: 0 };
        };
        let single = usize::from(planes.high == 1);
        BlockParts { scales, plain: n * (planes.bits() - single) / 32, bits: n * single / 32 }
    }

    /// Words of codes.
    pub fn words(self) -> usize {
        self.plain + self.bits
    }
}
