//! A part of a file (a layer or a large section) read from front to back, with all of its CRCs from one pass.
//!
//! The bytes come by a memory map. Left to page faults alone, a file that is not in the page cache comes in small pieces, in
//! what order the readers happen to touch them: where the system reads 128 KiB ahead, that was a quarter of the speed of reading
//! the same file in large pieces (docs/measurements/memory.md). So each piece is first read the ordinary way, into a buffer that
//! nobody looks at; then its pages are there, and the CRC is taken of the map, which is what will be used. Of pieces that are in
//! the page cache already the read is left out: copying them takes as long as the CRC.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use crc32fast::Hasher;

use crate::chunk::Chunk;
use crate::error::Damage;
use crate::file_bytes::FileBytes;

/// Bytes read at a time: large enough for any disk, small enough for a second-level cache.
const PIECE: usize = 1 << 20;
/// Bytes from one sample of what is in the page cache to the next: no more than systems read at a time.
const SAMPLE: usize = 64 << 10;
/// Parts from which on leaving out reads is worth it. Of smaller ones what is read takes the same memory in every run, which budgets
/// of a few megabytes count on.
const LARGE: usize = 16 << 20;
/// Parts that are not worth a read of their own.
const SMALL: usize = 64 << 10;

/// The CRC of `first` and of the `chunks` behind it, from what their table says.
pub(crate) fn crc_by_table(first: &[u8], chunks: &[Chunk]) -> u32 {
    let mut whole = Hasher::new();
    whole.update(first);
    for chunk in chunks {
        whole.combine(&Hasher::new_with_initial_len(chunk.crc, chunk.stored_bytes.into()));
    }
    whole.finalize()
}

/// A part that is being read and checked.
pub(crate) struct FilePart<'a> {
    bytes: &'a [u8],
    range: Range<usize>,
    ahead: Option<Ahead>,
}

/// Reads that bring pages into the page cache.
struct Ahead {
    /// Opened for this part alone, so that the system sees one reader that goes straight on.
    file: File,
    buffer: Vec<u8>,
    /// Up to where it was read.
    end: usize,
    /// Whether pieces that are in the page cache are left out.
    may_skip: bool,
}

impl<'a> FilePart<'a> {
    /// The bytes `range` of the file at `path`; the range is inside the file.
    pub fn new(path: &Path, bytes: &'a FileBytes, range: Range<usize>) -> FilePart<'a> {
        let mapped = matches!(bytes, FileBytes::Mapped(_)) && range.len() > SMALL;
        let ahead = mapped.then(|| Ahead::new(path, &range)).flatten();
        let mut part = FilePart { bytes, range, ahead };
        part.fetch(part.range.start + 1);
        part
    }

    /// All bytes of the part.
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.range.clone()]
    }

    /// Checks the CRC over all of the part.
    ///
    /// # Errors
    /// Damage at `place` when it is not `crc`.
    pub fn check(&mut self, place: &str, crc: u32) -> Result<(), Damage> {
        self.check_with_chunks(place, crc, "", &[])
    }

    /// Checks the CRC over all of the part and those of its `chunks`, which follow one another up to its end.
    ///
    /// # Errors
    /// Damage at `place`; where only a chunk's CRC is wrong, at `chunks_place`.
    pub fn check_with_chunks(
        &mut self,
        place: &str,
        crc: u32,
        chunks_place: &str,
        chunks: &[Chunk],
    ) -> Result<(), Damage> {
        let first = chunks.first().map_or(self.range.end, |chunk| chunk.offset as usize);
        let mut whole = self.hash(self.range.start..first);
        let mut wrong = None;
        for (i, chunk) in chunks.iter().enumerate() {
            let start = chunk.offset as usize;
            let hash = self.hash(start..start + chunk.stored_bytes as usize);
            whole.combine(&hash);
            let found = hash.finalize();
            if found != chunk.crc {
                wrong.get_or_insert((i, chunk, found));
            }
        }
        let damage = |place: &str, at: u64, expected: u32, found: u32| {
            Damage::new(place, at, format!("CRC32 {expected:08x}"), format!("{found:08x}"))
        };
        let found = whole.finalize();
        if found != crc {
            return Err(damage(place, self.range.start as u64, crc, found));
        }
        match wrong {
            Some((i, chunk, found)) => {
                Err(damage(&format!("{chunks_place}, chunk {i}"), chunk.offset, chunk.crc, found))
            }
            None => Ok(()),
        }
    }

    /// The hash of some bytes of the part.
    pub fn hash(&mut self, range: Range<usize>) -> Hasher {
        let mut hasher = Hasher::new();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + PIECE);
            self.fetch(end);
            hasher.update(&self.bytes[at..end]);
            at = end;
        }
        hasher
    }

    /// Reads on until the pages before `end` were read once. It is advice only: where it fails, page faults bring them.
    fn fetch(&mut self, end: usize) {
        let stop = self.range.end;
        while let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.end < end) {
            let len = PIECE.min(stop - ahead.end);
            let moved = if ahead.may_skip && is_cached(&ahead.file, ahead.end..ahead.end + len, SAMPLE) {
                ahead.file.seek(SeekFrom::Current(len as i64)).map(|_| ())
            } else {
                ahead.file.read_exact(&mut ahead.buffer[..len])
            };
            if moved.is_err() {
                self.ahead = None;
                return;
            }
            ahead.end += len;
        }
    }
}

