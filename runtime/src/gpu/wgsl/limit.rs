//! Inputs of matrix units, which are rounded to f16: that has nothing above 65504.

use super::template::Template;

/// Threads of a workgroup, which has the row of a token.
const THREADS: usize = 256;

/// The text of the kernel that finds what rows are multiplied with.
pub fn wgsl() -> String {
    Template::new(include_str!("limit.wgsl")).number("THREADS", THREADS).number("HALF", THREADS / 2).make()
}
