//! `qsf-inspect`: what is in a QSF file and is it whole, how two models differ, and a page about files.
//!
//! | File | Duty |
//! |---|---|
//! | `program` | the command line as a whole |
//! | `mod` | one file |
//! | `overview`, `tensors` | what is shown of it |
//! | `diff` | `qsf-inspect diff` |
//! | `report` | `qsf-inspect report` |

mod diff;
mod overview;
mod program;
mod report;
mod tensors;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use qsf_format::printable::printable;
use qsf_format::{Meta, QsfFile, Verification, verify_file};
use serde_json::Value;

use crate::console::{print, print_json};
use crate::exit::Unprotected;
use crate::json_document::document;

pub use diff::{DiffArgs, print_difference};
use overview::{describe, text, verification_json};
pub use program::{InspectProgram, main};
pub use report::{ReportArgs, write_report};
use tensors::{TensorLine, list_tensors};

/// What to show of which file.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// QSF file to read
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// List every tensor with its type, layout, shape, place and conversion error
    #[arg(long)]
    tensors: bool,
    /// Check every checksum and every padding byte; exit code 3 with the place of the first damage
    #[arg(long)]
    verify: bool,
    /// With --verify: accept a plain file, most of which is under no checksum
    #[arg(long, requires = "verify")]
    allow_plain: bool,
}

/// Prints what the flags ask for.
///
/// # Errors
/// When the file cannot be read, is damaged, or to be verified and under too few checksums ([`Unprotected`]).
pub fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let path = args.file.as_deref().context("no file given")?;
    let found = Found::look(path, args.tensors, args.verify)?;
    if args.json {
        print_json(&found.to_json()?)?;
    } else {
        let Found { file, meta, tensors, verification } = &found;
        print(&printable(&text(file, meta.as_ref(), tensors, verification.as_ref())?))?;
    }
    found.check_protection(args.allow_plain)
}

/// What `qsf-inspect` prints of the file at `path` with `--json`, and the flags `--tensors`, `--verify` and `--allow-plain`.
///
/// # Errors
/// When the file cannot be read, is damaged, or to be verified and under too few checksums ([`Unprotected`]).
pub fn inspect_json(path: &Path, tensors: bool, verify: bool, allow_plain: bool) -> anyhow::Result<Value> {
    let found = Found::look(path, tensors, verify)?;
    found.check_protection(allow_plain)?;
    found.to_json()
}

/// A file, and what was asked about it.
struct Found {
    file: QsfFile,
    meta: Option<Meta>,
    tensors: Vec<TensorLine>,
    verification: Option<Verification>,
}

impl Found {
    fn look(path: &Path, tensors: bool, verify: bool) -> anyhow::Result<Found> {
        let file = QsfFile::open(path)?;
        let verification = verify.then(|| verify_file(&file)).transpose()?;
        let meta = file.meta()?;
        let tensors = if tensors { list_tensors(&file, meta.as_ref())? } else { Vec::new() };
        Ok(Found { file, meta, tensors, verification })
    }

    fn to_json(&self) -> anyhow::Result<Value> {
        let mut value = describe(&self.file, self.meta.as_ref())?;
        // No file is without tensors: the list is empty where none was asked for.
        if !self.tensors.is_empty() {
            value["tensors"] = self.tensors.iter().map(TensorLine::to_json).collect();
        }
        if let Some(v) = &self.verification {
            value["verified"] = verification_json(v);
        }
        Ok(document("file", value))
    }

    /// That a file which was to be verified has checksums, unless it may be without.
    fn check_protection(&self, allow_plain: bool) -> anyhow::Result<()> {
        match &self.verification {
            Some(v) if !v.unprotected.is_empty() && !allow_plain => Err(Unprotected(format!(
                "{}: a plain file: {} are under no checksum; pass --allow-plain to accept that",
                self.file.path().display(),
                v.unprotected.join(", ")
            ))
            .into()),
            _ => Ok(()),
        }
    }
}
