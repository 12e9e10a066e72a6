//! What a command line of `qsf-run` writes, and what it reads.

use qsf_runtime::Result;
use qsf_runtime::source::WeightSource;

use super::args::RunArgs;
use crate::own_files::OwnFiles;

/// That nothing which is read would be lost.
///
/// # Errors
/// When something would be.
pub(super) fn check_outputs(args: &RunArgs, model: &dyn WeightSource) -> Result<()> {
    OwnFiles::default()
        .reads_model("MODEL", model)
        .reads("--file", &args.file)
        .reads("--prompts", &args.many.prompts)
        .reads("--classify", &args.classes.classify)
        .reads("--lora", args.stream.adapters.lora.iter().map(|lora| &lora.path))
        .writes("--attention", &args.look.attention)
        .writes("--results", &args.many.results)
        .check()
}
