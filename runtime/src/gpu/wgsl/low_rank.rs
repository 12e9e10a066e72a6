//! What adapters add to a matrix.

use super::mat_vec::Inputs;
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
    /// The text; with `experts`, each choice has the matrices of its expert, which follow each other.
    pub fn wgsl(self, experts: Option<Inputs>) -> String {
        let file = include_str!("low_rank.wgsl");
        let (part, threads) = match self {
            LowRankStep::Down => ("down", DOWN_THREADS),
            LowRankStep::Up => ("up", THREADS),
        };
        Template::part(file, part)
            .number("THREADS", threads)
            .when("EXPERTS", experts.is_some())
            .word("INPUT", Inputs::row(experts))
            .make()
    }
}
