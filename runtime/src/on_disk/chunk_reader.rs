//! Raw bytes of a file by way of its chunks: read, checked, decompressed.
//!
//! A piece of weights rarely begins where a chunk does. The chunk at its border is kept, so that the next piece, which mostly
//! begins there, takes its share without reading it again; so a pass over a file reads every byte of it once.

use std::ops::Range;
use std::path::{Path, PathBuf};

use qsf_format::{ChunkDecoder, Compression, Damage};

use super::disk::Disk;
use super::part::StreamPart;
use crate::arena::Region;
use crate::error::{Result, RuntimeError};

/// Bytes that a buffer must have beyond what is read into it, for reads that begin and end at multiples of [`Disk::align`].
pub const SLACK: usize = 3 * crate::arena::REGION_ALIGN;

/// Reads one file.
pub struct ChunkReader {
    path: PathBuf,
    disk: Box<dyn Disk>,
    decoder: ChunkDecoder,
    /// Stored bytes of a compressed chunk.
    stored: Region,
    border: Border,
    bytes_read: u64,
}

/// The chunk that was used in part last.
struct Border {
    memory: Region,
    /// Part and chunk.
    holds: Option<(usize, usize)>,
    /// Where the chunk is in the memory.
    range: Range<usize>,
}

/// Memory that a reader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderBytes {
    /// For compressed chunks.
    pub stored: usize,
    /// For the chunk at the border.
    pub border: usize,
}

impl ReaderBytes {
    /// Of a reader of these parts.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a StreamPart>) -> ReaderBytes {
        let mut bytes = ReaderBytes { stored: 0, border: 0 };
        for part in parts {
            let (raw, stored) = part.largest_chunk();
            bytes.border = bytes.border.max(raw + SLACK);
            if part.is_compressed() {
                bytes.stored = bytes.stored.max(stored + SLACK);
            }
        }
        bytes
    }
}

impl ChunkReader {
    /// A reader of the file at `path`, with memory as [`ReaderBytes`] says.
    pub fn new(path: &Path, disk: Box<dyn Disk>, stored: Region, border: Region) -> ChunkReader {
        let border = Border { memory: border, holds: None, range: 0..0 };
        ChunkReader {
            path: path.to_owned(),
            disk,
            decoder: ChunkDecoder::default(),
            stored,
            border,
            bytes_read: 0,
        }
    }

    /// Stored bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads the raw bytes `range` of `part` into `out`, which is [`SLACK`] longer, and says where they begin in it.
    ///
    /// # Errors
    /// When they cannot be read, or are damaged.
    ///
    /// # Panics
    /// When the part is shorter, or `out` is.
    pub fn read(&mut self, part: &StreamPart, range: &Range<usize>, out: &mut [u8]) -> Result<usize> {
        assert!(out.len() >= range.len() + SLACK, "no room for {} bytes", range.len());
        let chunks = part.chunks_of(range);
        let whole = |index: &usize| {
            let raw = part.outline.raw_range(*index);
            range.start <= raw.start && raw.end <= range.end
        };
        let inner = chunks.clone().find(whole).map_or(0..0, |first| {
            let last = chunks.clone().rfind(whole).unwrap_or(first);
            first..last + 1
        });
        // Whole chunks go where they belong, such that the disk can read them there at its alignment; what is before them is
        // copied in front afterwards, because an aligned read also covers some bytes before and behind.
        let (head, align) = match inner.is_empty() {
            true => (0, 1),
            false => (part.outline.raw_range(inner.start).start - range.start, self.disk.align()),
        };
        let misfit = if inner.is_empty() {
            0
        } else {
            (part.outline.chunks[inner.start].offset % align as u64) as usize
        };
        let at = misfit + head.saturating_sub(misfit).next_multiple_of(align);
        let start = at - head;
        if !inner.is_empty() {
            self.whole_chunks(part, inner.clone(), out, at)?;
        }
        for index in chunks.filter(|index| !inner.contains(index)) {
            let raw = part.outline.raw_range(index);
            let wanted = range.start.max(raw.start)..range.end.min(raw.end);
            self.hold(part, index)?;
            let held = &self.border.memory[self.border.range.clone()];
            out[start + wanted.start - range.start..start + wanted.end - range.start]
                .copy_from_slice(&held[wanted.start - raw.start..wanted.end - raw.start]);
        }
        Ok(start)
    }

    /// Reads chunks, one behind the other, to `out[at..]`.
    fn whole_chunks(
        &mut self,
        part: &StreamPart,
        chunks: Range<usize>,
        out: &mut [u8],
        mut at: usize,
    ) -> Result<()> {
        let mut next = chunks.start;
        while next < chunks.end {
            let is_raw = |index: &usize| part.outline.chunks[*index].compression == Compression::None;
            let run = (next..chunks.end).take_while(is_raw).count();
            if run == 0 {
                let raw_bytes = part.outline.chunks[next].raw_bytes as usize;
                self.decompress(part, next, &mut out[at..at + raw_bytes])?;
                (at, next) = (at + raw_bytes, next + 1);
                continue;
            }
            let all = &part.outline.chunks[next..next + run];
            let bytes = all.iter().map(|chunk| chunk.stored_bytes as usize).sum();
            read_run(&self.path, self.disk.as_mut(), all[0].offset, bytes, out, at)?;
            self.bytes_read += bytes as u64;
            for (index, chunk) in (next..).zip(all) {
                self.check(part, index, &out[at..at + chunk.stored_bytes as usize])?;
                at += chunk.stored_bytes as usize;
            }
            next += run;
        }
        Ok(())
    }

