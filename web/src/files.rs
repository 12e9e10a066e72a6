//! A file that arrives, is described and verified, and the report on all that were.

use std::ops::Range;
use std::path::Path;

use qsf_format::{ArrivingFile, QsfFile, SourceFile, Wanted, verify_file};
use qsf_inspection::overview::text;
use qsf_inspection::report::{FileFacts, page};
use qsf_inspection::tensors::list_tensors;
use qsf_runtime::file_hash::sha256;
use qsf_runtime::{Result, RuntimeError};

/// Largest file: memory of WebAssembly ends at 4 GiB, and one allocation at 2.
const MOST_BYTES: u64 = (2 << 30) - (64 << 10);

/// The files of the page.
#[derive(Default)]
pub struct Files {
    arriving: Option<ArrivingFile>,
    name: String,
    /// The last one that was verified.
    verified: Option<QsfFile>,
    facts: Vec<FileFacts>,
}

impl Files {
    /// Makes room for a file. The one before is given up, but for what the report says of it.
    ///
    /// # Errors
    /// When it is too large.
    pub fn begin(&mut self, name: &str, file_bytes: u64) -> Result<()> {
        (self.arriving, self.verified) = (None, None);
        name.clone_into(&mut self.name);
        if file_bytes > MOST_BYTES {
            return Err(RuntimeError::OutOfMemory {
                what: format!("file {name}: a page in a browser has room for {MOST_BYTES}"),
                bytes: file_bytes,
            });
        }
        self.arriving = Some(ArrivingFile::new(Path::new(name), file_bytes)?);
        Ok(())
    }

    /// What is to be read next; `None` when there is all that is wanted.
    ///
    /// # Errors
    /// When what is there is damaged, or no file is being read.
    pub fn next_range(&self, wanted: Wanted) -> Result<Option<Range<u64>>> {
        Ok(self.arriving.as_ref().ok_or_else(no_file)?.next_range(wanted)?)
    }

    /// The place for a range of the file.
    pub fn room(&mut self, range: Range<u64>) -> Option<&mut [u8]> {
        self.arriving.as_mut()?.room(range)
    }

    /// Takes note that a range is there.
    pub fn arrived(&mut self, range: Range<u64>) {
        if let Some(file) = &mut self.arriving {
            file.arrived(range);
        }
    }

    /// What `qsf-inspect` says of the file, of which only the parts that describe it need be there.
    ///
    /// # Errors
    /// When it is damaged in these parts.
    pub fn describe(&mut self) -> Result<String> {
        self.arriving.as_mut().ok_or_else(no_file)?.look(|file| text(file, file.meta()?.as_ref(), &[], None))
    }

    /// Verifies the file, all of which is there, and adds it to the report. Gives what `qsf-inspect --verify --tensors` says.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify(&mut self) -> Result<String> {
        let file = self.arriving.take().ok_or_else(no_file)?.into_file()?;
        let verification = verify_file(&file)?;
        let meta = file.meta()?;
        let said = text(&file, meta.as_ref(), &list_tensors(&file, meta.as_ref())?, Some(&verification))?;
        let bytes = file.header().file_bytes;
        let hashed = SourceFile { name: self.name.clone(), bytes, sha256: sha256(file.bytes()) };
        // The same file once more, or another of its name, takes its place.
        self.facts.retain(|known| known.name != self.name);
        self.facts.push(FileFacts::of_verified(&file, &verification, hashed)?);
        self.verified = Some(file);
        Ok(said)
    }

    /// The page that `qsf-inspect report` writes, on all files that were verified.
    pub fn report(&self) -> String {
        page(&self.facts)
    }

    /// The last file that was verified.
    ///
    /// # Errors
    /// When there is none.
    pub fn verified(&self) -> Result<&QsfFile> {
        self.verified.as_ref().ok_or_else(no_file)
    }
}

fn no_file() -> RuntimeError {
    RuntimeError::Request("no file is open".into())
}
