//! The model that a command line names, and what its file is called.

use std::path::{Path, PathBuf};

use qsf_converter::hub::{HubError, Reference};
use qsf_converter::{ConvertError, SavedPlan};
use qsf_format::FormatError;
use qsf_runtime::RuntimeError;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::adapter::Adapter;
use qsf_runtime::source::{self, Merged, WeightSource};

use super::args::ConvertArgs;
use super::choose::type_name;
use super::format::extension;
use super::quant_arg::FormatArg;
use crate::model_args::ScaledPath;
use crate::model_name::model_name;
use crate::untrusted::refuse_if_untrusted;

/// The file to write.
pub(super) fn output(args: &ConvertArgs, plan: Option<&SavedPlan>) -> anyhow::Result<PathBuf> {
    // What contradicts itself is said before a model is opened.
    let extension = extension(args, plan)?;
    let name = || Ok::<_, anyhow::Error>(name_model(args, model_argument(args)?)?.1);
    let default = || Ok(default_name(&name()?, &type_name(args, plan)?, extension));
    match &args.out {
        // Shells complete names of folders with a slash.
        Some(out) if FormatArg::is_directory(extension) => Ok(out.components().collect()),
        Some(out) => Ok(out.clone()),
        None => default(),
    }
}

fn model_argument(args: &ConvertArgs) -> Result<&Path, RuntimeError> {
    args.model.as_deref().ok_or_else(|| RuntimeError::Request("no model given".into()))
}

/// What MODEL is called, and the model itself, which may have to be downloaded; for `out`, if it is given.
pub(super) fn open_model(
    args: &ConvertArgs,
    out: Option<&Path>,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<(String, Box<dyn WeightSource>)> {
    let model = model_argument(args)?;
    let (reference, name) = name_model(args, model)?;
    let model = match reference {
        Some(reference) => {
            refuse_if_untrusted(&format!("{reference}, a model of the hub"))?;
            // Found now, not after the download.
            if let Some(path) = out.filter(|out| !args.force && out.symlink_metadata().is_ok()) {
                return Err(FormatError::Exists { path: path.to_owned() }.into());
            }
            fetch(&reference, progress, cancel).map_err(ConvertError::from)?
        }
        None => model.to_owned(),
    };
    let mut source = source::open(&model)?;
    // A model with adapters in its file is the model that it is with them.
    let mut adapters = Adapter::embedded(source.as_ref())?;
    for adapter in &adapters {
        progress.note(&format!("adapter {} of {}: merged into the matrices", adapter.name, model.display()));
    }
    source.drop_adapters();
    for ScaledPath { path, scale } in &args.merge_lora {
        adapters.push(Adapter::open(path, source.config(), *scale)?);
    }
    if adapters.is_empty() {
        return Ok((name, source));
    }
    Ok((name, Box::new(Merged::new(source, adapters)?)))
}

/// The model of the hub that the file is made of, where MODEL names one.
pub(super) fn base_model(args: &ConvertArgs) -> Option<String> {
    let reference = Reference::of_argument(args.model.as_deref()?).ok()??;
    Some(reference.repo().to_owned())
}

/// The model of the hub that MODEL names, if it names one, and what to call the model.
fn name_model(args: &ConvertArgs, model: &Path) -> Result<(Option<Reference>, String), ConvertError> {
    match (Reference::of_argument(model)?, &args.revision) {
        (Some(reference), Some(revision)) => {
            let reference = reference.at_revision(revision)?;
            Ok((Some(reference.clone()), reference.name().to_owned()))
        }
        (Some(reference), None) => Ok((Some(reference.clone()), reference.name().to_owned())),
        (None, Some(_)) => {
            let problem = format!("--revision: {} is a path, not a model of the hub", model.display());
            Err(RuntimeError::Request(problem).into())
        }
        (None, None) => Ok((None, model_name(model))),
    }
}

/// Downloads the model; gives its place on disk.
#[cfg(feature = "hub")]
fn fetch(reference: &Reference, progress: &dyn Progress, cancel: &Cancel) -> Result<PathBuf, HubError> {
    use qsf_converter::hub::{Settings, Watch, download};
    let settings = Settings::from_env()?;
    download(reference, &settings, &Watch { progress, notice: &|text| progress.note(text), cancel })
}

/// Says how the model can be had.
#[cfg(not(feature = "hub"))]
fn fetch(reference: &Reference, _progress: &dyn Progress, _cancel: &Cancel) -> Result<PathBuf, HubError> {
    Err(HubError::NotBuilt { text: reference.to_string(), repo: reference.repo().to_owned() })
}

/// MODEL's own name and the type, in the current directory.
fn default_name(name: &str, types: &str, extension: &str) -> PathBuf {
    let stem = [".gguf", ".qsf"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    PathBuf::from(match (types, extension) {
        ("hf", "hf") => format!("{stem}-hf"),
        (types, "hf") => format!("{stem}-{types}-hf"),
        // The scheme is said by such directories alone.
        (types, "compressed-tensors") => format!("{stem}-{types}"),
        (types, extension) => format!("{stem}-{types}.{extension}"),
    })
}
