//! Chunks: the units in which layers and the embedding are stored, checked and decompressed (SPEC.md section 4.1).

use std::borrow::Cow;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::alignment::{ALIGN, CHUNK_BYTES, first_nonzero};
use crate::error::{Damage, Unread, reserve};
use crate::header::check_crc;
use crate::zstd_frame::{self, Decoder, check_one_frame, stated_size};

/// Compression of a chunk or a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// Bytes as they are.
    None = 0,
    /// One LZ4 block without a frame.
    Lz4 = 1,
    /// As LZ4, written by a slower encoder.
    Lz4Hc = 2,
    /// One zstd frame.
    Zstd = 3,
}

impl Compression {
    /// The compression with this id.
    pub fn from_id(id: u32) -> Option<Compression> {
        [Self::None, Self::Lz4, Self::Lz4Hc, Self::Zstd].into_iter().find(|c| *c as u32 == id)
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Lz4Hc => "lz4hc",
            Compression::Zstd => "zstd",
        }
    }

    /// `raw` compressed.
    pub(crate) fn encode(self, raw: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Compression::None => Ok(raw.to_vec()),
            Compression::Lz4 => Ok(lz4_flex::block::compress(raw)),
            Compression::Lz4Hc => lz4hc(raw),
            Compression::Zstd => zstd_frame::compress(raw),
        }
    }
}

/// The strongest that LZ4 has: reading is as fast for all of them.
#[cfg(not(target_family = "wasm"))]
fn lz4hc(raw: &[u8]) -> std::io::Result<Vec<u8>> {
    lz4::block::compress(raw, Some(lz4::block::CompressionMode::HIGHCOMPRESSION(12)), false)
}

/// Nothing writes files here.
#[cfg(target_family = "wasm")]
fn lz4hc(_raw: &[u8]) -> std::io::Result<Vec<u8>> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// One zstd frame decompressed. In one go, so that no window is kept beside the output, whatever the frame asks for.
///
/// # Errors
/// When it holds more than `limit` bytes or is not all of `stored`, or when there is not the memory.
pub(crate) fn zstd_at_most(stored: &[u8], limit: usize, place: &str, at: u64) -> Result<Vec<u8>, Unread> {
    let damage =
        |found: String| Damage::new(place, at, format!("a zstd frame of at most {limit} bytes"), found);
    check_one_frame(stored).map_err(damage)?;
    let stated = stated_size(stored);
    if let Some(bytes) = stated.filter(|&bytes| bytes > limit as u64) {
        return Err(damage(format!("{bytes} bytes")).into());
    }
    // A frame may keep its size to itself. Memory that is not written to costs nothing.
    let mut raw = Vec::new();
    reserve(&mut raw, stated.map_or(limit, |bytes| bytes as usize), place)?;
    let mut decoder = Decoder::new().map_err(damage)?;
    match decoder.decode_to_vec(stored, &mut raw) {
        Ok(()) => {
            raw.shrink_to_fit();
            Ok(raw)
        }
        Err(_) if stated.is_none() => Err(damage("more than that, or a damaged frame".into()).into()),
        Err(error) => Err(damage(error).into()),
    }
}

/// A chunk may expand at most this many times; what would shrink further is stored raw. It bounds what a small hostile
/// file can make a reader allocate, and LZ4 cannot do better anyway.
pub const MAX_EXPANSION: u64 = 255;

/// One chunk as its table lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored_bytes: u32,
    /// Bytes after decompression.
    pub raw_bytes: u32,
    /// CRC32 of the stored bytes.
    pub crc: u32,
    /// Compression.
    pub compression: Compression,
}

/// Checks and decompresses chunks one after the other into memory of the caller, with what that needs kept between them.
#[derive(Default)]
pub struct ChunkDecoder {
    zstd: Option<Decoder>,
}

impl ChunkDecoder {
    /// Checks `stored` against the CRC of `chunk`, whose place in messages is `place`.
    ///
    /// # Errors
    /// When it is another.
    pub fn check(chunk: &Chunk, stored: &[u8], place: &str) -> Result<(), Damage> {
        check_crc(place, chunk.offset, stored, chunk.crc)
    }

