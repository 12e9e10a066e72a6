//! From a file that is not in memory to the first token, beside the time that reading and checking the file takes anyway.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::speed::disk_bytes_read;
use crate::decoder::Decoder;
use crate::error::{Result, RuntimeError};
use crate::progress::Progress;
use crate::source::WeightSource;

/// Medians over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColdLoad {
    /// Bytes of the model's files.
    pub file_bytes: u64,
    /// Of those, what came from the disk when the model was loaded: less than all of them where another process holds pages in
    /// memory. `None` where the system does not say.
    pub disk_bytes: Option<u64>,
    /// Reading the files in pieces of 1 MiB on all cores and computing CRC32 over every byte.
    pub read_and_check_seconds: f64,
    /// Opening the files, loading the model and computing one token. No tokenizer.
    pub first_token_seconds: f64,
    /// One more token.
    pub decode_step_seconds: f64,
    /// `(first_token_seconds - decode_step_seconds) / read_and_check_seconds`.
    pub ratio: f64,
}

/// One repetition.
struct Sample {
    read_and_check: f64,
    first_token: f64,
    decode_step: f64,
    disk_bytes: Option<u64>,
}

/// Measures `repetitions` times, alternating, with the files dropped from the page cache before each. `open` opens the model,
/// `prepare` makes the decoder. Nothing else may hold the model's files mapped.
///
/// # Errors
/// When the model cannot be loaded, the files cannot be dropped (systems other than Linux), or the user interrupts.
pub fn cold_load(
    open: &dyn Fn() -> Result<Box<dyn WeightSource>>,
    prepare: &dyn Fn(&mut dyn WeightSource) -> Result<Decoder>,
    repetitions: usize,
    progress: &dyn Progress,
) -> Result<ColdLoad> {
    let files = open()?.files();
    let lengths = files.iter().map(|file| length(file)).collect::<Result<Vec<_>>>()?;
    let file_bytes = lengths.iter().sum();
    let mut samples = Vec::new();
    progress.begin("cold load", repetitions as u64);
    for _ in 0..repetitions {
        files.iter().try_for_each(|file| drop_from_cache(file))?;
        let started = Instant::now();
        for (file, length) in files.iter().zip(&lengths) {
            std::hint::black_box(read_and_check(file, *length)?);
        }
        let read_and_check = started.elapsed().as_secs_f64();
        files.iter().try_for_each(|file| drop_from_cache(file))?;
        samples.push(load(open, prepare, read_and_check)?);
        progress.advance(1);
    }
    progress.end();
    let read_and_check_seconds = median(samples.iter().map(|s| s.read_and_check));
    let first_token_seconds = median(samples.iter().map(|s| s.first_token));
    let decode_step_seconds = median(samples.iter().map(|s| s.decode_step));
    Ok(ColdLoad {
        file_bytes,
        disk_bytes: samples.iter().filter_map(|s| s.disk_bytes).min(),
        read_and_check_seconds,
        first_token_seconds,
        decode_step_seconds,
        ratio: (first_token_seconds - decode_step_seconds) / read_and_check_seconds,
    })
}

fn load(
    open: &dyn Fn() -> Result<Box<dyn WeightSource>>,
    prepare: &dyn Fn(&mut dyn WeightSource) -> Result<Decoder>,
    read_and_check: f64,
) -> Result<Sample> {
    let disk = disk_bytes_read();
    let started = Instant::now();
    let decoder = prepare(open()?.as_mut())?;
    let mut state = decoder.state(2, 1)?;
    let mut logits = vec![0.0; decoder.model().config.vocab as usize];
    let mut token = || -> Result<f64> {
        decoder.forward(&mut state, &[0])?;
        decoder.logits(&mut state, 0..1, &mut logits)?;
        Ok(started.elapsed().as_secs_f64())
    };
    let first_token = token()?;
    let disk_bytes = disk.zip(disk_bytes_read()).map(|(before, now)| now.saturating_sub(before));
    Ok(Sample { read_and_check, first_token, decode_step: token()? - first_token, disk_bytes })
}

fn length(file: &Path) -> Result<u64> {
    Ok(std::fs::metadata(file).map_err(|e| RuntimeError::io(file, "read", e))?.len())
}

/// CRC32 of every byte, a stretch of the file for each core: the fastest way to read a file that was found
/// (docs/measurements/memory.md).
fn read_and_check(path: &Path, length: u64) -> Result<u32> {
    const PIECE: u64 = 1 << 20;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let share = length.div_ceil(threads).next_multiple_of(PIECE).max(PIECE);
    let stretch = |start: u64| -> std::io::Result<u32> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut left = file.take(share);
        let (mut crc, mut buffer) = (crc32fast::Hasher::new(), vec![0; PIECE as usize]);
        loop {
            match left.read(&mut buffer)? {
                0 => return Ok(crc.finalize()),
                read => crc.update(&buffer[..read]),
            }
        }
    };
    let crcs: std::io::Result<Vec<u32>> = std::thread::scope(|scope| {
        let starts = (0..length).step_by(share as usize);
        let workers: Vec<_> = starts.map(|start| scope.spawn(move || stretch(start))).collect();
        let panicked = |_| Err(std::io::Error::other("a reading thread panicked"));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    Ok(crcs.map_err(|e| RuntimeError::io(path, "read", e))?.into_iter().fold(0, u32::wrapping_add))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.as_slice() {
        [] => 0.0,
        values if values.len() % 2 == 1 => values[middle],
        values => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Makes the system forget a file's pages, but for those that are mapped somewhere or not yet written.
#[cfg(target_os = "linux")]
fn drop_from_cache(path: &Path) -> Result<()> {
    use rustix::fs::{Advice, fadvise};
    let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    let dropped = fadvise(&file, 0, None, Advice::DontNeed);
    dropped.map_err(|e| RuntimeError::io(path, "drop from the page cache", e.into()))
}

#[cfg(not(target_os = "linux"))]
fn drop_from_cache(path: &Path) -> Result<()> {
    let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(RuntimeError::io(path, "drop from the page cache", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_covers_every_byte_of_files_of_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
        for length in [0, 1, (1 << 20) - 1, 3 * (1 << 20) + 5] {
            let bytes: Vec<u8> = (0..length).map(|i: u64| ((i * i) >> 9) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let share = length.div_ceil(threads).next_multiple_of(1 << 20).max(1 << 20) as usize;
            let expected = bytes.chunks(share).map(crc32fast::hash).fold(0, u32::wrapping_add);
            assert_eq!(read_and_check(&path, length).unwrap(), expected, "{length}");
        }
        assert!(read_and_check(&dir.path().join("none"), 5).is_err());
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }
}
