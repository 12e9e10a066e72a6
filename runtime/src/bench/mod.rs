//! Measuring: how fast a model runs, where its time goes, and what the machine could do at most.
//!
//! | File | Duty |
//! |---|---|
//! | `speed` | tokens per second of prompts and of decoding, and the parts of a token's time |
//! | `cold_load` | from a file outside of the page cache to the first token |
//! | `kernel` | single kernels without a model |
//! | `bandwidth` | what the machine reads from memory |
//! | `machine` | sizes of caches and memory, clock |
//!
//! Tokenization and sampling are no part of a speed. Inputs are synthetic and the same in every run.

mod bandwidth;
mod cold_load;
mod kernel;
mod machine;
mod speed;

pub use bandwidth::{Bandwidth, read_bandwidth};
pub use cold_load::{ColdLoad, cold_load};
pub use kernel::{KernelRow, KernelTest, Residence, kernel_tests};
pub use machine::{Caches, clock_ghz};
pub use speed::{Breakdown, MatrixShare, Rate, Speed, SpeedOptions, Test, TestKind, TimeShare, speed};
