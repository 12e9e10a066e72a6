//! A part of a file that weights are read from: where its chunks are.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::{Compression, Outline};

/// An outline that readers know by a number: what they hold of one part is not taken for another's.
#[derive(Debug, Clone)]
pub struct StreamPart {
    /// Unique in a file.
    pub id: usize,
    /// Chunks and tensors.
    pub outline: Arc<Outline>,
}

impl StreamPart {
    /// The chunks that raw bytes are in.
    pub fn chunks_of(&self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        self.outline.chunk_at(range.start)..self.outline.chunk_at(range.end - 1) + 1
    }

    /// Raw bytes of the largest chunk, and stored bytes of the largest.
    pub fn largest_chunk(&self) -> (usize, usize) {
        let largest = |bytes: fn(&qsf_format::Chunk) -> u32| {
            self.outline.chunks.iter().map(bytes).max().unwrap_or(0) as usize
        };
        (largest(|chunk| chunk.raw_bytes), largest(|chunk| chunk.stored_bytes))
    }

    /// Whether any chunk is compressed.
    pub fn is_compressed(&self) -> bool {
        self.outline.chunks.iter().any(|chunk| chunk.compression != Compression::None)
    }
}
