//! The files of a report, each read once.

use std::path::{Path, PathBuf};

use qsf_runtime::gguf::split::first_of_part;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::gguf::is_gguf;
use qsf_runtime::source::refuse_what_is_no_model;
use qsf_runtime::{Result, RuntimeError};

use super::facts::FileFacts;
use super::gguf_facts::read_gguf;

/// Reads all files. What has the same name as another is called by its path.
///
/// # Errors
/// When a file cannot be read or is damaged, or the user interrupts: that of the first such file.
pub fn read_files(paths: &[PathBuf], progress: &dyn Progress, cancel: &Cancel) -> Result<Vec<FileFacts>> {
    let total = paths.iter().filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum();
    progress.begin("reading", total);
    // Who writes *.gguf names all parts of a model; the first brings the others.
    let paths: Vec<PathBuf> = paths.iter().filter(|path| !is_with_its_first(path, paths)).cloned().collect();
    let mut files = Vec::new();
    for path in &paths {
        cancel.check()?;
        let file = read_file(path, cancel)?;
        progress.advance(file.bytes);
        files.push(file);
    }
    progress.end();
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    for (file, path) in files.iter_mut().zip(&paths) {
        if names.iter().filter(|name| **name == file.name).count() > 1 {
            file.name = path.display().to_string();
        }
    }
    Ok(files)
}

fn is_with_its_first(path: &Path, all: &[PathBuf]) -> bool {
    first_of_part(path).is_some_and(|first| all.contains(&first))
}

fn read_file(path: &Path, cancel: &Cancel) -> Result<FileFacts> {
    if is_gguf(path) {
        return read_gguf(path, cancel);
    }
    refuse_what_is_no_qsf_file(path)?;
    FileFacts::read(path, cancel)
}

/// A page shows what the converter has written of itself.
fn refuse_what_is_no_qsf_file(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return refuse_what_is_no_model(path);
    }
    let found = "a directory; convert it with qsf-convert first";
    Err(RuntimeError::bad_input(path, "the path", "a QSF or GGUF file", found))
}
