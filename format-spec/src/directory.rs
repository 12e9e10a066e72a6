//! The section directory: what a file holds beside the layers, where, and with which checksum (SPEC.md section 7).

use std::fmt;
use std::ops::Range;

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::chunk::{Chunk, Compression, check_sizes};
use crate::error::{Damage, Unread, reserve};

const MAGIC: [u8; 4] = *b"QSFD";
const VERSION: u32 = 1;
/// Bytes before the entries.
pub(crate) const DIRECTORY_HEADER_BYTES: usize = 16;
/// Bytes of an entry.
pub(crate) const DIRECTORY_ENTRY_BYTES: usize = 32;
/// More sections than any file needs: a bound on what a hostile count can make a reader do.
const MAX_SECTIONS: u32 = 4096;

/// The four ASCII characters that name a section.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SectionTag(pub [u8; 4]);

impl SectionTag {
    /// JSON: model, provenance, decisions per tensor.
    pub const META: SectionTag = SectionTag(*b"META");
    /// `tokenizer.json`.
    pub const TOKENIZER: SectionTag = SectionTag(*b"TOKN");
    /// Chat template.
    pub const CHAT_TEMPLATE: SectionTag = SectionTag(*b"CTPL");
    /// JSON: how good the model is (SPEC.md section 7.7).
    pub const EVALUATION: SectionTag = SectionTag(*b"EVAL");
    /// CRC32 of every tensor.
    pub const TENSOR_CRCS: SectionTag = SectionTag(*b"TCRC");
    /// The layer index, by reference.
    pub const LAYER_INDEX: SectionTag = SectionTag(*b"LIDX");
    /// The embedding section, by reference.
    pub const EMBEDDING: SectionTag = SectionTag(*b"EMBD");
    /// The final section, by reference.
    pub const FINAL: SectionTag = SectionTag(*b"FINL");
    /// Chunks of the embedding.
    pub const EMBEDDING_CHUNKS: SectionTag = SectionTag(*b"ECHK");
    /// Tables of the learned types.
    pub const GRIDS: SectionTag = SectionTag(*b"GRID");
    /// Weights stored apart from the blocks of their matrices.
    pub const OUTLIERS: SectionTag = SectionTag(*b"OUTL");
    /// Which rows of matrices are in which part.
    pub const ROW_PARTS: SectionTag = SectionTag(*b"PART");
    /// Vocabulary clusters.
    pub const CLUSTERS: SectionTag = SectionTag(*b"CLUS");
    /// Classifiers for leaving the model early.
    pub const EXITS: SectionTag = SectionTag(*b"EXIT");
    /// What adapters add to the model.
    pub const ADAPTERS: SectionTag = SectionTag(*b"LORA");
    /// Learned positions.
    pub const POSITIONS: SectionTag = SectionTag(*b"POSE");
}

impl SectionTag {
    /// Whether the section's bytes are used where they stand, and so are never compressed as a whole.
    fn is_used_in_place(self) -> bool {
        [
            Self::TENSOR_CRCS,
            Self::LAYER_INDEX,
            Self::EMBEDDING,
            Self::FINAL,
            Self::EMBEDDING_CHUNKS,
            Self::POSITIONS,
            Self::GRIDS,
            Self::OUTLIERS,
            Self::ROW_PARTS,
            Self::CLUSTERS,
            Self::EXITS,
            Self::ADAPTERS,
        ]
        .contains(&self)
    }

    /// Flags of the section's entry: 1 where a reader that does not know it would run another model.
    fn flags(self) -> u32 {
        u32::from([Self::OUTLIERS, Self::ROW_PARTS, Self::ADAPTERS].contains(&self))
    }
}

impl fmt::Display for SectionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.escape_ascii().to_string())
    }
}

impl fmt::Debug for SectionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Name.
    pub tag: SectionTag,
    /// Offset in the file.
    pub offset: u64,
    /// Stored bytes.
    pub stored_bytes: u64,
    /// CRC32 of the stored bytes.
    pub crc: u32,
    /// Compression of the whole section: none or zstd.
    pub compression: Compression,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirectoryHeader {
    magic: [u8; 4],
    version: U32,
    count: U32,
    crc: U32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSection {
    tag: [u8; 4],
    flags: U32,
    offset: U64,
    stored: U64,
    crc: U32,
    compression: U32,
}

/// The bytes of a directory.
pub(crate) fn directory_bytes(sections: &[Section]) -> Vec<u8> {
    let mut entries = Vec::with_capacity(sections.len() * DIRECTORY_ENTRY_BYTES);
    for s in sections {
        let raw = RawSection {
            tag: s.tag.0,
            flags: s.tag.flags().into(),
            offset: s.offset.into(),
            stored: s.stored_bytes.into(),
            crc: s.crc.into(),
            compression: u32::from(s.compression as u8).into(),
        };
        entries.extend_from_slice(raw.as_bytes());
    }
    let mut header = RawDirectoryHeader {
        magic: MAGIC,
        version: VERSION.into(),
        count: (sections.len() as u32).into(),
        crc: 0.into(),
    };
    header.crc = directory_crc(&header, &entries).into();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&entries);
    bytes
}

/// CRC32 over magic, version and count, then the entries.
fn directory_crc(header: &RawDirectoryHeader, entries: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header.as_bytes()[..12]);
    hasher.update(entries);
    hasher.finalize()
}

