//! The gate of the thread pool (`cpu/src/threads/gate.rs`) under [loom](https://docs.rs/loom), which runs a test in every
//! order of its threads' steps, and with every value that a load may see. It finds data races, wake-ups that are lost (all
//! threads sleep), and regions that are left early.
//!
//! ```sh
//! cargo test --manifest-path loom/Cargo.toml
//! ```
//!
//! The file is the pool's own: only the types below it are loom's. Loom knows sequentially consistent fences, but takes loads and
//! stores that ask for as much for acquire and release; that is why the gate has fences.

#[path = "../../cpu/src/threads/gate.rs"]
#[allow(dead_code, reason = "the pool wraps more into cache lines than the gate")]
mod gate;

/// In the place of `cpu/src/threads/sync.rs`.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// Looks once: how often a thread looks before it sleeps changes nothing but the time that it takes.
    pub(super) fn wait_awake(done: impl Fn() -> bool) -> bool {
        done()
    }
}

#[cfg(test)]
mod tests;
