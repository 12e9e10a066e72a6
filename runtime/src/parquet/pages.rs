//! Pages of a column: their headers, checked and decompressed.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use qsf_format::{Chunk, ChunkDecoder, Compression, MAX_EXPANSION};

use super::flaw::Found;
use super::footer::ColumnChunk;
use super::thrift::{Compact, Field, TRUE};

/// Longest page, decompressed. Most writers make pages of some 1 MB.
const MAX_PAGE: u64 = 32 << 20;
/// A page may have this many bytes more than [`MAX_EXPANSION`] for each stored byte. So a small file takes little memory.
const FEW: u64 = 1 << 16;
/// Bytes that a header is looked for in. Statistics in it can be long texts.
const HEADERS: [u64; 2] = [4 << 10, 4 << 20];

/// `PageType`s.
const DATA: i64 = 0;
const INDEX: i64 = 1;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Dictionary,
    /// Levels stand before the values, each behind their length.
    Data {
        level_encodings: [i64; 2],
    },
    /// The same, with the lengths of levels in the header, and levels not compressed.
    DataV2 {
        repetition_bytes: usize,
        definition_bytes: usize,
    },
}

/// A page, decompressed.
#[derive(Debug)]
pub(super) struct Page {
    pub kind: PageKind,
    pub encoding: i64,
    /// With those that are null.
    pub values: u32,
    pub bytes: Vec<u8>,
}

/// Reads the pages of a column one after another.
pub(super) struct Pages {
    codec: i64,
    at: u64,
    end: u64,
}

/// `PageHeader`.
#[derive(Default)]
struct Header {
    kind: i64,
    raw_bytes: u64,
    stored_bytes: u64,
    crc: Option<u32>,
    values: u64,
    encoding: i64,
    level_encodings: [i64; 2],
    level_bytes: [u64; 2],
    stored_raw: bool,
}

impl Pages {
    pub fn new(chunk: &ColumnChunk) -> Pages {
        Pages { codec: chunk.codec, at: chunk.offset, end: chunk.offset + chunk.bytes }
    }

    /// Where the next page begins.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The next page; `None` behind the last.
    pub fn next(&mut self, file: &mut File) -> Found<Option<Page>> {
        while self.at < self.end {
            let (header, length) = self.header(file)?;
            let at = self.at + length;
            let left = self.end - at;
            if header.stored_bytes > left {
                return Err(format!(
                    "a page of {} bytes, {left} bytes before the column ends",
                    header.stored_bytes
                ));
            }
            self.at = at + header.stored_bytes;
            if header.kind == INDEX {
                continue;
            }
            let kind = page_kind(&header)?;
            let most = MAX_PAGE.min(header.stored_bytes * MAX_EXPANSION + FEW);
            if header.raw_bytes.max(header.stored_bytes) > most {
                let found = header.raw_bytes.max(header.stored_bytes);
                return Err(format!(
                    "a page of {found} bytes in {}; at most {most} are accepted",
                    header.stored_bytes
                ));
            }
            let stored = read(file, at, header.stored_bytes)?;
            if let Some(crc) = header.crc.filter(|&crc| crc != crc32fast::hash(&stored)) {
                return Err(format!("a page whose checksum is not {crc:08x}, as its header says"));
            }
            let values =
                u32::try_from(header.values).map_err(|_| format!("{} values in a page", header.values))?;
            let bytes = self.decompress(kind, &header, stored)?;
            return Ok(Some(Page { kind, encoding: header.encoding, values, bytes }));
        }
        Ok(None)
    }

    fn header(&self, file: &mut File) -> Found<(Header, u64)> {
        let left = self.end - self.at;
        let mut last = String::new();
        for most in HEADERS {
            let bytes = read(file, self.at, left.min(most))?;
            let mut input = Compact::new(&bytes);
            match header(&mut input) {
                Ok(header) => return Ok((header, input.position() as u64)),
                Err(found) => last = format!("a page header with {found}"),
            }
            if left <= most {
                break;
            }
        }
        Err(last)
    }

