//! What a long conversion has done so far, beside its output, so that one that was stopped need not begin again.
//!
//! `OUT.qsf.journal` is a header with the fingerprint of the conversion (model, texts, options, tool version) and records of a
//! name and bytes, each with its own checksum. A record counts when it is complete: whatever a crash left of the last one is
//! cut off. Only the process that holds the lock of `OUT.qsf.partial` touches the journal.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_format::{Links, open_side_file};

use super::fingerprint::{FINGERPRINT_BYTES, Fingerprint};
use super::stream_checkpoint::StreamCheckpoint;
use crate::error::{ConvertError, Result};

const MAGIC: &[u8; 8] = b"QSFJRNL1";
const HEADER_BYTES: u64 = (MAGIC.len() + FINGERPRINT_BYTES) as u64;
/// Bytes before the name of a record: its length, that of the payload, and a CRC32 of both lengths, name and payload.
const RECORD_HEADER_BYTES: u64 = 2 + 8 + 4;

/// Of records that are quick to make again, what an hour of work is not: at most so much of it is lost with the machine.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// What is known of a long work from an earlier run: records by name.
pub(crate) trait Records {
    /// Whether there is a record of this name.
    fn has(&self, name: &str) -> bool;

    /// The payload of the record of this name.
    ///
    /// # Errors
    /// When reading fails.
    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Adds a record, unless one of this name is there.
    ///
    /// # Errors
    /// When writing fails.
    fn put_new(&mut self, name: &str, payload: &[u8]) -> Result<()>;
}

/// Of work that is only tried: nothing is known, and nothing is kept.
pub(crate) struct NoRecords;

impl Records for NoRecords {
    fn has(&self, _name: &str) -> bool {
        false
    }

    fn get(&mut self, _name: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn put_new(&mut self, _name: &str, _payload: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// What a record survives once it is put. Every one survives the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survives {
    /// The end of the machine, at the cost of waiting for the disk.
    Crashes,
    /// That, too, a second later at the latest if another record follows.
    Kills,
}

/// An open journal.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the payload of each record is, and how long.
    records: HashMap<String, (u64, u64)>,
    end: u64,
    survives: Survives,
    synced: Instant,
    /// What is too large for a record, and of no use once there is a newer one.
    pub streams: StreamCheckpoint,
}

impl Journal {
    /// The journal of output `out`: what an earlier run with the same fingerprint left, or a new one.
    ///
    /// # Errors
    /// When it cannot be read or written, is of another conversion and `discard` is off, or is no journal at all.
    pub fn open(out: &Path, fingerprint: &Fingerprint, discard: bool) -> Result<Journal> {
        Journal::open_as(out, fingerprint, discard, Survives::Crashes)
    }

