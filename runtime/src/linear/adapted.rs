//! Adapters of the matrices of a call.
//!
//! What the first of the narrow matrices gives is needed by all rows of the second. So threads compute it before any part of the
//! stored matrix, and multiply that before they look at it. An adapter adds no region, and hardly ever makes a thread wait.

use std::cell::RefCell;
use std::hint;
use std::ops::{Range, RangeInclusive};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use qsf_cpu::Cpu;

use super::input::Input;
use super::narrow::{Narrow, NarrowScratch};
use super::output::Output;

/// Most matrices of one call.
pub(super) const MAX_WEIGHTS: usize = 4;
/// Tokens of a task of the first matrices.
const TOKENS: usize = 32;
/// Outputs of a task, where nothing else is multiplied.
const ROWS: usize = 256;
/// Looks at what others do before a thread lets them run.
const SPINS: usize = 1 << 10;

thread_local! {
    static SCRATCH: RefCell<NarrowScratch> = RefCell::default();
}

/// Between both matrices of adapters. A buffer: filled again and again, it only grows.
#[derive(Debug, Default)]
pub struct Latents {
    /// Floats, of which threads write their own.
    values: Vec<AtomicU32>,
    /// Tasks that have begun.
    taken: AtomicUsize,
    /// Those that have written theirs.
    done: AtomicUsize,
}

/// Adapters of some matrices that are multiplied with the same input.
pub struct Adapted<'a> {
    adapters: [Option<&'a Narrow>; MAX_WEIGHTS],
    /// Where the values of each begin.
    places: [usize; MAX_WEIGHTS],
    latents: Option<&'a Latents>,
    x: &'a [f32],
    cols: usize,
}

impl<'a> Adapted<'a> {
    /// No matrix has an adapter.
    pub const NONE: Adapted<'static> =
        Adapted { adapters: [None; MAX_WEIGHTS], places: [0; MAX_WEIGHTS], latents: None, x: &[], cols: 1 };

