//! How work is spread over threads.
//!
//! | File | Duty |
//! |---|---|
//! | `pool` | the threads, and the regions of work that they share |
//! | `parts` | work that threads take in parts, which become smaller |
//! | `gate` | how workers get into a region and out again, and how all of them sleep |
//! | `sync` | what the gate is made of, and how threads wait that are awake |
//! | `cores` | physical cores, pinning, the number of threads by default |

mod cores;
mod gate;
mod parts;
mod pool;
mod sync;

pub use cores::{MAX_THREADS, default_threads, physical_cores};
pub use pool::{Pinning, Pool, PoolError};

#[cfg(test)]
mod tests;