    /// The chunk, whose `stored` bytes were [checked](Self::check), into `raw`.
    ///
    /// # Errors
    /// When they do not decompress to exactly as many.
    pub fn decode(
        &mut self,
        chunk: &Chunk,
        stored: &[u8],
        raw: &mut [u8],
        place: &str,
    ) -> Result<(), Damage> {
        let expected = raw.len();
        let decoded = match chunk.compression {
            Compression::None if stored.len() == expected => {
                raw.copy_from_slice(stored);
                Ok(expected)
            }
            Compression::None => Ok(stored.len()),
            Compression::Lz4 | Compression::Lz4Hc => {
                lz4_flex::block::decompress_into(stored, raw).map_err(|e| e.to_string())
            }
            Compression::Zstd => self.one_frame(stored, raw),
        };
        let found = match decoded {
            Ok(bytes) if bytes == expected => return Ok(()),
            Ok(bytes) => format!("{bytes} bytes"),
            Err(found) => found,
        };
        let expected = format!("{} data of {expected} raw bytes", chunk.compression.name());
        Err(Damage::new(place, chunk.offset, expected, found))
    }

    fn one_frame(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<usize, String> {
        check_one_frame(stored)?;
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decoder::new()?),
        };
        zstd.decode(stored, raw)
    }
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTableHeader {
    count: U32,
    crc: U32,
    zero: [U32; 2],
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTableEntry {
    stored: U32,
    raw: U32,
    crc: U32,
    compression: U32,
}

/// A layer cut into stored chunks, not yet placed in a file.
pub(crate) struct EncodedLayer<'a> {
    /// Chunk table, padded.
    pub table: Vec<u8>,
    /// The chunks.
    pub chunks: Cow<'a, [u8]>,
    /// What the layer index says.
    pub compression: Compression,
}

/// Cuts `raw` into chunks of 1 MiB and compresses them; raw when compression saves less than 2 %.
pub(crate) fn encode_layer(raw: &[u8], compression: Compression) -> std::io::Result<EncodedLayer<'_>> {
    if compression != Compression::None {
        let mut entries = Vec::new();
        let mut chunks = Vec::new();
        for raw in raw.chunks(CHUNK_BYTES) {
            let (compression, stored) = encode_chunk(raw, compression)?;
            entries.push(table_entry(&stored, raw.len(), compression));
            chunks.extend_from_slice(&stored);
        }
        if chunks.len() * 100 <= raw.len() * 98 {
            return Ok(EncodedLayer { table: table_bytes(&entries), chunks: chunks.into(), compression });
        }
    }
    let entries: Vec<_> =
        raw.chunks(CHUNK_BYTES).map(|raw| table_entry(raw, raw.len(), Compression::None)).collect();
    Ok(EncodedLayer { table: table_bytes(&entries), chunks: raw.into(), compression: Compression::None })
}

fn table_entry(stored: &[u8], raw_bytes: usize, compression: Compression) -> RawTableEntry {
    RawTableEntry {
        stored: (stored.len() as u32).into(),
        raw: (raw_bytes as u32).into(),
        crc: crc32fast::hash(stored).into(),
        compression: u32::from(compression as u8).into(),
    }
}

fn table_bytes(entries: &[RawTableEntry]) -> Vec<u8> {
    let header = RawTableHeader {
        count: (entries.len() as u32).into(),
        crc: crc32fast::hash(entries.as_bytes()).into(),
        zero: [0.into(); 2],
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(entries.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGN as usize), 0);
    bytes
}

/// One chunk, raw when it would not shrink or would shrink beyond [`MAX_EXPANSION`].
pub(crate) fn encode_chunk(raw: &[u8], compression: Compression) -> std::io::Result<(Compression, Vec<u8>)> {
    let stored = compression.encode(raw)?;
    let keep = stored.len() < raw.len() && raw.len() as u64 <= MAX_EXPANSION * stored.len() as u64;
    Ok(if keep { (compression, stored) } else { (Compression::None, raw.to_vec()) })
}