    /// Opens a journal whose records survive what is said.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_as(
        out: &Path,
        fingerprint: &Fingerprint,
        discard: bool,
        survives: Survives,
    ) -> Result<Journal> {
        let path = journal_path(out);
        let file = open_side_file(&path, Links::Refused)?;
        let header = read_header(&file, fingerprint).map_err(|e| ConvertError::io(&path, "read", e))?;
        match header {
            // Whoever asks for a conversion anew does not mean files of other programs.
            Header::Foreign => return Err(ConvertError::NotAJournal { path }),
            Header::Other if !discard => return Err(ConvertError::OtherJournal { path }),
            _ => {}
        }
        let streams = StreamCheckpoint::new(out, *fingerprint);
        let (records, synced) = (HashMap::new(), Instant::now());
        let mut journal = Journal { path: path.clone(), file, records, end: 0, survives, synced, streams };
        if header == Header::Ours {
            journal.scan().map_err(|e| ConvertError::io(&path, "read", e))?;
        } else {
            journal.begin(fingerprint).map_err(|e| ConvertError::io(&path, "write", e))?;
        }
        Ok(journal)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something in it.
    pub fn goes_on(&self) -> bool {
        !self.records.is_empty()
    }

    /// Adds a record; it survives what the journal was opened for once this returns.
    ///
    /// # Errors
    /// When writing fails.
    pub fn put(&mut self, name: &str, payload: &[u8]) -> Result<()> {
        self.put_parts(name, &[payload])
    }

    /// [`put`](Self::put)s a record whose payload is in parts.
    ///
    /// # Errors
    /// When writing fails.
    pub fn put_parts(&mut self, name: &str, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        let mut write = || -> io::Result<()> {
            let bytes: u64 = parts.iter().map(|part| part.as_ref().len() as u64).sum();
            let mut record = (name.len() as u16).to_le_bytes().to_vec();
            record.extend(bytes.to_le_bytes());
            record.extend(checksum(name.as_bytes(), bytes, parts).to_le_bytes());
            record.extend(name.as_bytes());
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(&record)?;
            for part in parts {
                self.file.write_all(part.as_ref())?;
            }
            if self.survives == Survives::Crashes || self.synced.elapsed() >= SYNC_AFTER {
                self.file.sync_data()?;
                self.synced = Instant::now();
            }
            let at = self.end + record.len() as u64;
            self.records.insert(name.to_owned(), (at, bytes));
            self.end = at + bytes;
            Ok(())
        };
        write().map_err(|e| ConvertError::io(&self.path, "write", e))
    }

    /// Removes the journal of a conversion that is done.
    pub fn remove(mut self) {
        self.clear();
    }

    /// Has the journal go with whoever holds it.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    fn begin(&mut self, fingerprint: &Fingerprint) -> io::Result<()> {
        self.streams.remove();
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&[&MAGIC[..], fingerprint].concat())?;
        if self.survives == Survives::Crashes {
            self.file.sync_all()?;
        }
        self.end = HEADER_BYTES;
        Ok(())
    }

    /// Finds all complete records, and cuts off what follows them.
    fn scan(&mut self) -> io::Result<()> {
        let size = self.file.metadata()?.len();
        self.end = HEADER_BYTES;
        self.file.seek(SeekFrom::Start(self.end))?;
        while let Some((name, bytes)) = self.read_record(size)? {
            let at = self.end + RECORD_HEADER_BYTES + name.len() as u64;
            self.end = at + bytes;
            self.records.insert(name, (at, bytes));
        }
        self.file.set_len(self.end)
    }

    /// The record at `end`: its name and the length of its payload; `None` when no complete one is there.
    fn read_record(&mut self, size: u64) -> io::Result<Option<(String, u64)>> {
        let mut file = &self.file;
        let mut header = Vec::new();
        file.take(RECORD_HEADER_BYTES).read_to_end(&mut header)?;
        let Some((lengths, stored)) = header.split_at_checked(10) else { return Ok(None) };
        let (Ok(stored), Ok(payload)) = (stored.try_into(), lengths[2..].try_into()) else { return Ok(None) };
        let (name, payload) =
            (u64::from(u16::from_le_bytes([lengths[0], lengths[1]])), u64::from_le_bytes(payload));
        let left = size.saturating_sub(self.end + RECORD_HEADER_BYTES);
        if name.checked_add(payload).is_none_or(|bytes| bytes > left) {
            return Ok(None);
        }
        let mut found_name = Vec::new();
        file.take(name).read_to_end(&mut found_name)?;
        let mut sum = lengths_checksum(name as u16, payload);
        sum.update(&found_name);
        let mut rest = payload;
        let mut buffer = vec![0; 1 << 16];
        while rest > 0 {
            let part = rest.min(buffer.len() as u64);
            let read = &mut buffer[..part as usize];
            file.read_exact(read)?;
            sum.update(read);
            rest -= part;
        }
        let whole = sum.finalize() == u32::from_le_bytes(stored);
        Ok(String::from_utf8(found_name).ok().filter(|_| whole).map(|name| (name, payload)))
    }
}

impl Records for Journal {
    fn has(&self, name: &str) -> bool {
        self.records.contains_key(name)
    }

    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(&(at, bytes)) = self.records.get(name) else { return Ok(None) };
        let mut read = || -> io::Result<Vec<u8>> {
            self.file.seek(SeekFrom::Start(at))?;
            let mut payload = Vec::new();
            (&self.file).take(bytes).read_to_end(&mut payload)?;
            Ok(payload)
        };
        read().map(Some).map_err(|e| ConvertError::io(&self.path, "read", e))
    }

    fn put_new(&mut self, name: &str, payload: &[u8]) -> Result<()> {
        if self.has(name) { Ok(()) } else { self.put(name, payload) }
    }
}

/// What a file in the place of a journal begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// Nothing, or a part of a header, which is what a process leaves that was killed as it began: nothing is lost.
    None,
    /// The header of this conversion.
    Ours,
    /// That of another one.
    Other,
    /// Something else.
    Foreign,
}

fn read_header(file: &File, fingerprint: &Fingerprint) -> io::Result<Header> {
    let mut header = Vec::new();
    file.take(HEADER_BYTES).read_to_end(&mut header)?;
    Ok(match header.strip_prefix(MAGIC) {
        None if MAGIC.starts_with(&header) => Header::None,
        None => Header::Foreign,
        Some(found) if found.len() < FINGERPRINT_BYTES => Header::None,
        Some(found) if found == fingerprint => Header::Ours,
        Some(_) => Header::Other,
    })
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.records.is_empty() {
            // If it stays, the next conversion to the same output says so.
            let _ = fs::remove_file(&self.path);
            self.streams.remove();
        }
    }
}