/// Whether these bytes are in the page cache, by a sample every `step` bytes: what is not there all the same comes by page faults.
#[cfg(target_os = "linux")]
pub(crate) fn is_cached(file: &File, range: Range<usize>, step: usize) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    use std::io::IoSliceMut;

    let last = range.end.saturating_sub(1);
    range.step_by(step).chain([last]).all(|at| {
        let mut byte = [0];
        // Linux 4.14: EAGAIN where the byte would have to be waited for.
        let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at as u64, ReadWriteFlags::NOWAIT);
        read.is_ok_and(|read| read == 1)
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_cached(_file: &File, _range: Range<usize>, _step: usize) -> bool {
    false
}

impl Ahead {
    fn new(path: &Path, range: &Range<usize>) -> Option<Ahead> {
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(range.start as u64)).ok()?;
        Some(Ahead { file, buffer: vec![0; PIECE], end: range.start, may_skip: range.len() >= LARGE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Compression;
    use crate::file_map::FileMap;
    use std::sync::Arc;

    /// Bytes in a mapped file: a part of several pieces with a table before its chunks.
    struct Sample {
        path: tempfile::TempPath,
        bytes: FileBytes,
        part: Range<usize>,
        chunks: Vec<Chunk>,
    }

    fn sample() -> Sample {
        let all: Vec<u8> = (0..3 * PIECE + 12_345).map(|i| ((i * i) >> 7) as u8).collect();
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, &all).unwrap();
        let map = FileMap::new(&File::open(&path).unwrap()).unwrap();
        let part = 4096..all.len() - 77;
        let mut at = part.start + 320;
        let mut chunks = Vec::new();
        while at < part.end {
            let end = part.end.min(at + PIECE - 4096);
            chunks.push(Chunk {
                offset: at as u64,
                stored_bytes: (end - at) as u32,
                raw_bytes: (end - at) as u32,
                crc: crc32fast::hash(&all[at..end]),
                compression: Compression::None,
            });
            at = end;
        }
        Sample { path, bytes: FileBytes::Mapped(Arc::new(map)), part, chunks }
    }

    #[test]
    fn one_pass_finds_what_the_crc_of_the_whole_and_of_each_chunk_would() {
        let Sample { path, bytes, part, mut chunks } = sample();
        let crc = crc32fast::hash(&bytes[part.clone()]);
        let check = |path: &Path, crc, chunks: &[Chunk]| {
            FilePart::new(path, &bytes, part.clone()).check_with_chunks("whole", crc, "inner", chunks)
        };
        check(&path, crc, &chunks).unwrap();
        check(&path, crc, &[]).unwrap();
        // Reading ahead is a help, not a need.
        check(Path::new("/no/such/file"), crc, &chunks).unwrap();
        let whole = check(&path, crc ^ 1, &chunks).unwrap_err().to_string();
        assert!(whole.contains("whole") && whole.contains("4096"), "{whole}");
        chunks[2].crc ^= 1;
        let inner = check(&path, crc, &chunks).unwrap_err().to_string();
        assert!(inner.contains("inner, chunk 2"), "{inner}");
    }
}
