//! The streaming writer: one pass from front to back into `OUT.partial`, verified, then fsync and rename. A crash, a full
//! disk, Ctrl-C or a caller's contradiction never leaves something under the final name, nor costs an older file its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use crate::alignment::{ALIGN, CHUNK_BYTES, LAYER_ALIGN, embedding_rows_per_chunk, next_tensor_header};
use crate::chunk::{Chunk, Compression, encode_chunk, encode_layer};
use crate::clusters::VocabClusters;
use crate::code_tables::CodeTables;
use crate::directory::{Section, SectionTag, directory_bytes, embedding_chunk_bytes};
use crate::error::FormatError;
use crate::exits::EarlyExits;
use crate::header::{FileHeader, HEADER_BYTES};
use crate::layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
use crate::layout::Layout;
use crate::meta::Meta;
use crate::outliers::{Outliers, tensor_number};
use crate::partial_file::PartialFile;
use crate::quant_type::{BlockSize, QuantType};
use crate::reader::MAX_SECTION_BYTES;
use crate::tensor_header::tensor_header_bytes;
use crate::tensor_kind::{TensorId, TensorKind};
use crate::verify::verify;

/// Stored and raw sizes of a layer are 48-bit numbers.
const MAX_LAYER_BYTES: u64 = 1 << 48;

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

/// One tensor ready to be stored in a layer.
#[derive(Debug, Clone)]
pub struct EncodedTensor {
    /// What the tensor is for.
    pub kind: TensorKind,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// Stored type.
    pub quant: QuantType,
    /// Order of the data.
    pub layout: Layout,
    /// All rows, as type and layout say.
    pub data: Vec<u8>,
}

/// Writes a QSF file in file order: [`begin_embedding`](Self::begin_embedding) and rows, [`layer`](Self::layer) for each,
/// [`begin_final`](Self::begin_final) and its tensors, perhaps [`begin_positions`](Self::begin_positions), then
/// [`finish`](Self::finish). Dropped before `finish`, it removes what it wrote.
pub struct QsfWriter {
    target: PartialFile,
    out: BufWriter<File>,
    options: WriterOptions,
    layer_count: u32,
    at: u64,
    section: crc32fast::Hasher,
    tensor: crc32fast::Hasher,
    index: Vec<LayerEntry>,
    sections: Vec<Section>,
    embedding: Option<EmbeddingInProgress>,
    embedding_offset: u64,
    final_offset: u64,
    chunks: Vec<Chunk>,
    tensor_crcs: Vec<u8>,
    /// Types of the tensors so far.
    types: Vec<QuantType>,
    /// Records of section OUTL.
    outliers: BTreeMap<u32, Vec<u8>>,
    open_tensor: Option<u64>,
    /// The part that was ended before its tensor was.
    cut_short: Option<&'static str>,
    section_start: u64,
}

/// Bytes that a writer stores of a META, tokenizer or chat template: zstd-compressed where that is smaller.
///
/// # Errors
/// When compression fails.
pub fn stored_section_bytes(raw: &[u8]) -> Result<u64, FormatError> {
    let packed = Compression::Zstd.encode(raw);
    let packed = packed.map_err(|e| FormatError::io(Path::new("a section"), "compress", e))?;
    Ok(packed.len().min(raw.len()) as u64)
}

/// A file that is written and verified, under its name with `.partial`. Dropped, it is removed.
pub struct CompleteFile {
    writer: QsfWriter,
    header: FileHeader,
}

impl CompleteFile {
    /// Where it can be read.
    pub fn path(&self) -> &Path {
        self.writer.target.partial()
    }

    /// Adds section CLUS, and verifies the file again.
    ///
    /// # Errors
    /// As [`QsfWriter::complete`], and when the clusters are none that a reader accepts.
    pub fn append_clusters(&mut self, clusters: &VocabClusters) -> Result<(), FormatError> {
        let bytes = clusters.to_bytes().map_err(|why| self.writer.unwritable("section CLUS", &why))?;
        self.begin_appending()?;
        self.writer.plain_section(SectionTag::CLUSTERS, &bytes)?;
        self.writer.write_directory(&self.header)
    }

