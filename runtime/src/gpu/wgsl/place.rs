//! Queries, keys and values of a step go to their places: norms of heads, rotation, and the cache. A workgroup has one head of one token.

use super::eight_bit::{GROUP, rotate, row_words, scale_words};
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 64;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Width of a head.
    pub head_dim: usize,
    /// Values of a head that are rotated; 0: none.
    pub rotated: usize,
    /// Whether each head of queries and keys is normalized, with gains at `job.q_gain` and `job.k_gain`.
    pub norm: bool,
    /// Whether the cache has codes of 8 bits, and their scales; else it has f16.
    pub eight_bit: bool,
}

impl Place {
    /// The text of the kernel.
    pub fn wgsl(&self) -> String {
        let Place { head_dim, rotated, norm, eight_bit } = *self;
        let (words, room) =
            if eight_bit { (row_words(head_dim), 4 * row_words(head_dim)) } else { (head_dim / 2, head_dim) };
        Template::new(include_str!("place.wgsl"))
            .when("EIGHT_BIT", eight_bit)
            .when("TAIL", room > head_dim)
            .when("NORM", norm)
            .when("ROTATED", rotated > 0)
            .number("THREADS", THREADS)
            .number("HALF_THREADS", THREADS / 2)
            .number("ROOM", room)
            .number("WIDTH", head_dim)
            .number("TAIL", room - head_dim)
            .float("MEAN_OF", head_dim as f32)
            .number("HALF", rotated / 2)
            .number("GROUP", GROUP)
            .number("GROUP_WORDS", GROUP / 4)
            .number("WORDS", words)
            .number("SCALE_WORDS", scale_words(head_dim))
            .word("HADAMARD", if eight_bit { rotate("head", head_dim, THREADS) } else { String::new() })
            .make()
    }
}
