//! The conversion that a command line asks for.

use qsf_converter::write_plan;
use qsf_converter::{Conversion, ConvertError, ConvertOptions, convert, journal_path, predict_peak};
use qsf_format::Failure;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use serde_json::{Value, json};

use super::args::ConvertArgs;
use super::choose::{choose_options, type_name};
use super::model::{open_model, output};
use super::ram::Ram;
use super::report::conversion_json;
use crate::exit::class_of;
use crate::interrupt::{how_it_goes_on, note_at_the_end};
use crate::json_document::document;

/// A conversion that is done, and of what.
pub(super) struct Made {
    pub conversion: Conversion,
    pub name: String,
}

/// Converts MODEL. `ready` is asked when everything is known and nothing is done yet.
pub(super) fn make(
    args: &ConvertArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
    ready: &dyn Fn(&dyn WeightSource, &ConvertOptions) -> Result<(), ConvertError>,
) -> anyhow::Result<Made> {
    let out = output(args)?;
    let (name, source) = open_model(args, Some(&out), progress, cancel)?;
    let source = source.as_ref();
    let (options, plan_to_write) = choose_options(args, source)?;
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
    if let Some(path) = plan_to_write {
        write_plan(path, &conversion.plan)?;
    }
    Ok(Made { conversion, name })
}

impl Made {
    /// What `--json` prints of it.
    pub fn to_json(&self, args: &ConvertArgs) -> Value {
        let mut value = conversion_json(&self.conversion);
        value["path"] = json!(self.conversion.path.display().to_string());
        value["model"] = json!(self.name);
        value["type"] = json!(type_name(args).ok());
        document("conversion", value)
    }

    /// The error that a file is which misses its limits.
    pub fn check_limits(self) -> Result<(), ConvertError> {
        let Conversion { path, missed, .. } = self.conversion;
        if missed.is_empty() { Ok(()) } else { Err(ConvertError::MissedLimits { path, missed }) }
    }
}
