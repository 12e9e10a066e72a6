//! Layers, the final section and the learned positions: their tensors, checked.

use std::ops::Range;
use std::sync::Arc;

use super::file::QsfFile;
use super::tensor_group::TensorGroup;
use crate::chunk::{Chunk, ChunkDecoder, Compression, parse_table};
use crate::chunk_span::ChunkSpan;
use crate::deferred_checks::DeferredPart;
use crate::directory::{Section, SectionTag};
use crate::error::{Damage, FormatError, Origin, Unread, reserve};
use crate::file_bytes::{RawBytes, range_in};
use crate::file_part::{FilePart, crc_by_table};
use crate::quant_type::QuantType;
use crate::tensor_header::{RawSpan, TensorCount, TensorEntry, parse_tensors};
use crate::tensor_kind::TensorKind;
use crate::unknown_kind::UnknownKind;

/// A layer, in messages.
pub(crate) fn layer_place(layer: usize) -> String {
    format!("layer {layer}")
}

impl QsfFile {
    /// The tensors of a layer.
    ///
    /// # Errors
    /// When the layer is damaged.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn layer(&self, layer: usize) -> Result<TensorGroup, FormatError> {
        self.read_layer(layer).map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_layer(&self, layer: usize) -> Result<TensorGroup, Unread> {
        let place = layer_place(layer);
        let chunks = self.checked_chunks(layer, &place)?;
        let bytes = self.join(&chunks, &place)?;
        let raw = bytes.clone();
        self.group_of_layer(layer, raw.as_slice(), bytes, &place)
    }

    /// Checks a layer as [`read_layer`](Self::read_layer) does, with one chunk at a time in memory: its tensors, without their
    /// bytes where these are compressed, and the CRC32 of each.
    pub(crate) fn check_layer(&self, layer: usize) -> Result<(TensorGroup, Vec<u32>), Unread> {
        let place = layer_place(layer);
        let chunks = self.checked_chunks(layer, &place)?;
        if let Some(bytes) = self.in_place(&chunks) {
            let raw = bytes.clone();
            let group = self.group_of_layer(layer, raw.as_slice(), bytes, &place)?;
            let crcs = group.crcs();
            return Ok((group, crcs));
        }
        let mut span = ChunkSpan::new(&self.bytes, &chunks, &place);
        let group = self.group_of_layer(layer, &mut span, RawBytes::Owned(Arc::default()), &place)?;
        let crcs = span.crcs(&group.tensors)?;
        Ok((group, crcs))
    }

    /// The chunks of a layer, with all of their CRCs checked.
    fn checked_chunks(&self, layer: usize, place: &str) -> Result<Vec<Chunk>, Unread> {
        let entry = &self.layers[layer];
        let range = entry.offset as usize..(entry.offset + entry.stored_bytes) as usize;
        if self.is_deferring()
            && let Ok(chunks) = parse_table(&self.bytes[range.clone()], entry.offset, entry.raw_bytes, place)
            && self.defers_chunks(range.clone(), entry.crc, place, &chunks)
        {
            return Ok(chunks);
        }
        let mut part = FilePart::new(&self.path, &self.bytes, range);
        let chunks = match parse_table(part.bytes(), entry.offset, entry.raw_bytes, place) {
            Ok(chunks) => chunks,
            // Rather damaged than written so.
            Err(malformed) => {
                part.check(place, entry.crc)?;
                return Err(malformed);
            }
        };
        part.check_with_chunks(place, entry.crc, place, &chunks)?;
        Ok(chunks)
    }

    /// Whether the check of a part that ends with these chunks was left to who uses it. Of compressed chunks it never is: decompressing
    /// reads them at once.
    pub(super) fn defers_chunks(
        &self,
        part: Range<usize>,
        crc: u32,
        chunks_place: &str,
        chunks: &[Chunk],
    ) -> bool {
        let Some(first) = chunks.first().map(|chunk| part.start..chunk.offset as usize) else { return false };
        let wanted = |(i, chunk): (usize, &Chunk)| {
            let range = chunk.offset as usize..(chunk.offset + u64::from(chunk.stored_bytes)) as usize;
            DeferredPart { range, crc: chunk.crc, place: format!("{chunks_place}, chunk {i}") }
        };
        self.is_deferring()
            && chunks.iter().all(|chunk| chunk.compression == Compression::None)
            && crc_by_table(&self.bytes[first], chunks) == crc
            && self.defers(|| chunks.iter().enumerate().map(wanted).collect())
    }

