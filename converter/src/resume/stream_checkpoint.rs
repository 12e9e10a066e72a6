//! Where the streams of a calibration text stand, beside the output: a conversion that was stopped then need not take the
//! text through all the layers again that it has done.
//!
//! `OUT.qsf.streams`: magic, fingerprint of the conversion, layer, values per stream, the values of both as `f32`, CRC32 of all
//! that. Only the newest state is kept, and none that would take more than a small part of the time. Whatever is wrong
//! with the file, nothing is lost but time.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_format::{Failure, Links, open_side_file, read_side_file};

use super::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
use crate::error::{ConvertError, Result};

const MAGIC: &[u8; 8] = b"QSFSTRM1";
/// Magic, fingerprint, layer, values of each stream.
const HEADER_BYTES: usize = MAGIC.len() + FINGERPRINT_BYTES + 4 + 8;
/// How many times as long as writing took nothing is written.
const PAUSE: u32 = 50;
/// Values that are converted to bytes at once.
const PIECE: usize = 1 << 16;

/// The file that keeps them.
pub(crate) struct StreamCheckpoint {
    path: PathBuf,
    fingerprint: Fingerprint,
    /// When the last state was written, and how long that took.
    last: Option<(Instant, Duration)>,
}

impl StreamCheckpoint {
    /// That of output `out`.
    pub fn new(out: &Path, fingerprint: Fingerprint) -> StreamCheckpoint {
        let mut name = out.as_os_str().to_owned();
        name.push(".streams");
        StreamCheckpoint { path: name.into(), fingerprint, last: None }
    }

    /// Keeps the state of both streams at the entry of `layer`, unless one was kept not long ago. Without room on the disk,
    /// or where another file is in the way, nothing is kept.
    ///
    /// # Errors
    /// When writing fails for another reason.
    pub fn keep(&mut self, layer: u32, streams: [&[f32]; 2]) -> Result<()> {
        let recent = self.last.is_some_and(|(at, took)| at.elapsed() < took * PAUSE);
        if recent || is_foreign(&self.path) || is_foreign(&self.partial()) {
            return Ok(());
        }
        let started = Instant::now();
        let partial = self.partial();
        match self.write(&partial, layer, streams) {
            Err(error) if error.failure() == Failure::OutOfSpace => self.remove(),
            written => written?,
        }
        self.last = Some((Instant::now(), started.elapsed()));
        Ok(())
    }

    /// The layer at whose entry the streams were kept, if they were and `wanted` says so of it, and `streams` as they were
    /// there; nothing is changed otherwise.
    pub fn restore(&self, streams: [&mut [f32]; 2], wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let [full, quantized] = streams;
        let values = full.len();
        if quantized.len() != values {
            return None;
        }
        let size = HEADER_BYTES as u64 + 8 * values as u64 + 4;
        // Read twice, so that nothing is touched before all of it is known to be whole.
        let file = read_side_file(&self.path, Links::Refused).ok()?;
        if file.metadata().ok()?.len() != size {
            return None;
        }
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).ok()?;
        let layer = self.check_header(&header, values).filter(|layer| wanted(*layer))?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&header);
        let mut bytes = vec![0; 4 * PIECE];
        let mut left = 8 * values;
        while left > 0 {
            let piece = &mut bytes[..left.min(4 * PIECE)];
            reader.read_exact(piece).ok()?;
            sum.update(piece);
            left -= piece.len();
        }
        let mut stored = [0; 4];
        reader.read_exact(&mut stored).ok()?;
        if sum.finalize() != u32::from_le_bytes(stored) {
            return None;
        }
        reader.rewind().ok()?;
        reader.read_exact(&mut header).ok()?;
        for stream in [full, quantized] {
            for values in stream.chunks_mut(PIECE) {
                let piece = &mut bytes[..4 * values.len()];
                reader.read_exact(piece).ok()?;
                for (value, bytes) in values.iter_mut().zip(piece.as_chunks::<4>().0) {
                    *value = f32::from_le_bytes(*bytes);
                }
            }
        }
        Some(layer)
    }

    /// Removes what is kept.
    pub fn remove(&self) {
        for path in [self.path.clone(), self.partial()] {
            if !is_foreign(&path) {
                // If one stays, it is of no use to another conversion, and the next to this output replaces it.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn partial(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".partial");
        name.into()
    }

    fn header(&self, layer: u32, values: usize) -> Vec<u8> {
        let parts: [&[u8]; 4] =
            [MAGIC, &self.fingerprint, &layer.to_le_bytes(), &(values as u64).to_le_bytes()];
        parts.concat()
    }

    /// The layer, if the header is of this conversion and of streams of so many values.
    fn check_header(&self, header: &[u8; HEADER_BYTES], values: usize) -> Option<u32> {
        let at = MAGIC.len() + FINGERPRINT_BYTES;
        let layer = u32::from_le_bytes(*header[at..].first_chunk()?);
        (header[..] == self.header(layer, values)).then_some(layer)
    }

    /// Writes `partial`, and gives it its name.
    fn write(&self, partial: &Path, layer: u32, streams: [&[f32]; 2]) -> Result<()> {
        let file = open_side_file(partial, Links::Refused)?;
        let written = file.set_len(0).and_then(|()| self.write_to(file, layer, streams));
        written
            .and_then(|()| fs::rename(partial, &self.path))
            .map_err(|e| ConvertError::io(partial, "write", e))
    }

    fn write_to(&self, file: File, layer: u32, streams: [&[f32]; 2]) -> io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let header = self.header(layer, streams[0].len());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&header);
        file.write_all(&header)?;
        let mut bytes = Vec::with_capacity(4 * PIECE);
        for values in streams.into_iter().flat_map(|stream| stream.chunks(PIECE)) {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            sum.update(&bytes);
            file.write_all(&bytes)?;
        }
        file.write_all(&sum.finalize().to_le_bytes())?;
        file.flush()
    }
}

