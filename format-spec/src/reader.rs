//! The checking reader: nothing of a file is used before its checksum and its bounds are checked (SPEC.md section 10).

use std::fs::{self, File, Metadata};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::alignment::{TENSOR_HEADER_BYTES, embedding_rows_per_chunk};
use crate::chunk::{Chunk, Compression, parse_table, zstd_at_most};
use crate::clusters::VocabClusters;
use crate::code_tables::CodeTables;
use crate::directory::{Section, SectionTag, parse_directory, parse_embedding_chunks};
use crate::error::{Damage, FormatError};
use crate::exits::EarlyExits;
use crate::header::{FileHeader, HEADER_BYTES};
use crate::layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
use crate::layout::Layout;
use crate::meta::{META_VERSION, Meta};
use crate::outliers::OutlierTable;
use crate::part::Part;
use crate::quant_type::QuantType;
use crate::tensor_header::{TensorCount, TensorEntry, parse_tensors};
use crate::tensor_kind::TensorKind;

/// A compressed section (META, TOKN, CTPL) may not hold more than this: far above any real tokenizer, and a bound on what
/// a hostile file can make a reader allocate.
pub const MAX_SECTION_BYTES: usize = 1 << 28;

/// An open QSF file whose header, index and directory are sound. Layers and sections are checked when they are read.
#[derive(Debug, Clone)]
pub struct QsfFile {
    path: PathBuf,
    bytes: FileBytes,
    header: FileHeader,
    layers: Vec<LayerEntry>,
    sections: Vec<Section>,
    tables: Arc<CodeTables>,
    /// The learned types whose tables the file has.
    tabled: Vec<QuantType>,
}

/// The bytes of a whole file.
#[derive(Debug, Clone)]
pub enum FileBytes {
    /// Mapped read-only.
    Mapped(Arc<Mmap>),
    /// In memory.
    Memory(Arc<Vec<u8>>),
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(map) => map,
            FileBytes::Memory(bytes) => bytes,
        }
    }
}

impl FileBytes {
    /// Tells the system that the bytes from `start` to `end` are not needed soon, so that reading a large file from front to
    /// back takes no memory to speak of. The bytes stay readable.
    pub(crate) fn release(&self, start: u64, end: u64) {
        #[cfg(unix)]
        if let FileBytes::Mapped(map) = self {
            // Inwards to whole pages: the call rounds outwards, and would drop parts of the neighbours. Which page size
            // the system has is not known here; this is a multiple of all that are in use.
            const PAGES: u64 = 64 << 10;
            let (start, end) = (start.next_multiple_of(PAGES) as usize, (end / PAGES * PAGES) as usize);
            if start < end && end <= map.len() {
                // SAFETY: pages of a read-only map of a file are read from the file again when they are touched next.
                let _ = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = (start, end);
    }
}

/// Raw bytes of a layer or section: in place in the file, or decompressed.
#[derive(Debug, Clone)]
pub enum RawBytes {
    /// A range of the file.
    InFile(FileBytes, Range<usize>),
    /// Decompressed.
    Owned(Arc<Vec<u8>>),
}

impl RawBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            RawBytes::InFile(file, range) => &file[range.clone()],
            RawBytes::Owned(bytes) => bytes,
        }
    }

    /// Where the first byte stands in the file; `None` when it does not, being decompressed.
    fn file_offset(&self) -> Option<u64> {
        match self {
            RawBytes::InFile(_, range) => Some(range.start as u64),
            RawBytes::Owned(_) => None,
        }
    }

    /// Completes a damage of these bytes, whose offset counts from [`file_offset`](Self::file_offset) or 0.
    fn locate(&self, damage: Damage, stored_at: u64) -> Damage {
        match self {
            RawBytes::InFile(..) => damage,
            RawBytes::Owned(_) => damage.in_decompressed("layer", stored_at),
        }
    }
}

/// Tensors and the bytes that they are in.
#[derive(Debug, Clone)]
pub struct TensorGroup {
    /// Raw bytes; tensor ranges refer to them.
    pub bytes: RawBytes,
    /// Tensors in file order.
    pub tensors: Vec<TensorEntry>,
}