    /// Makes chunk `index` the one at the border.
    fn hold(&mut self, part: &StreamPart, index: usize) -> Result<()> {
        if self.border.holds == Some((part.id, index)) {
            return Ok(());
        }
        self.border.holds = None;
        let chunk = part.outline.chunks[index];
        let raw_bytes = chunk.raw_bytes as usize;
        let start = (chunk.offset % self.disk.align() as u64) as usize;
        self.border.range = start..start + raw_bytes;
        if chunk.compression == Compression::None {
            let memory = &mut self.border.memory;
            read_run(&self.path, self.disk.as_mut(), chunk.offset, raw_bytes, memory, start)?;
            self.bytes_read += raw_bytes as u64;
            self.check(part, index, &self.border.memory[self.border.range.clone()])?;
        } else {
            let (stored, place) = (self.stored_chunk(part, index)?, place(part, index));
            let (raw, stored) = (&mut self.border.memory[start..start + raw_bytes], &self.stored[stored]);
            self.decoder.decode(&chunk, stored, raw, &place).map_err(|damage| damaged(&self.path, damage))?;
        }
        self.border.holds = Some((part.id, index));
        Ok(())
    }

    fn decompress(&mut self, part: &StreamPart, index: usize, raw: &mut [u8]) -> Result<()> {
        let stored = self.stored_chunk(part, index)?;
        let chunk = &part.outline.chunks[index];
        let decoded = self.decoder.decode(chunk, &self.stored[stored], raw, &place(part, index));
        decoded.map_err(|damage| damaged(&self.path, damage))
    }

    /// Reads and checks a compressed chunk; where it is in `stored`.
    fn stored_chunk(&mut self, part: &StreamPart, index: usize) -> Result<Range<usize>> {
        let chunk = &part.outline.chunks[index];
        let start = (chunk.offset % self.disk.align() as u64) as usize;
        let range = start..start + chunk.stored_bytes as usize;
        read_run(&self.path, self.disk.as_mut(), chunk.offset, range.len(), &mut self.stored, start)?;
        self.bytes_read += range.len() as u64;
        self.check(part, index, &self.stored[range.clone()])?;
        Ok(range)
    }

    fn check(&self, part: &StreamPart, index: usize, stored: &[u8]) -> Result<()> {
        let chunk = &part.outline.chunks[index];
        // The name is made for a damaged chunk only: nothing is allocated while a token is decoded.
        if crc32fast::hash(stored) == chunk.crc {
            return Ok(());
        }
        ChunkDecoder::check(chunk, stored, &place(part, index)).map_err(|damage| damaged(&self.path, damage))
    }
}

fn place(part: &StreamPart, index: usize) -> String {
    format!("{}, chunk {index}", part.outline.place)
}

fn damaged(path: &Path, damage: Damage) -> RuntimeError {
    damage.in_file(path).into()
}

