//! The conversion that a command line asks for.

use qsf_converter::{Conversion, ConvertError, ConvertOptions, convert, journal_path, predict_peak};
use qsf_format::{BlockSize, Failure, human_bytes};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use serde_json::{Value, json};

use super::args::ConvertArgs;
use super::choose::{choose_options, plan_to_replay};
use super::model::{base_model, open_model, output};
use super::outputs::check_outputs;
use super::ram::Ram;
use super::report::conversion_json;
use crate::exit::class_of;
use crate::inspect::parcel_of;
use crate::interrupt::{how_it_goes_on, note_at_the_end};
use crate::json_document::document;
use crate::upload::{Sent, how_to_send_again};

/// A conversion that is done, and of what.
pub(super) struct Made {
    pub conversion: Conversion,
    pub name: String,
    /// Values of a block.
    pub block: BlockSize,
    /// What the type is called.
    named: String,
}

/// Converts MODEL. `ready` is asked when everything is known and nothing is done yet.
pub(super) fn make(
    args: &ConvertArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
    ready: &dyn Fn(&dyn WeightSource, &ConvertOptions) -> Result<(), ConvertError>,
) -> anyhow::Result<Made> {
    let plan = plan_to_replay(args)?;
    let out = output(args, plan.as_ref())?;
    let (name, source) = open_model(args, Some(&out), progress, cancel)?;
    let source = source.as_ref();
    check_outputs(args, Some(source), Some(&out))?;
    let options = choose_options(args, plan.as_ref(), source)?;
    tell_details(source, &options, cpu, progress)?;
    let ram = Ram::of(args);
    ram.check(|| predict_peak(source, &options))?;
    ready(source, &options)?;
    note_at_the_end(journal_path(&out));
    let converted = ram.watch(cancel, || Ok(convert(source, &out, &options, cpu, progress, cancel)?));
    let conversion = converted.inspect_err(|error| {
        let journal = journal_path(&out);
        // After other errors the same command would come to the same end.
        let stopped = matches!(class_of(error), Some(Failure::Interrupted | Failure::OutOfSpace));
        if stopped && journal.exists() {
            progress.note(&how_it_goes_on(&journal));
        }
    })?;
    Ok(Made { conversion, name, block: options.block, named: options.named })
}

/// Converts MODEL, and says it by `tell`; then uploads the file where that is asked for. A repository that would refuse it is found
/// before the work.
pub(super) fn make_and_upload(
    args: &ConvertArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
    tell: &dyn Fn(&Made) -> anyhow::Result<()>,
) -> anyhow::Result<(Made, Option<Sent>)> {
    let out = output(args, plan_to_replay(args)?.as_ref())?;
    let upload = args.upload.prepare(&[out], args.force, progress, cancel)?;
    let made = make(args, cpu, progress, cancel, &|_, _| Ok(()))?;
    tell(&made)?;
    let (Some(upload), true) = (upload, made.conversion.missed.is_empty()) else { return Ok((made, None)) };
    let base = base_model(args);
    let path = &made.conversion.path;
    let sent = parcel_of(path, base.as_deref(), progress, cancel)
        .and_then(|parcel| upload.send(&parcel, progress, cancel))
        .inspect_err(|_| {
            progress.note(&how_to_send_again(path, args.upload.upload.as_deref().unwrap_or_default()));
        })?;
    Ok((made, Some(sent)))
}

/// What -v says before the work.
fn tell_details(
    source: &dyn WeightSource,
    options: &ConvertOptions,
    cpu: &Cpu,
    progress: &dyn Progress,
) -> anyhow::Result<()> {
    let (config, tensors) = (source.config(), source.tensors());
    let weights: u64 = tensors.iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    progress.detail(&format!(
        "{}: {} tensors, {weights} weights, {} layers, vocabulary of {}",
        source.path().display(),
        tensors.len(),
        config.layers,
        config.vocab
    ));
    progress.detail(&format!("{} threads, kernels for {}", cpu.threads(), cpu.isa().name()));
    if let Some(text) = options.calibration.as_ref().filter(|text| text.written.is_none()) {
        progress.detail(&format!(
            "calibration text: {} tokens, SHA-256 {}",
            text.tokens.len(),
            text.text_sha256
        ));
    }
    let peak = human_bytes(predict_peak(source, options)?);
    progress.detail(&format!("predicted peak of memory: {peak}"));
    Ok(())
}

impl Made {
    /// What `--json` prints of it, and of where it was `sent`.
    pub fn to_json(&self, sent: Option<&Sent>) -> Value {
        let mut value = conversion_json(&self.conversion);
        value["path"] = json!(self.conversion.path.display().to_string());
        if self.conversion.files.len() > 1 {
            let files = self.conversion.files.iter().map(|file| file.display().to_string());
            value["files"] = json!(files.collect::<Vec<_>>());
        }
        value["model"] = json!(self.name);
        value["type"] = json!(self.named);
        if let Some(sent) = sent {
            value["uploaded"] = sent.to_json();
        }
        document("conversion", value)
    }

    /// The error that a file is which misses its limits.
    pub fn check_limits(self) -> Result<(), ConvertError> {
        let Conversion { path, missed, .. } = self.conversion;
        if missed.is_empty() { Ok(()) } else { Err(ConvertError::MissedLimits { path, missed }) }
    }
}