impl TensorGroup {
    /// A damage of `tensor`, one of these; `stored_at` is where the group's stored bytes begin.
    pub(crate) fn damage(
        &self,
        tensor: &TensorEntry,
        stored_at: u64,
        place: &str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Damage {
        let at = self.bytes.file_offset().unwrap_or(0) + tensor.with_header().start as u64;
        self.bytes.locate(Damage::new(place, at, expected, found), stored_at)
    }

    /// Checks that every known tensor of a part belongs there.
    pub(crate) fn check_placement(
        &self,
        stored_at: u64,
        place: &str,
        belongs: impl Fn(TensorKind) -> bool,
    ) -> Result<(), Damage> {
        match self.tensors.iter().find_map(|t| t.kind.filter(|&kind| !belongs(kind)).map(|kind| (t, kind))) {
            Some((t, kind)) => Err(self.damage(t, stored_at, place, "only tensors that belong there", kind)),
            None => Ok(()),
        }
    }
}

/// The token embedding.
#[derive(Debug, Clone)]
pub struct EmbeddingInfo {
    /// Stored type.
    pub quant: QuantType,
    /// Order of the rows: of every chunk, and so of all together.
    pub layout: Layout,
    /// Rows: the vocabulary.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// Chunks of whole rows, in order. A plain file has none listed; its rows follow the header uncompressed.
    pub chunks: Vec<Chunk>,
}

impl QsfFile {
    /// Opens a file and checks header, layer index and directory, and that nothing overlaps.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged in these parts.
    pub fn open(path: &Path) -> Result<QsfFile, FormatError> {
        let regular = |metadata: Metadata| {
            let source = std::io::Error::other("it is not a regular file");
            if metadata.is_file() { Ok(metadata) } else { Err(FormatError::io(path, "read", source)) }
        };
        // Before opening, which would wait at a named pipe until someone writes to it.
        regular(fs::metadata(path).map_err(|e| FormatError::io(path, "open", e))?)?;
        let file = File::open(path).map_err(|e| FormatError::io(path, "open", e))?;
        // And after, of what was opened: the name may lead elsewhere by now.
        let metadata = regular(file.metadata().map_err(|e| FormatError::io(path, "read", e))?)?;
        if metadata.len() < HEADER_BYTES as u64 {
            let found = format!("{} bytes", metadata.len());
            return Err(Damage::new("file header", 0, "at least 128 bytes", found).in_file(path));
        }
        // SAFETY: the map is read-only. That another process truncates or rewrites the file meanwhile cannot be excluded;
        // docs/security.md says so, and the project's writers only ever rename finished files into place.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| FormatError::io(path, "map", e))?;
        // Fewer and larger pages, where system and file system have such for files: less translation while all weights stream
        // by at every token. Only advice: who cannot do it, or will not, maps small pages as ever.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self::parse(path, FileBytes::Mapped(Arc::new(map))).map_err(|damage| damage.in_file(path))
    }

    /// Opens a file that is in memory; `name` stands for its path in messages.
    ///
    /// # Errors
    /// As [`QsfFile::open`].
    pub fn from_memory(name: &Path, bytes: Arc<Vec<u8>>) -> Result<QsfFile, FormatError> {
        Self::parse(name, FileBytes::Memory(bytes)).map_err(|damage| damage.in_file(name))
    }

    fn parse(path: &Path, bytes: FileBytes) -> Result<QsfFile, Damage> {
        let header = FileHeader::parse(&bytes, bytes.len() as u64)?;
        let sections = match header.directory_offset {
            Some(at) => parse_directory(&bytes, at)?,
            None => Vec::new(),
        };
        let index_bytes = u64::from(header.layers) * INDEX_ENTRY_BYTES as u64;
        let index = range_in(&bytes, header.index_offset, index_bytes, "layer index", 56)?;
        let mut file = QsfFile {
            path: path.to_owned(),
            bytes,
            header,
            layers: Vec::new(),
            sections,
            tables: Arc::default(),
            tabled: Vec::new(),
        };
        if !file.is_plain() {
            file.check_reference(SectionTag::LAYER_INDEX, file.header.index_offset, Some(index_bytes))?;
            file.check_reference(SectionTag::EMBEDDING, file.header.embedding_offset, None)?;
            file.check_reference(SectionTag::FINAL, file.header.final_offset, None)?;
            file.checked_section(SectionTag::LAYER_INDEX)?;
        }
        let (entries, _) = file.bytes[index.clone()].as_chunks::<INDEX_ENTRY_BYTES>();
        for (i, entry) in entries.iter().enumerate() {
            let at = (index.start + i * INDEX_ENTRY_BYTES) as u64;
            let entry = LayerEntry::parse(entry, i, at)?;
            range_in(&file.bytes, entry.offset, entry.stored_bytes, &format!("layer {i}"), at)?;
            file.layers.push(entry);
        }
        file.regions()?;
        file.read_tables()?;
        Ok(file)
    }

