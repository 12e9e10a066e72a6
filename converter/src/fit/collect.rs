//! Statistics without a conversion: of a text or a part of it, and sums of several.

use std::path::{Path, PathBuf};

use qsf_calibration::{MergedStats, StatsHeader};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;

use super::statistics::StatsFiles;
use crate::checks::refuse_own_input;
use crate::error::Result;
use crate::session::Session;

/// A file of statistics to write.
#[derive(Debug, Clone, Copy)]
pub struct StatisticsFile<'a> {
    /// Where.
    pub path: &'a Path,
    /// Replace what is there.
    pub force: bool,
}

/// Runs `tokens` through the model and writes the statistics of its inputs to `out`. A file that is there already, of this model
/// and these tokens, is left as it is.
///
/// # Errors
/// When the model is damaged, the file is there and of something else, it cannot be written, or the user interrupts.
pub fn collect_statistics(
    source: &dyn WeightSource,
    tokens: &[u32],
    out: StatisticsFile<'_>,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<()> {
    let StatisticsFile { path, force } = out;
    refuse_own_input(source, path)?;
    let mut files = StatsFiles::open(source, &[], Some(path.to_owned()), tokens, force)?;
    if files.writes() {
        files.for_each_layer(source, &Session { cpu, tokens, progress, cancel }, |_| Ok(()))?;
    } else {
        progress.note(&format!("{} is there already, of this model and text", path.display()));
    }
    Ok(())
}

/// Adds up statistics files of one model, in the order in which they are given, and writes the sums to `out`. Gives what they
/// are of.
///
/// # Errors
/// When a file is damaged or of another model, or `out` cannot be written.
pub fn merge_statistics(files: &[PathBuf], out: &Path, force: bool) -> Result<StatsHeader> {
    let mut merged = MergedStats::open(files)?;
    merged.write(out, force)?;
    Ok(merged.header().clone())
}
