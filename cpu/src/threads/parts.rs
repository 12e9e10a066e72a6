//! Work that threads take in parts: each of them first large ones of a run of its own, then smaller ones, so that all end together.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gate::Padded;
use super::pool::Pool;

/// Most runs that work is cut into, one for each thread: more threads share them.
const MOST_RUNS: usize = 32;
/// A part is this fraction of what is left of its run: the guided self-scheduling of Polychronopoulos and Kuck (IEEE Transactions on
/// Computers C-36, 1987), in each run. With a half, others get little of a thread that is held up. With a sixth, there are many parts.
const FRACTION: usize = 3;

/// The next part of a run, of so many units unless fewer are left: `next` is its first unit that has not been taken.
fn take(next: &AtomicUsize, end: usize, sizes: &RangeInclusive<usize>) -> Option<Range<usize>> {
    // Relaxed: that each unit comes once needs no order with other memory.
    let mut first = next.load(Ordering::Relaxed);
    while first < end {
        let left = end - first;
        let part = first..first + (left / FRACTION).clamp(*sizes.start(), *sizes.end()).min(left);
        match next.compare_exchange_weak(first, part.end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(part),
            Err(now) => first = now,
        }
    }
    None
}

impl Pool {
    /// Calls `task` with parts of the units `0..units`, of so many each, until every unit has been in one. Where all threads take part
    /// ([`Pool::for_each`] says when), each has a run of units that follow each other, and takes parts of those of others once its own
    /// are done. So what it reads lies in a row, if that of the units does: memory that threads take turns in is read more slowly
    /// (docs/measurements/cpu-kernels.md, "Tasks in a row"). No part may wait for a later one.
    ///
    /// # Panics
    /// When a part may have no unit, or no number of them, or a task panics.
    pub fn for_each_part<F: Fn(Range<usize>) + Sync>(
        &self,
        units: usize,
        sizes: RangeInclusive<usize>,
        work: usize,
        task: F,
    ) {
        assert!(*sizes.start() > 0 && !sizes.is_empty(), "parts of {sizes:?} units");
        let runs = self.threads().min(MOST_RUNS);
        if runs == 1 {
            let most = *sizes.end();
            let part = |first: usize| first..units.min(first.saturating_add(most));
            return (0..units).step_by(most).map(part).for_each(task);
        }
        // Without overflow, as all units together are some thousands.
        let start = |run: usize| run * units / runs;
        let next: [_; MOST_RUNS] =
            std::array::from_fn(|run| Padded(AtomicUsize::new(if run < runs { start(run) } else { units })));
        self.for_each(self.threads(), work, |thread| {
            for run in (thread..thread + runs).map(|run| run % runs) {
                while let Some(part) = take(&next[run].0, start(run + 1), &sizes) {
                    task(part);
                }
            }
        });
    }
}
