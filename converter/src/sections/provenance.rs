//! Where a file came from: names, sizes and SHA-256 of the files that were read.

use std::fs;
use std::path::PathBuf;

use qsf_format::{Provenance, SourceFile};
use qsf_runtime::file_hash::hash_file;
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::WeightSource;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::error::{ConvertError, Result};

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

/// What a file will say of its origin, with hashes that take as much room as the true ones.
///
/// # Errors
/// When a file of the source cannot be looked at.
pub(crate) fn unhashed_provenance(
    source: &dyn WeightSource,
    options: Map<String, Value>,
) -> Result<Provenance> {
    let (tool, sources) = (TOOL.into(), unhashed_files(source)?);
    Ok(Provenance { tool, sources, requantized_from: source.quantized_from(), options })
}

/// Files of the source with hashes that are none: they take as much room as real ones.
///
/// # Errors
/// When one of them cannot be looked at.
pub(crate) fn unhashed_files(source: &dyn WeightSource) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    for path in source.files() {
        let bytes = fs::metadata(&path).map_err(|e| ConvertError::io(&path, "read", e))?.len();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let sha256 = qsf_runtime::file_hash::sha256(name.as_bytes());
        sources.push(SourceFile { name, bytes, sha256 });
    }
    Ok(sources)
}
