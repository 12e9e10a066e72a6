//! Checks of weights beside something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::WeightSource;

/// Does `work` on this thread while the others of `threads` check what of the file of `source` was not checked when it was opened.
pub fn check_beside<T>(source: &dyn WeightSource, threads: usize, work: impl FnOnce() -> T) -> T {
    let Some(file) = source.unchecked() else { return work() };
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 1..threads {
            let check = || file.check_while(&|| !ends.load(Ordering::Relaxed));
            // Without a thread there is nothing to lose: who uses the bytes checks them.
            let _ = thread::Builder::new().spawn_scoped(scope, check);
        }
        // Also when `work` panics, or the threads would be waited for until all is checked.
        let _ends = EndsAll(&ends);
        work()
    })
}

struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
