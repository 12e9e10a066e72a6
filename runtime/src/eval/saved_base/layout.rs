//! Where the chunks and rows of a saved base are: all sizes follow from three numbers.

use super::super::options::MIN_CTX;

/// CRC32 and SHA-256 of the tokens.
pub(super) const CHUNK_HEAD: usize = 4 + 32;
/// CRC32, range, and negative log-likelihood.
pub(super) const ROW_HEAD: usize = 4 + 4 + 8;

/// The sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Where the first chunk begins.
    start: u64,
    pub chunks: usize,
    /// Rows of a chunk.
    pub scored: usize,
    pub vocab: usize,
}

impl Layout {
    /// `None` where there is nothing to score, or more than a file can have.
    pub fn new(ctx: usize, chunks: usize, vocab: u32, start: u64) -> Option<Layout> {
        if ctx < MIN_CTX || chunks == 0 || vocab == 0 {
            return None;
        }
        let layout = Layout { start, chunks, scored: ctx - 1 - ctx / 2, vocab: vocab as usize };
        let chunk =
            (layout.row_bytes() as u64).checked_mul(layout.scored as u64)?.checked_add(CHUNK_HEAD as u64)?;
        chunk.checked_mul(chunks as u64)?.checked_add(start)?;
        Some(layout)
    }

    pub fn row_bytes(&self) -> usize {
        ROW_HEAD + 2 * self.vocab
    }

    /// Where chunk `number` begins.
    pub fn chunk_start(&self, number: usize) -> u64 {
        let chunk = CHUNK_HEAD as u64 + self.scored as u64 * self.row_bytes() as u64;
        self.start + number as u64 * chunk
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.chunk_start(self.chunks)
    }

    /// The number of a row among all.
    pub fn row_number(&self, chunk: usize, row: usize) -> u64 {
        chunk as u64 * self.scored as u64 + row as u64
    }
}

/// The checksum of what is the `number`-th of its kind.
pub(super) fn checksum(number: u64, bytes: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(bytes);
    crc.finalize().to_le_bytes()
}
