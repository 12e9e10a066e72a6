//! The threads, and the regions of work that they share.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::{fmt, io, mem, ptr, slice};

use super::cores::{self, MAX_THREADS};
use super::gate::{Gate, Padded};

/// Multiply-adds below which entering the pool costs more than it saves.
const WORTH_THREADS: usize = 1 << 16;

/// Where the threads of a pool run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pinning {
    /// Where the system puts them.
    #[default]
    Free,
    /// Each on a physical core of its own, see [`physical_cores`](super::physical_cores). That includes the thread that makes
    /// the pool, which is taken for the one that will use it, and with it all threads that this one starts later.
    Cores,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No thread at all, or more than [`MAX_THREADS`].
    #[error("{threads} threads: expected 1 to {MAX_THREADS}")]
    Count {
        /// What was asked for.
        threads: usize,
    },
    /// There are fewer cores than threads that want one each.
    #[error("{threads} threads cannot have a physical core each: this process may use {cores}")]
    TooFewCores {
        /// What was asked for.
        threads: usize,
        /// Physical cores that this process may use.
        cores: usize,
    },
    /// The system does not tell its cores, or does not pin.
    #[error("this system does not let threads be pinned to cores")]
    CannotPin,
    /// The system refused a thread.
    #[error("cannot start worker threads")]
    Start(#[source] io::Error),
    /// The system refused a core.
    #[error("cannot pin a thread to processor {processor}")]
    Pin {
        /// Its number.
        processor: usize,
        /// The system's answer.
        source: io::Error,
    },
}

/// Threads that live as long as the pool: the one that calls, and workers.
///
/// A region of work is shared by all that are free. While one is running, other regions, of tasks inside it or of other
/// threads, run on the thread that calls, alone. Between regions workers wait, awake at first, then asleep.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    pinning: Pinning,
}

struct Shared {
    gate: Gate,
    /// Whether a thread is the owner of a region.
    owned: Padded<AtomicBool>,
    /// The task to be started next.
    next: Padded<AtomicUsize>,
    /// Written by the owner while the gate is closed and empty, read by workers inside.
    region: Padded<UnsafeCell<Region>>,
    panicked: AtomicBool,
    /// What the first task that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `region` is what keeps this from being automatic. Access to it follows the rule that stands there, which the gate
// enforces; and what it points to is `Sync`, by the bounds of `for_each`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// Tasks `0..tasks`, each a call of `run(task, i)`.
#[derive(Clone, Copy)]
struct Region {
    task: *const (),
    run: unsafe fn(*const (), usize),
    tasks: usize,
}

impl Pool {
    /// A pool of `threads` threads, which are the calling one and `threads - 1` workers.
    ///
    /// # Errors
    /// When the number is 0 or absurd, or the system refuses.
    pub fn new(threads: usize, pinning: Pinning) -> Result<Pool, PoolError> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(PoolError::Count { threads });
        }
        let processors = match pinning {
            Pinning::Free => None,
            Pinning::Cores => {
                let all = cores::physical_cores().ok_or(PoolError::CannotPin)?;
                let cores = all.len();
                Some(all.get(..threads).ok_or(PoolError::TooFewCores { threads, cores })?)
            }
        };
        let mut pool = Pool::of_one();
        let (report, reports) = mpsc::channel();
        for i in 1..threads {
            let (shared, report) = (pool.shared.clone(), report.clone());
            let processor = processors.map(|all| all[i]);
            let worker = thread::Builder::new().name(format!("qsf-{i}")).spawn(move || {
                let pinned = processor.map_or(Ok(()), pin);
                let ready = pinned.is_ok();
                // Nobody listens any more when another worker has failed.
                let _ = report.send(pinned);
                drop(report);
                if ready {
                    shared.help();
                }
            });
            pool.workers.push(worker.map_err(PoolError::Start)?);
        }
        drop(report);
        reports.into_iter().collect::<Result<(), _>>()?;
        processors.map_or(Ok(()), |all| pin(all[0]))?;
        pool.pinning = pinning;
        Ok(pool)
    }

    /// A pool of the calling thread alone.
    pub fn of_one() -> Pool {
        let idle = Region { task: ptr::null(), run: |_, _| {}, tasks: 0 };
        let shared = Shared {
            gate: Gate::default(),
            owned: Padded::default(),
            next: Padded::default(),
            region: Padded(UnsafeCell::new(idle)),
            panicked: AtomicBool::default(),
            panic: Mutex::default(),
        };
        Pool { shared: Arc::new(shared), workers: Vec::new(), pinning: Pinning::Free }
    }

    /// The pool that everything in this process shares that asks for no other: of [`default_threads`](super::default_threads)
    /// threads, or of one where the system refuses more. Started on first use.
    pub fn of_process() -> Arc<Pool> {
        static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| {
            let pool = Pool::new(cores::default_threads(), Pinning::Free);
            Arc::new(pool.unwrap_or_else(|_| Pool::of_one()))
        });
        POOL.clone()
    }

    /// Number of threads, the calling one included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Where the threads run.
    pub fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// Calls `task` once for each index below `tasks`. If `work` (multiply-adds of all tasks together) is worth it and no other
    /// region is running, on all threads, which start the tasks in ascending order, each the next when it is done with one;
    /// else on this thread.
    ///
    /// Returns when all are done. Nothing is allocated, and no lock is taken while workers are awake.
    ///
    /// # Panics
    /// When a task does: with what it said. Tasks that have not started by then may never be.
    pub fn for_each<F: Fn(usize) + Sync>(&self, tasks: usize, work: usize, task: F) {
        /// # Safety
        /// `task` must point to an `F` that lives.
        unsafe fn run<F: Fn(usize)>(task: *const (), i: usize) {
            // SAFETY: the caller's promise.
            let task = unsafe { &*task.cast::<F>() };
            task(i);
        }

        let alone = tasks <= 1 || work < WORTH_THREADS || self.workers.is_empty();
        // Acquire and release: one owner's accesses happen before the next one's.
        if alone || self.shared.owned.0.swap(true, Ordering::Acquire) {
            return (0..tasks).for_each(task);
        }
        let panic = self.shared.run(Region { task: (&raw const task).cast(), run: run::<F>, tasks });
        self.shared.owned.0.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Calls `task` once for each chunk of `chunk` values of `out` (the last may be shorter) with the chunk's number; spread as
    /// by [`Pool::for_each`].
    ///
    /// # Panics
    /// When `chunk` is 0, or a task panics.
    pub fn for_each_chunk<F>(&self, out: &mut [f32], chunk: usize, work: usize, task: F)
    where
        F: Fn(usize, &mut [f32]) + Sync,
    {
        assert!(chunk > 0, "chunks of nothing");
        let chunks = Chunks { start: out.as_mut_ptr(), len: out.len(), chunk };
        self.for_each(out.len().div_ceil(chunk), work, |i| {
            // SAFETY: every index comes once, and `out` is borrowed until all are done.
            task(i, unsafe { chunks.get(i) });
        });
    }
}

