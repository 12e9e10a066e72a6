//! Gates of which most are 0 (Spark Transformer, arXiv 2506.06644).

use super::template::Template;

/// Threads of a workgroup, which has the row of a token.
const THREADS: usize = 256;

/// The text of the kernel.
pub fn wgsl() -> String {
    Template::new(include_str!("cut_off.wgsl")).number("THREADS", THREADS).number("HALF", THREADS / 2).make()
}
