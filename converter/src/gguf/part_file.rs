//! One file as it is filled: room for the header, then values, then the header, whose length may have become another one.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use qsf_format::FormatError;

use crate::error::Result;

/// Bytes that are moved at once.
const PIECE: usize = 1 << 20;

/// A file with some of the tensors.
pub(super) struct PartFile {
    pub path: PathBuf,
    /// Which tensors it has so far.
    pub entries: Range<usize>,
    /// Bytes of their values, with what fills them up.
    pub values: u64,
    /// Bytes before the values.
    room: u64,
    /// While it is filled.
    file: Option<BufWriter<File>>,
    /// Where only this handle may write: whoever holds the lock of a file keeps it to the end.
    locked: Option<File>,
}

impl PartFile {
    /// Starts the file `path` with its first tensor, `first`, and `room` bytes for the header; `locked` is its handle, where there
    /// is one already.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(path: &Path, locked: Option<&File>, first: usize, room: u64) -> Result<PartFile> {
        let start = || {
            let mut file = match locked {
                Some(file) => file.try_clone()?,
                // Read where values have to move.
                None => OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?,
            };
            file.seek(SeekFrom::Start(room))?;
            Ok((file, locked.map(File::try_clone).transpose()?))
        };
        let (file, locked) = start().map_err(|e| FormatError::io(path, "write", e))?;
        let file = Some(BufWriter::with_capacity(PIECE, file));
        Ok(PartFile { path: path.to_owned(), entries: first..first, values: 0, room, file, locked })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When writing fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.values += bytes.len() as u64;
        let Some(file) = &mut self.file else { return Ok(()) };
        Ok(file.write_all(bytes).map_err(|e| FormatError::io(&self.path, "write", e))?)
    }

    /// Ends the values; the header has `header` bytes.
    ///
    /// # Errors
    /// When writing fails.
    pub fn end(&mut self, header: u64) -> Result<()> {
        let Some(buffered) = self.file.take() else { return Ok(()) };
        let io = |e| FormatError::io(&self.path, "write", e);
        let mut file = buffered.into_inner().map_err(|e| io(e.into_error()))?;
        if header != self.room {
            shift(&mut file, self.room, header, self.values).map_err(io)?;
            self.room = header;
        }
        Ok(file.set_len(self.room + self.values).map_err(io)?)
    }

    /// Writes the header; `false` where it has another length than it was to have.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write_header(&self, header: &[u8]) -> Result<bool> {
        if header.len() as u64 != self.room {
            return Ok(false);
        }
        let write = || {
            let mut file = match &self.locked {
                Some(file) => file.try_clone()?,
                None => OpenOptions::new().write(true).open(&self.path)?,
            };
            file.seek(SeekFrom::Start(0))?;
            file.write_all(header)
        };
        write().map_err(|e| FormatError::io(&self.path, "write", e))?;
        Ok(true)
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.room + self.values
    }
}

/// Moves `len` bytes of a file from one place to another; the two may overlap.
fn shift(file: &mut File, from: u64, to: u64, len: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; PIECE.min(len as usize)];
    let mut done = 0;
    while done < len {
        let count = (len - done).min(PIECE as u64);
        // Nothing is written over that is still to be read.
        let at = if to < from { done } else { len - done - count };
        let piece = &mut buffer[..count as usize];
        file.seek(SeekFrom::Start(from + at))?;
        file.read_exact(piece)?;
        file.seek(SeekFrom::Start(to + at))?;
        file.write_all(piece)?;
        done += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_a_header_that_becomes_shorter_or_longer_than_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let values: Vec<u8> = (0..3 * PIECE + 77).map(|i| (i % 251) as u8).collect();
        for (room, header) in [(640, 640), (640, 64), (64, 640), (64, 3 << 20), (3 << 20, 64)] {
            let path = dir.path().join(format!("{room}-{header}"));
            let mut part = PartFile::begin(&path, None, 0, room).unwrap();
            values.chunks(1000).for_each(|piece| part.put(piece).unwrap());
            part.end(header).unwrap();
            assert!(!part.write_header(&[1; 3]).unwrap(), "of another length");
            assert!(part.write_header(&vec![7; header as usize]).unwrap());
            let found = std::fs::read(&path).unwrap();
            let (start, rest) = found.split_at(header as usize);
            assert!(start.iter().all(|byte| *byte == 7) && rest == values, "{room} {header}");
            assert_eq!(part.bytes(), found.len() as u64);
        }
    }
}
