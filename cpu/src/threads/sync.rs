//! What the gate is made of, and how a thread waits that is awake. The model checker puts its own in the place of this file
//! (`loom/src/lib.rs`).

use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Looks at the word from one look at the clock to the next: the clock takes as long as several looks.
const LOOKS: u32 = 64;
/// How long a waiting thread does nothing else: longer than norms and rotations take between two matrices of a layer.
const SPIN: Duration = Duration::from_micros(5);
/// How long it then goes on, but lets other threads run each time. That costs nothing where every thread has a processor to
/// itself. Where it has not, the thread that is waited for may well be the one that needs this processor.
const YIELD: Duration = Duration::from_micros(100);

/// Waits without sleeping until `done`. `false`: that takes longer than it is worth.
pub(super) fn wait_awake(done: impl Fn() -> bool) -> bool {
    let mut started = None;
    loop {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            spin_loop();
        }
        let waited = started.get_or_insert_with(Instant::now).elapsed();
        if waited >= SPIN + YIELD {
            return done();
        }
        if waited >= SPIN {
            thread::yield_now();
        }
    }
}
