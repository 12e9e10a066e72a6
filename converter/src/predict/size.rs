//! Bytes of the file, from the plan.

use std::fs;

use qsf_format::{Provenance, SourceFile};
use qsf_runtime::source::WeightSource;

use crate::error::{ConvertError, Result};
use crate::options::ConvertOptions;
use crate::plan::{Plan, SizeModel};
use crate::sections::bytes_expected;

/// Bytes of the file, uncompressed.
pub(super) fn predicted_file_bytes(
    source: &dyn WeightSource,
    plan: &Plan,
    options: &ConvertOptions,
    provenance: Provenance,
) -> Result<u64> {
    let sections = bytes_expected(source, plan, provenance)?;
    let (config, block, layout) = (source.config(), options.block, options.layout);
    Ok(SizeModel { config, block, layout, sections: &sections }.file_bytes(plan))
}

/// Files of the source with hashes that are none: they take as much room as real ones.
pub(super) fn unhashed_files(source: &dyn WeightSource) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    for path in source.files() {
        let bytes = fs::metadata(&path).map_err(|e| ConvertError::io(&path, "read", e))?.len();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let sha256 = qsf_runtime::file_hash::sha256(name.as_bytes());
        sources.push(SourceFile { name, bytes, sha256 });
    }
    Ok(sources)
}
