//! The size of a file before it is written: the places that [`QsfWriter`](crate::QsfWriter) gives to its parts, in its order.

use crate::alignment::{ALIGN, CHUNK_BYTES, LAYER_ALIGN, TENSOR_HEADER_BYTES, next_tensor_header};
use crate::directory::{DIRECTORY_ENTRY_BYTES, DIRECTORY_HEADER_BYTES, EMBEDDING_CHUNK_BYTES};
use crate::header::HEADER_BYTES;
use crate::layer_index::INDEX_ENTRY_BYTES;

/// What a file holds, in bytes of data. Nothing is compressed but what is given with its stored size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileParts {
    /// Data of the token embedding.
    pub embedding: u64,
    /// Chunks of the token embedding.
    pub embedding_chunks: u64,
    /// Data of each tensor of each layer.
    pub layers: Vec<Vec<u64>>,
    /// Data of each tensor of the final section.
    pub last: Vec<u64>,
    /// Data of the learned positions.
    pub positions: Option<u64>,
    /// Stored sizes of META and of the other sections that the file has beside those for the parts above.
    pub sections: Vec<u64>,
}

impl FileParts {
    /// The size of the file in bytes; saturates at the largest number.
    pub fn file_bytes(&self) -> u64 {
        let mut at =
            (HEADER_BYTES as u64).saturating_add(self.layers.len() as u64 * INDEX_ENTRY_BYTES as u64);
        at = header_after(at).saturating_add(TENSOR_HEADER_BYTES).saturating_add(self.embedding);
        for layer in &self.layers {
            let raw = tensors_end(0, layer);
            let chunks = raw.div_ceil(CHUNK_BYTES as u64);
            let table = aligned(16u64.saturating_add(16 * chunks), ALIGN);
            at = aligned(at, LAYER_ALIGN).saturating_add(table).saturating_add(raw);
        }
        at = aligned(at, ALIGN).saturating_add(tensors_end(1, &self.last));
        if let Some(positions) = self.positions {
            at = aligned(at, ALIGN).saturating_add(tensors_end(0, &[positions]));
        }
        let tensors = self.layers.iter().map(Vec::len).sum::<usize>()
            + self.last.len()
            + usize::from(self.positions.is_some());
        let lists = [self.embedding_chunks.saturating_mul(EMBEDDING_CHUNK_BYTES as u64), 4 * tensors as u64];
        for section in self.sections.iter().chain(&lists) {
            at = aligned(at, ALIGN).saturating_add(*section);
        }
        // LIDX, EMBD, FINL, ECHK and TCRC beside those that were given.
        let entries = self.sections.len() + 5 + usize::from(self.positions.is_some());
        aligned(at, ALIGN).saturating_add((DIRECTORY_HEADER_BYTES + DIRECTORY_ENTRY_BYTES * entries) as u64)
    }
}

fn aligned(at: u64, to: u64) -> u64 {
    at.checked_next_multiple_of(to).unwrap_or(u64::MAX)
}

fn header_after(end: u64) -> u64 {
    next_tensor_header(end).unwrap_or(u64::MAX)
}

/// Where tensors of these data sizes end that follow `lead` bytes.
fn tensors_end(lead: u64, tensors: &[u64]) -> u64 {
    tensors
        .iter()
        .fold(lead, |end, bytes| header_after(end).saturating_add(TENSOR_HEADER_BYTES).saturating_add(*bytes))
}
