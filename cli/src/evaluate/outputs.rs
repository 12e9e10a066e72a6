//! What a command line of `qsf-eval` writes, and what it reads.

use qsf_runtime::Result;
use qsf_runtime::source::WeightSource;

use super::args::EvalArgs;
use super::base::Base;
use crate::own_files::OwnFiles;

/// That nothing which is read would be lost.
///
/// # Errors
/// When something would be.
pub(super) fn check_outputs(args: &EvalArgs, model: &dyn WeightSource, base: &Base) -> Result<()> {
    let files = OwnFiles::default().reads_model("MODEL", model);
    base.add_to(files, args.base.as_ref())
        .reads("--file", &args.file)
        .reads("--task-file", &args.task_file)
        .reads("--few-shot-file", &args.few_shot_file)
        .reads("--lora", args.stream.adapters.lora.iter().map(|lora| &lora.path))
        .writes("--part-out", &args.part_out)
        .writes("--save-base", &args.save_base)
        .writes("--task-out", &args.task_out)
        .check()
}
