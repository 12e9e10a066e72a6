//! Regions of work: how their owner opens and closes them, how workers get in and out, and how all of them wait.
//!
//! One word says everything: whether a region is open, which one, how many workers are inside, whether the owner sleeps. Only
//! workers that are inside touch what the owner has prepared, and the owner goes on only when none is. A worker that is
//! late, because it slept or the system ran something else, finds the gate closed and is not waited for.
//!
//! Why that is sound, in the terms of the memory model of C++, which is Rust's:
//!
//! - What the owner wrote before [`Gate::open`] happens before what a worker does inside. The store that opens is a release;
//!   the exchange that lets a worker in is an acquire, and reads that store or an exchange of another worker behind it, which
//!   continues its release sequence.
//! - What a worker did inside happens before what the owner does after [`Gate::close`]. The subtraction that lets the worker
//!   out is a release; the owner's load is an acquire and reads that or a later one of the same release sequence.
//! - Nobody gets into a closed region: getting in and closing are read-modify-writes of one word. If closing is first,
//!   the exchange fails; if getting in is first, the owner sees the worker.
//! - The owner is always woken: "the owner sleeps" and the last worker's leaving are read-modify-writes of one word as well.
//!   If leaving is first, the owner sees an empty gate and does not sleep; else the worker sees that it does, and takes the lock,
//!   which the owner gives up only by sleeping.
//! - Workers are always woken: a worker stores `asleep` and then looks at the word; the owner stores the word and then looks at
//!   `asleep`. All four are in the single order of sequentially consistent operations, so that at least one sees the other. The
//!   lock does the rest, as above.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bits of the word: the number of workers inside.
const INSIDE: u64 = (1 << 14) - 1;
/// The owner sleeps until there are none.
const OWNER_SLEEPS: u64 = 1 << 14;
/// Workers may get in.
const OPEN: u64 = 1 << 15;
/// From here on up, the number of the region; it may wrap around.
const REGION: u64 = 1 << 16;
const REGION_BITS: u64 = !(REGION - 1) & !SHUT;
/// The pool is being dropped.
const SHUT: u64 = 1 << 63;

/// Looks at the word from one look at the clock to the next: the clock takes as long as several looks.
const LOOKS: u32 = 64;

/// How long a thread waits awake before it sleeps, in nanoseconds: the more often waiting pays, the longer.
///
/// To wake a thread takes as long as some matrices do, so that threads should not sleep between those of a layer, nor while a
/// token is chosen. But a thread that waits awake for one that the system has interrupted takes away time that this one needs,
/// and on a processor that the two share, all of it. So each wait in vain halves the limit, and each that was not raises it
/// a little: it is high while the threads have a processor each, and low while they have not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience(u64);

impl Patience {
    const LEAST: u64 = 4_000;
    const MOST: u64 = 200_000;
    const STEP: u64 = 2_000;

    /// Waits awake until `done`. `false`: not within the limit.
    fn wait(&mut self, done: impl Fn() -> bool) -> bool {
        let mut started = None;
        loop {
            for _ in 0..LOOKS {
                if done() {
                    self.0 = (self.0 + Self::STEP).min(Self::MOST);
                    return true;
                }
                spin_loop();
            }
            if started.get_or_insert_with(Instant::now).elapsed() >= Duration::from_nanos(self.0) {
                self.0 = (self.0 / 2).max(Self::LEAST);
                return false;
            }
        }
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience(Self::MOST)
    }
}

/// A value with cache lines to itself: two, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub T);

/// What a worker remembers from region to region.
#[derive(Default)]
pub(super) struct Visitor {
    last: Option<u64>,
    patience: Patience,
}

/// What the owner of a region and the workers pass through. `T` says what there is to do inside.
#[derive(Default)]
pub(super) struct Gate<T> {
    /// In the same cache lines, so that workers that see the one have the other.
    front: Padded<Front<T>>,
    /// A worker sleeps or is about to.
    asleep: Padded<AtomicBool>,
    lock: Mutex<()>,
    opened: Condvar,
    empty: Condvar,
}