    fn read_tables(&mut self) -> Result<(), Damage> {
        let Some(section) = self.section(SectionTag::GRIDS).copied() else { return Ok(()) };
        let (tables, tabled) =
            CodeTables::parse(self.checked(&section)?).map_err(|(at, expected, found)| {
                Damage::new("section GRID", section.offset + at as u64, expected, found)
            })?;
        (self.tables, self.tabled) = (Arc::new(tables), tabled);
        Ok(())
    }

    /// Without its table a learned type means nothing.
    fn check_tabled(&self, quant: QuantType) -> Result<(), &'static str> {
        let known = !quant.is_learned() || self.tabled.contains(&quant);
        if known { Ok(()) } else { Err("a type whose table is in section GRID") }
    }

    /// The same for every tensor of a part.
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

    /// Every part of the file, by offset: `(start, end, name)`.
    ///
    /// # Errors
    /// When two parts overlap.
    pub(crate) fn regions(&self) -> Result<Vec<(u64, u64, String)>, Damage> {
        let mut regions = vec![(0, HEADER_BYTES as u64, "file header".to_owned())];
        regions.extend(self.layers.iter().enumerate().map(|(i, layer)| {
            (layer.offset, layer.offset.saturating_add(layer.stored_bytes), format!("layer {i}"))
        }));
        regions.extend(
            self.sections
                .iter()
                .filter(|s| s.stored_bytes > 0)
                .map(|s| (s.offset, s.offset + s.stored_bytes, format!("section {}", s.tag))),
        );
        if let Some(at) = self.header.directory_offset {
            regions.push((at, self.bytes.len() as u64, "section directory".into()));
        }
        regions.sort();
        for pair in regions.windows(2) {
            if pair[1].0 < pair[0].1 {
                return Err(Damage::new(
                    &pair[1].2,
                    pair[1].0,
                    format!("a start at or after {}, the end of {}", pair[0].1, pair[0].2),
                    pair[1].0,
                ));
            }
        }
        Ok(regions)
    }

