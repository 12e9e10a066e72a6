//! Threads and kernels, as the flags of a program say.

use std::sync::{Arc, Once};

use anyhow::Context;
use clap::Args;
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::threads::{MAX_THREADS, Pinning, Pool, default_threads};
use qsf_runtime::cpu::{Cpu, Isa};

/// What reads and encodes is on one pool for a whole process, as large as the first call of a library says.
static LOADERS: Once = Once::new();

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

    /// [`ComputeArgs::start`] for a library, which is called many times in a process that is not its own.
    ///
    /// # Errors
    /// As [`ComputeArgs::start`], but for the pool of what reads: where the process has one, that is used as it is.
    pub fn start_in_library(&self) -> anyhow::Result<Cpu> {
        let counts = self.counts()?;
        let [threads] = counts[..] else {
            return Err(RuntimeError::Request("threads: expected one number".into()).into());
        };
        LOADERS.call_once(|| {
            // Refused where something else in this process has started the pool.
            let _ = self.start_loaders();
        });
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
    /// When there cannot be so many, they cannot be pinned, or `QSF_CPU` cannot be honoured.
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
