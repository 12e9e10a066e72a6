//! `qsf-inspect diff`: how two models differ.

use std::path::{Path, PathBuf};

use clap::Args;
use qsf_format::human_bytes;
use qsf_format::printable::printable;
use qsf_runtime::Result;
use qsf_runtime::compare::{ModelComparison, TensorComparison, TensorSide, compare_models};
use qsf_runtime::cpu::Isa;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::stream::{Io, StreamSource};
use serde_json::{Value, json};

use crate::console::{print, print_json, table};
use crate::interrupt::cancel_on_interrupt;
use crate::json_document::document;
use crate::progress::ProgressLine;

/// What to compare.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// QSF file, GGUF file or HuggingFace directory
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Prints how two models differ. Gives whether they compute the same.
///
/// # Errors
/// When either cannot be read or is damaged, or the user interrupts.
pub fn print_difference(args: &DiffArgs) -> anyhow::Result<bool> {
    let isa = Isa::from_env()?;
    let cancel = cancel_on_interrupt()?;
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let found = compare_models(a.as_ref(), b.as_ref(), isa, &ProgressLine::default(), &cancel)?;
    if args.json {
        print_json(&to_document(&found, &args.a, &args.b))?;
    } else {
        print(&printable(&text(args, a.as_ref(), b.as_ref(), &found)))?;
    }
    Ok(found.is_equal())
}

/// What `qsf-inspect diff --json` prints of the models at `a` and `b`.
///
/// # Errors
/// When either cannot be read or is damaged, or `cancel` is requested.
pub fn difference_json(
    a: &Path,
    b: &Path,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Value> {
    let found = compare_models(open(a)?.as_ref(), open(b)?.as_ref(), Isa::from_env()?, progress, cancel)?;
    Ok(to_document(&found, a, b))
}

fn to_document(found: &ModelComparison, a: &Path, b: &Path) -> Value {
    let mut value = to_json(found);
    value["path_a"] = json!(a.display().to_string());
    value["path_b"] = json!(b.display().to_string());
    document("difference", value)
}

/// A QSF file is read tensor by tensor, so that only those at hand are in memory.
fn open(path: &Path) -> Result<Box<dyn WeightSource>> {
    if !source::is_qsf(path) {
        return source::open(path);
    }
    source::refuse_what_is_no_model(path)?;
    Ok(Box::new(StreamSource::open(path, Io::Pread)?))
}

fn to_json(found: &ModelComparison) -> Value {
    let fields = found.configuration.iter();
    json!({
        "equal": found.is_equal(),
        "config_differences": fields.map(|d| json!({"field": d.field, "a": d.a, "b": d.b})).collect::<Vec<_>>(),
        "tokenizer_difference": found.tokenizer,
        "chat_template_equal": !found.chat_template,
        "tensors": found.tensors.iter().map(tensor_json).collect::<Vec<_>>(),
    })
}

fn tensor_json(tensor: &TensorComparison) -> Value {
    let side = |side: &Option<TensorSide>| {
        side.as_ref().map(
            |s| json!({"name": s.name, "rows": s.rows, "cols": s.cols, "type": s.stored, "stored_bytes": s.bytes}),
        )
    };
    let values = tensor.values.as_ref();
    json!({
        "tensor": tensor.id.to_string(),
        "layer": tensor.id.layer,
        "kind": tensor.id.kind.name(),
        "equal": tensor.is_equal(),
        "a": side(&tensor.a),
        "b": side(&tensor.b),
        "different_values": values.map(|v| v.count),
        "first_difference": values.and_then(|v| v.first).map(|(row, col)| json!({"row": row, "col": col})),
        "relative_error": values.map(|v| v.relative_error),
        "cosine": values.map(|v| v.cosine),
        "max_abs_error": values.map(|v| v.max_abs_error),
    })
}

fn text(args: &DiffArgs, a: &dyn WeightSource, b: &dyn WeightSource, found: &ModelComparison) -> String {
    let side = |path: &Path, source: &dyn WeightSource, of: fn(&TensorComparison) -> &Option<TensorSide>| {
        let bytes =
            found.tensors.iter().filter_map(|tensor| of(tensor).as_ref()).map(|side| side.bytes).sum();
        let count = source.tensors().len();
        format!(
            "{}: {}, {count} tensors of {}\n",
            path.display(),
            source.config().architecture,
            human_bytes(bytes)
        )
    };
    let mut out = side(&args.a, a, |tensor| &tensor.a) + &side(&args.b, b, |tensor| &tensor.b);
    if found.configuration.is_empty() {
        out += "configuration: the same\n";
    } else {
        let rows = found.configuration.iter();
        out += "configuration:\n";
        out += &table(
            &["  field", "a", "b"],
            3,
            rows.map(|d| vec![format!("  {}", d.field), d.a.to_string(), d.b.to_string()]),
        );
    }
    out += &match &found.tokenizer {
        Some(difference) => format!("tokenizer: {difference}\n"),
        None if a.tokenizer_json().is_none() => "tokenizer: none\n".into(),
        None => "tokenizer: the same\n".into(),
    };
    out += match (found.chat_template, a.chat_template()) {
        (true, _) => "chat template: different\n",
        (false, None) => "chat template: none\n",
        (false, Some(_)) => "chat template: the same\n",
    };
    let equal = found.tensors.iter().filter(|tensor| tensor.is_equal()).count();
    out += &format!("tensors: {equal} of {} have the same values\n", found.tensors.len());
    let shown: Vec<_> =
        found.tensors.iter().filter(|tensor| !tensor.is_equal() || is_stored_otherwise(tensor)).collect();
    if !shown.is_empty() {
        out += "\n";
        out += &table(
            &[
                "tensor",
                "type a",
                "type b",
                "first difference",
                "bytes a",
                "bytes b",
                "different",
                "rel. error",
                "cosine",
            ],
            4,
            shown.into_iter().map(row),
        );
    }
    out + if found.is_equal() { "\nno difference\n" } else { "\nthe models differ\n" }
}

/// Whether a tensor has another type or size, whatever its values.
fn is_stored_otherwise(tensor: &TensorComparison) -> bool {
    let how = |side: &Option<TensorSide>| side.as_ref().map(|side| (side.stored.clone(), side.bytes));
    how(&tensor.a) != how(&tensor.b)
}

fn row(tensor: &TensorComparison) -> Vec<String> {
    let of =
        |side: &Option<TensorSide>, show: fn(&TensorSide) -> String| side.as_ref().map_or("-".into(), show);
    let values = tensor.values.as_ref();
    let number = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let place = match (&tensor.a, &tensor.b, values) {
        (Some(_), Some(_), Some(values)) => values.first.map(|(row, col)| format!("row {row}, column {col}")),
        (Some(a), Some(b), None) => Some(format!("shape {} x {}, {} x {}", a.rows, a.cols, b.rows, b.cols)),
        (None, _, _) => Some("only in b".into()),
        (_, None, _) => Some("only in a".into()),
    };
    vec![
        tensor.id.to_string(),
        of(&tensor.a, |side| side.stored.clone()),
        of(&tensor.b, |side| side.stored.clone()),
        number(place),
        of(&tensor.a, |side| side.bytes.to_string()),
        of(&tensor.b, |side| side.bytes.to_string()),
        number(values.map(|v| v.count.to_string())),
        number(values.map(|v| relative(v.relative_error))),
        number(values.map(|v| format!("{:.6}", v.cosine))),
    ]
}

/// A relative error, with digits however small it is.
fn relative(error: f64) -> String {
    if error > 0.0 && error < 1e-4 { format!("{error:.1e}") } else { format!("{error:.6}") }
}