/// A slice that threads take chunks of.
struct Chunks {
    start: *mut f32,
    len: usize,
    chunk: usize,
}

// SAFETY: the slice is only reached through `get`, whose callers promise not to share a chunk.
unsafe impl Sync for Chunks {}

impl Chunks {
    /// # Safety
    /// The slice must be borrowed mutably while the result lives, nobody else may have this chunk, and there must be one.
    #[expect(clippy::mut_from_ref, reason = "the chunk is the caller's own, by contract")]
    unsafe fn get(&self, i: usize) -> &mut [f32] {
        let first = i * self.chunk;
        // SAFETY: inside the slice, since there is such a chunk; the rest is the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.start.add(first), self.chunk.min(self.len - first)) }
    }
}

impl Shared {
    /// Owner: runs a region to its end. Returns what a task that panicked said.
    fn run(&self, region: Region) -> Option<Box<dyn Any + Send>> {
        // SAFETY: the gate is closed and empty, as it was made or as the last owner left it.
        unsafe { *self.region.0.get() = region };
        // Relaxed here and at every task: that each index comes once needs no order with other memory, and the gate orders
        // this store with what workers inside do.
        self.next.0.store(0, Ordering::Relaxed);
        self.gate.open();
        // SAFETY: what the region points to outlives this call, which comes back when the gate is empty, panic or not.
        unsafe { self.take_tasks(region) };
        self.gate.close();
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panicked.store(false, Ordering::Relaxed);
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Worker: takes part in every region until the gate is shut.
    fn help(&self) {
        let mut last = None;
        while self.gate.enter(&mut last) {
            // SAFETY: inside of the gate the region is not written to, and what it points to lives.
            unsafe { self.take_tasks(*self.region.0.get()) };
            self.gate.leave();
        }
    }

    /// Runs tasks until all are taken. A panic is kept for the owner, and ends the region early.
    ///
    /// # Safety
    /// What the region points to must live.
    unsafe fn take_tasks(&self, region: Region) {
        let tasks = || loop {
            let i = self.next.0.fetch_add(1, Ordering::Relaxed);
            if i >= region.tasks {
                return;
            }
            // SAFETY: the caller's promise; the functions of regions ask for nothing else.
            unsafe { (region.run)(region.task, i) };
        };
        // The owner carries the panic on, as if it had happened there: nobody sees more of broken invariants than usual.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(tasks)) {
            self.next.0.store(region.tasks, Ordering::Relaxed);
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            match *first {
                None => *first = Some(panic),
                // Dropping it is calling code of the task again.
                Some(_) => mem::forget(panic),
            }
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}

fn pin(processor: usize) -> Result<(), PoolError> {
    cores::pin_to(processor).map_err(|source| PoolError::Pin { processor, source })
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.shut();
        for worker in self.workers.drain(..) {
            // Workers catch the panics of tasks.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).field("pinning", &self.pinning).finish()
    }
}
