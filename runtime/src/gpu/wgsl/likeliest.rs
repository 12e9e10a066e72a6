//! The likeliest of many tokens, in the order of their rank. Each workgroup sorts a slice and keeps what can be among them; what
//! the slices kept is sliced again, until one is left.

use super::key::KEY;
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;
/// Entries that a workgroup sorts: 16 KiB of its memory, which is as much as there is everywhere.
pub const SLICE: usize = 2048;
/// Entries that are kept of a slice, and in the end.
pub const KEPT: usize = 256;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Likeliest {
    /// Of logits. It also adds up their probabilities relative to the likeliest of the slice.
    Logits,
    /// Of what was kept.
    Kept,
}

impl Likeliest {
    /// The text of the kernel. An entry is a key that grows with the logit, 0 where there is none, and a token. Slices have their
    /// best key and their sum at the beginning, and what they keep at `job.to`.
    pub fn wgsl(self) -> String {
        Template::new(include_str!("likeliest.wgsl"))
            .when("OF_LOGITS", self == Likeliest::Logits)
            .number("THREADS", THREADS)
            .number("SLICE", SLICE)
            .number("PAIRS", SLICE / 2)
            .number("KEPT", KEPT)
            .number("HALF", THREADS / 2)
            .word("KEY", KEY)
            .make()
    }
}
