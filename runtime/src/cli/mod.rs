//! Plumbing that the project's model-running binaries share: opening models, threads, Ctrl-C, progress bars.

mod activations;
mod bench;
mod device;
mod evaluate;
mod head;
pub mod inspect;
mod interactive;
mod kv;
mod layers;
mod progress;
mod shortcuts;
mod stream;
mod tokenize;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use qsf_format::Failure;

use crate::cpu::threads::{MAX_THREADS, Pinning, Pool, PoolError, default_threads};
use crate::cpu::{Cpu, CpuError, Isa};
use crate::error::RuntimeError;
use crate::progress::Cancel;

pub use activations::ActivationArgs;
pub use bench::{BenchArgs, BenchModel, OutputFormat, run_bench, run_kernels};
pub use device::{Device, DeviceArgs, Runs, adapters_json, adapters_text, only_on_cpu};
pub use evaluate::{EvalArgs, Report, evaluation_demand, evaluation_json, join_parts, print_evaluation};
pub use head::{HeadArgs, HeadChoice, HeadReport};
pub use interactive::{DEFAULT_CONTEXT, InteractiveArgs, TurnOptions, answer_turns};
pub use kv::KvArgs;
pub use layers::{LayerArgs, LayerReport, Share};
pub use progress::ProgressLine;
pub use shortcuts::{ShortcutArgs, ShortcutReport};
pub use stream::{IoArg, OpenModel, StreamArgs, Streaming};
pub use tokenize::{TokenizeArgs, print_tokens};

/// Flags of every binary that computes.
#[derive(Debug, Clone, Args)]
pub struct ComputeArgs {
    /// Threads [default: one for each physical core]; measurements of qsf-run take a list
    #[arg(short, long, value_name = "N", value_delimiter = ',', help_heading = "Machine")]
    pub threads: Vec<usize>,
    /// Keep every thread that runs the model on a physical core of its own
    #[arg(long, help_heading = "Machine")]
    pub pin: bool,
}

impl ComputeArgs {
    /// Starts the threads and chooses kernels (`QSF_CPU` overrides the choice).
    ///
    /// # Errors
    /// When there cannot be so many threads or is more than one number of them, they cannot be pinned, or `QSF_CPU` cannot be
    /// honoured.
    pub fn start(&self) -> anyhow::Result<Cpu> {
        let counts = self.counts()?;
        let [threads] = counts[..] else {
            let several = "--threads: a list of several numbers is for --bench and --kernel";
            return Err(RuntimeError::Request(several.into()).into());
        };
        self.start_loaders()?;
        self.cpu(threads)
    }

    /// What reads, encodes and evaluates models, in contrast to what runs them, is on the pool of rayon. To be called before
    /// threads are pinned, or its threads would inherit that of this one.
    ///
    /// # Errors
    /// When the system refuses threads.
    pub fn start_loaders(&self) -> anyhow::Result<()> {
        // It takes 0 for its own default.
        let threads = self.threads.iter().copied().max().unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build_global().context("cannot start worker threads")
    }

    /// The kernels of this processor on `threads` threads of their own.
    ///
    /// # Errors
    /// As [`ComputeArgs::start`].
    pub fn cpu(&self, threads: usize) -> anyhow::Result<Cpu> {
        let pinning = if self.pin { Pinning::Cores } else { Pinning::Free };
        Ok(Cpu::with_pool(Isa::from_env()?, Arc::new(Pool::new(threads, pinning)?)))
    }

    /// The numbers of threads to measure with; one for each physical core where none are given.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn counts(&self) -> Result<Vec<usize>, RuntimeError> {
        if let Some(threads) = self.threads.iter().find(|threads| !(1..=MAX_THREADS).contains(*threads)) {
            let problem = format!("--threads {threads}: expected 1 to {MAX_THREADS}");
            return Err(RuntimeError::Request(problem));
        }
        Ok(if self.threads.is_empty() { vec![default_threads()] } else { self.threads.clone() })
    }
}

/// The class of an error of this crate, for [`qsf_format::cli::exit_with`].
pub fn classify(error: &anyhow::Error) -> Option<Failure> {
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return Some(error.failure());
    }
    if let Some(PoolError::Start(_)) = error.downcast_ref() {
        return Some(Failure::OutOfSpace);
    }
    (error.is::<CpuError>() || error.is::<PoolError>()).then_some(Failure::Usage)
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