/// Whether something is there that no conversion has written, and that is not ours to replace.
fn is_foreign(path: &Path) -> bool {
    match path.symlink_metadata() {
        Err(_) => false,
        Ok(found) if !found.is_file() => true,
        // One that was stopped before its first bytes is ours, too.
        Ok(found) if found.len() == 0 => false,
        Ok(_) => {
            let mut magic = [0; MAGIC.len()];
            let read = |mut file: File| file.read_exact(&mut magic).is_ok();
            !read_side_file(path, Links::Refused).is_ok_and(read) || magic != *MAGIC
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_come_back_bit_for_bit_and_nothing_of_a_damaged_or_other_file_does() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.qsf");
        let values: Vec<f32> = (0..100_000).map(|i| (i as f32).sin() * 1e-3).collect();
        let quantized: Vec<f32> = values.iter().map(|v| -v).collect();
        let mut checkpoint = StreamCheckpoint::new(&out, [7; FINGERPRINT_BYTES]);
        let mut found = [vec![0.5; values.len()], vec![0.5; values.len()]];
        let untouched = found.clone();
        let restore = |checkpoint: &StreamCheckpoint, found: &mut [Vec<f32>; 2]| {
            let [full, quantized] = found;
            checkpoint.restore([full, quantized], |layer| layer < 5)
        };
        assert_eq!(restore(&checkpoint, &mut found), None, "there is none yet");
        checkpoint.keep(3, [&values, &quantized]).unwrap();
        // Another follows only after a while.
        checkpoint.last = Some((Instant::now(), Duration::from_secs(60)));
        checkpoint.keep(4, [&quantized, &values]).unwrap();
        assert_eq!(restore(&checkpoint, &mut found), Some(3));
        assert_eq!(found, [values.clone(), quantized.clone()]);

        let path = checkpoint.path.clone();
        let whole = fs::read(&path).unwrap();
        let refused = |bytes: &[u8], what: &str| {
            fs::write(&path, bytes).unwrap();
            let mut found = untouched.clone();
            assert_eq!(restore(&checkpoint, &mut found), None, "{what}");
            assert_eq!(found, untouched, "{what}");
        };
        for at in [0, 20, HEADER_BYTES - 1, HEADER_BYTES + 5, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            refused(&damaged, &format!("byte {at} is another"));
        }
        refused(&whole[..whole.len() - 1], "cut");
        fs::write(&path, &whole).unwrap();
        let other = StreamCheckpoint::new(&out, [8; FINGERPRINT_BYTES]);
        assert_eq!(restore(&other, &mut found), None, "of another conversion");
        let mut fewer = [vec![0.0; 10], vec![0.0; 10]];
        assert_eq!(restore(&checkpoint, &mut fewer), None, "of another text");
        let [full, quantized] = &mut found;
        assert_eq!(checkpoint.restore([full, quantized], |layer| layer != 3), None, "not wanted");
        checkpoint.remove();
        assert!(!path.exists());
        // What somebody else has under this name stays.
        fs::write(&path, b"my own streams").unwrap();
        checkpoint.last = None;
        checkpoint.keep(4, [&values, quantized]).unwrap();
        checkpoint.remove();
        assert_eq!(fs::read(&path).unwrap(), b"my own streams");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_neither_read_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut checkpoint = StreamCheckpoint::new(&dir.path().join("model.qsf"), [7; FINGERPRINT_BYTES]);
        let values = [1.5f32, 2.5];
        checkpoint.keep(3, [&values, &values]).unwrap();
        fs::rename(&checkpoint.path, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &checkpoint.path).unwrap();
        let whole = fs::read(&checkpoint.path).unwrap();
        let mut found = [[0.0f32; 2]; 2];
        let [full, quantized] = &mut found;
        assert_eq!(checkpoint.restore([full, quantized], |_| true), None);
        checkpoint.last = None;
        checkpoint.keep(4, [&values, &values]).unwrap();
        checkpoint.remove();
        assert!(checkpoint.path.is_symlink() && fs::read(dir.path().join("elsewhere")).unwrap() == whole);
    }
}
