//! The token embedding: its header, the list of its chunks, and its rows.

use std::ops::Range;

use super::file::QsfFile;
use crate::alignment::{TENSOR_HEADER_BYTES, embedding_rows_per_chunk};
use crate::chunk::{Chunk, Compression};
use crate::chunk_span::ChunkSpan;
use crate::directory::{SectionTag, parse_embedding_chunks};
use crate::error::{Damage, FormatError, Unread};
use crate::file_bytes::{RawBytes, range_in};
use crate::layout::Layout;
use crate::quant_type::QuantType;
use crate::tensor_header::TensorEntry;
use crate::tensor_kind::TensorKind;

/// The part, in messages.
const PLACE: &str = "embedding section";

/// The token embedding.
#[derive(Debug, Clone)]
pub struct EmbeddingInfo {
    /// Stored type.
    pub quant: QuantType,
    /// Order of the rows: of every chunk, and so of all together.
    pub layout: Layout,
    /// Rows: the vocabulary; of one in parts, those of its first.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// Chunks of whole rows, in order. A plain file has none listed; its rows follow the header uncompressed.
    pub chunks: Vec<Chunk>,
}

impl EmbeddingInfo {
    /// The embedding as a tensor whose rows are `data`. Its section has no such header.
    pub fn entry(&self, data: Range<usize>) -> TensorEntry {
        let kind = TensorKind::TokenEmbedding;
        TensorEntry {
            kind: Some(kind),
            kind_id: kind.id(),
            part_of: None,
            optional: false,
            rows: self.rows,
            cols: self.cols,
            quant: self.quant,
            layout: self.layout,
            data,
        }
    }

    /// How its chunks are compressed. One that would not shrink is stored as it is all the same.
    pub fn compression(&self) -> Compression {
        let mut methods = self.chunks.iter().map(|chunk| chunk.compression);
        methods.find(|method| *method != Compression::None).unwrap_or(Compression::None)
    }
}

