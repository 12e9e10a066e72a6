//! Where a file came from: names, sizes and SHA-256 of the files that were read.

use std::path::PathBuf;

use qsf_format::SourceFile;
use qsf_runtime::file_hash::hash_file;
use qsf_runtime::progress::Cancel;
use rayon::prelude::*;

use crate::error::Result;

/// What META names as the tool.
pub const TOOL: &str = concat!("qsf-convert ", env!("CARGO_PKG_VERSION"));

/// Name, size and hash of every file, sorted by name; given up when one of `stops` is requested.
///
/// # Errors
/// When a file cannot be read, or one of `stops` is requested.
pub fn hash_files(paths: &[PathBuf], stops: &[&Cancel]) -> Result<Vec<SourceFile>> {
    let hashed: qsf_runtime::Result<Vec<_>> = paths.par_iter().map(|path| hash_file(path, stops)).collect();
    let mut files = hashed?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