    /// The bytes of a section with weights, checked or to be checked when they are used.
    fn section_of_weights(&self, section: &Section) -> Result<&[u8], Damage> {
        let range = section.offset as usize..(section.offset + section.stored_bytes) as usize;
        let wanted = || DeferredPart {
            range: range.clone(),
            crc: section.crc,
            place: format!("section {}", section.tag),
        };
        if self.defers(|| vec![wanted()]) { Ok(&self.bytes[range]) } else { self.checked(section) }
    }

    /// The tensors of a layer, whose raw bytes are `raw`; these become `bytes` of the group.
    pub(crate) fn group_of_layer(
        &self,
        layer: usize,
        raw: impl RawSpan,
        bytes: RawBytes,
        place: &str,
    ) -> Result<TensorGroup, Unread> {
        let entry = &self.layers[layer];
        let (origin, count) = (bytes.origin(entry.offset), TensorCount::Exactly(entry.tensors.into()));
        let tensors = parse_tensors(raw, origin, 0, count, Some(entry.quant), self.header.block, place)?;
        let group = TensorGroup { bytes, tensors };
        group.check_placement(entry.offset, place, TensorKind::is_per_layer)?;
        self.check_all_tabled(&group, entry.offset, place)?;
        Ok(group)
    }

    /// Contiguous chunks as one, where they stand in the file; `None` when one of them is compressed.
    pub(crate) fn in_place(&self, chunks: &[Chunk]) -> Option<RawBytes> {
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            return Some(RawBytes::Owned(Arc::default()));
        };
        let range = first.offset as usize..last.offset as usize + last.stored_bytes as usize;
        let plain = chunks.iter().all(|chunk| chunk.compression == Compression::None);
        plain.then(|| RawBytes::InFile(self.bytes.clone(), range))
    }

    /// Contiguous chunks, checked already, as one: in place when none is compressed.
    pub(super) fn join(&self, chunks: &[Chunk], place: &str) -> Result<RawBytes, Unread> {
        if let Some(bytes) = self.in_place(chunks) {
            return Ok(bytes);
        }
        let mut raw = Vec::new();
        reserve(&mut raw, chunks.iter().map(|chunk| chunk.raw_bytes as usize).sum(), place)?;
        let mut decoder = ChunkDecoder::default();
        for (i, chunk) in chunks.iter().enumerate() {
            // The chunk's range was checked when its table was read.
            let stored = &self.bytes[chunk.offset as usize..][..chunk.stored_bytes as usize];
            let start = raw.len();
            // Page by page as chunks turn out to be sound, not all at once on the word of a table.
            raw.resize(start + chunk.raw_bytes as usize, 0);
            decoder.decode(chunk, stored, &mut raw[start..], &format!("{place}, chunk {i}"))?;
        }
        Ok(RawBytes::Owned(Arc::new(raw)))
    }

    /// Whether the head is the token embedding, and the tensors of the final section.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn final_section(&self) -> Result<(bool, TensorGroup), FormatError> {
        self.read_final().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_final(&self) -> Result<(bool, TensorGroup), Unread> {
        let range = self.final_range()?;
        self.section(SectionTag::FINAL).map(|section| self.section_of_weights(section)).transpose()?;
        self.parse_final(range)
    }

    /// Where the final section is; in a plain file, which does not say where it ends, up to the end of the file.
    pub(crate) fn final_range(&self) -> Result<Range<usize>, Damage> {
        let at = self.header.final_offset;
        match self.section(SectionTag::FINAL) {
            Some(section) => Ok(at as usize..(at + section.stored_bytes) as usize),
            None => {
                let bytes = (self.bytes.len() as u64).saturating_sub(at);
                range_in(&self.bytes, at, bytes, "final section", 72)
            }
        }
    }

    /// The final section, checked already.
    pub(crate) fn parse_final(&self, range: Range<usize>) -> Result<(bool, TensorGroup), Unread> {
        let (place, at) = ("final section", range.start as u64);
        let bytes = &self.bytes[range.clone()];
        let tied = match bytes.first() {
            Some(0xFF) => true,
            Some(0) => false,
            other => {
                let found = other.map_or("nothing".into(), |b| format!("{b:#04x}"));
                return Err(Damage::new(place, at, "flag byte 0xFF or 0x00", found).into());
            }
        };
        let count = if self.is_plain() {
            // Norm gain, its bias where the norm has one, and the head where it is separate.
            TensorCount::Plain(1 + usize::from(self.header.norm == 0) + usize::from(!tied))
        } else {
            TensorCount::ToEnd
        };
        let tensors = parse_tensors(bytes, Origin::InFile(at), 1, count, None, self.header.block, place)?;
        let group = TensorGroup { bytes: RawBytes::InFile(self.bytes.clone(), range), tensors };
        group.check_placement(at, place, |kind| !kind.is_per_layer() && kind != TensorKind::Positions)?;
        self.check_all_tabled(&group, at, place)?;
        Ok((tied, group))
    }

    /// The learned positions, where the model has them.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn positions(&self) -> Result<Option<TensorGroup>, FormatError> {
        self.read_positions().map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn read_positions(&self) -> Result<Option<TensorGroup>, Unread> {
        let Some(section) = self.section(SectionTag::POSITIONS) else { return Ok(None) };
        let bytes = self.section_of_weights(section)?;
        let tensors = parse_tensors(
            bytes,
            Origin::InFile(section.offset),
            0,
            TensorCount::Exactly(1),
            None,
            self.header.block,
            "section POSE",
        )?;
        if tensors.iter().any(|t| t.kind != Some(TensorKind::Positions)) {
            let found = tensors.first().map_or(0, |t| t.kind_id);
            return Err(Damage::new("section POSE", section.offset, "kind 68 (positions)", found).into());
        }
        let range = section.offset as usize..(section.offset + section.stored_bytes) as usize;
        let group = TensorGroup { bytes: RawBytes::InFile(self.bytes.clone(), range), tensors };
        self.check_all_tabled(&group, section.offset, "section POSE")?;
        Ok(Some(group))
    }

    /// Checks that whoever computes with the model knows every tensor of a part that is not optional.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] names the first that is not known.
    pub fn check_kinds_known(&self, layer: Option<u32>, tensors: &[TensorEntry]) -> Result<(), FormatError> {
        let Some(needed) = tensors.iter().find(|tensor| tensor.is_unknown() && !tensor.optional) else {
            return Ok(());
        };
        let unknown = UnknownKind::among(layer, tensors, self.meta()?.as_ref());
        let of_needed = unknown.into_iter().find(|kind| kind.kind_id == needed.kind_id);
        let found = of_needed.unwrap_or(UnknownKind { layer, kind_id: needed.kind_id, name: None });
        Err(FormatError::needs_newer(self.path(), format!("tensor {found}")))
    }

    /// Without its table a learned type means nothing.
    pub(super) fn check_tabled(&self, quant: QuantType) -> Result<(), &'static str> {
        let known = !quant.is_learned() || self.tabled.contains(&quant);
        if known { Ok(()) } else { Err("a type whose table is in section GRID") }
    }

    /// Checks that no tensor of a part is of a learned type without a table.
    pub(crate) fn check_all_tabled(
        &self,
        group: &TensorGroup,
        stored_at: u64,
        place: &str,
    ) -> Result<(), Damage> {
        group.tensors.iter().try_for_each(|tensor| {
            self.check_tabled(tensor.quant)
                .map_err(|expected| group.damage(tensor, stored_at, place, expected, tensor.quant))
        })
    }
}