impl QsfFile {
    /// The embedding's header and chunk list; ECHK is checked, the chunks not yet.
    ///
    /// # Errors
    /// When either is damaged.
    pub fn embedding_info(&self) -> Result<EmbeddingInfo, FormatError> {
        self.read_embedding_info().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_embedding_info(&self) -> Result<EmbeddingInfo, Unread> {
        let at = self.header.embedding_offset;
        let place = PLACE;
        let header = range_in(&self.bytes, at, TENSOR_HEADER_BYTES, place, 64)?;
        let bytes = &self.bytes[header.clone()];
        let field = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let (type_id, size, rows, cols) = (field(0), field(4), field(8), field(12));
        let [quant_id, layout_id, 0, 0] = type_id.to_le_bytes() else {
            return Err(Damage::new(place, at, "a type id and a layout", type_id).into());
        };
        let quant = QuantType::from_id(quant_id)
            .ok_or_else(|| Damage::new(place, at, "a known type id", quant_id))?;
        self.check_tabled(quant).map_err(|expected| Damage::new(place, at, expected, quant))?;
        let layout = Layout::parse(layout_id, quant)
            .map_err(|expected| Damage::new(place, at + 1, expected, format!("layout {layout_id}")))?;
        // Parts in the final section have the other rows.
        let in_all = self.read_row_parts()?.embedding_rows();
        let (vocab, hidden) = (self.header.vocab, self.header.hidden);
        let fits = in_all.map_or(rows == vocab, |all| all == vocab && rows < all);
        if !fits || cols != hidden || rows == 0 || cols == 0 {
            let part =
                in_all.map_or_else(String::new, |all| format!("some rows ({all} in section PART) of "));
            let expected = format!("{part}{vocab} x {hidden} as in the file header");
            return Err(Damage::new(place, at + 8, expected, format!("{rows} x {cols}")).into());
        }
        let too_large = || Damage::new(place, at + 8, "a size below 2^63", format!("{rows} x {cols}"));
        let row_bytes = quant.row_bytes(self.header.block, cols.into()).ok_or_else(too_large)?;
        let total = row_bytes.checked_mul(rows.into()).ok_or_else(too_large)?;
        let Some(section) = self.section(SectionTag::EMBEDDING) else {
            let stored = u64::from(size);
            if stored != total {
                let expected = format!("{total} uncompressed bytes (plain file)");
                return Err(Damage::new(place, at + 4, expected, stored).into());
            }
            range_in(&self.bytes, at + TENSOR_HEADER_BYTES, total, place, at)?;
            return Ok(EmbeddingInfo { quant, layout, rows, cols, chunks: Vec::new() });
        };
        let end = section.offset + section.stored_bytes;
        let Some(stored) = section.stored_bytes.checked_sub(TENSOR_HEADER_BYTES) else {
            return Err(Damage::new(place, at, "at least 16 bytes", section.stored_bytes).into());
        };
        if size != u32::try_from(stored).unwrap_or(u32::MAX) {
            return Err(Damage::new(place, at + 4, format!("size {stored}"), size).into());
        }
        let per_chunk = embedding_rows_per_chunk(layout, row_bytes);
        // At most `rows` chunks, a u32.
        let count = u64::from(rows).div_ceil(per_chunk) as usize;
        let raw_sizes = (0..count).map(|i| {
            let chunk_rows = per_chunk.min(u64::from(rows) - i as u64 * per_chunk);
            chunk_rows * row_bytes
        });
        let listed = self
            .checked_section(SectionTag::EMBEDDING_CHUNKS)?
            .ok_or_else(|| Damage::new("section directory", at, "an entry ECHK", "none"))?;
        let listed_at = self.section(SectionTag::EMBEDDING_CHUNKS).map_or(0, |s| s.offset);
        let chunks = parse_embedding_chunks(listed, listed_at, at + TENSOR_HEADER_BYTES..end, raw_sizes)?;
        Ok(EmbeddingInfo { quant, layout, rows, cols, chunks })
    }

    /// The whole token embedding: every chunk checked and decompressed.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn embedding(&self, info: &EmbeddingInfo) -> Result<RawBytes, FormatError> {
        self.read_embedding(info).map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_embedding(&self, info: &EmbeddingInfo) -> Result<RawBytes, Unread> {
        self.check_embedding_crcs(info)?;
        if !self.is_plain() {
            return self.join(&info.chunks, PLACE);
        }
        let at = self.header.embedding_offset + TENSOR_HEADER_BYTES;
        let bytes = info.quant.tensor_bytes(self.header.block, info.rows.into(), info.cols.into());
        let range = range_in(&self.bytes, at, bytes.unwrap_or(u64::MAX), PLACE, at)?;
        Ok(RawBytes::InFile(self.bytes.clone(), range))
    }

    /// Checks every chunk and decompresses it, one at a time.
    pub(crate) fn check_embedding(&self, info: &EmbeddingInfo) -> Result<(), Unread> {
        self.check_embedding_crcs(info)?;
        if info.compression() != Compression::None {
            ChunkSpan::new(&self.bytes, &info.chunks, PLACE).crcs(&[])?;
        }
        Ok(())
    }

    /// The chunks' CRCs cover the data, the section's also the 16 bytes before it. A plain file has neither.
    fn check_embedding_crcs(&self, info: &EmbeddingInfo) -> Result<(), Damage> {
        let Some(section) = self.section(SectionTag::EMBEDDING) else { return Ok(()) };
        let range = section.offset as usize..(section.offset + section.stored_bytes) as usize;
        let name = format!("section {}", section.tag);
        if self.defers_chunks(range, section.crc, &name, &info.chunks) {
            return Ok(());
        }
        self.part(section).check_with_chunks(&name, section.crc, PLACE, &info.chunks)
    }
}
