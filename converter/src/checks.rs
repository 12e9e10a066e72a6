//! What cannot end well, found before anything is read: the user hears it now, not when everything else is done.

use std::path::{Path, PathBuf};

use qsf_format::{BlockSize, FormatError, MAX_CLUSTERS, PartialFile};
use qsf_runtime::RuntimeError;
use qsf_runtime::eval::check_tokens;
use qsf_runtime::file_identity::FileIdentity;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;

use crate::error::{ConvertError, Result};
use crate::gguf::files_there;
use crate::hf::check_companions;
use crate::limits::rejected_path;
use crate::options::ConvertOptions;
use crate::plan::{Plan, PlannedTensor};

/// The output, and the sections that are asked for.
pub(crate) fn check_request(source: &dyn WeightSource, out: &Path, options: &ConvertOptions) -> Result<()> {
    refuse_own_input(source, out)?;
    refuse_own_parts(source, out, options)?;
    refuse_old_rejected(out, options)?;
    if options.hf.is_some() {
        check_companions(source)?;
    }
    check_cluster_count(source, options)?;
    check_layer_count(source, options)?;
    // A journal that ends at such a token would never be gone on with.
    let text = options.calibration.as_ref().map_or(&[][..], |text| &text.tokens);
    Ok(check_tokens(text, source.config().vocab)?)
}

/// An output that is one of the inputs would destroy it, `--force` or not. So would the name that an output has until it is whole.
pub(crate) fn refuse_own_input(source: &dyn WeightSource, out: &Path) -> Result<()> {
    let written = FileIdentity::of(out);
    let is_lost =
        |file: &PathBuf| FileIdentity::of(file).is_lost_by(&written) || PartialFile::is_partial_of(file, out);
    let is_input = source.files().iter().any(is_lost);
    if is_input { Err(ConvertError::OutputIsInput { path: out.to_owned() }) } else { Ok(()) }
}

/// How many files a split model makes is known in the end: none of those may be an input that one of them could replace.
fn refuse_own_parts(source: &dyn WeightSource, out: &Path, options: &ConvertOptions) -> Result<()> {
    if options.split_size.is_none() {
        return Ok(());
    }
    let inputs: Vec<FileIdentity> = source.files().iter().map(|file| FileIdentity::of(file)).collect();
    let is_input = |file: FileIdentity| inputs.iter().any(|input| input.is(&file));
    match files_there(out).into_iter().find(|file| is_input(FileIdentity::of(file))) {
        Some(path) => Err(ConvertError::OutputIsInput { path }),
        None => Ok(()),
    }
}

/// What misses its limits gets another name, which may be taken as well.
fn refuse_old_rejected(out: &Path, options: &ConvertOptions) -> Result<()> {
    let path = rejected_path(out);
    let parts = if options.split_size.is_some() { files_there(&path) } else { Vec::new() };
    let path = parts.into_iter().next().unwrap_or(path);
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

/// What is to be said of flags that change nothing of this file, or little: whoever gives one expects something of it.
pub(crate) fn notes_on_flags(plan: &Plan, options: &ConvertOptions) -> Vec<String> {
    let mut notes = Vec::new();
    if options.replay.as_ref().is_some_and(|replay| replay.edited) {
        notes.push(
            "the types of the plan were edited: the file will be another one, of another size".to_owned(),
        );
    }
    if options.types_chosen() {
        // Either they are not known yet, or somebody has chosen each of them.
        return notes;
    }
    let tensors = plan.tensors();
    if !options.outliers.share().is_none()
        && tensors.iter().all(|t| t.form().outliers_in(t.info.cols).is_none())
    {
        notes.push("--outliers has no effect: no tensor of this file is stored in blocks".to_owned());
    }
    let sized = |t: &&PlannedTensor| t.quant.has_chosen_blocks();
    let all = tensors.iter().filter(|t| !t.quant.is_float()).count();
    let size = u16::from(options.block);
    match tensors.iter().filter(sized).count() {
        _ if options.block == BlockSize::B64 => {}
        0 => notes.push(format!("--block-size {size} has no effect: no type of this file has blocks of a size to choose")),
        some if some < all => notes.push(format!(
            "--block-size {size} holds for {some} of {all} quantized tensors: the types of the others have a size of their own"
        )),
        _ => {}
    }
    let fits_something = plan.quantizes() || options.early_exit.is_some() || options.stats_out.is_some();
    if options.calibration.is_some() && !fits_something {
        notes.push("--calibration has no effect: nothing of this file is quantized".to_owned());
    }
    notes
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
