//! Tensors that are done of a conversion that fits them to nothing, in a journal beside its output: one that is killed goes on
//! with the others. Each is encoded for itself, so that it does not matter which were done.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use qsf_format::{Failure, Outliers, TensorId};
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::progress::{Cancel, Progress};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::fingerprint::Fingerprint;
use super::journal::{Journal, Records, Survives};
use super::tensor_bytes::{from_bytes, to_parts};
use crate::encode::{EncodedRows, StoredTensor, TensorCache, TensorRun};
use crate::error::{ConvertError, Result};
use crate::sections::TOOL;

/// The tensors that are done. Dropped, it is removed, unless the user stops the conversion; one that fails would come to the
/// same end again.
pub(crate) struct TensorJournal<'a> {
    /// `None` where there is no room for it.
    journal: Mutex<Option<Journal>>,
    cancel: &'a Cancel,
}

impl<'a> TensorJournal<'a> {
    /// What an earlier conversion of the same `files` to `out`, with the same `options`, has left. Where there was another,
    /// what it left goes: it was quick work, and made by a batch, which knows what it wants now.
    ///
    /// # Errors
    /// When a file cannot be read, or the journal not be written.
    pub fn open(
        out: &Path,
        files: &[PathBuf],
        options: &Map<String, Value>,
        progress: &dyn Progress,
        cancel: &'a Cancel,
    ) -> Result<TensorJournal<'a>> {
        let opened = Journal::open_as(out, &fingerprint(files, options)?, true, Survives::Kills);
        let journal = match opened {
            Err(error) if error.failure() == Failure::OutOfSpace => None,
            opened => Some(opened?),
        };
        if let Some(journal) = journal.as_ref().filter(|journal| journal.goes_on()) {
            progress.note(&format!("going on from {}", journal.path().display()));
        }
        Ok(TensorJournal { journal: Mutex::new(journal), cancel })
    }

    /// Whether an earlier conversion has left something.
    pub fn goes_on(&self) -> bool {
        self.lock().as_ref().is_some_and(Journal::goes_on)
    }

    /// Removes what is kept of a conversion that is done.
    pub fn remove(self) {
        self.discard();
    }

    fn discard(&self) {
        if let Some(journal) = self.lock().take() {
            journal.remove();
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.lock().as_mut().map(|journal| journal.get(name)).transpose()?.flatten())
    }

    /// Writes a record, while there is room for it.
    fn put(&self, name: &str, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        let mut kept = self.lock();
        match kept.as_mut().map(|journal| journal.put_parts(name, parts)) {
            // The file itself may still have room, all the more without this.
            Some(Err(error)) if error.failure() == Failure::OutOfSpace => {
                if let Some(journal) = kept.take() {
                    journal.remove();
                }
                Ok(())
            }
            Some(put) => put,
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TensorCache for TensorJournal<'_> {
    fn keeps(&self) -> bool {
        self.lock().is_some()
    }

    fn tensor(&self, id: TensorId) -> Result<Option<StoredTensor>> {
        let name = id.to_string();
        let Some(bytes) = self.get(&name)? else { return Ok(None) };
        let mut tensors = from_bytes(&bytes).unwrap_or_default();
        match tensors.pop() {
            Some(tensor) if tensors.is_empty() && tensor.id == id => Ok(Some(tensor)),
            _ => Err(ConvertError::BrokenJournal { what: name }),
        }
    }

    fn keep_tensor(&self, tensor: &StoredTensor) -> Result<()> {
        self.put(&tensor.id.to_string(), &to_parts(std::slice::from_ref(tensor)))
    }

    fn rows(&self, run: &TensorRun<'_>) -> Result<Option<EncodedRows>> {
        let name = run_name(run);
        let Some(bytes) = self.get(&name)? else { return Ok(None) };
        let rows = run.rows.len();
        let data_bytes = run.form.quant.tensor_bytes(run.block, rows as u64, run.info.cols as u64);
        let data_bytes = data_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let known = data_bytes.and_then(|at| bytes.split_at_checked(at)).and_then(|(data, stats)| {
            let stats = ErrorStats::from_bytes(stats, rows)?;
            Some(EncodedRows { data: data.to_vec(), stats, outliers: Outliers::default() })
        });
        known.map(Some).ok_or(ConvertError::BrokenJournal { what: name })
    }

    fn keep_rows(&self, run: &TensorRun<'_>, encoded: &EncodedRows) -> Result<()> {
        self.put(&run_name(run), &[&encoded.data[..], &encoded.stats.to_bytes()[..]])
    }
}

impl Drop for TensorJournal<'_> {
    fn drop(&mut self) {
        if !self.cancel.is_requested() {
            self.discard();
        }
    }
}

/// The name of a record of some rows.
fn run_name(run: &TensorRun<'_>) -> String {
    let TensorRun { info, form, rows, .. } = run;
    format!("{} {} {} {}..{}", info.id, form.quant, form.layout.id(), rows.start, rows.end)
}

/// Of everything that tensors are made of. Files are taken to be what they were if the system says that nobody has changed
/// them: hashing them first would take longer than what is kept here.
fn fingerprint(files: &[PathBuf], options: &Map<String, Value>) -> Result<Fingerprint> {
    let mut seen = Vec::new();
    for path in files {
        let found = fs::metadata(path).map_err(|e| ConvertError::io(path, "read", e))?;
        seen.push(json!([path.to_string_lossy(), found.len(), modified(&found), identity(&found)]));
    }
    Ok(Sha256::digest(json!([TOOL, options, seen]).to_string()).into())
}

/// Nanoseconds since 1970.
fn modified(found: &Metadata) -> u64 {
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Which file it is, and when that was told last that it was changed, which nobody can set back.
#[cfg(unix)]
fn identity(found: &Metadata) -> [i64; 4] {
    use std::os::unix::fs::MetadataExt;
    [found.dev().cast_signed(), found.ino().cast_signed(), found.ctime(), found.ctime_nsec()]
}

#[cfg(not(unix))]
fn identity(_found: &Metadata) -> [i64; 4] {
    [0; 4]
}
