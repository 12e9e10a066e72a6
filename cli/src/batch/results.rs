//! `results.jsonl`: what came of each job, one record a line, on the disk before the next job is said to be done. Of several
//! records of an output the last one counts.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use qsf_converter::rejected_path;
use qsf_format::{Links, open_side_file, read_side_file};
use qsf_runtime::progress::Cancel;
use serde_json::json;

use super::args::Shard;
use super::error::BatchError;
use super::fingerprint::fingerprint;
use super::job::BatchJob;
use super::record::{Record, State};
use super::result_lines::read_lines;
use crate::json_document::document;

/// The records of a folder, and the file that new ones go to, which is this process's alone.
pub struct Results {
    path: PathBuf,
    /// `None` where new ones are somebody else's to write down.
    file: Option<File>,
    by_output: HashMap<PathBuf, Record>,
}

impl Results {
    /// Opens the results in `folder`, which is made.
    ///
    /// # Errors
    /// When another process has them, they cannot be read or written, or hold a line that is no record. Then they are as they were.
    pub fn open(folder: &Path, shard: Shard) -> Result<Results, BatchError> {
        fs::create_dir_all(folder).map_err(|e| BatchError::io(folder, "make", e))?;
        let path = folder.join(shard.results_name());
        let mut file = open_side_file(&path, Links::Refused)?;
        // The system gives the lock up with the process, however that ends. Where files have none, go on without.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(BatchError::Busy { path });
        }
        let mut results = Results { path: path.clone(), file: None, by_output: HashMap::new() };
        let read = read_lines(&path, &file, |record| results.take(record))?;
        read.check_rest(&path)?;
        results.take_others(folder)?;
        // What a crash left of the last line is cut off.
        let ready = file.set_len(read.end).and_then(|()| file.seek(SeekFrom::Start(read.end)));
        ready.map_err(|e| BatchError::io(&path, "write", e))?;
        results.file = Some(file);
        Ok(results)
    }

    /// What is known of a folder, which nothing is written to.
    ///
    /// # Errors
    /// When results cannot be read, or hold a line that is no record.
    pub fn read(folder: &Path) -> Result<Results, BatchError> {
        let mut results = Results::known(None);
        if folder.is_dir() {
            results.take_others(folder)?;
        }
        Ok(results)
    }

    /// No more than `record`; new ones are kept in memory.
    pub fn known(record: Option<Record>) -> Results {
        let by_output = record.map(|record| (record.output.clone(), record)).into_iter().collect();
        Results { path: PathBuf::new(), file: None, by_output }
    }

    fn take_others(&mut self, folder: &Path) -> Result<(), BatchError> {
        for other in other_results(folder, &self.path)? {
            let file = read_side_file(&other, Links::Followed)?;
            // Its process may be in the middle of a line.
            read_lines(&other, &file, |record| self.take(record))?;
        }
        Ok(())
    }

    /// The last record of an output.
    pub fn of(&self, output: &Path) -> Option<&Record> {
        self.by_output.get(output)
    }

    /// The last record of an output, if it says that there is a file.
    fn made(&self, output: &Path) -> Option<&Record> {
        self.of(output).filter(|record| record.state != State::Failed)
    }

    /// The record of a job whose file, inputs and options are what they were; and whether it is to be written again, because
    /// times have changed.
    ///
    /// # Errors
    /// When `cancel` is requested.
    pub fn done_before(
        &self,
        job: &BatchJob,
        out_dir: &Path,
        cancel: &Cancel,
    ) -> qsf_converter::Result<Option<(Record, bool)>> {
        let Some(old) = self.made(&job.output).filter(|_| job.missing.is_empty()) else {
            return Ok(None);
        };
        let mut record = old.clone();
        let output = out_dir.join(&job.output);
        let expected = if record.state == State::Done { output } else { rejected_path(&output) };
        let Some(file) = &mut record.file else { return Ok(None) };
        // The folder may have been moved.
        file.path = expected;
        let named = record.inputs.iter().filter(|file| !file.is_of_model());
        let same_names =
            named.map(|file| (&file.role, &file.path)).eq(job.inputs.iter().map(|(r, p)| (r, p)));
        if record.model != job.model_name()
            || !same_names
            || !job.also_written.iter().all(|path| path.is_file())
        {
            return Ok(None);
        }
        if record.fingerprint.as_ref() != Some(&fingerprint(&job.settings, &record.inputs)) {
            return Ok(None);
        }
        for file in record.inputs.iter_mut().chain(&mut record.file) {
            if !file.is_unchanged(cancel)? {
                return Ok(None);
            }
        }
        let refreshed = record.inputs != old.inputs || record.file != old.file;
        Ok(Some((record, refreshed)))
    }

    /// Adds what came of `job`. One that could not begin has changed nothing: what an earlier batch made is still there, and
    /// so is its record.
    ///
    /// # Errors
    /// When writing fails.
    pub fn note(&mut self, job: &BatchJob, record: Record) -> Result<(), BatchError> {
        if !job.missing.is_empty() && self.made(&job.output).is_some() {
            return Ok(());
        }
        self.append(record)
    }

    /// Adds a record; it survives a crash once this returns.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append(&mut self, record: Record) -> Result<(), BatchError> {
        let written = document("batch_record", json!(record));
        let mut line = serde_json::to_vec(&written).expect("numbers, names and texts are JSON");
        line.push(b'\n');
        if let Some(file) = &mut self.file {
            let end = file.stream_position().map_err(|e| BatchError::io(&self.path, "write", e))?;
            let written = file.write_all(&line).and_then(|()| file.sync_data());
            if let Err(error) = written {
                // A part of a line would spoil the next one. If this fails as well, the next start cuts it off.
                let _ = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
                return Err(BatchError::io(&self.path, "write", error));
            }
        }
        self.by_output.insert(record.output.clone(), record);
        Ok(())
    }

    fn take(&mut self, record: Record) {
        let newer = self.by_output.get(&record.output).is_none_or(|old| old.ended_ms <= record.ended_ms);
        if newer {
            self.by_output.insert(record.output.clone(), record);
        }
    }
}