    /// Adds section EXIT, and verifies the file again.
    ///
    /// # Errors
    /// As [`QsfWriter::complete`], and when the exits are none that a reader accepts.
    pub fn append_early_exits(&mut self, exits: &EarlyExits) -> Result<(), FormatError> {
        let bytes = exits.to_bytes(self.header.layers);
        let bytes = bytes.map_err(|why| self.writer.unwritable("section EXIT", &why))?;
        self.begin_appending()?;
        self.writer.plain_section(SectionTag::EXITS, &bytes)?;
        self.writer.write_directory(&self.header)
    }

    /// Adds section EVAL, and verifies the file again.
    ///
    /// # Errors
    /// As [`QsfWriter::complete`].
    pub fn append_evaluation(&mut self, json: &[u8]) -> Result<(), FormatError> {
        self.begin_appending()?;
        self.writer.extra_section(SectionTag::EVALUATION, json)?;
        self.writer.write_directory(&self.header)
    }

    /// Goes to where the directory is, whose place is taken.
    fn begin_appending(&mut self) -> Result<(), FormatError> {
        let seek = self.writer.out.seek(SeekFrom::Start(self.writer.at));
        seek.map(|_| ()).map_err(|e| self.writer.io("write", e))
    }

    /// Syncs the file and gives it its name. Returns its size in bytes.
    ///
    /// # Errors
    /// When syncing or renaming fails. The file is then removed.
    pub fn publish(mut self) -> Result<u64, FormatError> {
        let size = |file: &File| file.metadata().map(|metadata| metadata.len());
        let bytes = size(self.writer.out.get_ref()).map_err(|e| self.writer.io("read", e))?;
        self.writer.target.publish(self.writer.out.get_ref())?;
        Ok(bytes)
    }

    /// [`publish`](Self::publish)es the file under the name `path`, in the same folder, instead of its own.
    ///
    /// # Errors
    /// As there.
    pub fn publish_as(mut self, path: &Path) -> Result<u64, FormatError> {
        self.writer.target.rename(path.to_owned());
        self.publish()
    }
}

