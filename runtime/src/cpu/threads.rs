//! The one way work is spread over threads.

use rayon::prelude::*;

/// Multiply-adds below which entering the pool costs more than it saves.
const WORTH_THREADS: usize = 1 << 17;

/// Calls `task` once for each index below `tasks`, on the threads of the current pool when `work` (multiply-adds of all
/// tasks together) is worth it, else on this thread in ascending order.
pub fn for_each(tasks: usize, work: usize, task: impl Fn(usize) + Sync) {
    if tasks <= 1 || work < WORTH_THREADS || threads() == 1 {
        (0..tasks).for_each(task);
    } else {
        (0..tasks).into_par_iter().for_each(&task);
    }
}

/// Threads of the current pool.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