/// Whether there are results in a folder.
pub fn exist(folder: &Path) -> bool {
    other_results(folder, Path::new("")).is_ok_and(|paths| !paths.is_empty())
}

/// The results of shards, or of all jobs, beside `own`.
fn other_results(folder: &Path, own: &Path) -> Result<Vec<PathBuf>, BatchError> {
    let failed = |e| BatchError::io(folder, "read", e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("results") && name.ends_with(".jsonl") && path != own {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(output: &str, ended_ms: u64) -> Record {
        let json = serde_json::json!({
            "output": output, "model": "m", "state": "done", "exit_code": 0, "attempts": 1, "seconds": 0.5,
            "ended_ms": ended_ms, "inputs": [], "options": {},
        });
        serde_json::from_value(json).unwrap()
    }

    /// Opens results of all jobs. A process that another test is starting has a copy of a lock until it is another program, so a lock is
    /// waited for.
    fn open(folder: &Path) -> Result<Results, BatchError> {
        let mut tries = 0;
        loop {
            match Results::open(folder, Shard::ALL) {
                Err(BatchError::Busy { .. }) if tries < 100 => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                opened => return opened,
            }
        }
    }

    #[test]
    fn the_last_record_counts_and_a_torn_line_never_was() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = open(dir.path()).unwrap();
        results.append(record("a.qsf", 1)).unwrap();
        results.append(record("a.qsf", 2)).unwrap();
        results.append(record("b.qsf", 3)).unwrap();
        drop(results);
        let path = dir.path().join("results.jsonl");
        let whole = fs::read(&path).unwrap();
        for cut in [1, 10, 100] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut results = open(dir.path()).unwrap();
            assert_eq!(results.of(Path::new("a.qsf")).unwrap().ended_ms, 2);
            assert_eq!(results.of(Path::new("b.qsf")), None);
            results.append(record("c.qsf", 4)).unwrap();
            drop(results);
            assert_eq!(open(dir.path()).unwrap().of(Path::new("c.qsf")).unwrap().ended_ms, 4);
        }
        fs::write(&path, "{\"output\": 1}\n").unwrap();
        let error = open(dir.path()).map(drop).unwrap_err().to_string();
        assert!(error.contains("results.jsonl") && error.contains("line 1"), "{error}");
        fs::write(&path, "{\"schema\": 2}\n").unwrap();
        let error = open(dir.path()).map(drop).unwrap_err().to_string();
        assert!(error.contains("expected schema 1, found 2"), "{error}");
    }

    #[test]
    fn what_no_batch_has_written_is_refused_and_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        open(dir.path()).unwrap().append(record("a.qsf", 1)).unwrap();
        let ours = fs::read_to_string(&path).unwrap();
        for (text, line) in [
            // Without an end, which is what a crash leaves of a record.
            ("{\"my\": \"results of another program\"}".to_owned(), "line 1"),
            ("{\"my\": \"results of anoth".to_owned(), "line 1"),
            ("my results".to_owned(), "line 1"),
            ("{\"a\": 1}\n{\"precious\": \"last line\"}".to_owned(), "line 1"),
            ("{\"a\": 1}\n{\"attempts\": 1".to_owned(), "line 1"),
            (format!("{ours}my notes"), "line 2"),
            (format!("{ours}{{\"precious\": \"last line\"}}"), "line 2"),
            ("x".repeat(5 << 20), "line 1 is no record of a job (it has more than"),
        ] {
            fs::write(&path, &text).unwrap();
            let error = open(dir.path()).map(drop).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
            assert_eq!(error.failure().exit_code(), 3);
            assert!(fs::read_to_string(&path).unwrap() == text, "{error}");
        }
        // What a crash may leave of the first record, and of a later one whose bytes the system had not written yet.
        for torn in
            [ours[..ours.len() / 2].to_owned(), ours.trim_end().to_owned(), format!("{ours}{{\"at\0\0")]
        {
            fs::write(&path, &torn).unwrap();
            let results = open(dir.path()).unwrap();
            assert_eq!(results.of(Path::new("a.qsf")).is_some(), torn.contains('\n'), "{torn}");
            assert_eq!(fs::read_to_string(&path).unwrap().len(), torn.find('\n').map_or(0, |at| at + 1));
        }
    }

    #[test]
    fn records_with_the_names_of_before_there_was_a_schema_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let old = r#"{"output": "a.qsf", "model": "m", "state": "done", "exit_code": 0, "attempts": 1, "bytes": 9,
            "perplexity": 2.5, "base_perplexity": 2.0, "kld": 0.5, "predicted_rss_bytes": 7, "seconds": 0.5, "ended_ms": 1,
            "file": {"role": "output", "path": "a.qsf", "bytes": 9, "modified_ns": 1, "sha256": ""}, "inputs": [], "options": {}}"#;
        fs::write(dir.path().join("results.jsonl"), old.replace('\n', "") + "\n").unwrap();
        let results = open(dir.path()).unwrap();
        let found = results.of(Path::new("a.qsf")).unwrap();
        assert_eq!((found.file_bytes, found.ppl, found.kld_mean), (Some(9), Some(2.5), Some(0.5)));
        assert_eq!((found.base_ppl, found.predicted_peak_rss_bytes), (Some(2.0), Some(7)));
        assert_eq!(found.file.as_ref().unwrap().file_bytes, 9);
    }

    #[test]
    fn one_process_at_a_time_has_them_and_shards_see_each_other_s() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path()).unwrap();
        let error = Results::open(dir.path(), Shard::ALL).map(drop).unwrap_err();
        assert!(matches!(error, BatchError::Busy { .. }), "{error}");
        let mut second = Results::open(dir.path(), "1/2".parse().unwrap()).unwrap();
        second.append(record("a.qsf", 7)).unwrap();
        drop((first, second));
        let all = open(dir.path()).unwrap();
        assert_eq!(all.of(Path::new("a.qsf")).unwrap().ended_ms, 7);
    }
}
