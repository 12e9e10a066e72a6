//! A file that is being downloaded: `HASH.incomplete` beside its final place, kept when the download ends early, so that the
//! next one goes on where it stopped.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use qsf_format::{Links, open_side_file};
use qsf_runtime::progress::Cancel;

use super::cache::make_parent;
use super::digest::FileDigest;
use super::error::{HubError, Result};

const READ: usize = 1 << 20;

/// The first bytes of a file, and the hash of them.
pub(super) struct Partial {
    path: PathBuf,
    file: File,
    etag: String,
    size: u64,
    len: u64,
    digest: FileDigest,
}

impl Partial {
    /// Opens what there is of the blob at `blob`, which is named `etag` and will have `size` bytes.
    pub fn open(blob: &Path, etag: &str, size: u64, cancel: &Cancel) -> Result<Partial> {
        let mut path = blob.as_os_str().to_owned();
        path.push(".incomplete");
        let path = PathBuf::from(path);
        make_parent(&path)?;
        let file = open_side_file(&path, Links::Refused)?;
        let digest = FileDigest::for_etag(etag, size);
        let mut partial = Partial { path, file, etag: etag.to_owned(), size, len: 0, digest };
        partial.take_over(cancel)?;
        Ok(partial)
    }

    /// Bytes that are there.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether all are.
    pub fn is_complete(&self) -> bool {
        self.len == self.size
    }

    /// Forgets what is there.
    pub fn restart(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(|e| HubError::io(&self.path, "truncate", e))?;
        self.file.rewind().map_err(|e| HubError::io(&self.path, "truncate", e))?;
        self.len = 0;
        self.digest = FileDigest::for_etag(&self.etag, self.size);
        Ok(())
    }

    /// Adds bytes; `false` where they are more than the file has.
    pub fn append(&mut self, bytes: &[u8]) -> Result<bool> {
        if bytes.len() as u64 > self.size - self.len {
            return Ok(false);
        }
        self.file.write_all(bytes).map_err(|e| HubError::io(&self.path, "write", e))?;
        self.digest.update(bytes);
        self.len += bytes.len() as u64;
        Ok(true)
    }

    /// Gives the complete file its name, after a look at its hash. A file whose hash is wrong is removed.
    pub fn finish(self, blob: &Path, url: &str) -> Result<()> {
        if let Some((kind, found)) = self.digest.contradicts(&self.etag) {
            fs::remove_file(&self.path).map_err(|e| HubError::io(&self.path, "remove", e))?;
            return Err(HubError::Damaged { url: url.to_owned(), kind, expected: self.etag, found });
        }
        self.file.sync_all().map_err(|e| HubError::io(&self.path, "sync", e))?;
        drop(self.file);
        fs::rename(&self.path, blob).map_err(|e| HubError::io(blob, "rename to", e))
    }

    /// Removes what is there.
    pub fn discard(self) -> Result<()> {
        drop(self.file);
        fs::remove_file(&self.path).map_err(|e| HubError::io(&self.path, "remove", e))
    }

    /// Hashes what an earlier download left, and goes on behind it.
    fn take_over(&mut self, cancel: &Cancel) -> Result<()> {
        let mut buffer = vec![0; READ];
        loop {
            if cancel.is_requested() {
                return Err(HubError::Interrupted);
            }
            let n = self.file.read(&mut buffer).map_err(|e| HubError::io(&self.path, "read", e))?;
            if n as u64 > self.size - self.len {
                return self.restart();
            }
            if n == 0 {
                break;
            }
            self.digest.update(&buffer[..n]);
            self.len += n as u64;
        }
        self.file.seek(SeekFrom::Start(self.len)).map_err(|e| HubError::io(&self.path, "read", e))?;
        Ok(())
    }
}
