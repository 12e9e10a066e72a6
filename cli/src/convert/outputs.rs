//! What a command line of `qsf-convert` writes, and what it reads.

use std::path::PathBuf;

use qsf_converter::Calibration;
use qsf_runtime::Result;
use qsf_runtime::source::WeightSource;

use super::args::ConvertArgs;
use crate::own_files::OwnFiles;

/// That nothing which is read would be lost: not the model of `source`, where one is open, nor any other file. OUT is `out`, where it
/// is written.
///
/// # Errors
/// When something would be.
pub(super) fn check_outputs(
    args: &ConvertArgs,
    source: Option<&dyn WeightSource>,
    out: Option<&PathBuf>,
) -> Result<()> {
    let mut files = OwnFiles::default();
    if let Some(source) = source {
        files = files.reads_model("MODEL", source);
    }
    let texts = args.calibration.iter().filter(|path| !Calibration::is_written(path));
    files
        .reads("--calibration", texts)
        .reads("--eval", &args.eval)
        .reads("--plan", &args.plan)
        .reads("--stats-in", &args.stats_in)
        .reads("--merge-stats", &args.merge_stats)
        .reads("--imatrix", &args.imatrix)
        .reads("--merge-lora", args.merge_lora.iter().map(|lora| &lora.path))
        .reads("--embed-lora", args.embed_lora.iter().map(|lora| &lora.path))
        .writes("OUT", out)
        .writes("--save-plan", &args.save_plan)
        .writes("--stats-out", &args.stats_out)
        .check()
}
