//! What cannot end well, found before anything is read: the user hears it now, not when everything else is done.

use std::collections::BTreeSet;
use std::path::Path;

use qsf_format::{BlockSize, FormatError, MAX_CLUSTERS, QuantType};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;

use crate::error::{ConvertError, Result};
use crate::limits::rejected_path;
use crate::options::ConvertOptions;
use crate::plan::{Plan, PlannedTensor};

/// The output, and the sections that are asked for.
pub(crate) fn check_request(source: &dyn WeightSource, out: &Path, options: &ConvertOptions) -> Result<()> {
    refuse_own_input(source, out)?;
    refuse_old_rejected(out, options)?;
    check_cluster_count(source, options)?;
    check_layer_count(source, options)
}

/// An output that is one of the inputs would destroy it, `--force` or not.
pub(crate) fn refuse_own_input(source: &dyn WeightSource, out: &Path) -> Result<()> {
    let Ok(out_path) = out.canonicalize() else { return Ok(()) };
    let is_input = source.files().iter().any(|file| file.canonicalize().is_ok_and(|f| f == out_path));
    if is_input { Err(ConvertError::OutputIsInput { path: out.to_owned() }) } else { Ok(()) }
}

/// What misses its limits gets another name, which may be taken as well.
fn refuse_old_rejected(out: &Path, options: &ConvertOptions) -> Result<()> {
    let path = rejected_path(out);
    if options.limits.any() && !options.force && path.symlink_metadata().is_ok() {
        return Err(FormatError::Exists { path }.into());
    }
    Ok(())
}

/// A vocabulary has no more clusters than tokens, and the format a bound of its own.
fn check_cluster_count(source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
    let (vocab, count) = (source.config().vocab, options.clusters.as_ref().map_or(1, |c| c.count));
    let most = vocab.min(MAX_CLUSTERS);
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let problem = format!("--clusters {count}: expected 1 to {most} for a vocabulary of {vocab}");
    Err(RuntimeError::Request(problem).into())
}

/// An early exit stands between two layers.
fn check_layer_count(source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
    if options.early_exit.is_none() || source.config().layers > 1 {
        return Ok(());
    }
    Err(RuntimeError::Request("--early-exit: a model of one layer cannot be left before its last".into())
        .into())
}

/// A tokenizer that no reader could use, or that is not what the source says, is found by us and not by whoever gets the file.
pub(crate) fn check_tokenizer(source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
    let Some(json) = source.tokenizer_json() else { return Ok(()) };
    let tokenizer = Tokenizer::from_json(json, &source.path().join("tokenizer.json"))?;
    if !options.skip_tokenizer_check {
        source.check_tokenizer(&tokenizer).map_err(ConvertError::TokenizerDiffers)?;
    }
    Ok(())
}

/// Flags that would change nothing of this file: whoever gives one expects something of it.
pub(crate) fn check_effect(plan: &Plan, options: &ConvertOptions) -> Result<()> {
    if options.size_limit.is_some() {
        // The types are not known yet.
        return Ok(());
    }
    let takes_outliers = || plan.tensors().iter().any(|t| !t.form().outliers_in(t.info.cols).is_none());
    let sized = |quant: QuantType| quant.block_size(BlockSize::B32) != quant.block_size(BlockSize::B64);
    let fits_something = options.early_exit.is_some() || options.stats_out.is_some();
    let problem = if !options.outliers.share().is_none() && !takes_outliers() {
        "--outliers: no tensor of this file is stored in blocks that weights could be kept apart from"
    } else if options.block != BlockSize::B64 && !plan.tensors().iter().any(|t| sized(t.quant)) {
        "--block-size: the types of this file have no block size, or one of their own"
    } else if options.calibration.is_some() && !plan.quantizes() && !fits_something {
        "--calibration: nothing of this file is quantized, so nothing would be fitted to the text"
    } else {
        return Ok(());
    };
    let types: BTreeSet<&str> = plan.tensors().iter().map(|t| t.quant.name()).collect();
    let types = types.into_iter().collect::<Vec<_>>().join(", ");
    Err(RuntimeError::Request(format!("{problem} ({types}); leave the flag out")).into())
}

/// What a block size has an effect on, where that is not all that is quantized.
pub(crate) fn block_size_note(plan: &Plan, options: &ConvertOptions) -> Option<String> {
    let sized = |t: &&PlannedTensor| t.quant.block_size(BlockSize::B32) != t.quant.block_size(BlockSize::B64);
    let quantized = || plan.tensors().iter().filter(|t| !t.quant.is_float());
    let (of, all) = (quantized().filter(sized).count(), quantized().count());
    (options.block != BlockSize::B64 && options.size_limit.is_none() && of < all).then(|| {
        let size = u16::from(options.block);
        format!("--block-size {size} holds for {of} of {all} quantized tensors; the types of the others have their own")
    })
}

/// Errors of quantizing what is quantized already add up: only who asks for that gets it.
pub(crate) fn check_requantizing(
    source: &dyn WeightSource,
    plan: &Plan,
    options: &ConvertOptions,
) -> Result<()> {
    let types = source.quantized_from();
    let quantizes = plan.quantizes() || options.size_limit.is_some();
    if !types.is_empty() && quantizes && !options.allow_requantize {
        return Err(ConvertError::Requantize { path: source.path().to_owned(), types: types.join(", ") });
    }
    Ok(())
}
