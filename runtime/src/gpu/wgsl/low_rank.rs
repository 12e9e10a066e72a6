//! What adapters add to a matrix.

use super::template::Template;

/// Threads of a workgroup of the second matrix.
pub const THREADS: usize = 256;
/// Threads that share the inputs of the first.
const DOWN_THREADS: usize = 64;

/// Both steps: inputs to `rank` values, and these to outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LowRankStep {
    /// The first matrix.
    Down,
    /// The second, added to what is there.
    Up,
}

impl LowRankStep {
    /// The text.
    pub fn wgsl(self) -> String {
        let file = include_str!("low_rank.wgsl");
        let (part, threads) = match self {
            LowRankStep::Down => ("down", DOWN_THREADS),
            LowRankStep::Up => ("up", THREADS),
        };
        Template::part(file, part).number("THREADS", threads).make()
    }
}