/// Reads and checks the directory at `at`, which is the last thing in `file`.
///
/// # Errors
/// When it does not end with the file, its CRC or a field is wrong, a section leaves the file, or a tag comes twice.
pub(crate) fn parse_directory(file: &[u8], at: u64) -> Result<Vec<Section>, Damage> {
    let damage =
        |from: u64, expected: String, found: String| Damage::new("section directory", from, expected, found);
    let rest = usize::try_from(at).ok().and_then(|at| file.get(at..));
    let Some(Ok((header, rest))) = rest.map(RawDirectoryHeader::ref_from_prefix) else {
        return Err(damage(at, "16 bytes inside the file".into(), format!("a file of {} bytes", file.len())));
    };
    if header.magic != MAGIC {
        return Err(damage(at, "the text QSFD".into(), format!("bytes {:02X?}", header.magic)));
    }
    let count = header.count.get();
    if count > MAX_SECTIONS || rest.len() != count as usize * DIRECTORY_ENTRY_BYTES {
        return Err(damage(
            at + 8,
            format!("a count whose entries fill the {} bytes to the end of the file", rest.len()),
            format!("{count} entries"),
        ));
    }
    let found = directory_crc(header, rest);
    if found != header.crc.get() {
        return Err(damage(at + 12, format!("CRC32 {:08x}", header.crc), format!("{found:08x}")));
    }
    if header.version != VERSION {
        return Err(damage(at + 4, format!("version {VERSION}"), header.version.to_string()));
    }
    let Ok(entries) = <[RawSection]>::ref_from_bytes(rest) else {
        return Err(damage(at, "whole entries".into(), format!("{} bytes", rest.len())));
    };
    let mut sections: Vec<Section> = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let entry_at = at + (DIRECTORY_HEADER_BYTES + DIRECTORY_ENTRY_BYTES * i) as u64;
        let tag = SectionTag(entry.tag);
        let place = format!("section directory, entry {i} ({tag})");
        let (offset, stored) = (entry.offset.get(), entry.stored.get());
        if offset.checked_add(stored).is_none_or(|end| end > at) {
            return Err(Damage::new(
                place,
                entry_at + 8,
                format!("a range before the directory at {at}"),
                format!("offset {offset}, {stored} bytes"),
            ));
        }
        if sections.iter().any(|s| s.tag == tag) {
            return Err(Damage::new(place, entry_at, "each tag once", "a second one"));
        }
        if entry.flags != tag.flags() {
            return Err(Damage::new(place, entry_at + 4, format!("flags {}", tag.flags()), entry.flags));
        }
        let compression = Compression::from_id(entry.compression.get())
            .filter(|&c| c == Compression::None || (c == Compression::Zstd && !tag.is_used_in_place()))
            .ok_or_else(|| {
                let expected = if tag.is_used_in_place() { "compression 0" } else { "compression 0 or 3" };
                Damage::new(&place, entry_at + 28, expected, entry.compression)
            })?;
        sections.push(Section { tag, offset, stored_bytes: stored, crc: entry.crc.get(), compression });
    }
    Ok(sections)
}

/// Bytes of an ECHK entry.
pub(crate) const EMBEDDING_CHUNK_BYTES: usize = 24;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEmbeddingChunk {
    offset: U64,
    stored: U32,
    raw: U32,
    crc: U32,
    compression: U32,
}

/// The bytes of section ECHK.
pub(crate) fn embedding_chunk_bytes(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chunks.len() * EMBEDDING_CHUNK_BYTES);
    for c in chunks {
        let raw = RawEmbeddingChunk {
            offset: c.offset.into(),
            stored: c.stored_bytes.into(),
            raw: c.raw_bytes.into(),
            crc: c.crc.into(),
            compression: u32::from(c.compression as u8).into(),
        };
        bytes.extend_from_slice(raw.as_bytes());
    }
    bytes
}

/// Reads section ECHK, whose chunks must fill the `span` of the file without gaps and hold `raw_sizes` bytes.
pub(crate) fn parse_embedding_chunks(
    bytes: &[u8],
    at: u64,
    span: Range<u64>,
    raw_sizes: impl ExactSizeIterator<Item = u64>,
) -> Result<Vec<Chunk>, Unread> {
    let damage = |i: usize, expected: String, found: String| {
        let at = at + (i * EMBEDDING_CHUNK_BYTES) as u64;
        Damage::new(format!("section ECHK, entry {i}"), at, expected, found)
    };
    let expected = raw_sizes.len();
    let Some(entries) = <[RawEmbeddingChunk]>::ref_from_bytes(bytes).ok().filter(|e| e.len() == expected)
    else {
        let found = format!("{} bytes", bytes.len());
        return Err(damage(0, format!("{expected} entries of 24 bytes"), found).into());
    };
    let Range { start: mut next, end } = span;
    let mut chunks = Vec::new();
    reserve(&mut chunks, expected, "section ECHK")?;
    for ((i, entry), raw) in entries.iter().enumerate().zip(raw_sizes) {
        let chunk = Chunk {
            offset: entry.offset.get(),
            stored_bytes: entry.stored.get(),
            raw_bytes: entry.raw.get(),
            crc: entry.crc.get(),
            compression: Compression::from_id(entry.compression.get())
                .ok_or_else(|| damage(i, "compression 0 to 3".into(), entry.compression.to_string()))?,
        };
        if chunk.offset != next || u64::from(chunk.raw_bytes) != raw {
            return Err(damage(
                i,
                format!("offset {next}, {raw} raw bytes"),
                format!("offset {}, {} raw bytes", chunk.offset, chunk.raw_bytes),
            )
            .into());
        }
        check_sizes(&chunk, "section ECHK", at + (i * EMBEDDING_CHUNK_BYTES) as u64)?;
        next += u64::from(chunk.stored_bytes);
        if next > end {
            return Err(damage(i, format!("an end at or before {end}"), next.to_string()).into());
        }
        chunks.push(chunk);
    }
    if next != end {
        let found = next.to_string();
        return Err(damage(expected, format!("chunks up to {end}, the end of section EMBD"), found).into());
    }
    Ok(chunks)
}