/// Reads `bytes` at `offset` to `out[at..]`; in whole blocks of the disk where they lie in `out` as in the file, and then
/// bytes before and behind are overwritten too.
fn read_run(
    path: &Path,
    disk: &mut dyn Disk,
    offset: u64,
    bytes: usize,
    out: &mut [u8],
    at: usize,
) -> Result<()> {
    let align = disk.align();
    let before = (offset % align as u64) as usize;
    let end = (at + bytes).next_multiple_of(align).min(out.len() / align * align);
    let aligned = align > 1
        && at % align == before
        && end >= at + bytes
        && (out.as_ptr() as usize).is_multiple_of(align);
    let read = if aligned {
        disk.read(offset - before as u64, &mut out[at - before..end])
    } else {
        disk.read(offset, &mut out[at..at + bytes])
    };
    read.map_err(|source| match source.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            let found = "the end of the file: it was cut off after it was opened";
            RuntimeError::bad_input(path, format!("offset {offset}"), format!("{bytes} bytes"), found)
        }
        _ => RuntimeError::io(path, "read weights", source),
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use qsf_format::{Chunk, Outline};

    use super::*;
    use crate::arena::{Arena, REGION_ALIGN};

    const CHUNK: usize = 10_000;
    const ALL: usize = 7 * CHUNK + 1234;
    /// Where the part begins in its file.
    const START: usize = 64 * 77;

    /// A file in memory; reads behind `end` fail as a disk does.
    struct FakeDisk {
        bytes: Vec<u8>,
        align: usize,
        end: usize,
    }

    impl Disk for FakeDisk {
        fn align(&self) -> usize {
            self.align
        }

        fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let offset = offset as usize;
            if offset >= self.end {
                return Err(io::Error::other("the disk is gone"));
            }
            let end = self.bytes.len().min(offset + out.len());
            if end < offset + out.len() && self.align == 1 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out[..end - offset].copy_from_slice(&self.bytes[offset..end]);
            Ok(())
        }
    }

    fn raw() -> Vec<u8> {
        (0..ALL).map(|i| (i * i / 3000 % 251) as u8).collect()
    }

    /// A file with the raw bytes in chunks, every third of them compressed if asked for, and the part that they are.
    fn part(compressed: bool) -> (Vec<u8>, StreamPart) {
        let mut file = vec![0xEE; START];
        let mut chunks = Vec::new();
        for (i, raw) in raw().chunks(CHUNK).enumerate() {
            let (compression, stored) = if compressed && i % 3 == 1 {
                (Compression::Lz4, lz4(raw))
            } else {
                (Compression::None, raw.to_vec())
            };
            chunks.push(Chunk {
                offset: file.len() as u64,
                stored_bytes: stored.len() as u32,
                raw_bytes: raw.len() as u32,
                crc: crc32fast::hash(&stored),
                compression,
            });
            file.extend(stored);
        }
        let outline = Outline { place: "layer 0".into(), chunks, tensors: Vec::new() };
        (file, StreamPart { id: 3, outline: Arc::new(outline) })
    }

    /// An LZ4 block of literals only: token, length bytes, the literals.
    fn lz4(raw: &[u8]) -> Vec<u8> {
        let mut block = vec![0xF0];
        let mut rest = raw.len() - 15;
        while rest >= 255 {
            block.push(255);
            rest -= 255;
        }
        block.push(rest as u8);
        block.extend_from_slice(raw);
        block
    }

    fn reader(bytes: Vec<u8>, align: usize, end: usize) -> ChunkReader {
        let size = 2 * CHUNK + SLACK;
        let mut arena = Arena::new(3 * size).unwrap();
        let (stored, border) = (arena.take("stored", size).unwrap(), arena.take("border", size).unwrap());
        ChunkReader::new(Path::new("m.qsf"), Box::new(FakeDisk { bytes, align, end }), stored, border)
    }

    fn read(reader: &mut ChunkReader, part: &StreamPart, range: Range<usize>) -> Result<Vec<u8>> {
        let mut arena = Arena::new(range.len() + SLACK).unwrap();
        let mut out = arena.take("piece", range.len() + SLACK).unwrap();
        let start = reader.read(part, &range, &mut out)?;
        Ok(out[start..start + range.len()].to_vec())
    }

    #[test]
    fn pieces_that_cut_chunks_anywhere_are_the_raw_bytes_and_no_chunk_is_read_twice() {
        let raw = raw();
        for (compressed, align) in [(false, 1), (false, REGION_ALIGN), (true, 1), (true, REGION_ALIGN)] {
            let (file, part) = part(compressed);
            let stored: u64 = part.outline.chunks.iter().map(|chunk| u64::from(chunk.stored_bytes)).sum();
            for step in [77, 4096, CHUNK, CHUNK + 1, 25_000, 33_333, ALL] {
                let mut reader = reader(file.clone(), align, usize::MAX);
                for start in (0..ALL).step_by(step) {
                    let range = start..ALL.min(start + step);
                    let found = read(&mut reader, &part, range.clone()).unwrap();
                    assert!(found == raw[range.clone()], "{range:?} of {compressed}, {align}");
                }
                assert_eq!(reader.bytes_read(), stored, "{step}");
            }
        }
    }

    #[test]
    fn a_damaged_chunk_is_named_whatever_part_of_it_is_wanted() {
        for compressed in [false, true] {
            let (mut file, part) = part(compressed);
            let chunk = part.outline.chunks[4];
            file[chunk.offset as usize + 17] ^= 1;
            let mut reader = reader(file, 1, usize::MAX);
            for range in [0..ALL, 4 * CHUNK + 5..4 * CHUNK + 6, 3 * CHUNK..5 * CHUNK] {
                let message = read(&mut reader, &part, range).unwrap_err().to_string();
                let at = chunk.offset.to_string();
                assert!(message.contains("layer 0, chunk 4") && message.contains(&at), "{message}");
            }
            // What was read before is not the damaged chunk's.
            assert_eq!(read(&mut reader, &part, 0..9).unwrap(), raw()[..9]);
        }
    }

    #[test]
    fn a_disk_that_fails_is_an_error_with_its_own_words() {
        let (file, part) = part(false);
        let mut reader = reader(file, 1, START + 3 * CHUNK);
        read(&mut reader, &part, 0..CHUNK).unwrap();
        let error = read(&mut reader, &part, 3 * CHUNK..5 * CHUNK).unwrap_err();
        assert!(matches!(error, RuntimeError::Io { .. }) && error.to_string().contains("m.qsf"), "{error}");
    }
}
