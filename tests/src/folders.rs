//! What stands in a folder before and after: a failed run must leave it as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The contents of every file in a folder and below.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, Vec<u8>>);

impl Snapshot {
    /// Reads all files below `dir`; a missing folder is an empty one.
    pub fn of(dir: &Path) -> Snapshot {
        let mut files = BTreeMap::new();
        collect(dir, &mut files);
        Snapshot(files)
    }

    /// What has changed since, by path: empty when nothing has.
    pub fn changes(&self, later: &Snapshot) -> Vec<String> {
        let gone = self.0.keys().filter(|path| !later.0.contains_key(*path)).map(|p| ("gone", p));
        let new = later.0.keys().filter(|path| !self.0.contains_key(*path)).map(|p| ("new", p));
        let other = self.0.iter().filter(|(path, bytes)| later.0.get(*path).is_some_and(|b| b != *bytes));
        let changed = other.map(|(p, _)| ("changed", p));
        gone.chain(new).chain(changed).map(|(what, path)| format!("{what}: {}", path.display())).collect()
    }
}

fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, files);
        } else {
            // A link to nowhere counts as empty.
            let bytes = fs::read(&path).unwrap_or_default();
            files.insert(path, bytes);
        }
    }
}

/// Outputs and unfinished outputs directly in `dir`.
pub fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "qsf" || e == "partial")).collect()
}