struct EmbeddingInProgress {
    header: [u8; 16],
    chunk_bytes: usize,
    pending: Vec<u8>,
    bytes_left: u64,
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
            open_tensor: None,
            cut_short: None,
            section_start: 0,
        };
        let reserved = HEADER_BYTES + layer_count as usize * INDEX_ENTRY_BYTES;
        writer.put(&vec![0; reserved])?;
        Ok(writer)
    }

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

    /// Writes the next layer.
    ///
    /// # Errors
    /// When writing fails or the layer exceeds what the index can hold.
    pub fn layer(&mut self, tensors: Vec<EncodedTensor>, importance: Option<f32>) -> Result<(), FormatError> {
        let what = format!("layer {}", self.index.len());
        if self.index.len() == self.layer_count as usize {
            return Err(self.unwritable(&what, "all announced layers are written"));
        }
        let count = u16::try_from(tensors.len())
            .map_err(|_| self.unwritable(&what, "a layer holds at most 65535 tensors"))?;
        let quant = tensors.first().map_or(QuantType::F16, |t| t.quant);
        let mut raw = Vec::new();
        // By value: each tensor's memory is given back as soon as it is copied.
        for tensor in tensors {
            let EncodedTensor { kind, rows, cols, quant, layout, .. } = tensor;
            let bytes = self.size_of(kind, quant, layout, rows, cols)?;
            if tensor.data.len() as u64 != bytes {
                return Err(self.unwritable(kind.name(), &format!("its data is not {bytes} bytes")));
            }
            let start = next_tensor_header(raw.len() as u64).unwrap_or(u64::MAX) as usize;
            raw.resize(start, 0);
            raw.extend_from_slice(&tensor_header_bytes(kind, rows, cols, quant, layout));
            raw.extend_from_slice(&tensor.data);
            self.tensor_crcs.extend_from_slice(&crc32fast::hash(&raw[start..]).to_le_bytes());
        }
        let encoded = encode_layer(&raw, self.options.compression).map_err(|e| self.io("compress for", e))?;
        let stored_bytes = (encoded.table.len() + encoded.chunks.len()) as u64;
        if stored_bytes >= MAX_LAYER_BYTES {
            return Err(self.unwritable(&what, "it is larger than 2^48 bytes"));
        }
        self.pad_to(self.at.next_multiple_of(LAYER_ALIGN))?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&encoded.table);
        crc.update(&encoded.chunks);
        self.index.push(LayerEntry {
            offset: self.at,
            stored_bytes,
            raw_bytes: raw.len() as u64,
            quant,
            compression: encoded.compression,
            tensors: count,
            crc: crc.finalize(),
            importance,
        });
        self.put(&encoded.table)?;
        self.put(&encoded.chunks)
    }

    /// Starts the final section: the flag byte says whether the head is the token embedding.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_final(&mut self, tied_head: bool) -> Result<(), FormatError> {
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        self.begin_section();
        self.final_offset = self.at;
        self.put(&[if tied_head { 0xFF } else { 0 }])
    }

    /// Ends the final section. If a tensor of it lacks rows, [`finish`](Self::finish) will refuse.
    pub fn end_final(&mut self) {
        self.end_tensors("the final section");
        let section = self.end_section(SectionTag::FINAL, Compression::None);
        self.sections.push(section);
    }

    /// Starts the section of learned positions, which holds one tensor.
    ///
    /// # Errors
    /// When writing fails.
    pub fn begin_positions(&mut self) -> Result<(), FormatError> {
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        self.begin_section();
        Ok(())
    }

    /// Ends the section of learned positions. If its tensor lacks rows, [`finish`](Self::finish) will refuse.
    pub fn end_positions(&mut self) {
        self.end_tensors("the section of learned positions");
        let section = self.end_section(SectionTag::POSITIONS, Compression::None);
        self.sections.push(section);
    }

    /// Remembers an unfinished tensor: rows that come after the section has ended would complete it, but elsewhere.
    fn end_tensors(&mut self, part: &'static str) {
        if self.open_tensor.is_some() {
            self.cut_short.get_or_insert(part);
        }
    }

    /// Starts a tensor of the final section or of the positions; its rows follow by [`tensor_rows`](Self::tensor_rows).
    ///
    /// # Errors
    /// When writing fails, or rows of the tensor begun before are missing.
    pub fn begin_tensor(
        &mut self,
        kind: TensorKind,
        rows: u32,
        cols: u32,
        quant: QuantType,
        layout: Layout,
    ) -> Result<(), FormatError> {
        if let Some(left) = self.open_tensor {
            let why = format!("the tensor begun before it still lacks {left} bytes");
            return Err(self.unwritable(kind.name(), &why));
        }
        let bytes = self.size_of(kind, quant, layout, rows, cols)?;
        let start = next_tensor_header(self.at - self.section_start)
            .ok_or_else(|| self.unwritable(kind.name(), "the file is too large"))?;
        self.pad_to(self.section_start + start)?;
        let header = tensor_header_bytes(kind, rows, cols, quant, layout);
        self.put(&header)?;
        self.tensor = crc32fast::Hasher::new();
        self.tensor.update(&header);
        self.open_tensor = Some(bytes);
        Ok(())
    }

    /// Appends encoded rows of the tensor begun last, as its type and layout say.
    ///
    /// # Errors
    /// When writing fails, or more rows come than were announced.
    pub fn tensor_rows(&mut self, rows: &[u8]) -> Result<(), FormatError> {
        let Some(left) = self.open_tensor.take() else {
            return Err(self.unwritable("tensor rows", "no tensor was begun"));
        };
        let Some(left) = left.checked_sub(rows.len() as u64) else {
            return Err(self.unwritable("tensor rows", "more rows than announced"));
        };
        self.put(rows)?;
        self.tensor.update(rows);
        if left == 0 {
            let crc = std::mem::take(&mut self.tensor).finalize();
            self.tensor_crcs.extend_from_slice(&crc.to_le_bytes());
        } else {
            self.open_tensor = Some(left);
        }
        Ok(())
    }

    /// Stores weights of the tensor `id` apart from its blocks. None of them: there is nothing to store.
    ///
    /// # Errors
    /// When the tensor had some already.
    pub fn outliers(&mut self, id: TensorId, outliers: &Outliers) -> Result<(), FormatError> {
        if outliers.is_empty() {
            return Ok(());
        }
        match self.outliers.insert(tensor_number(id), outliers.to_bytes(id)) {
            Some(_) => Err(self.unwritable("section OUTL", &format!("outliers of {id} come twice"))),
            None => Ok(()),
        }
    }

    /// [`complete`](Self::complete)s the file and [publishes](CompleteFile::publish) it. Returns its size in bytes.
    ///
    /// # Errors
    /// As both of them.
    pub fn finish(
        self,
        meta: &Meta,
        quant: u8,
        tokenizer: Option<&[u8]>,
        chat_template: Option<&[u8]>,
    ) -> Result<u64, FormatError> {
        self.complete(meta, quant, tokenizer, chat_template)?.publish()
    }

    /// Writes the remaining sections, index, directory and header, and verifies the whole file as [`verify`] does. It can be
    /// read then, but has not got its name yet.
    ///
    /// Only what verifies gets the name: a file that no reader accepts, because META contradicts the parts or the disk did
    /// not keep what was written, neither appears nor replaces a good older one.
    ///
    /// # Errors
    /// When a part is missing or too large, the written file (named with `.partial`) does not verify, or writing fails.
    /// Whatever was written is then removed.
    pub fn complete(
        mut self,
        meta: &Meta,
        quant: u8,
        tokenizer: Option<&[u8]>,
        chat_template: Option<&[u8]>,
    ) -> Result<CompleteFile, FormatError> {
        self.check_complete()?;
        let json = self.encode_meta(meta)?;
        self.extra_section(SectionTag::META, &json)?;
        for (tag, bytes) in [(SectionTag::TOKENIZER, tokenizer), (SectionTag::CHAT_TEMPLATE, chat_template)] {
            if let Some(bytes) = bytes {
                self.extra_section(tag, bytes)?;
            }
        }
        let grids = self.options.tables.to_bytes(&self.types);
        if !grids.is_empty() {
            self.plain_section(SectionTag::GRIDS, &grids)?;
        }
        let outliers: Vec<u8> = std::mem::take(&mut self.outliers).into_values().flatten().collect();
        if !outliers.is_empty() {
            self.plain_section(SectionTag::OUTLIERS, &outliers)?;
        }
        let chunks = embedding_chunk_bytes(&self.chunks);
        self.plain_section(SectionTag::EMBEDDING_CHUNKS, &chunks)?;
        let crcs = std::mem::take(&mut self.tensor_crcs);
        self.plain_section(SectionTag::TENSOR_CRCS, &crcs)?;

        let index: Vec<u8> = self.index.iter().flat_map(LayerEntry::to_bytes).collect();
        self.patch(HEADER_BYTES as u64, &index)?;
        self.sections.push(Section {
            tag: SectionTag::LAYER_INDEX,
            offset: HEADER_BYTES as u64,
            stored_bytes: index.len() as u64,
            crc: crc32fast::hash(&index),
            compression: Compression::None,
        });
        let mut header = FileHeader::new(&meta.model, quant, self.options.block);
        header.index_offset = HEADER_BYTES as u64;
        header.embedding_offset = self.embedding_offset;
        header.final_offset = self.final_offset;
        self.write_directory(&header)?;
        Ok(CompleteFile { writer: self, header })
    }

    /// Ends the file with its directory, and verifies it.
    fn write_directory(&mut self, header: &FileHeader) -> Result<(), FormatError> {
        let end = self.at;
        self.sections.sort_by_key(|s| s.offset);
        self.pad_to(self.at.next_multiple_of(ALIGN))?;
        let directory_offset = self.at;
        let directory = directory_bytes(&self.sections);
        self.put(&directory)?;
        let header =
            FileHeader { file_bytes: self.at, directory_offset: Some(directory_offset), ..header.clone() };
        self.patch(0, &header.to_bytes())?;
        self.out.flush().map_err(|e| self.io("write", e))?;
        verify(self.target.partial())?;
        // What is appended takes the directory's place.
        self.at = end;
        Ok(())
    }

    /// META as JSON, read back once: numbers that are not finite would be written as null and never parse again.
    fn encode_meta(&self, meta: &Meta) -> Result<Vec<u8>, FormatError> {
        let unwritable = |why: String| self.unwritable("META", &why);
        meta.model.check().map_err(unwritable)?;
        if meta.model.layers != self.layer_count {
            return Err(unwritable(format!(
                "{} layers, {} were written",
                meta.model.layers, self.layer_count
            )));
        }
        let json = serde_json::to_vec(meta).map_err(|e| unwritable(e.to_string()))?;
        serde_json::from_slice::<Meta>(&json).map_err(|e| unwritable(e.to_string()))?;
        Ok(json)
    }

    fn check_complete(&self) -> Result<(), FormatError> {
        let missing = if let Some(part) = self.cut_short {
            part
        } else if self.embedding.is_some() || self.chunks.is_empty() {
            "the token embedding"
        } else if self.index.len() != self.layer_count as usize {
            "a layer"
        } else if self.open_tensor.is_some() || !self.sections.iter().any(|s| s.tag == SectionTag::FINAL) {
            "the final section"
        } else {
            return Ok(());
        };
        Err(self.unwritable("the file", &format!("{missing} is missing or incomplete")))
    }

    /// Writes a section zstd-compressed when that is smaller.
    fn extra_section(&mut self, tag: SectionTag, raw: &[u8]) -> Result<(), FormatError> {
        if raw.len() > MAX_SECTION_BYTES {
            let why = format!("{} bytes, readers accept at most {MAX_SECTION_BYTES}", raw.len());
            return Err(self.unwritable(&format!("section {tag}"), &why));
        }
        let packed = Compression::Zstd.encode(raw).map_err(|e| self.io("compress for", e))?;
        let (compression, stored) = if packed.len() < raw.len() {
            (Compression::Zstd, &packed[..])
        } else {
            (Compression::None, raw)
        };
        self.whole_section(tag, stored, compression)
    }

    fn plain_section(&mut self, tag: SectionTag, bytes: &[u8]) -> Result<(), FormatError> {
        self.whole_section(tag, bytes, Compression::None)
    }

    fn whole_section(
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

    fn begin_section(&mut self) {
        self.section = crc32fast::Hasher::new();
        self.section_start = self.at;
    }

    /// The section from `begin_section` to here.
    fn end_section(&mut self, tag: SectionTag, compression: Compression) -> Section {
        Section {
            tag,
            offset: self.section_start,
            stored_bytes: self.at - self.section_start,
            crc: std::mem::take(&mut self.section).finalize(),
            compression,
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.out.write_all(bytes).map_err(|e| self.io("write", e))?;
        self.section.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn pad_to(&mut self, at: u64) -> Result<(), FormatError> {
        let zeros = [0; LAYER_ALIGN as usize];
        while self.at < at {
            let n = (at - self.at).min(LAYER_ALIGN) as usize;
            self.put(&zeros[..n])?;
        }
        Ok(())
    }

    /// Overwrites bytes that were reserved earlier.
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<(), FormatError> {
        self.out
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.out.write_all(bytes))
            .and_then(|()| self.out.seek(SeekFrom::Start(self.at)))
            .map_err(|e| self.io("write", e))?;
        Ok(())
    }

    /// Bytes of a tensor to be written, which must have at least one value. Remembers its type.
    fn size_of(
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

    fn io(&self, action: &'static str, source: io::Error) -> FormatError {
        FormatError::io(self.target.partial(), action, source)
    }

    fn unwritable(&self, what: &str, why: &str) -> FormatError {
        FormatError::Unwritable { path: self.target.path().to_owned(), what: what.into(), why: why.into() }
    }
}
