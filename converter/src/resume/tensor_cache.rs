//! Tensors that are done of a conversion that fits them to nothing, in a journal beside its output: one that is killed goes on
//! with the others. Each is encoded for itself, so that it does not matter which were done.

use std::fs::{self, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use qsf_format::{Failure, Layout, Outliers, QuantType, TensorId};
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::progress::{Cancel, Progress};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::encode::rows::{Encoded, Encoder};
use crate::encode::stored_tensor::{self as stored, StoredTensor};
use crate::encode::tensor::{Job, VALUES_PER_RUN};
use crate::error::{ConvertError, Result};
use crate::fit::fits::Fit;
use crate::plan::PlannedTensor;
use crate::resume::journal::{Fingerprint, Journal, Survives};
use crate::sections::provenance::TOOL;

/// The tensors that are done. Dropped, it is removed, unless the user stops the conversion; one that fails would come to the
/// same end again.
pub(crate) struct KeptTensors<'a> {
    /// `None` where nothing is kept, or there is no room for it.
    journal: Mutex<Option<Journal>>,
    cancel: &'a Cancel,
}

impl<'a> KeptTensors<'a> {
    /// Keeps nothing.
    pub fn none(cancel: &'a Cancel) -> KeptTensors<'a> {
        KeptTensors { journal: Mutex::new(None), cancel }
    }

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
    ) -> Result<KeptTensors<'a>> {
        let opened = Journal::open_as(out, &fingerprint(files, options)?, true, Survives::Kills);
        let journal = match opened {
            Err(error) if error.failure() == Failure::OutOfSpace => None,
            opened => Some(opened?),
        };
        if let Some(journal) = journal.as_ref().filter(|journal| journal.goes_on()) {
            progress.note(&format!("going on from {}", journal.path().display()));
        }
        Ok(KeptTensors { journal: Mutex::new(journal), cancel })
    }

    /// Whether an earlier conversion has left something.
    pub fn goes_on(&self) -> bool {
        self.lock().as_ref().is_some_and(Journal::goes_on)
    }

    /// Whether [`store`](Self::store) keeps a tensor of the model as a whole. Those that are written as they are encoded are
    /// too large for it.
    pub fn takes(&self, planned: &PlannedTensor) -> bool {
        self.lock().is_some() && planned.info.rows.saturating_mul(planned.info.cols) <= VALUES_PER_RUN
    }

    /// A tensor of `job`: the one that is kept, or one that is encoded now, and kept.
    ///
    /// # Errors
    /// When it cannot be encoded, or the journal not be read or written.
    pub fn store(&self, job: &Job<'_>, planned: &PlannedTensor, fit: &Fit) -> Result<StoredTensor> {
        let name = planned.info.id.to_string();
        if let Some(known) = self.known(&name, planned.info.id)? {
            job.encoder.progress.advance((planned.info.rows * planned.info.cols) as u64);
            return Ok(known);
        }
        let stored = job.store_well(planned, std::slice::from_ref(fit), Some(self))?;
        self.keep(&name, &stored::to_parts(std::slice::from_ref(&stored)))?;
        Ok(stored)
    }

    /// Whether [`run`](Self::run) keeps anything.
    pub fn keeps_runs(&self) -> bool {
        self.lock().is_some()
    }

    /// Some rows of a large tensor in a form: those that are kept, or `encode`d now, and kept. Nothing of them may be apart.
    ///
    /// # Errors
    /// When they cannot be encoded, or the journal not be read or written.
    pub fn run(
        &self,
        encoder: &Encoder<'_>,
        planned: &PlannedTensor,
        (quant, layout): (QuantType, Layout),
        rows: Range<usize>,
        encode: impl FnOnce(Range<usize>) -> Result<Encoded>,
    ) -> Result<Encoded> {
        let info = &planned.info;
        if rows.len() == info.rows {
            // The tensor is kept soon, as a whole.
            return encode(rows);
        }
        let name = format!("{} {quant} {} {}..{}", info.id, layout.id(), rows.start, rows.end);
        let bytes = self.lock().as_mut().map(|journal| journal.get(&name)).transpose()?.flatten();
        if let Some(bytes) = bytes {
            encoder.progress.advance((rows.len() * info.cols) as u64);
            let data_bytes = quant.tensor_bytes(encoder.block, rows.len() as u64, info.cols as u64);
            let data_bytes = data_bytes.and_then(|bytes| usize::try_from(bytes).ok());
            let known = data_bytes.and_then(|at| bytes.split_at_checked(at)).and_then(|(data, stats)| {
                let stats = ErrorStats::from_bytes(stats, rows.len())?;
                Some(Encoded { data: data.to_vec(), stats, outliers: Outliers::default() })
            });
            return known.ok_or(ConvertError::BrokenJournal { what: name });
        }
        let encoded = encode(rows)?;
        self.keep(&name, &[&encoded.data[..], &encoded.stats.to_bytes()[..]])?;
        Ok(encoded)
    }

    /// Writes a record, while there is room for it.
    fn keep(&self, name: &str, parts: &[impl AsRef<[u8]>]) -> Result<()> {
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

    /// Removes what is kept of a conversion that is done.
    pub fn remove(self) {
        self.discard();
    }

    fn discard(&self) {
        if let Some(journal) = self.lock().take() {
            journal.remove();
        }
    }

    fn known(&self, name: &str, id: TensorId) -> Result<Option<StoredTensor>> {
        let bytes = self.lock().as_mut().map(|journal| journal.get(name)).transpose()?.flatten();
        let Some(bytes) = bytes else { return Ok(None) };
        let mut tensors = stored::from_bytes(&bytes).unwrap_or_default();
        match tensors.pop() {
            Some(tensor) if tensors.is_empty() && tensor.id == id => Ok(Some(tensor)),
            _ => Err(ConvertError::BrokenJournal { what: name.to_owned() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeptTensors<'_> {
    fn drop(&mut self) {
        if !self.cancel.is_requested() {
            self.discard();
        }
    }
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