#[derive(Default)]
struct Front<T> {
    word: AtomicU64,
    /// Written by the owner while the gate is closed and empty, read by workers inside.
    work: UnsafeCell<T>,
}

// SAFETY: access to `work` follows the rule that stands there; see the head of this file.
unsafe impl<T: Send + Sync> Sync for Front<T> {}

impl<T: Copy> Gate<T> {
    /// Owner: opens a new region for `work`. Takes the lock only if workers sleep.
    ///
    /// # Safety
    /// No region may be open, and only one thread at a time may be the owner.
    pub(super) unsafe fn open(&self, work: T) {
        // SAFETY: the gate is closed, by the caller's promise, and so empty: nobody reads this, nor writes to the word.
        unsafe { *self.front.0.work.get() = work };
        let region = self.word().load(Ordering::Relaxed).wrapping_add(REGION) & REGION_BITS;
        self.word().store(region | OPEN, Ordering::SeqCst);
        if self.asleep.0.load(Ordering::SeqCst) {
            self.wake_workers();
        }
    }

    /// Owner: closes the region and waits until no worker is inside.
    ///
    /// # Safety
    /// Only after [`Gate::open`], once.
    pub(super) unsafe fn close(&self, patience: &mut Patience) {
        self.word().fetch_sub(OPEN, Ordering::Relaxed);
        let is_empty = || self.word().load(Ordering::Acquire) & INSIDE == 0;
        if patience.wait(is_empty) {
            return;
        }
        let mut guard = self.lock();
        self.word().fetch_or(OWNER_SLEEPS, Ordering::Relaxed);
        while !is_empty() {
            guard = self.empty.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.word().fetch_and(!OWNER_SLEEPS, Ordering::Relaxed);
    }

    /// Lets every [`Gate::enter`] return `None` from now on. No region may be open.
    pub(super) fn shut(&self) {
        self.word().fetch_or(SHUT, Ordering::SeqCst);
        self.wake_workers();
    }

    /// Worker: waits for an open region other than the last that it was in, and gets in. `None`: the gate is shut.
    pub(super) fn enter(&self, visitor: &mut Visitor) -> Option<T> {
        let Visitor { last, patience } = visitor;
        let is_new = |word: u64| word & SHUT != 0 || word & OPEN != 0 && *last != Some(word & REGION_BITS);
        loop {
            let word = self.word().load(Ordering::Relaxed);
            if word & SHUT != 0 {
                return None;
            }
            if is_new(word) {
                let entered =
                    self.word().compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
                if entered.is_ok() {
                    *last = Some(word & REGION_BITS);
                    // SAFETY: inside.
                    return Some(unsafe { *self.front.0.work.get() });
                }
            } else if !patience.wait(|| is_new(self.word().load(Ordering::Relaxed))) {
                let guard = self.lock();
                self.asleep.0.store(true, Ordering::SeqCst);
                if !is_new(self.word().load(Ordering::SeqCst)) {
                    // Whatever it was woken for, the loop looks again.
                    drop(self.opened.wait(guard));
                }
            }
        }
    }

    /// Worker: gets out again.
    ///
    /// # Safety
    /// Only after [`Gate::enter`] has let this worker in, once.
    pub(super) unsafe fn leave(&self) {
        let before = self.word().fetch_sub(1, Ordering::Release);
        if before & OWNER_SLEEPS != 0 && before & INSIDE == 1 {
            drop(self.lock());
            self.empty.notify_one();
        }
    }

    fn wake_workers(&self) {
        let guard = self.lock();
        // Every worker that has set it sleeps, since the lock is ours, and is woken.
        self.asleep.0.store(false, Ordering::Relaxed);
        drop(guard);
        self.opened.notify_all();
    }

    fn word(&self) -> &AtomicU64 {
        &self.front.0.word
    }

    /// Nothing that could panic is done under the lock.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