    /// For the matrices of a call, in their order.
    ///
    /// # Panics
    /// When there are more than four, or one has another number of columns than the input.
    pub fn new(
        adapters: impl IntoIterator<Item = Option<&'a Narrow>>,
        input: &Input<'a>,
        latents: &'a mut Latents,
    ) -> Adapted<'a> {
        let (mut all, mut places, mut values) = ([None; MAX_WEIGHTS], [0; MAX_WEIGHTS], 0);
        for (i, adapter) in adapters.into_iter().enumerate() {
            (all[i], places[i]) = (adapter.filter(|adapter| adapter.rank() > 0), values);
            if let Some(adapter) = all[i] {
                assert_eq!(adapter.shape()[1], input.k, "adapter of other columns than the input");
                values += adapter.rank() * input.rows();
            }
        }
        if values == 0 {
            return Adapted::NONE;
        }
        if latents.values.len() < values {
            latents.values.resize_with(values, AtomicU32::default);
        }
        *latents.taken.get_mut() = 0;
        *latents.done.get_mut() = 0;
        Adapted { adapters: all, places, latents: Some(latents), x: input.x, cols: input.k }
    }

    fn tokens(&self) -> usize {
        self.x.len() / self.cols
    }

    /// [`Cpu::for_each_part`], where threads do the first tasks before any part. `work`: of all parts, in multiply-adds.
    pub(super) fn for_each_part(
        &self,
        cpu: &Cpu,
        units: usize,
        sizes: RangeInclusive<usize>,
        work: usize,
        task: impl Fn(Range<usize>) + Sync,
    ) {
        cpu.for_each_part(units, sizes, work, |part| {
            self.run_first_tasks(cpu);
            task(part);
        });
    }

    /// Tasks that come before all parts.
    fn first_tasks(&self) -> usize {
        if self.latents.is_some() { self.tokens().div_ceil(TOKENS) } else { 0 }
    }

    /// Multiply-adds.
    pub(super) fn work(&self) -> usize {
        let of = |adapter: &&Narrow| adapter.rank() * adapter.shape().iter().sum::<usize>();
        self.adapters.iter().flatten().map(of).sum::<usize>().saturating_mul(self.tokens())
    }

    /// Takes first tasks until there are no more. Others may still be at work on theirs.
    fn run_first_tasks(&self, cpu: &Cpu) {
        let Some(latents) = self.latents else { return };
        let tasks = self.first_tasks();
        // Looks first, for most parts come later.
        while latents.taken.load(Ordering::Relaxed) < tasks {
            let task = latents.taken.fetch_add(1, Ordering::Relaxed);
            if task < tasks {
                self.run_first(cpu, latents, task);
            }
        }
    }

    /// One of the first tasks: some tokens, which come through the caches once for all adapters.
    fn run_first(&self, cpu: &Cpu, latents: &Latents, task: usize) {
        // Others wait for it, whatever becomes of it.
        let _done = Done(&latents.done);
        let tokens = task * TOKENS..self.tokens().min((task + 1) * TOKENS);
        let x = &self.x[tokens.start * self.cols..tokens.end * self.cols];
        for (adapter, place) in self.adapters.iter().zip(self.places) {
            let Some(adapter) = adapter else { continue };
            SCRATCH.with_borrow_mut(|scratch| {
                adapter.latent(cpu.isa(), x, scratch, |token, r, value| {
                    let at = place + (tokens.start + token) * adapter.rank() + r;
                    latents.values[at].store(value.to_bits(), Ordering::Relaxed);
                });
            });
        }
    }

    /// Adds to the columns `rows` of `out` what the adapter of matrix `number` does there.
    ///
    /// # Safety
    /// No other thread may use the same columns of the output at the same time.
    pub(super) unsafe fn add(&self, cpu: &Cpu, number: usize, rows: Range<usize>, out: &Output<'_>) {
        let (Some(adapter), Some(latents)) = (self.adapters[number], self.latents) else { return };
        self.wait(latents);
        let values = &latents.values[self.places[number]..][..adapter.rank() * self.tokens()];
        // SAFETY: an atomic has the layout of its number, and every pattern of bits is a float. All are written: that has just been
        // waited for. They are written again only after the next call has borrowed them mutably.
        let values = unsafe { slice::from_raw_parts(values.as_ptr().cast::<f32>(), values.len()) };
        // SAFETY: the caller's promise.
        unsafe { adapter.add(cpu.isa(), values, rows, out) };
    }

    /// Waits until all of the first tasks are done: they have been taken before this part, by threads that are at work.
    fn wait(&self, latents: &Latents) {
        let tasks = self.first_tasks();
        let mut looks = 0;
        // Acquire: what the tasks wrote before they released the count is seen.
        while latents.done.load(Ordering::Acquire) < tasks {
            looks += 1;
            if looks < SPINS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Adds to each of `outs` what its adapter does, where the matrices have been multiplied already.
    pub fn add_alone(&self, cpu: &Cpu, outs: &mut [&mut [f32]]) {
        if self.latents.is_none() {
            return;
        }
        let tokens = self.tokens();
        let mut outputs: [Option<Output<'_>>; MAX_WEIGHTS] = [const { None }; MAX_WEIGHTS];
        let mut most = 0;
        for (slot, out) in outputs.iter_mut().zip(outs) {
            let columns = out.len() / tokens;
            most = most.max(columns.div_ceil(ROWS));
            *slot = Some(Output::columns_of(out, tokens, 0..columns));
        }
        self.for_each_part(cpu, most * MAX_WEIGHTS, 1..=1, self.work(), |part| {
            let (number, part) = (part.start / most, part.start % most);
            let (Some(out), Some(adapter)) = (&outputs[number], self.adapters[number]) else { return };
            let end = adapter.shape()[0].min((part + 1) * ROWS);
            if part * ROWS < end {
                // SAFETY: every unit is in one part, and each has columns of its own.
                unsafe { self.add(cpu, number, part * ROWS..end, out) };
            }
        });
    }
}

/// Counts a task as done when it ends.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        // Release: what the task wrote is seen by those who see the count.
        self.0.fetch_add(1, Ordering::Release);
    }
}
