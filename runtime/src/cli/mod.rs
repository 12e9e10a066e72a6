//! Plumbing that the project's model-running binaries share: opening models, threads, Ctrl-C, progress bars.

mod bench;
mod progress;
mod tokenize;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use qsf_format::Failure;

use crate::cpu::{Cpu, CpuError};
use crate::error::RuntimeError;
use crate::progress::Cancel;

pub use bench::{BenchArgs, OutputFormat, run_bench, run_kernels};
pub use progress::ProgressLine;
pub use tokenize::{TokenizeArgs, print_tokens};

/// Flags of every binary that computes.
#[derive(Debug, Clone, Args)]
pub struct ComputeArgs {
    /// Worker threads [default: all cores]; measurements of qsf-run take a list
    #[arg(short, long, value_name = "N", value_delimiter = ',', help_heading = "Machine")]
    pub threads: Vec<usize>,
}

impl ComputeArgs {
    /// Starts the workers and chooses kernels (`QSF_CPU` overrides the choice).
    ///
    /// # Errors
    /// When the number of threads is out of range or not one number, or `QSF_CPU` cannot be honoured.
    pub fn start(&self) -> anyhow::Result<Cpu> {
        match *self.checked()? {
            [] => {}
            [threads] => rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build_global()
                .context("cannot start worker threads")?,
            _ => {
                let several = "--threads: a list of several numbers is for --bench and --kernel";
                return Err(RuntimeError::Request(several.into()).into());
            }
        }
        Ok(Cpu::from_env()?)
    }

    /// The numbers of threads to measure with; all cores where none are given.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn counts(&self) -> Result<Vec<usize>, RuntimeError> {
        let all = std::thread::available_parallelism().map_or(1, |n| n.get());
        let counts = self.checked()?;
        Ok(if counts.is_empty() { vec![all] } else { counts.to_vec() })
    }

    fn checked(&self) -> Result<&[usize], RuntimeError> {
        match self.threads.iter().find(|threads| !(1..=1024).contains(*threads)) {
            Some(threads) => Err(RuntimeError::Request(format!("--threads {threads}: expected 1 to 1024"))),
            None => Ok(&self.threads),
        }
    }
}

/// The class of an error of this crate, for [`qsf_format::cli::exit_with`].
pub fn classify(error: &anyhow::Error) -> Option<Failure> {
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return Some(error.failure());
    }
    error.is::<CpuError>().then_some(Failure::Usage)
}

/// A flag that Ctrl-C and SIGTERM set. A second one ends the process at once.
///
/// # Errors
/// When the handler cannot be installed.
pub fn cancel_on_interrupt() -> anyhow::Result<Cancel> {
    let cancel = Cancel::default();
    let flag = cancel.clone();
    ctrlc::set_handler(move || {
        if flag.is_requested() {
            std::process::exit(Failure::Interrupted.exit_code().into());
        }
        flag.request();
    })
    .context("cannot handle Ctrl-C")?;
    Ok(cancel)
}

/// Texts are held in memory, several times over while they become tokens.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Reads a text file as UTF-8.
///
/// # Errors
/// When it cannot be read or is not UTF-8; the error names the first bad byte.
pub fn read_text(path: &Path) -> Result<String, RuntimeError> {
    let found = std::fs::metadata(path).map_err(|e| RuntimeError::io(path, "read", e))?;
    if !found.is_file() || found.len() > MAX_TEXT_BYTES {
        let expected = format!("a regular file of at most {MAX_TEXT_BYTES} bytes");
        return Err(RuntimeError::bad_input(path, "the text", expected, format!("{} bytes", found.len())));
    }
    let bytes = std::fs::read(path).map_err(|e| RuntimeError::io(path, "read", e))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        RuntimeError::bad_input(
            path,
            format!("offset {at}"),
            "UTF-8 text",
            format!("byte {:#04x}", e.as_bytes()[at]),
        )
    })
}

/// The name of a model in reports: the last component of its path.
pub fn model_name(path: &Path) -> String {
    let full: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
