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

/// Calls `task` once for each chunk of `chunk` values of `out` with the chunk's number; spread as by [`for_each`].
pub fn for_each_chunk(out: &mut [f32], chunk: usize, work: usize, task: impl Fn(usize, &mut [f32]) + Sync) {
    if out.len() <= chunk || work < WORTH_THREADS || threads() == 1 {
        out.chunks_mut(chunk).enumerate().for_each(|(i, out)| task(i, out));
    } else {
        out.par_chunks_mut(chunk).enumerate().for_each(|(i, out)| task(i, out));
    }
}

/// Threads of the current pool.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
