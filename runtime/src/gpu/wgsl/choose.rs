//! The likeliest token, which goes where the next step reads it from: the host need not know it before that step begins.

use super::key::KEY;
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;
/// Workgroups that look at a part of the logits each.
pub const PARTS: usize = 64;

/// What is written where no logit is a number.
pub const NONE: u32 = u32::MAX;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choose {
    /// Of the logits, [`PARTS`] candidates: a key that grows with the logit, and the id.
    Parts,
    /// Of the candidates the token, where the next step begins and where it can be read back.
    Token,
}

impl Choose {
    /// The text of the kernel. Of equal logits, the lowest id is chosen, as on the CPU; NaN and negative infinity never are.
    pub fn wgsl(self) -> String {
        Template::new(include_str!("choose.wgsl"))
            .when("OF_LOGITS", self == Choose::Parts)
            .number("THREADS", THREADS)
            .number("ALL_THREADS", THREADS * PARTS)
            .number("HALF", THREADS / 2)
            .number("PARTS", PARTS)
            .number("NONE", NONE as usize)
            .word("KEY", KEY)
            .make()
    }
}
