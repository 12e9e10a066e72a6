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
//!   `asleep`. Between the two, each has a sequentially consistent fence, and fences have a single order, so that at least
//!   one sees what the other stored before its own. The lock does the rest, as above.
//!
//! `loom/` runs this file under a model checker, in all orders that the memory model allows.

use std::sync::PoisonError;

use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence, wait_awake};

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

/// A value with cache lines to itself: two, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub T);

/// What the owner of a region and the workers pass through.
#[derive(Default)]
pub(super) struct Gate {
    word: Padded<AtomicU64>,
    /// A worker sleeps or is about to.
    asleep: Padded<AtomicBool>,
    lock: Mutex<()>,
    opened: Condvar,
    empty: Condvar,
}

impl Gate {
    /// Owner: opens a new region. Takes the lock only if workers sleep.
    ///
    /// No region may be open, and only one thread at a time may be the owner.
    pub(super) fn open(&self) {
        // Nobody else writes to the word while the gate is closed and empty.
        let region = self.word.0.load(Ordering::Relaxed).wrapping_add(REGION) & REGION_BITS;
        self.word.0.store(region | OPEN, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.asleep.0.load(Ordering::Relaxed) {
            self.wake_workers();
        }
    }

    /// Owner: closes the region and waits until no worker is inside.
    pub(super) fn close(&self) {
        self.word.0.fetch_sub(OPEN, Ordering::Relaxed);
        let is_empty = || self.word.0.load(Ordering::Acquire) & INSIDE == 0;
        if wait_awake(is_empty) {
            return;
        }
        let mut guard = self.lock();
        self.word.0.fetch_or(OWNER_SLEEPS, Ordering::Relaxed);
        while !is_empty() {
            guard = self.empty.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.word.0.fetch_and(!OWNER_SLEEPS, Ordering::Relaxed);
    }

    /// Owner: lets every [`Gate::enter`] return `false` from now on. No region may be open.
    pub(super) fn shut(&self) {
        self.word.0.fetch_or(SHUT, Ordering::Relaxed);
        // Takes the lock in any case, which orders the two: a worker that goes to sleep later sees that the gate is shut.
        self.wake_workers();
    }

    /// Worker: waits for an open region other than `last`, the one that it was in, and gets in. `false`: the gate is shut.
    pub(super) fn enter(&self, last: &mut Option<u64>) -> bool {
        let is_new = |word: u64| word & SHUT != 0 || word & OPEN != 0 && *last != Some(word & REGION_BITS);
        loop {
            let word = self.word.0.load(Ordering::Relaxed);
            if word & SHUT != 0 {
                return false;
            }
            if is_new(word) {
                let entered =
                    self.word.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed);
                if entered.is_ok() {
                    *last = Some(word & REGION_BITS);
                    return true;
                }
            } else if !wait_awake(|| is_new(self.word.0.load(Ordering::Relaxed))) {
                let guard = self.lock();
                self.asleep.0.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if !is_new(self.word.0.load(Ordering::Relaxed)) {
                    // Whatever it was woken for, the loop looks again.
                    drop(self.opened.wait(guard));
                }
            }
        }
    }

    /// Worker: gets out again.
    pub(super) fn leave(&self) {
        let before = self.word.0.fetch_sub(1, Ordering::Release);
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

    /// Nothing that could panic is done under the lock.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