    fn decompress(&self, kind: PageKind, header: &Header, stored: Vec<u8>) -> Found<Vec<u8>> {
        let levels = match kind {
            PageKind::DataV2 { repetition_bytes, definition_bytes } => repetition_bytes + definition_bytes,
            _ => 0,
        };
        let raw_bytes = usize::try_from(header.raw_bytes).map_err(|e| e.to_string())?;
        if levels > stored.len().min(raw_bytes) {
            return Err(format!("{levels} bytes of levels in a page of {}", stored.len().min(raw_bytes)));
        }
        let codec = if header.stored_raw { 0 } else { self.codec };
        if codec == 0 {
            return match stored.len() == raw_bytes {
                true => Ok(stored),
                false => Err(format!("an uncompressed page of {raw_bytes} bytes in {}", stored.len())),
            };
        }
        let mut raw = vec![0; raw_bytes];
        let (before, values) = raw.split_at_mut(levels);
        before.copy_from_slice(&stored[..levels]);
        // A page without values may have no compressed bytes either.
        if !values.is_empty() {
            decompress(codec, &stored[levels..], values)?;
        }
        Ok(raw)
    }
}

fn read(file: &mut File, at: u64, count: u64) -> Found<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).map_err(|e| e.to_string())?];
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes)).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// All of `raw` from `stored`, by `CompressionCodec`.
fn decompress(codec: i64, stored: &[u8], raw: &mut [u8]) -> Found<()> {
    let compression = match codec {
        1 => return snappy(stored, raw),
        6 => Compression::Zstd,
        7 => Compression::Lz4,
        2 => return Err("pages compressed by gzip".into()),
        3 => return Err("pages compressed by LZO".into()),
        4 => return Err("pages compressed by Brotli".into()),
        5 => return Err("pages compressed by Hadoop's LZ4".into()),
        _ => return Err(format!("pages of the compression {codec}, which there is not")),
    };
    let chunk = Chunk {
        offset: 0,
        stored_bytes: stored.len() as u32,
        raw_bytes: raw.len() as u32,
        crc: 0,
        compression,
    };
    let decoded = ChunkDecoder::default().decode(&chunk, stored, raw, "a page");
    decoded.map_err(|damage| format!("a page that does not decompress: {}", damage.found))
}

fn snappy(stored: &[u8], raw: &mut [u8]) -> Found<()> {
    let expected = raw.len();
    match snap::raw::Decoder::new().decompress(stored, raw) {
        Ok(bytes) if bytes == expected => Ok(()),
        Ok(bytes) => Err(format!("a page of {bytes} bytes instead of {expected}")),
        Err(error) => Err(format!("a page that does not decompress: {error}")),
    }
}

fn page_kind(header: &Header) -> Found<PageKind> {
    match header.kind {
        DATA => Ok(PageKind::Data { level_encodings: header.level_encodings }),
        DICTIONARY => Ok(PageKind::Dictionary),
        DATA_V2 => {
            let [repetition, definition] = header.level_bytes;
            let number =
                |bytes: u64| u32::try_from(bytes).map(|bytes| bytes as usize).map_err(|e| e.to_string());
            Ok(PageKind::DataV2 {
                repetition_bytes: number(repetition)?,
                definition_bytes: number(definition)?,
            })
        }
        other => Err(format!("a page of type {other}, which there is not")),
    }
}

fn header(input: &mut Compact) -> Found<Header> {
    let mut header = Header { kind: -1, ..Header::default() };
    input.fields(|input, field| {
        match field.id {
            1 => header.kind = input.integer(field)?,
            2 => header.raw_bytes = input.unsigned(field)?,
            3 => header.stored_bytes = input.unsigned(field)?,
            // The bits of an unsigned number in a signed one.
            4 => header.crc = Some(input.integer(field)? as u32),
            5 => input.structure(field, |input, field| data_page(input, field, &mut header))?,
            7 => input.structure(field, |input, field| {
                match field.id {
                    1 => header.values = input.unsigned(field)?,
                    2 => header.encoding = input.integer(field)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?,
            8 => input.structure(field, |input, field| data_page_v2(input, field, &mut header))?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(header)
}

/// `DataPageHeader`.
fn data_page(input: &mut Compact, field: Field, header: &mut Header) -> Found<bool> {
    match field.id {
        1 => header.values = input.unsigned(field)?,
        2 => header.encoding = input.integer(field)?,
        3 => header.level_encodings[1] = input.integer(field)?,
        4 => header.level_encodings[0] = input.integer(field)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `DataPageHeaderV2`.
fn data_page_v2(input: &mut Compact, field: Field, header: &mut Header) -> Found<bool> {
    match field.id {
        1 => header.values = input.unsigned(field)?,
        4 => header.encoding = input.integer(field)?,
        5 => header.level_bytes[1] = input.unsigned(field)?,
        6 => header.level_bytes[0] = input.unsigned(field)?,
        7 => {
            header.stored_raw = field.kind != TRUE;
            return Ok(false);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
