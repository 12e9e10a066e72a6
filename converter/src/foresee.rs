//! What is known of a file before it is made, from names and shapes: a limit that it cannot keep, a disk or memory that is too small,
//! and a result that will disappoint. The user hears of it now, not hours later.

use std::path::Path;

use qsf_format::{Compression, ModelConfig, human_bytes};
use qsf_runtime::disk::free_bytes;
use qsf_runtime::memory;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::GgufNames;

use crate::error::{ConvertError, Result};
use crate::fit::{TOKENS_PER_COLUMN, moment_rows, packed_bytes, uses_gradients};
use crate::gguf::header_bytes;
use crate::hf::directory_bytes;
use crate::options::ConvertOptions;
use crate::plan::Plan;
use crate::sections::{text_bytes, unhashed_provenance};
use crate::tune::{journal_bytes, tuned_tokens};

/// Names that belong to files of other programs.
const FOREIGN: [&str; 6] = ["safetensors", "bin", "pt", "pth", "mlx", "npz"];

/// Refuses what cannot be: a file that is larger than it may be, or than there is room for.
///
/// # Errors
/// When the file cannot keep a limit, or the disk has too little room.
pub(crate) fn check_room(
    source: &dyn WeightSource,
    out: &Path,
    plan: &Plan,
    options: &ConvertOptions,
) -> Result<()> {
    let least = least_bytes(source, plan, options)?;
    if let (Some(most), Some(target)) = (options.limits.max_size, options.size_limit)
        && target > most
    {
        let (target, most) = (human_bytes(target), human_bytes(most));
        let problem =
            format!("a file of up to {target} is to be made, and --max-size allows {most}: give one of them");
        return Err(qsf_runtime::RuntimeError::Request(problem).into());
    }
    // What a batch makes is kept to be looked at, whatever it misses.
    if let Some(limit) = options.limits.max_size.filter(|limit| least > *limit && !options.keep_tensors) {
        return Err(ConvertError::WouldMiss { limit, least });
    }
    let needed = needed_on_disk(source, least, options);
    match free_bytes(out) {
        Some(free) if free < needed => Err(ConvertError::DiskTooSmall { path: out.to_owned(), needed, free }),
        _ => Ok(()),
    }
}

/// Bytes that the file has at least; 0 where that follows from what is measured or compressed.
fn least_bytes(source: &dyn WeightSource, plan: &Plan, options: &ConvertOptions) -> Result<u64> {
    let types_are_open = options.size_limit.is_some() && options.replay.is_none();
    if let Some(hf) = options.hf.filter(|hf| hf.groups.is_none() || !types_are_open) {
        return directory_bytes(source, hf, plan);
    }
    if options.compression != Compression::None || types_are_open {
        return Ok(0);
    }
    let values = plan.predicted_bytes(options.block).unwrap_or(u64::MAX).saturating_sub(plan.outlier_bytes());
    let described = match options.gguf {
        None => text_bytes(source)?,
        Some(_) => {
            let provenance = unhashed_provenance(source, options.normalised())?;
            vec![header_bytes(source, plan, provenance, options.evaluation.is_some(), options.split_size)?]
        }
    };
    Ok(described.into_iter().fold(values, u64::saturating_add))
}

/// Bytes that a conversion writes. One along a text keeps a journal as large as the file, two streams of hidden
/// states, and what gradients say of each matrix.
fn needed_on_disk(source: &dyn WeightSource, least: u64, options: &ConvertOptions) -> u64 {
    match &options.calibration {
        None => least,
        Some(text) => {
            let streams = 2 * 4 * text.tokens.len() as u64 * u64::from(source.config().hidden);
            let moments = |layer| moment_rows(source, layer).map(packed_bytes).sum::<u64>();
            let gradients = match uses_gradients(source, options.effort, text.tokens.len()) {
                true => {
                    let embedding = packed_bytes(u64::from(source.config().hidden));
                    (0..source.config().layers).map(moments).sum::<u64>() + embedding
                }
                false => 0,
            };
            let tuning = match tuned_tokens(source, options.effort, text.tokens.len()) {
                0 => 0,
                _ => journal_bytes(source),
            };
            [streams, gradients, tuning].into_iter().fold(least.saturating_mul(2), u64::saturating_add)
        }
    }
}

/// What is to be said of a conversion whose result will disappoint, though it can be made.
pub(crate) fn warnings(
    source: &dyn WeightSource,
    out: Option<&Path>,
    plan: &Plan,
    options: &ConvertOptions,
) -> Vec<String> {
    let mut found = Vec::new();
    let foreign = out
        .and_then(Path::extension)
        .and_then(|end| FOREIGN.into_iter().find(|foreign| end.eq_ignore_ascii_case(foreign)));
    if let (Some(foreign), Some(out)) = (foreign, out) {
        let made = match (&options.hf, &options.gguf) {
            (Some(_), _) => "a directory of this name will be made",
            (None, Some(_)) => "the file will be GGUF",
            (None, None) => "the file will be QSF",
        };
        found.push(format!("{}: {made}, though its name ends in .{foreign}", out.display()));
    }
    if source.tokenizer_json().is_none() {
        found.push(format!(
            "{}: the model has no tokenizer, and the file will have none: qsf-run and qsf-eval cannot read text with it",
            source.path().display()
        ));
    }
    found.extend(options.gguf.and(lost_window(source.config())));
    if options.early_exit.is_some()
        && let Some(why) = source.config().never_left_early()
    {
        found.push(format!(
            "early exits are not learned: a model with {why} cannot be left early (--early-exit)"
        ));
    }
    let widest = plan.tensors().iter().filter(|t| t.info.id.kind.is_matrix()).map(|t| t.info.cols).max();
    let wanted = widest.unwrap_or(0).saturating_mul(TOKENS_PER_COLUMN);
    if let Some(text) = &options.calibration
        && options.stats_in.is_empty()
        && text.tokens.len() < wanted
    {
        found.push(format!(
            "the calibration text has {} tokens: so few can make the file worse than none; take {wanted} or more",
            text.tokens.len()
        ));
    }
    found
}

/// llama.cpp gives two of its architectures no sliding window, whatever their files say (src/models/llama.cpp and phi3.cpp of
/// llama-cpp-python 0.3.36).
fn lost_window(config: &ModelConfig) -> Option<String> {
    let architecture = GgufNames::of(config)?.architecture();
    let window = config.sliding_window.as_ref().filter(|_| ["llama", "phi3"].contains(&architecture))?;
    Some(format!(
        "llama.cpp attends to all of a text in models of architecture {architecture}: it differs from this model behind {} tokens, \
         the sliding window",
        window.size
    ))
}

/// A warning where a file of so many `bytes` leaves much of its target: no types would make it better.
pub(crate) fn target_warning(bytes: u64, options: &ConvertOptions) -> Option<String> {
    let limit = options
        .size_limit
        .filter(|limit| options.hf.is_none_or(|hf| hf.groups.is_some()) && bytes < limit / 10 * 9)?;
    let (bytes, limit) = (human_bytes(bytes), human_bytes(limit));
    Some(format!(
        "of {limit} the file takes {bytes}: no larger types would make it better; --quant f16 keeps the weights as they are"
    ))
}

/// A warning where the conversion is predicted to need more memory than there is.
pub(crate) fn memory_warning(predicted: u64) -> Option<String> {
    let free = memory::available().filter(|free| predicted > *free)?;
    let (predicted, free) = (human_bytes(predicted), human_bytes(free));
    Some(format!(
        "the conversion may need {predicted} of memory, and {free} are free: it may be slow, or be killed"
    ))
}
