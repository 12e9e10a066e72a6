//! What computes: an instruction set, and threads.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::isa::{CpuError, Isa};
use super::threads::{Pinning, Pool, PoolError};

/// An instruction set, and the threads that run what is compiled for it. A clone shares the threads.
#[derive(Debug, Clone)]
pub struct Cpu {
    isa: Isa,
    pool: Arc<Pool>,
}

impl Cpu {
    /// The backend for this instruction set, on the [pool of this process](Pool::of_process).
    pub fn new(isa: Isa) -> Cpu {
        Cpu::with_pool(isa, Pool::of_process())
    }

    /// The backend for the instruction set that the environment variable `QSF_CPU` names, else the fastest.
    ///
    /// # Errors
    /// When the variable names something unknown or something that this processor lacks.
    pub fn from_env() -> Result<Cpu, CpuError> {
        Isa::from_env().map(Cpu::new)
    }

    /// The backend for this instruction set, on these threads.
    pub fn with_pool(isa: Isa, pool: Arc<Pool>) -> Cpu {
        Cpu { isa, pool }
    }

    /// The backend for this instruction set, on a pool of its own of so many threads.
    ///
    /// # Errors
    /// When the number is 0 or absurd, or the system refuses.
    pub fn with_threads(isa: Isa, threads: usize) -> Result<Cpu, PoolError> {
        Ok(Cpu::with_pool(isa, Arc::new(Pool::new(threads, Pinning::Free)?)))
    }

    /// The instruction set.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// [`Pool::for_each`] on the threads of this backend.
    pub fn for_each<F: Fn(usize) + Sync>(&self, tasks: usize, work: usize, task: F) {
        self.pool.for_each(tasks, work, task);
    }

    /// [`Pool::for_each_part`] on the threads of this backend.
    pub fn for_each_part<F: Fn(Range<usize>) + Sync>(
        &self,
        units: usize,
        sizes: RangeInclusive<usize>,
        work: usize,
        task: F,
    ) {
        self.pool.for_each_part(units, sizes, work, task);
    }

    /// [`Pool::for_each_chunk`] on the threads of this backend.
    pub fn for_each_chunk<F>(&self, out: &mut [f32], chunk: usize, work: usize, task: F)
    where
        F: Fn(usize, &mut [f32]) + Sync,
    {
        self.pool.for_each_chunk(out, chunk, work, task);
    }
}
