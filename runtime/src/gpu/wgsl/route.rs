//! Mixtures of experts: which experts a token goes through, and their results together. A workgroup has a token.

use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 64;

/// The text of the kernel that chooses experts. Of each token it writes, for each choice, the expert and then the bits of its weight: a
/// probability, divided by the sum of those that were chosen where `normalize` is set. Of equal ones, the first is chosen.
pub fn route(normalize: bool) -> String {
    Template::new(include_str!("route.wgsl"))
        .number("THREADS", THREADS)
        .number("HALF", THREADS / 2)
        .word("NORMALIZE", normalize)
        .make()
}

/// The text of the kernel that adds up what experts made of a token, each with its weight.
pub fn gather() -> String {
    Template::new(include_str!("gather.wgsl")).number("THREADS", THREADS).make()
}