/// Reads the chunk table of the layer whose stored bytes are `stored`, at `offset` in the file.
///
/// # Errors
/// When the table's CRC, padding, sizes or codes are wrong, or do not add up to `raw_bytes`.
pub(crate) fn parse_table(
    stored: &[u8],
    offset: u64,
    raw_bytes: u64,
    place: &str,
) -> Result<Vec<Chunk>, Unread> {
    let place = format!("{place}, chunk table");
    let damage = |at: u64, expected: &str, found: String| Damage::new(&place, offset + at, expected, found);
    let Ok((header, rest)) = RawTableHeader::ref_from_prefix(stored) else {
        return Err(damage(0, "16 bytes", format!("{} bytes", stored.len())).into());
    };
    let count = header.count.get() as usize;
    if count as u64 != raw_bytes.div_ceil(CHUNK_BYTES as u64) {
        return Err(damage(0, &format!("chunks for {raw_bytes} raw bytes"), format!("{count} chunks")).into());
    }
    let Ok((entries, rest)) = <[RawTableEntry]>::ref_from_prefix_with_elems(rest, count) else {
        return Err(damage(0, &format!("{count} entries"), format!("{} bytes", rest.len())).into());
    };
    check_crc(&place, offset + 4, entries.as_bytes(), header.crc.get())?;
    let table_bytes = stored.len() - rest.len();
    let padding = table_bytes.next_multiple_of(ALIGN as usize) - table_bytes;
    if header.zero.iter().any(|&z| z != 0) {
        return Err(damage(8, "zeros", "other bytes".into()).into());
    }
    match rest.get(..padding) {
        Some(zeros) if first_nonzero(zeros).is_none() => {}
        _ => {
            let expected = "zero padding to a multiple of 64";
            return Err(damage(table_bytes as u64, expected, "other bytes".into()).into());
        }
    }
    let mut at = (table_bytes + padding) as u64;
    let mut raw_left = raw_bytes;
    let mut chunks = Vec::new();
    reserve(&mut chunks, count, &place)?;
    for (i, entry) in entries.iter().enumerate() {
        let entry_at = (16 + 16 * i) as u64;
        let raw = u64::from(entry.raw.get());
        if raw != raw_left.min(CHUNK_BYTES as u64) {
            let expected = format!("{} raw bytes", raw_left.min(CHUNK_BYTES as u64));
            return Err(damage(entry_at, &expected, raw.to_string()).into());
        }
        let chunk = Chunk {
            offset: offset + at,
            stored_bytes: entry.stored.get(),
            raw_bytes: entry.raw.get(),
            crc: entry.crc.get(),
            compression: Compression::from_id(entry.compression.get())
                .ok_or_else(|| damage(entry_at + 12, "compression 0 to 3", entry.compression.to_string()))?,
        };
        check_sizes(&chunk, &place, offset + entry_at)?;
        at += u64::from(chunk.stored_bytes);
        raw_left -= raw;
        chunks.push(chunk);
    }
    if at != stored.len() as u64 {
        let expected = format!("chunks of {} stored bytes in all", stored.len());
        return Err(damage(0, &expected, at.to_string()).into());
    }
    Ok(chunks)
}

/// Checks that a chunk's stored and raw sizes can belong together.
pub(crate) fn check_sizes(chunk: &Chunk, place: &str, at: u64) -> Result<(), Damage> {
    let (stored, raw) = (u64::from(chunk.stored_bytes), u64::from(chunk.raw_bytes));
    let possible = match chunk.compression {
        Compression::None => stored == raw,
        _ => stored < raw && raw <= MAX_EXPANSION * stored,
    };
    if possible {
        return Ok(());
    }
    Err(Damage::new(
        place,
        at,
        format!("stored and raw sizes that fit compression '{}'", chunk.compression.name()),
        format!("{stored} stored, {raw} raw"),
    ))
}
