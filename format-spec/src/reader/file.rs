//! An open file: header, layer index and directory, and what they say of its parts.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::code_tables::CodeTables;
use crate::deferred_checks::{DeferredChecks, DeferredPart};
use crate::directory::{Section, SectionTag, parse_directory};
use crate::error::{Damage, FormatError};
use crate::file_bytes::{FileBytes, range_in};
use crate::file_map::FileMap;
use crate::file_part::{FilePart, is_cached};
use crate::header::{FileHeader, HEADER_BYTES};
use crate::layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
use crate::quant_type::QuantType;

/// Bytes of a file from which on checks are worth deferring: those of less take a few milliseconds.
const LARGE: usize = 64 << 20;
/// Bytes from one sample of what is in the page cache to the next.
const SAMPLE: usize = 1 << 20;

/// An open QSF file whose header, index and directory are sound. Layers and sections are checked when they are read.
#[derive(Debug, Clone)]
pub struct QsfFile {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
    pub(super) header: FileHeader,
    pub(super) layers: Vec<LayerEntry>,
    pub(super) sections: Vec<Section>,
    pub(super) tables: Arc<CodeTables>,
    /// The learned types whose tables the file has.
    pub(super) tabled: Vec<QuantType>,
    /// Parts that were read and not checked, while checks are deferred.
    deferred: Arc<Mutex<Option<Vec<DeferredPart>>>>,
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
        let map = FileMap::new(&file).map_err(|e| FormatError::io(path, "map", e))?;
        map.advise_huge();
        Self::parse(path, FileBytes::Mapped(Arc::new(map))).map_err(|damage| damage.in_file(path))
    }

    /// From here on, parts with weights are handed out unchecked where that is faster: in a large file that is in the page cache. What
    /// they say of themselves may be wrong then. Says whether it is so. [`QsfFile::end_deferral`] ends it.
    pub fn begin_deferral(&self) -> bool {
        let FileBytes::Mapped(map) = &self.bytes else { return false };
        // Reading a file that is not there is for pieces in their order, and not for page faults of tasks.
        let worthwhile = self.bytes.len() >= LARGE && !self.is_plain();
        let defers = worthwhile
            && !map.has_deferred_checks()
            && File::open(&self.path).is_ok_and(|file| is_cached(&file, 0..self.bytes.len(), SAMPLE));
        *self.deferred.lock().unwrap_or_else(PoisonError::into_inner) = defers.then(Vec::new);
        defers
    }

    /// Ends what [`QsfFile::begin_deferral`] began: what was handed out unchecked is checked when it is used
    /// ([`FileMap::used`]), or by [`FileMap::settle`].
    pub fn end_deferral(&self) {
        let parts = self.deferred.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(parts), FileBytes::Mapped(map)) = (parts, &self.bytes) {
            map.defer(DeferredChecks::new(&self.path, parts));
        }
    }

    /// Whether parts are handed out unchecked at the moment.
    pub(super) fn is_deferring(&self) -> bool {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether the check of these parts was left to who uses them.
    pub(super) fn defers(&self, parts: impl FnOnce() -> Vec<DeferredPart>) -> bool {
        match &mut *self.deferred.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(deferred) => {
                deferred.append(&mut parts());
                true
            }
            None => false,
        }
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
            deferred: Arc::default(),
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

    /// The stored bytes of a section of the directory, after its CRC was checked.
    pub(crate) fn checked(&self, section: &Section) -> Result<&[u8], Damage> {
        let mut part = self.part(section);
        part.check(&format!("section {}", section.tag), section.crc)?;
        Ok(part.bytes())
    }

    pub(crate) fn part(&self, section: &Section) -> FilePart<'_> {
        let start = section.offset as usize;
        FilePart::new(&self.path, &self.bytes, start..start + section.stored_bytes as usize)
    }
}
