//! Errors of the crates as exceptions of `qsf.errors`, with file, tensor, offset, what was expected and what was found.

use std::io;
use std::path::PathBuf;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qsf_cli::exit::class_of;
use qsf_converter::ConvertError;
use qsf_format::{Failure, FormatError, TensorId};
use qsf_runtime::RuntimeError;

/// What an error knows beside its message.
#[derive(Default)]
struct Details {
    file: Option<PathBuf>,
    tensor: Option<String>,
    offset: Option<u64>,
    expected: Option<String>,
    found: Option<String>,
}

impl Details {
    fn of(error: &anyhow::Error) -> Details {
        if let Some(error) = error.downcast_ref::<ConvertError>() {
            return Details::of_conversion(error);
        }
        if let Some(error) = error.downcast_ref::<RuntimeError>() {
            return Details::of_runtime(error);
        }
        error.downcast_ref::<FormatError>().map_or_else(Details::default, Details::of_format)
    }

    fn of_conversion(error: &ConvertError) -> Details {
        match error {
            ConvertError::Runtime(error) | ConvertError::TokenizerDiffers(error) => {
                Details::of_runtime(error)
            }
            ConvertError::Format(error) => Details::of_format(error),
            ConvertError::NotFinite { path, id, row, col, value, .. } => Details {
                file: Some(path.clone()),
                tensor: Some(id.to_string()),
                expected: Some("finite numbers".into()),
                found: Some(format!("{value} at row {row}, column {col}")),
                ..Details::default()
            },
            ConvertError::BelowCosine { id, cosine, wanted } => Details {
                tensor: Some(id.to_string()),
                expected: Some(format!("a cosine of {wanted}")),
                found: Some(cosine.to_string()),
                ..Details::default()
            },
            ConvertError::Moments { id, .. } => {
                Details { tensor: Some(id.to_string()), ..Details::default() }
            }
            ConvertError::WouldMiss { limit, least } => Details {
                expected: Some(format!("at most {limit} bytes")),
                found: Some(format!("{least} bytes at least")),
                ..Details::default()
            },
            ConvertError::DiskTooSmall { path, needed, free } => Details {
                file: Some(path.clone()),
                expected: Some(format!("{needed} bytes of free space")),
                found: Some(format!("{free} bytes")),
                ..Details::default()
            },
            ConvertError::Requantize { path, .. }
            | ConvertError::OutputIsInput { path }
            | ConvertError::OtherJournal { path }
            | ConvertError::MissedLimits { path, .. }
            | ConvertError::Unmeasured { path, .. }
            | ConvertError::Io { path, .. } => Details { file: Some(path.clone()), ..Details::default() },
            _ => Details::default(),
        }
    }

    fn of_runtime(error: &RuntimeError) -> Details {
        match error {
            RuntimeError::Format(error) => Details::of_format(error),
            RuntimeError::BadInput { path, place, expected, found } => Details {
                file: Some(path.clone()),
                tensor: tensor_of(place),
                offset: place.strip_prefix("offset ").and_then(|offset| offset.parse().ok()),
                expected: Some(expected.clone()),
                found: Some(found.clone()),
            },
            RuntimeError::Io { path, .. }
            | RuntimeError::Unsupported { path, .. }
            | RuntimeError::BudgetTooSmall { path, .. } => {
                Details { file: Some(path.clone()), ..Details::default() }
            }
            _ => Details::default(),
        }
    }

    fn of_format(error: &FormatError) -> Details {
        match error {
            FormatError::Damaged { path, damage } => Details {
                file: Some(path.clone()),
                tensor: tensor_of(&damage.place),
                offset: Some(damage.offset),
                expected: Some(damage.expected.clone()),
                found: Some(damage.found.clone()),
            },
            FormatError::Io { path, .. }
            | FormatError::Unsupported { path, .. }
            | FormatError::NoMemory { path, .. }
            | FormatError::Exists { path }
            | FormatError::IsDirectory { path }
            | FormatError::NotRegularFile { path }
            | FormatError::NotAModel { path, .. }
            | FormatError::NotOnlyAModel { path, .. }
            | FormatError::Unwritable { path, .. } => {
                Details { file: Some(path.clone()), ..Details::default() }
            }
            _ => Details::default(),
        }
    }
}

/// The tensor that a place is in: `layer 3 attn_q`, `layer 3 attn_q, row 7`.
fn tensor_of(place: &str) -> Option<String> {
    let name = place.split([',', ':']).next()?.trim();
    name.parse::<TensorId>().ok().map(|id| id.to_string())
}

