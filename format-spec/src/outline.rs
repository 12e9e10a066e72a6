//! Where the tensors of a file stand, found without reading all of it: for a runtime that reads weights when it needs them.
//!
//! Of a layer only the chunks that hold tensor headers are read and checked here; whoever reads a tensor later checks the chunks
//! that it is in. Sections that are under one checksum are read once, to check it; on the way they get checksums of
//! their own for each piece, so that they too can be read and checked in pieces.

use std::ops::Range;
use std::sync::Arc;

use crc32fast::Hasher;

use crate::alignment::CHUNK_BYTES;
use crate::chunk::{Chunk, Compression, parse_table};
use crate::chunk_span::ChunkSpan;
use crate::directory::SectionTag;
use crate::error::{Damage, FormatError, Unread, reserve};
use crate::file_bytes::RawBytes;
use crate::file_part::FilePart;
use crate::reader::{QsfFile, layer_place};
use crate::tensor_header::TensorEntry;

/// The chunks of a part of a file, and the tensors in the raw bytes that these decompress to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The part, for messages.
    pub place: String,
    /// Chunks in order; all but the last have the raw size of the first.
    pub chunks: Vec<Chunk>,
    /// Tensors in file order, none of them under a checksum that was looked at yet.
    pub tensors: Vec<TensorEntry>,
}

impl Outline {
    /// The chunk with raw byte `at`. Chunk i begins at i times the [raw size](Outline::chunk_bytes) of the first.
    pub fn chunk_at(&self, at: usize) -> usize {
        at / self.chunk_bytes().max(1)
    }

    /// Raw bytes of every chunk but the last.
    pub fn chunk_bytes(&self) -> usize {
        self.chunks.first().map_or(0, |chunk| chunk.raw_bytes as usize)
    }

    /// Where chunk `index` is in the raw bytes.
    pub fn raw_range(&self, index: usize) -> Range<usize> {
        let start = index * self.chunk_bytes();
        start..start + self.chunks[index].raw_bytes as usize
    }
}

impl QsfFile {
    /// Where the tensors of a layer are.
    ///
    /// # Errors
    /// When what was read of it is damaged.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn layer_outline(&self, layer: usize) -> Result<Outline, FormatError> {
        let outline = self.outline_layer(layer).map_err(|e| e.in_file(self.path()))?;
        let entry = &self.layers()[layer];
        // Some chunks were read for their headers, more were mapped with them.
        self.bytes().release(entry.offset, entry.offset + entry.stored_bytes);
        Ok(outline)
    }

    /// Whether the head is the token embedding, and where the tensors of the final section are.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn final_outline(&self) -> Result<(bool, Outline), FormatError> {
        let outline = self.outline_final().map_err(|e| e.in_file(self.path()))?;
        if let Some(section) = self.section(SectionTag::FINAL) {
            self.bytes().release(section.offset, section.offset + section.stored_bytes);
        }
        Ok(outline)
    }

    /// Where the token embedding is: its only tensor is all of the raw bytes.
    ///
    /// # Errors
    /// When its header or its list of chunks is damaged.
    pub fn embedding_outline(&self) -> Result<Outline, FormatError> {
        self.outline_embedding().map_err(|e| e.in_file(self.path()))
    }

    fn outline_layer(&self, layer: usize) -> Result<Outline, Unread> {
        let entry = &self.layers()[layer];
        let place = layer_place(layer);
        let stored = &self.bytes()[entry.offset as usize..][..entry.stored_bytes as usize];
        let chunks = parse_table(stored, entry.offset, entry.raw_bytes, &place)?;
        let bytes = self.in_place(&chunks).unwrap_or_else(|| RawBytes::Owned(Arc::default()));
        let mut span = ChunkSpan::new(self.bytes(), &chunks, &place);
        let tensors = self.group_of_layer(layer, &mut span, bytes, &place)?.tensors;
        Ok(Outline { place, chunks, tensors })
    }

    fn outline_final(&self) -> Result<(bool, Outline), Unread> {
        let range = self.final_range()?;
        let crc = self.section(SectionTag::FINAL).map(|section| section.crc);
        let chunks = self.pieces(range.clone(), "final section", crc)?;
        let (tied, group) = self.parse_final(range)?;
        Ok((tied, Outline { place: "final section".into(), chunks, tensors: group.tensors }))
    }

    fn outline_embedding(&self) -> Result<Outline, Unread> {
        let info = self.read_embedding_info()?;
        let place = "embedding section".to_owned();
        let bytes = info.quant.tensor_bytes(self.header().block, info.rows.into(), info.cols.into());
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
            let found = format!("{} x {}", info.rows, info.cols);
            Damage::new(&place, self.header().embedding_offset, "a size that memory can address", found)
        })?;
        let tensor = info.entry(0..bytes);
        let chunks = if self.is_plain() {
            // Its bounds were checked with its header.
            let start = (self.header().embedding_offset + crate::alignment::TENSOR_HEADER_BYTES) as usize;
            self.pieces(start..start + bytes, &place, None)?
        } else {
            info.chunks
        };
        Ok(Outline { place, chunks, tensors: vec![tensor] })
    }

    /// Reads a range of the file once, compares its checksum with `crc`, and takes it in chunks with checksums of their own.
    fn pieces(&self, range: Range<usize>, place: &str, crc: Option<u32>) -> Result<Vec<Chunk>, Unread> {
        let mut part = FilePart::new(self.path(), self.bytes(), range.clone());
        let mut whole = Hasher::new();
        let mut chunks = Vec::new();
        reserve(&mut chunks, range.len().div_ceil(CHUNK_BYTES), place)?;
        for start in range.clone().step_by(CHUNK_BYTES) {
            let end = range.end.min(start + CHUNK_BYTES);
            let hash = part.hash(start..end);
            whole.combine(&hash);
            let bytes = (end - start) as u32;
            chunks.push(Chunk {
                offset: start as u64,
                stored_bytes: bytes,
                raw_bytes: bytes,
                crc: hash.finalize(),
                compression: Compression::None,
            });
        }
        let found = whole.finalize();
        match crc {
            Some(crc) if crc != found => {
                let (expected, found) = (format!("CRC32 {crc:08x}"), format!("{found:08x}"));
                Err(Damage::new(place, range.start as u64, expected, found).into())
            }
            _ => Ok(chunks),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_by_their_raw_bytes() {
        let chunk = |raw_bytes| Chunk {
            offset: 0,
            stored_bytes: raw_bytes,
            raw_bytes,
            crc: 0,
            compression: Compression::None,
        };
        let outline = Outline {
            place: String::new(),
            chunks: vec![chunk(100), chunk(100), chunk(7)],
            tensors: Vec::new(),
        };
        assert_eq!([0, 99, 100, 206].map(|at| outline.chunk_at(at)), [0, 0, 1, 2]);
        assert_eq!([0, 1, 2].map(|i| outline.raw_range(i)), [0..100, 100..200, 200..207]);
    }
}