/// Where the journal of a conversion to `out` is, while the conversion is unfinished.
pub fn journal_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

fn checksum(name: &[u8], payload_bytes: u64, parts: &[impl AsRef<[u8]>]) -> u32 {
    let mut sum = lengths_checksum(name.len() as u16, payload_bytes);
    sum.update(name);
    parts.iter().for_each(|part| sum.update(part.as_ref()));
    sum.finalize()
}

fn lengths_checksum(name: u16, payload: u64) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&name.to_le_bytes());
    sum.update(&payload.to_le_bytes());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_a_torn_one_is_as_if_it_had_never_been() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.qsf");
        let mut journal = Journal::open(&out, &[7; 32], false).unwrap();
        assert!(!journal.has("layer 0"));
        journal.put("layer 0", &[1, 2, 3]).unwrap();
        journal.put("layer 1", &vec![9; 100_000]).unwrap();
        drop(journal);
        let path = journal_path(&out);
        let whole = fs::read(&path).unwrap();
        let second = HEADER_BYTES as usize + RECORD_HEADER_BYTES as usize + 7 + 3;
        for cut in [second, second + 1, second + 14, second + 50_000, whole.len() - 1, whole.len()] {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&out, &[7; 32], false).unwrap();
            assert_eq!(journal.get("layer 0").unwrap(), Some(vec![1, 2, 3]), "{cut}");
            assert_eq!(journal.get("layer 1").unwrap().is_some(), cut == whole.len(), "{cut}");
            // What is added now stands where the torn record was.
            journal.put("layer 2", b"new").unwrap();
            drop(journal);
            let mut journal = Journal::open(&out, &[7; 32], false).unwrap();
            assert_eq!(journal.get("layer 2").unwrap().as_deref(), Some(&b"new"[..]), "{cut}");
        }
        // Killed before the header was whole, be it by a conversion with other options.
        for cut in [0, 1, MAGIC.len(), MAGIC.len() + 9, HEADER_BYTES as usize - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(!Journal::open(&out, &[8; 32], false).unwrap().goes_on(), "{cut}");
        }
        let mut damaged = whole.clone();
        damaged[second + 40] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(Journal::open(&out, &[7; 32], false).unwrap().get("layer 1").unwrap(), None);
    }

    #[test]
    fn the_journal_of_another_conversion_is_refused_and_only_discarded_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.qsf");
        Journal::open(&out, &[1; 32], false).unwrap().put("a", b"b").unwrap();
        let error = Journal::open(&out, &[2; 32], false).map(drop).unwrap_err();
        assert!(error.to_string().contains("model.qsf.journal"), "{error}");
        assert!(Journal::open(&out, &[1; 32], false).unwrap().has("a"), "the refusal changed nothing");
        assert!(!Journal::open(&out, &[2; 32], true).unwrap().has("a"));
        Journal::open(&out, &[2; 32], true).unwrap().remove();
        assert!(!journal_path(&out).exists());
    }

    #[test]
    fn a_file_of_somebody_else_in_its_place_is_never_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.qsf");
        for own in [&b"my own journal"[..], b"QSFJRNL", b"QSFJRNL2 of a later version"] {
            fs::write(journal_path(&out), own).unwrap();
            let is_a_beginning = MAGIC.starts_with(own);
            for discard in [false, true] {
                match Journal::open(&out, &[2; 32], discard) {
                    Err(error) => {
                        assert!(matches!(error, ConvertError::NotAJournal { .. }), "{error}");
                        assert!(error.to_string().contains("model.qsf.journal"), "{error}");
                        assert_eq!(error.failure().exit_code(), 2);
                        assert_eq!(fs::read(journal_path(&out)).unwrap(), own);
                    }
                    Ok(_) => assert!(is_a_beginning, "{own:?}"),
                }
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_not_followed() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.qsf");
        fs::write(dir.path().join("thesis"), "years of work").unwrap();
        for target in ["thesis", "nowhere"] {
            symlink(target, journal_path(&out)).unwrap();
            for discard in [false, true] {
                let error = Journal::open(&out, &[2; 32], discard).map(drop).unwrap_err();
                assert!(error.to_string().contains("model.qsf.journal: this is a link"), "{error}");
            }
            fs::remove_file(journal_path(&out)).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join("thesis")).unwrap(), "years of work");
        assert!(!dir.path().join("nowhere").exists());
    }
}
