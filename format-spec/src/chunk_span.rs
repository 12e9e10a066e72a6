//! The raw bytes of compressed chunks, of which one chunk at a time is in memory: for whoever looks for headers, or only
//! checks. A chunk can expand 255 times, so all chunks of a small file together can take a lot.

use std::borrow::Cow;
use std::ops::Range;

use crc32fast::Hasher;

use crate::alignment::CHUNK_BYTES;
use crate::chunk::{Chunk, ChunkDecoder};
use crate::error::{Unread, reserve};
use crate::tensor_header::{RawSpan, TensorEntry};

/// The raw bytes of the chunks of a part. The chunk that was asked for last is kept.
pub(crate) struct ChunkSpan<'a> {
    file: &'a [u8],
    chunks: &'a [Chunk],
    place: &'a str,
    raw_bytes: usize,
    held: Option<(usize, Vec<u8>)>,
    decoder: ChunkDecoder,
}

impl<'a> ChunkSpan<'a> {
    /// The chunks of the part `place` of a file, inside of which they are.
    pub fn new(file: &'a [u8], chunks: &'a [Chunk], place: &'a str) -> ChunkSpan<'a> {
        let raw_bytes = chunks.iter().map(|chunk| chunk.raw_bytes as usize).sum();
        ChunkSpan { file, chunks, place, raw_bytes, held: None, decoder: ChunkDecoder::default() }
    }

    /// Chunk `index`, checked and decompressed.
    fn hold(&mut self, index: usize) -> Result<&[u8], Unread> {
        if self.held.as_ref().is_none_or(|(held, _)| *held != index) {
            let chunk = &self.chunks[index];
            let place = format!("{}, chunk {index}", self.place);
            let stored = &self.file[chunk.offset as usize..][..chunk.stored_bytes as usize];
            ChunkDecoder::check(chunk, stored, &place)?;
            let mut raw = self.held.take().map_or_else(Vec::new, |(_, buffer)| buffer);
            raw.clear();
            reserve(&mut raw, chunk.raw_bytes as usize, &place)?;
            raw.resize(chunk.raw_bytes as usize, 0);
            self.decoder.decode(chunk, stored, &mut raw, &place)?;
            self.held = Some((index, raw));
        }
        Ok(self.held.as_ref().map_or(&[], |(_, raw)| raw))
    }

    /// Decompresses every chunk once, and takes the CRC32 of each of these tensors with its header. They are in file order.
    ///
    /// # Errors
    /// When a chunk is damaged, or does not fit into memory.
    pub fn crcs(&mut self, tensors: &[TensorEntry]) -> Result<Vec<u32>, Unread> {
        let mut crcs = Vec::new();
        reserve(&mut crcs, tensors.len(), self.place)?;
        let mut left = tensors.iter().map(TensorEntry::with_header).peekable();
        let mut hasher = Hasher::new();
        let mut start = 0;
        for index in 0..self.chunks.len() {
            let raw = self.hold(index)?;
            let end = start + raw.len();
            while let Some(tensor) = left.peek() {
                let (from, to) = (tensor.start.max(start), tensor.end.min(end));
                if from < to {
                    hasher.update(&raw[from - start..to - start]);
                }
                if tensor.end > end {
                    break;
                }
                crcs.push(std::mem::take(&mut hasher).finalize());
                left.next();
            }
            start = end;
        }
        Ok(crcs)
    }
}

/// Only of layers: their chunks have all but the last the same raw size.
impl RawSpan for &mut ChunkSpan<'_> {
    fn len(&self) -> usize {
        self.raw_bytes
    }

    fn bytes(&mut self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Unread> {
        let mut bytes = Vec::with_capacity(range.len());
        let mut at = range.start;
        while at < range.end {
            let (index, inside) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let raw = self.hold(index)?;
            let end = raw.len().min(inside + range.end - at);
            bytes.extend_from_slice(&raw[inside..end]);
            at += end - inside;
        }
        Ok(Cow::Owned(bytes))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::chunk::{Compression, encode_chunk};
    use crate::layout::Layout;
    use crate::quant_type::QuantType;

    #[test]
    fn checksums_are_those_of_the_joined_bytes_wherever_chunks_end() {
        let raw: Vec<u8> = (0..1000_u32).map(|i| (i / 7) as u8).collect();
        let mut file = Vec::new();
        let mut chunks = Vec::new();
        for part in raw.chunks(100) {
            let (compression, stored) = encode_chunk(part, Compression::Zstd).unwrap();
            chunks.push(Chunk {
                offset: file.len() as u64,
                stored_bytes: stored.len() as u32,
                raw_bytes: part.len() as u32,
                crc: crc32fast::hash(&stored),
                compression,
            });
            file.extend_from_slice(&stored);
        }
        let tensor = |data: Range<usize>| TensorEntry {
            kind: None,
            kind_id: 0,
            part_of: None,
            optional: false,
            rows: 1,
            cols: 1,
            quant: QuantType::F32,
            layout: Layout::Rows,
            data,
        };
        // Within a chunk, up to its end, from its start, over several, up to the end of all.
        let tensors = [48..60, 80..100, 116..130, 150..420, 436..1000].map(tensor);
        let expected = tensors.each_ref().map(|tensor| crc32fast::hash(&raw[tensor.with_header()]));
        let mut span = ChunkSpan::new(&file, &chunks, "layer 0");
        assert_eq!(span.crcs(&tensors).unwrap(), expected);
        assert!(span.crcs(&[]).unwrap().is_empty());
        file[chunks[7].offset as usize] ^= 1;
        let error = ChunkSpan::new(&file, &chunks, "layer 0").crcs(&[]).unwrap_err();
        assert!(format!("{error:?}").contains("layer 0, chunk 7"), "{error:?}");
    }
}
