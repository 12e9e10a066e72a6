//! A file that is being written: where it has got to, its padding, its sections.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use crate::alignment::{ALIGN, CHUNK_BYTES, LAYER_ALIGN};
use crate::block_size::BlockSize;
use crate::chunk::{Chunk, Compression};
use crate::code_tables::CodeTables;
use crate::directory::{Section, SectionTag};
use crate::error::FormatError;
use crate::header::HEADER_BYTES;
use crate::layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
use crate::layout::Layout;
use crate::partial_file::PartialFile;
use crate::quant_type::QuantType;
use crate::tensor_kind::TensorKind;

/// Stored and raw sizes of a layer are 48-bit numbers.
pub(super) const MAX_LAYER_BYTES: u64 = 1 << 48;

/// Choices of a new file.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Replace a file that is there.
    pub force: bool,
    /// Values per block.
    pub block: BlockSize,
    /// Compression: of layers where it saves at least 2 %, of embedding chunks where it saves anything.
    pub compression: Compression,
    /// What codes of learned types stand for. The file gets the tables of those types that it uses.
    pub tables: CodeTables,
}

/// Writes a QSF file in file order: [`begin_embedding`](Self::begin_embedding) and rows, [`layer`](Self::layer) for each,
/// [`begin_final`](Self::begin_final) and its tensors, perhaps [`begin_positions`](Self::begin_positions), then
/// [`finish`](Self::finish). Dropped before `finish`, it removes what it wrote.
pub struct QsfWriter {
    pub(super) target: PartialFile,
    pub(super) out: BufWriter<File>,
    pub(super) options: WriterOptions,
    pub(super) layer_count: u32,
    pub(super) at: u64,
    pub(super) section: crc32fast::Hasher,
    pub(super) tensor: crc32fast::Hasher,
    pub(super) index: Vec<LayerEntry>,
    pub(super) sections: Vec<Section>,
    pub(super) embedding: Option<EmbeddingInProgress>,
    pub(super) embedding_offset: u64,
    pub(super) final_offset: u64,
    pub(super) chunks: Vec<Chunk>,
    pub(super) tensor_crcs: Vec<u8>,
    /// Types of the tensors so far.
    pub(super) types: Vec<QuantType>,
    /// Records of section OUTL.
    pub(super) outliers: BTreeMap<u32, Vec<u8>>,
    /// Records of section PART.
    pub(super) row_parts: BTreeMap<u32, Vec<u8>>,
    pub(super) open_tensor: Option<u64>,
    /// The part that was ended before its tensor was.
    pub(super) cut_short: Option<&'static str>,
    pub(super) section_start: u64,
}

/// An embedding that lacks rows.
pub(super) struct EmbeddingInProgress {
    pub(super) header: [u8; 16],
    pub(super) chunk_bytes: usize,
    pub(super) pending: Vec<u8>,
    pub(super) bytes_left: u64,
}

impl QsfWriter {
    /// Starts `path`, as `path` + `.partial`.
    ///
    /// # Errors
    /// When the file exists and `force` is off, the directory is missing, or another process writes the same file.
    pub fn create(path: &Path, layer_count: u32, options: WriterOptions) -> Result<QsfWriter, FormatError> {
        let (target, file) = PartialFile::create(path, options.force)?;
        let mut writer = QsfWriter {
            target,
            out: BufWriter::with_capacity(CHUNK_BYTES, file),
            options,
            layer_count,
            at: 0,
            section: crc32fast::Hasher::new(),
            tensor: crc32fast::Hasher::new(),
            index: Vec::new(),
            sections: Vec::new(),
            embedding: None,
            embedding_offset: 0,
            final_offset: 0,
            chunks: Vec::new(),
            tensor_crcs: Vec::new(),
            types: Vec::new(),
            outliers: BTreeMap::new(),
            row_parts: BTreeMap::new(),
            open_tensor: None,
            cut_short: None,
            section_start: 0,
        };
        let reserved = HEADER_BYTES + layer_count as usize * INDEX_ENTRY_BYTES;
        writer.put(&vec![0; reserved])?;
        Ok(writer)
    }

    pub(super) fn plain_section(&mut self, tag: SectionTag, bytes: &[u8]) -> Result<(), FormatError> {
        self.whole_section(tag, bytes, Compression::None)
    }

    pub(super) fn whole_section(
        &mut self,
        tag: SectionTag,
        stored: &[u8],
        compression: Compression,
    ) -> Result<(), FormatError> {
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        self.begin_section();
        self.put(stored)?;
        let section = self.end_section(tag, compression);
        self.sections.push(section);
        Ok(())
    }

    pub(super) fn begin_section(&mut self) {
        self.section = crc32fast::Hasher::new();
        self.section_start = self.at;
    }

    /// The section from `begin_section` to here.
    pub(super) fn end_section(&mut self, tag: SectionTag, compression: Compression) -> Section {
        Section {
            tag,
            offset: self.section_start,
            stored_bytes: self.at - self.section_start,
            crc: std::mem::take(&mut self.section).finalize(),
            compression,
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.out.write_all(bytes).map_err(|e| self.io("write", e))?;
        self.section.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn pad_to(&mut self, at: u64) -> Result<(), FormatError> {
        let zeros = [0; LAYER_ALIGN as usize];
        while self.at < at {
            let n = (at - self.at).min(LAYER_ALIGN) as usize;
            self.put(&zeros[..n])?;
        }
        Ok(())
    }

    /// Overwrites bytes that were reserved earlier.
    pub(super) fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<(), FormatError> {
        self.out
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.out.write_all(bytes))
            .and_then(|()| self.out.seek(SeekFrom::Start(self.at)))
            .map_err(|e| self.io("write", e))?;
        Ok(())
    }

    /// Bytes of a tensor to be written, which must have at least one value. Remembers its type.
    pub(super) fn size_of(
        &mut self,
        kind: TensorKind,
        quant: QuantType,
        layout: Layout,
        rows: u32,
        cols: u32,
    ) -> Result<u64, FormatError> {
        if !layout.suits(quant) {
            return Err(self.unwritable(kind.name(), &format!("{quant} has no layout '{layout}'")));
        }
        if !self.types.contains(&quant) {
            self.types.push(quant);
        }
        quant
            .tensor_bytes(self.options.block, rows.into(), cols.into())
            .filter(|bytes| (1..MAX_LAYER_BYTES).contains(bytes))
            .ok_or_else(|| self.unwritable(kind.name(), "its size must be 1 to 2^48 bytes"))
    }

    pub(super) fn io(&self, action: &'static str, source: io::Error) -> FormatError {
        FormatError::io(self.target.partial(), action, source)
    }

    pub(super) fn unwritable(&self, what: &str, why: &str) -> FormatError {
        FormatError::Unwritable { path: self.target.path().to_owned(), what: what.into(), why: why.into() }
    }
}
