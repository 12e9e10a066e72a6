//! The token embedding, in chunks of rows.

use super::file::{EmbeddingInProgress, QsfWriter};
use crate::alignment::{embedding_rows_per_chunk, next_tensor_header};
use crate::chunk::{Chunk, Compression, encode_chunk};
use crate::directory::SectionTag;
use crate::error::FormatError;
use crate::layout::Layout;
use crate::quant_type::QuantType;
use crate::tensor_kind::TensorKind;

impl QsfWriter {
    /// Starts the token embedding of `rows` x `cols`.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_embedding(
        &mut self,
        quant: QuantType,
        layout: Layout,
        rows: u32,
        cols: u32,
    ) -> Result<(), FormatError> {
        let bytes = self.size_of(TensorKind::TokenEmbedding, quant, layout, rows, cols)?;
        let row_bytes = (bytes / u64::from(rows)) as usize;
        let start = next_tensor_header(self.at)
            .ok_or_else(|| self.unwritable("the token embedding", "the file is too large"))?;
        self.pad_to(start)?;
        self.begin_section();
        self.embedding_offset = start;
        let mut header = [0; 16];
        header[..2].copy_from_slice(&[quant.id(), layout.id()]);
        header[8..12].copy_from_slice(&rows.to_le_bytes());
        header[12..16].copy_from_slice(&cols.to_le_bytes());
        self.put(&header)?;
        // The size field of the header is known at the end: until then only the chunks' CRC is counted.
        self.section = crc32fast::Hasher::new();
        self.embedding = Some(EmbeddingInProgress {
            header,
            chunk_bytes: embedding_rows_per_chunk(layout, row_bytes as u64) as usize * row_bytes,
            pending: Vec::new(),
            bytes_left: bytes,
        });
        Ok(())
    }

    /// Appends encoded rows of the embedding, as its type and layout say.
    ///
    /// # Errors
    /// When writing fails, or more rows come than were announced.
    pub fn embedding_rows(&mut self, rows: &[u8]) -> Result<(), FormatError> {
        let Some(mut state) = self.embedding.take() else {
            return Err(self.unwritable("embedding rows", "no embedding was begun"));
        };
        if rows.len() as u64 > state.bytes_left {
            return Err(self.unwritable("embedding rows", "more rows than announced"));
        }
        state.bytes_left -= rows.len() as u64;
        state.pending.extend_from_slice(rows);
        let mut done = 0;
        while state.pending.len() - done >= state.chunk_bytes && state.chunk_bytes > 0 {
            self.embedding_chunk(&state.pending[done..done + state.chunk_bytes])?;
            done += state.chunk_bytes;
        }
        state.pending.drain(..done);
        if state.bytes_left == 0 {
            if !state.pending.is_empty() {
                self.embedding_chunk(&state.pending)?;
            }
            self.end_embedding(state.header)
        } else {
            self.embedding = Some(state);
            Ok(())
        }
    }

    fn embedding_chunk(&mut self, raw: &[u8]) -> Result<(), FormatError> {
        let (compression, stored) =
            encode_chunk(raw, self.options.compression).map_err(|e| self.io("compress for", e))?;
        self.chunks.push(Chunk {
            offset: self.at,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw.len() as u32,
            crc: crc32fast::hash(&stored),
            compression,
        });
        self.put(&stored)
    }

    /// Fills in the size in the embedding header, and puts the header's CRC before that of the chunks.
    fn end_embedding(&mut self, mut header: [u8; 16]) -> Result<(), FormatError> {
        let start = self.embedding_offset;
        let size = u32::try_from(self.at - start - 16).unwrap_or(u32::MAX);
        header[4..8].copy_from_slice(&size.to_le_bytes());
        self.patch(start, &header)?;
        let mut whole = crc32fast::Hasher::new();
        whole.update(&header);
        whole.combine(&self.section);
        self.section = whole;
        let section = self.end_section(SectionTag::EMBEDDING, Compression::None);
        self.sections.push(section);
        Ok(())
    }
}
