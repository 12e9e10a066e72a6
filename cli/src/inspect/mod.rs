//! `qsf-inspect`: what is in a model's file and is it whole, how two models differ, and a page about files.
//!
//! | File | Duty |
//! |---|---|
//! | `program`, `help` | the command line as a whole, and how its help is arranged |
//! | `mod` | one file, or several |
//! | `diff` | `qsf-inspect diff` |
//! | `report` | `qsf-inspect report` |

mod diff;
mod help;
mod program;
mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use qsf_format::printable::printable;
use qsf_format::{Failure, Meta, QsfFile, Verification, human_bytes, verify_file};
use qsf_inspection::overview::{describe, text, verification_json};
use qsf_inspection::source::SourceFound;
use qsf_inspection::tensors::{TensorLine, list_tensors};
use qsf_runtime::source::gguf::is_gguf;
use qsf_runtime::source::refuse_what_is_no_model;
use serde_json::{Value, json};

use crate::console::{print, print_json};
use crate::error_line::error_json;
use crate::exit::{SomeFailed, Unprotected, class_of};
use crate::json_document::document;

pub use diff::{DiffArgs, difference_json, print_difference};
pub use program::{InspectProgram, main, program};
pub use report::{ReportArgs, parcel_of, report_json, write_report};

/// What to show of which files.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// QSF files, GGUF files or HuggingFace directories
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// List every tensor with its type, layout, shape, place and conversion error
    #[arg(long)]
    tensors: bool,
    /// Check every checksum and every padding byte; exit code 3 with the place of the first damage. Of several files, a line
    /// for each
    #[arg(long)]
    verify: bool,
    /// With --verify: accept files without checksums, or with few: plain QSF files, GGUF files, directories
    #[arg(long, requires = "verify")]
    allow_plain: bool,
}

/// Prints what the flags ask for.
///
/// # Errors
/// When a file cannot be read, is damaged, or to be verified and under too few checksums ([`Unprotected`]).
pub fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    match &args.files[..] {
        [path] => inspect_one(args, path),
        several => inspect_several(args, several),
    }
}

fn inspect_one(args: &InspectArgs, path: &Path) -> anyhow::Result<()> {
    let found = Found::look(path, args.tensors, args.verify)?;
    if args.json {
        print_json(&found.to_json()?)?;
    } else {
        print(&printable(&found.to_text()?))?;
    }
    found.check_protection(args.verify, args.allow_plain)
}

/// Goes on where a file fails, and fails at the end.
fn inspect_several(args: &InspectArgs, paths: &[PathBuf]) -> anyhow::Result<()> {
    let (mut documents, mut failures) = (Vec::new(), Vec::new());
    for path in paths {
        let result = Found::look(path, args.tensors, args.verify).and_then(|found| {
            found.check_protection(args.verify, args.allow_plain)?;
            let text = match (args.json, args.verify) {
                (true, _) => {
                    documents.push(found.to_json()?);
                    String::new()
                }
                (false, true) => found.verified_line(),
                (false, false) => found.to_text()? + "\n",
            };
            Ok(print(&printable(&text))?)
        });
        let Err(error) = result else { continue };
        let failure = class_of(&error).unwrap_or(Failure::Usage);
        failures.push(failure);
        let message = format!("{error:#}");
        if args.json {
            let mut value = error_json(failure, &message);
            value["path"] = json!(path.display().to_string());
            documents.push(value);
        } else {
            print(&format!("{}\n", printable(&not_named_twice(path, &message))))?;
        }
    }
    if args.json {
        print_json(&document("files", json!({ "files": documents })))?;
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(SomeFailed { failed: failures.len(), total: paths.len(), failure: *first }.into()),
    }
}

/// A message that begins with the file that it is about.
fn not_named_twice(path: &Path, message: &str) -> String {
    let name = path.display().to_string();
    if message.starts_with(&name) { message.to_owned() } else { format!("{name}: {message}") }
}

/// What `qsf-inspect` prints of the file at `path` with `--json`, and the flags `--tensors`, `--verify` and `--allow-plain`.
///
/// # Errors
/// When the file cannot be read, is damaged, or to be verified and under too few checksums ([`Unprotected`]).
pub fn inspect_json(path: &Path, tensors: bool, verify: bool, allow_plain: bool) -> anyhow::Result<Value> {
    let found = Found::look(path, tensors, verify)?;
    found.check_protection(verify, allow_plain)?;
    found.to_json()
}

/// What a path names, and what was asked about it.
enum Found {
    Qsf(Box<QsfFound>),
    /// A model of another format.
    Source(SourceFound),
}

struct QsfFound {
    file: QsfFile,
    meta: Option<Meta>,
    tensors: Vec<TensorLine>,
    verification: Option<Verification>,
}

impl Found {
    fn look(path: &Path, tensors: bool, verify: bool) -> anyhow::Result<Found> {
        if path.is_dir() || is_gguf(path) {
            return Ok(Found::Source(SourceFound::look(path, tensors)?));
        }
        refuse_what_is_no_model(path)?;
        let file = QsfFile::open(path)?;
        let verification = verify.then(|| verify_file(&file)).transpose()?;
        let meta = file.meta()?;
        let tensors = if tensors { list_tensors(&file, meta.as_ref())? } else { Vec::new() };
        Ok(Found::Qsf(Box::new(QsfFound { file, meta, tensors, verification })))
    }

    fn to_json(&self) -> anyhow::Result<Value> {
        let QsfFound { file, meta, tensors, verification } = match self {
            Found::Qsf(found) => &**found,
            Found::Source(found) => return Ok(found.to_json()),
        };
        let mut value = describe(file, meta.as_ref())?;
        // No file is without tensors: the list is empty where none was asked for.
        if !tensors.is_empty() {
            value["tensors"] = tensors.iter().map(TensorLine::to_json).collect();
        }
        if let Some(v) = verification {
            value["verified"] = verification_json(v);
        }
        Ok(document("file", value))
    }

    fn to_text(&self) -> anyhow::Result<String> {
        match self {
            Found::Qsf(found) => {
                let QsfFound { file, meta, tensors, verification } = &**found;
                Ok(text(file, meta.as_ref(), tensors, verification.as_ref())?)
            }
            Found::Source(found) => Ok(found.to_text()),
        }
    }

    /// A line for a file that was verified.
    fn verified_line(&self) -> String {
        match self {
            Found::Qsf(found) => {
                let tensors = found.verification.as_ref().map_or(0, |v| v.tensors);
                let bytes = human_bytes(found.file.header().file_bytes);
                format!("{}: verified, {bytes}, {tensors} tensors\n", found.file.path().display())
            }
            Found::Source(found) => format!(
                "{}: readable, {}, {} tensors, no checksums\n",
                found.path().display(),
                human_bytes(found.bytes()),
                found.tensor_count()
            ),
        }
    }

    /// That a file which was to be verified has checksums, unless it may be without.
    fn check_protection(&self, verify: bool, allow_plain: bool) -> anyhow::Result<()> {
        if !verify || allow_plain {
            return Ok(());
        }
        let problem = match self {
            Found::Qsf(found) => match &found.verification {
                Some(v) if !v.unprotected.is_empty() => format!(
                    "{}: a plain file: {} are under no checksum; pass --allow-plain to accept that",
                    found.file.path().display(),
                    v.unprotected.join(", ")
                ),
                _ => return Ok(()),
            },
            Found::Source(found) => format!("{}: {}", found.path().display(), found.why_unprotected()),
        };
        Err(Unprotected(problem).into())
    }
}
