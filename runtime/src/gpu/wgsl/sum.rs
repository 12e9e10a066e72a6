//! Words of a buffer added up, and nothing else: how fast a device reads, which other kernels are measured by.

use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;

/// The text of the kernel.
pub fn wgsl() -> String {
    Template::new(include_str!("sum.wgsl")).number("THREADS", THREADS).make()
}