/// The class of `qsf.errors` that an error becomes; `None` is an interruption.
fn class(error: &anyhow::Error) -> Option<&'static str> {
    let in_memory = || {
        let of_runtime = match error.downcast_ref() {
            Some(ConvertError::Runtime(error)) => Some(error),
            _ => error.downcast_ref(),
        };
        let of_format = match of_runtime {
            Some(RuntimeError::Format(error)) => Some(error),
            _ => error.downcast_ref(),
        };
        matches!(of_runtime, Some(RuntimeError::OutOfMemory { .. } | RuntimeError::BudgetTooSmall { .. }))
            || matches!(of_format, Some(FormatError::NoMemory { .. }))
    };
    Some(match class_of(error) {
        None => "QsfError",
        Some(Failure::Usage) => "UsageError",
        Some(Failure::BadInput) => "BadInputError",
        Some(Failure::Unsupported) => "UnsupportedModelError",
        Some(Failure::OutOfSpace) if in_memory() => "OutOfMemoryError",
        Some(Failure::OutOfSpace) => "OutOfSpaceError",
        Some(Failure::LimitsMissed) => "MissedLimitsError",
        Some(Failure::Interrupted) => return None,
    })
}

/// The exception of Python's own that an error is as well.
fn also(error: &anyhow::Error, message: &str) -> Option<&'static str> {
    let of_runtime = match error.downcast_ref() {
        Some(ConvertError::Runtime(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    let of_format = match (error.downcast_ref(), of_runtime) {
        (Some(ConvertError::Format(error)), _) | (_, Some(RuntimeError::Format(error))) => Some(error),
        _ => error.downcast_ref(),
    };
    match of_format {
        Some(FormatError::Exists { .. }) => return Some("FileExistsError"),
        Some(FormatError::IsDirectory { .. }) => return Some("IsADirectoryError"),
        _ => {}
    }
    // As a call with a keyword that a function does not have.
    if matches!(of_runtime, Some(RuntimeError::Request(_))) && message.contains(": is no option of") {
        return Some("TypeError");
    }
    let said = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
    match said.kind() {
        io::ErrorKind::NotFound => Some("FileNotFoundError"),
        io::ErrorKind::PermissionDenied => Some("PermissionError"),
        io::ErrorKind::IsADirectory => Some("IsADirectoryError"),
        _ => None,
    }
}

/// Options of the programs that take no value.
const SWITCHES: [&str; 7] = [
    "private",
    "force",
    "allow-requantize",
    "allow-plain",
    "skip-tokenizer-check",
    "chat-template",
    "early-exit",
];
/// Short options of the programs, and the arguments that they are here.
const SHORT: [(&str, &str); 6] = [
    ("-n", "max_tokens"),
    ("-c", "ctx_size"),
    ("-p", "prompt"),
    ("-f", "text"),
    ("-t", "threads"),
    ("-i", "Model.stream"),
];

/// A message of the programs, with arguments in place of options: `force=True` for `--force`.
fn in_python(message: &str) -> String {
    let word = |word: &str| -> String {
        let start = word.find('-').unwrap_or(0);
        let (before, option) = word.split_at(start);
        let end = option.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(option.len());
        let (option, behind) = option.split_at(end);
        let is_option = before.chars().all(|c| "('\"".contains(c));
        let name = match option.strip_prefix("--") {
            _ if !is_option => None,
            Some(name) if SWITCHES.contains(&name) => Some(format!("{}=True", name.replace('-', "_"))),
            Some(name) if !name.is_empty() => Some(name.replace('-', "_")),
            _ => SHORT.iter().find(|(short, _)| *short == option).map(|(_, name)| (*name).to_owned()),
        };
        name.map_or_else(|| word.to_owned(), |name| format!("{before}{name}{behind}"))
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The exception that an error is.
pub fn to_python(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let message = in_python(&format!("{error:#}"));
    let Some(class) = class(error) else { return PyKeyboardInterrupt::new_err(message) };
    let Details { file, tensor, offset, expected, found } = Details::of(error);
    let make = || -> PyResult<PyErr> {
        let fields = PyDict::new(py);
        // A text, as everywhere else in Python: `PathBuf` would become a `pathlib.Path`.
        fields.set_item("file", file.map(PathBuf::into_os_string))?;
        fields.set_item("tensor", tensor)?;
        fields.set_item("offset", offset)?;
        fields.set_item("expected", expected)?;
        fields.set_item("found", found)?;
        let said = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
        let maker = py.import("qsf.errors")?.getattr("make")?;
        let also = also(error, &message);
        let exception = PyErr::from_value(maker.call((class, also, said, message), Some(&fields))?);
        // What the system said, with its number: `FileNotFoundError` and the like.
        exception.set_cause(py, said.map(|number| io::Error::from_raw_os_error(number).into()));
        Ok(exception)
    };
    make().unwrap_or_else(|failed| failed)
}

/// Turns an error of any of the crates into an exception of Python.
pub fn raise<E: Into<anyhow::Error>>(py: Python<'_>) -> impl Fn(E) -> PyErr {
    move |error| to_python(py, &error.into())
}
