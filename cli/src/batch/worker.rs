//! The process of one job: it converts as `qsf-convert` does, and tells the process that runs the batch what happens.

use std::io::{self, BufRead, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use qsf_converter::{Conversion, ConvertError, ConvertOptions, Result, predict_peak};
use qsf_format::Failure;
use qsf_runtime::memory;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;

use super::fingerprint::SeenFile;
use super::protocol::{Finished, GO, Report, STOP, Stopped};
use crate::interrupt::{end_now, end_soon_as_a_job};

/// Progress is told at most so often.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// A wait for the word to begin looks so often whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The end of the line to the process that runs the batch.
pub struct Worker<'a> {
    cancel: &'a Cancel,
    go: Mutex<Receiver<()>>,
    untold: Mutex<Untold>,
    model: Mutex<Option<FoundModel>>,
}

/// Progress that was not told yet.
struct Untold {
    units: u64,
    since: Instant,
}

/// The model as it was found.
struct FoundModel {
    folder: Option<SeenFile>,
    files: Vec<PathBuf>,
}

impl<'a> Worker<'a> {
    /// Does `work`, and tells what came of it; `classify` knows the classes of its errors. Gives the exit code of the process.
    pub fn run(
        cancel: &'a Cancel,
        classify: impl Fn(&anyhow::Error) -> Failure,
        work: impl FnOnce(&Worker<'a>) -> anyhow::Result<Conversion>,
    ) -> u8 {
        let (sender, go) = channel();
        let listening = cancel.clone();
        // Waits for words until the process ends.
        thread::spawn(move || listen(&listening, &sender));
        let untold = Mutex::new(Untold { units: 0, since: Instant::now() });
        let worker = Worker { cancel, go: Mutex::new(go), untold, model: Mutex::new(None) };
        let made = work(&worker).and_then(|conversion| Ok(worker.finished(&conversion)?));
        match made {
            Ok(finished) => {
                tell(&Report::Finished(Box::new(finished)));
                0
            }
            Err(error) => {
                let exit_code = classify(&error).exit_code();
                tell(&Report::Stopped(Stopped {
                    error: format!("{error:#}"),
                    exit_code,
                    may_pass: may_pass(&error),
                    peak_rss_bytes: memory::peak_resident(),
                }));
                exit_code
            }
        }
    }

    /// Asks for the memory that the conversion will take, and waits until it may begin.
    ///
    /// # Errors
    /// When the model's folder cannot be read, its types do not fit the options, or the job is to stop.
    pub fn ready(&self, source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
        let path = source.path().canonicalize().map_err(|e| ConvertError::io(source.path(), "read", e))?;
        let folder = path.is_dir().then(|| SeenFile::folder_of_model(&path, self.cancel)).transpose()?;
        *lock(&self.model) = Some(FoundModel { folder, files: source.files() });
        tell(&Report::Needs { bytes: predict_peak(source, options)? });
        let go = lock(&self.go);
        loop {
            match go.recv_timeout(LOOK_EVERY) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.cancel.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(self.cancel.check()?),
            }
        }
    }

    fn finished(&self, conversion: &Conversion) -> Result<Finished> {
        let mut model = Vec::new();
        if let Some(FoundModel { folder, files }) = lock(&self.model).take() {
            model.extend(folder);
            for path in files {
                let name =
                    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                let hashed = conversion.sources.iter().find(|file| file.name == name);
                model.extend(hashed.map(|file| SeenFile::of_model(&path, file.sha256.clone())).transpose()?);
            }
        }
        let path =
            conversion.path.canonicalize().map_err(|e| ConvertError::io(&conversion.path, "read", e))?;
        Ok(Finished {
            // The file is whole and has its name: whoever asks to stop now gets it nonetheless.
            file: SeenFile::look("output", &path, &Cancel::default())?,
            missed: conversion.missed.clone(),
            model,
            weights: conversion.weights,
            bits_per_weight: conversion.bits_per_weight(),
            evaluation: conversion.evaluation.clone(),
            peak_rss_bytes: memory::peak_resident(),
        })
    }
}

impl Progress for Worker<'_> {
    fn begin(&self, what: &str, total: u64) {
        *lock(&self.untold) = Untold { units: 0, since: Instant::now() };
        tell(&Report::Begin { what: what.to_owned(), total });
    }

    fn advance(&self, units: u64) {
        let mut untold = lock(&self.untold);
        untold.units += units;
        if untold.since.elapsed() >= TELL_EVERY {
            tell(&Report::Advance { units: untold.units });
            *untold = Untold { units: 0, since: Instant::now() };
        }
    }

    fn end(&self) {}

    fn note(&self, text: &str) {
        tell(&Report::Note { text: text.to_owned() });
    }
}

/// Says a line. When nobody hears it, [`listen`] ends the process.
fn tell(report: &Report) {
    let mut line = serde_json::to_vec(report).expect("numbers, names and texts are JSON");
    line.push(b'\n');
    let mut out = io::stdout().lock();
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Takes the words of the process that runs the batch. When that has gone, this one ends at once: another may be about to do
/// the same job.
fn listen(cancel: &Cancel, go: &Sender<()>) {
    for line in io::stdin().lock().lines() {
        match line.as_deref() {
            Ok(GO) => {
                // Nobody waits for it only when the job is over.
                let _ = go.send(());
            }
            Ok(STOP) => {
                cancel.request();
                end_soon_as_a_job();
            }
            _ => break,
        }
    }
    end_now();
}

/// Errors of disks and networks that come and go; what lacks room, rights or a file does so the next time as well.
fn may_pass(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|error| {
        !matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::AlreadyExists
                | ErrorKind::InvalidInput
                | ErrorKind::InvalidData
                | ErrorKind::UnexpectedEof
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::StorageFull
                | ErrorKind::QuotaExceeded
                | ErrorKind::FileTooLarge
                | ErrorKind::OutOfMemory
        )
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_may_pass_are_tried_again() {
        let of = |kind: ErrorKind| {
            let error = ConvertError::io("x".as_ref(), "read", io::Error::from(kind));
            may_pass(&anyhow::Error::from(error))
        };
        assert!(of(ErrorKind::TimedOut) && of(ErrorKind::ResourceBusy) && of(ErrorKind::Other));
        assert!(!of(ErrorKind::StorageFull) && !of(ErrorKind::NotFound));
        assert!(!may_pass(&anyhow::anyhow!("the model is damaged")));
    }
}