    /// The header's offset of a part must be the one in the directory.
    fn check_reference(&self, tag: SectionTag, offset: u64, bytes: Option<u64>) -> Result<(), Damage> {
        match self.section(tag) {
            Some(s) if s.offset == offset && bytes.is_none_or(|b| b == s.stored_bytes) => Ok(()),
            Some(s) => Err(Damage::new(
                format!("section {tag}"),
                s.offset,
                format!(
                    "offset {offset} as in the header{}",
                    bytes.map_or(String::new(), |b| format!(", {b} bytes"))
                ),
                format!("offset {}, {} bytes", s.offset, s.stored_bytes),
            )),
            None => Err(Damage::new("section directory", offset, format!("an entry {tag}"), "none")),
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The layer index.
    pub fn layers(&self) -> &[LayerEntry] {
        &self.layers
    }

    /// The tables of the learned types.
    pub fn tables(&self) -> &Arc<CodeTables> {
        &self.tables
    }

    /// The section directory; empty in a plain file.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Whether this is a file without directory: readable, but most of it is under no checksum.
    pub fn is_plain(&self) -> bool {
        self.header.directory_offset.is_none()
    }

    /// The whole file.
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The directory's entry for a section.
    pub fn section(&self, tag: SectionTag) -> Option<&Section> {
        self.sections.iter().find(|s| s.tag == tag)
    }

    /// A section's stored bytes after its CRC was checked.
    pub(crate) fn checked_section(&self, tag: SectionTag) -> Result<Option<&[u8]>, Damage> {
        self.section(tag).map(|section| self.checked(section)).transpose()
    }

    /// The same for a section of the directory.
    pub(crate) fn checked(&self, section: &Section) -> Result<&[u8], Damage> {
        let mut part = self.part(section);
        part.check(&format!("section {}", section.tag), section.crc)?;
        Ok(part.bytes())
    }

    pub(crate) fn part(&self, section: &Section) -> Part<'_> {
        let start = section.offset as usize;
        Part::new(&self.path, &self.bytes, start..start + section.stored_bytes as usize)
    }

    /// A section's content, checked and decompressed.
    ///
    /// # Errors
    /// When it is damaged or larger than [`MAX_SECTION_BYTES`].
    pub fn section_bytes(&self, tag: SectionTag) -> Result<Option<Vec<u8>>, FormatError> {
        self.read_section(tag).map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_section(&self, tag: SectionTag) -> Result<Option<Vec<u8>>, Damage> {
        let Some(section) = self.section(tag) else { return Ok(None) };
        let stored = self.checked(section)?;
        if section.compression == Compression::None {
            return Ok(Some(stored.to_vec()));
        }
        zstd_at_most(stored, MAX_SECTION_BYTES)
            .map(Some)
            .map_err(|found| Damage::new(format!("section {tag}"), section.offset, "a zstd frame", found))
    }

    /// META, checked against the header. `None` in a plain file.
    ///
    /// # Errors
    /// When it is missing from a file with a directory, damaged, of another version, or contradicts the header.
    pub fn meta(&self) -> Result<Option<Meta>, FormatError> {
        self.read_meta().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_meta(&self) -> Result<Option<Meta>, Damage> {
        if self.is_plain() {
            return Ok(None);
        }
        let at = self.section(SectionTag::META).map_or(0, |s| s.offset);
        let Some(json) = self.read_section(SectionTag::META)? else {
            return Err(Damage::new("section directory", at, "an entry META", "none"));
        };
        let json_error = |e| Damage::new("section META", at, "JSON as SPEC.md section 8 describes", e);
        // The version first: a later schema may not parse as this one.
        let version: MetaVersion = serde_json::from_slice(&json).map_err(json_error)?;
        if version.version != META_VERSION {
            return Err(Damage::new("section META", at, format!("version {META_VERSION}"), version.version));
        }
        let meta: Meta = serde_json::from_slice(&json).map_err(json_error)?;
        meta.model.check().map_err(|e| Damage::new("section META, model", at, "a possible model", e))?;
        self.header.check_against(&meta.model)?;
        Ok(Some(meta))
    }

    /// The vocabulary clusters, where the file has some.
    ///
    /// # Errors
    /// When they are damaged, or not those of a vocabulary and of hidden states as the header has them.
    pub fn clusters(&self) -> Result<Option<VocabClusters>, FormatError> {
        self.read_clusters().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_clusters(&self) -> Result<Option<VocabClusters>, Damage> {
        let Some(section) = self.section(SectionTag::CLUSTERS) else { return Ok(None) };
        let parsed = VocabClusters::parse(self.checked(section)?, self.header.vocab, self.header.hidden);
        parsed.map(Some).map_err(|(at, expected, found)| {
            Damage::new("section CLUS", section.offset + at as u64, expected, found)
        })
    }

    /// The classifiers for leaving the model early, where the file has some.
    ///
    /// # Errors
    /// When they are damaged, or not those of layers and of hidden states as the header has them.
    pub fn early_exits(&self) -> Result<Option<EarlyExits>, FormatError> {
        self.read_early_exits().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_early_exits(&self) -> Result<Option<EarlyExits>, Damage> {
        let Some(section) = self.section(SectionTag::EXITS) else { return Ok(None) };
        let parsed = EarlyExits::parse(self.checked(section)?, self.header.layers, self.header.hidden);
        parsed.map(Some).map_err(|(at, expected, found)| {
            Damage::new("section EXIT", section.offset + at as u64, expected, found)
        })
    }

    /// One layer: its CRC checked, decompressed, its tensors found.
    ///
    /// # Errors
    /// When the layer is damaged.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn layer(&self, layer: usize) -> Result<TensorGroup, FormatError> {
        self.read_layer(layer).map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_layer(&self, layer: usize) -> Result<TensorGroup, Damage> {
        let entry = &self.layers[layer];
        let place = format!("layer {layer}");
        let start = entry.offset as usize;
        let mut part = Part::new(&self.path, &self.bytes, start..start + entry.stored_bytes as usize);
        let chunks = match parse_table(part.bytes(), entry.offset, entry.raw_bytes, &place) {
            Ok(chunks) => chunks,
            // Rather damaged than written so.
            Err(malformed) => {
                part.check(&place, entry.crc)?;
                return Err(malformed);
            }
        };
        part.check_with_chunks(&place, entry.crc, &place, &chunks)?;
        let bytes = self.join(&chunks, &place)?;
        let tensors = parse_tensors(
            bytes.as_slice(),
            bytes.file_offset().unwrap_or(0),
            0,
            TensorCount::Exactly(entry.tensors.into()),
            Some(entry.quant),
            self.header.block,
            &place,
        )
        .map_err(|damage| bytes.locate(damage, entry.offset))?;
        let group = TensorGroup { bytes, tensors };
        group.check_placement(entry.offset, &place, TensorKind::is_per_layer)?;
        self.check_all_tabled(&group, entry.offset, &place)?;
        Ok(group)
    }

    /// Contiguous chunks, checked already, as one: in place when none is compressed.
    fn join(&self, chunks: &[Chunk], place: &str) -> Result<RawBytes, Damage> {
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            return Ok(RawBytes::Owned(Arc::default()));
        };
        if chunks.iter().all(|c| c.compression == Compression::None) {
            let range = first.offset as usize..last.offset as usize + last.stored_bytes as usize;
            return Ok(RawBytes::InFile(self.bytes.clone(), range));
        }
        let mut raw = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            raw.extend_from_slice(&chunk.decompress(&self.bytes, &format!("{place}, chunk {i}"))?);
        }
        Ok(RawBytes::Owned(Arc::new(raw)))
    }

    /// Whether the head is the token embedding, and the tensors of the final section.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn final_section(&self) -> Result<(bool, TensorGroup), FormatError> {
        self.read_final().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_final(&self) -> Result<(bool, TensorGroup), Damage> {
        let range = self.final_range()?;
        self.checked_section(SectionTag::FINAL)?;
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
    pub(crate) fn parse_final(&self, range: Range<usize>) -> Result<(bool, TensorGroup), Damage> {
        let (place, at) = ("final section", range.start as u64);
        let bytes = &self.bytes[range.clone()];
        let tied = match bytes.first() {
            Some(0xFF) => true,
            Some(0) => false,
            other => {
                let found = other.map_or("nothing".into(), |b| format!("{b:#04x}"));
                return Err(Damage::new(place, at, "flag byte 0xFF or 0x00", found));
            }
        };
        let count = if self.is_plain() {
            // Norm gain, its bias where the norm has one, and the head where it is separate.
            TensorCount::Plain(1 + usize::from(self.header.norm == 0) + usize::from(!tied))
        } else {
            TensorCount::ToEnd
        };
        let tensors = parse_tensors(bytes, at, 1, count, None, self.header.block, place)?;
        let group = TensorGroup { bytes: RawBytes::InFile(self.bytes.clone(), range), tensors };
        group.check_placement(at, place, |kind| {
            !kind.is_per_layer() && !matches!(kind, TensorKind::Positions | TensorKind::TokenEmbedding)
        })?;
        self.check_all_tabled(&group, at, place)?;
        Ok((tied, group))
    }

    /// The learned positions, where the model has them.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn positions(&self) -> Result<Option<TensorGroup>, FormatError> {
        self.read_positions().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_positions(&self) -> Result<Option<TensorGroup>, Damage> {
        let Some(section) = self.section(SectionTag::POSITIONS) else { return Ok(None) };
        let bytes = self.checked(section)?;
        let tensors = parse_tensors(
            bytes,
            section.offset,
            0,
            TensorCount::Exactly(1),
            None,
            self.header.block,
            "section POSE",
        )?;
        if tensors.iter().any(|t| t.kind != Some(TensorKind::Positions)) {
            let found = tensors.first().map_or(0, |t| t.kind_id);
            return Err(Damage::new("section POSE", section.offset, "kind 68 (positions)", found));
        }
        let range = section.offset as usize..(section.offset + section.stored_bytes) as usize;
        let group = TensorGroup { bytes: RawBytes::InFile(self.bytes.clone(), range), tensors };
        self.check_all_tabled(&group, section.offset, "section POSE")?;
        Ok(Some(group))
    }

    /// The weights that are stored apart from the blocks of their matrices.
    ///
    /// # Errors
    /// When the section is damaged.
    pub fn outliers(&self) -> Result<OutlierTable, FormatError> {
        self.read_outliers().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_outliers(&self) -> Result<OutlierTable, Damage> {
        let Some(section) = self.section(SectionTag::OUTLIERS) else { return Ok(OutlierTable::default()) };
        OutlierTable::parse(self.checked(section)?, section.offset)
    }

    /// The embedding's header and chunk list; ECHK is checked, the chunks not yet.
    ///
    /// # Errors
    /// When either is damaged.
    pub fn embedding_info(&self) -> Result<EmbeddingInfo, FormatError> {
        self.read_embedding_info().map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_embedding_info(&self) -> Result<EmbeddingInfo, Damage> {
        let at = self.header.embedding_offset;
        let place = "embedding section";
        let header = range_in(&self.bytes, at, TENSOR_HEADER_BYTES, place, 64)?;
        let bytes = &self.bytes[header.clone()];
        let field = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let (type_id, size, rows, cols) = (field(0), field(4), field(8), field(12));
        let [quant_id, layout_id, 0, 0] = type_id.to_le_bytes() else {
            return Err(Damage::new(place, at, "a type id and a layout", type_id));
        };
        let quant = QuantType::from_id(quant_id)
            .ok_or_else(|| Damage::new(place, at, "a known type id", quant_id))?;
        self.check_tabled(quant).map_err(|expected| Damage::new(place, at, expected, quant))?;
        let layout = Layout::parse(layout_id, quant)
            .map_err(|expected| Damage::new(place, at + 1, expected, format!("layout {layout_id}")))?;
        let expected = (self.header.vocab, self.header.hidden);
        if (rows, cols) != expected || rows == 0 || cols == 0 {
            return Err(Damage::new(
                place,
                at + 8,
                format!("{} x {} as in the file header", expected.0, expected.1),
                format!("{rows} x {cols}"),
            ));
        }
        let too_large = || Damage::new(place, at + 8, "a size below 2^63", format!("{rows} x {cols}"));
        let row_bytes = quant.row_bytes(self.header.block, cols.into()).ok_or_else(too_large)?;
        let total = row_bytes.checked_mul(rows.into()).ok_or_else(too_large)?;
        let Some(section) = self.section(SectionTag::EMBEDDING) else {
            let stored = u64::from(size);
            if stored != total {
                return Err(Damage::new(
                    place,
                    at + 4,
                    format!("{total} uncompressed bytes (plain file)"),
                    stored,
                ));
            }
            range_in(&self.bytes, at + TENSOR_HEADER_BYTES, total, place, at)?;
            return Ok(EmbeddingInfo { quant, layout, rows, cols, chunks: Vec::new() });
        };
        let end = section.offset + section.stored_bytes;
        let Some(stored) = section.stored_bytes.checked_sub(TENSOR_HEADER_BYTES) else {
            return Err(Damage::new(place, at, "at least 16 bytes", section.stored_bytes));
        };
        if size != u32::try_from(stored).unwrap_or(u32::MAX) {
            return Err(Damage::new(place, at + 4, format!("size {stored}"), size));
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
        let chunks = parse_embedding_chunks(listed, listed_at, (at + TENSOR_HEADER_BYTES, end), raw_sizes)?;
        Ok(EmbeddingInfo { quant, layout, rows, cols, chunks })
    }

    /// The whole token embedding: every chunk checked and decompressed.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn embedding(&self, info: &EmbeddingInfo) -> Result<RawBytes, FormatError> {
        self.read_embedding(info).map_err(|damage| damage.in_file(&self.path))
    }

    pub(crate) fn read_embedding(&self, info: &EmbeddingInfo) -> Result<RawBytes, Damage> {
        if !self.is_plain() {
            let place = "embedding section";
            // The chunks' CRCs cover the data, the section's also the 16 bytes before it.
            if let Some(section) = self.section(SectionTag::EMBEDDING) {
                let name = format!("section {}", section.tag);
                self.part(section).check_with_chunks(&name, section.crc, place, &info.chunks)?;
            }
            return self.join(&info.chunks, place);
        }
        let at = self.header.embedding_offset + TENSOR_HEADER_BYTES;
        let bytes = info.quant.tensor_bytes(self.header.block, info.rows.into(), info.cols.into());
        let range = range_in(&self.bytes, at, bytes.unwrap_or(u64::MAX), "embedding section", at)?;
        Ok(RawBytes::InFile(self.bytes.clone(), range))
    }
}

#[derive(serde::Deserialize)]
struct MetaVersion {
    version: u32,
}

/// `bytes` bytes from `offset`, which the field at `field_at` states, as a range inside `map`.
fn range_in(
    file: &[u8],
    offset: u64,
    bytes: u64,
    place: &str,
    field_at: u64,
) -> Result<Range<usize>, Damage> {
    match offset.checked_add(bytes) {
        Some(end) if end <= file.len() as u64 => Ok(offset as usize..end as usize),
        _ => Err(Damage::new(
            place,
            field_at,
            format!("a range inside the file of {} bytes", file.len()),
            format!("offset {offset}, {bytes} bytes"),
        )),
    }
}
