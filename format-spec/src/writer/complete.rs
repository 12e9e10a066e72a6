//! The end of a file: sections behind the tensors, index, directory and header; what is appended to a verified file; its name.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::file::QsfWriter;
use crate::adapters::StoredAdapter;
use crate::alignment::ALIGN;
use crate::chunk::Compression;
use crate::clusters::VocabClusters;
use crate::directory::{Section, SectionTag, directory_bytes, embedding_chunk_bytes};
use crate::error::FormatError;
use crate::exits::EarlyExits;
use crate::header::{FileHeader, HEADER_BYTES};
use crate::layer_index::LayerEntry;
use crate::meta::Meta;
use crate::reader::{MAX_SECTION_BYTES, most_raw_bytes};
use crate::verify::verify;

/// Bytes that a writer stores of a META, tokenizer or chat template: zstd-compressed where that is smaller.
///
/// # Errors
/// When compression fails.
pub fn stored_section_bytes(raw: &[u8]) -> Result<u64, FormatError> {
    let packed = pack_section(raw);
    let packed = packed.map_err(|e| FormatError::io(Path::new("a section"), "compress", e))?;
    Ok(packed.map_or(raw.len(), |packed| packed.len()) as u64)
}

/// A section compressed; `None` where it is stored raw, since it would not shrink, or more than readers believe.
fn pack_section(raw: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    let packed = Compression::Zstd.encode(raw)?;
    let keep = packed.len() < raw.len() && raw.len() <= most_raw_bytes(SectionTag::TOKENIZER, packed.len());
    Ok(keep.then_some(packed))
}

/// A file that is written and verified, under its name with `.partial`. Dropped, it is removed.
pub struct CompleteFile {
    writer: QsfWriter,
    header: FileHeader,
}

impl CompleteFile {
    /// What `writer` has written of a file with this `header`, up to its directory.
    pub(super) fn of(writer: QsfWriter, header: FileHeader) -> CompleteFile {
        CompleteFile { writer, header }
    }

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

    /// Adds section LORA, and verifies the file again.
    ///
    /// # Errors
    /// As [`QsfWriter::complete`], and when the adapters are none that a reader accepts.
    pub fn append_adapters(&mut self, adapters: &[StoredAdapter]) -> Result<(), FormatError> {
        let bytes = StoredAdapter::section(adapters, self.header.layers);
        let bytes = bytes.map_err(|why| self.writer.unwritable("section LORA", &why))?;
        self.begin_appending()?;
        self.writer.plain_section(SectionTag::ADAPTERS, &bytes)?;
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
    /// When syncing or renaming fails. The file is then removed.
    pub fn publish_as(mut self, path: &Path) -> Result<u64, FormatError> {
        self.writer.target.rename(path.to_owned());
        self.publish()
    }
}

impl QsfWriter {
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
        let [outliers, row_parts] = [&mut self.outliers, &mut self.row_parts].map(std::mem::take);
        for (tag, records) in [(SectionTag::OUTLIERS, outliers), (SectionTag::ROW_PARTS, row_parts)] {
            let records: Vec<u8> = records.into_values().flatten().collect();
            if !records.is_empty() {
                self.plain_section(tag, &records)?;
            }
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
        let packed = pack_section(raw).map_err(|e| self.io("compress for", e))?;
        match &packed {
            Some(packed) => self.whole_section(tag, packed, Compression::Zstd),
            None => self.whole_section(tag, raw, Compression::None),
        }
    }
}
