//! Queries, keys and values of a step go to their places: norms of heads, rotation, and the cache. A workgroup has one head of one token.

use super::eight_bit::{GROUP, rotate, row_words, scale_words};
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 64;

const FILE: &str = include_str!("place.wgsl");

/// How each head of queries and keys is normalized, with gains at `job.q_gain` and `job.k_gain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadNorm {
    /// By its mean square, with the gains that all heads share.
    Head,
    /// The same, after rotation.
    RotatedHead,
    /// The same without gains.
    RotatedHeadPlain,
    /// By mean and variance, with gains of its own.
    HeadsApart,
}

impl HeadNorm {
    fn is_last(self) -> bool {
        matches!(self, HeadNorm::RotatedHead | HeadNorm::RotatedHeadPlain)
    }

    fn gain(self) -> String {
        let part = |name| Template::part(FILE, name);
        match self {
            HeadNorm::Head | HeadNorm::RotatedHead => part("gain").make().trim().into(),
            HeadNorm::RotatedHeadPlain => "1.0".into(),
            HeadNorm::HeadsApart => part("gain_of_head").make().trim().into(),
        }
    }
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Width of a head of those that are placed.
    pub head_dim: usize,
    /// Width of a head of keys in the cache.
    pub key_dim: usize,
    /// Values of a head that are rotated; 0: none.
    pub rotated: usize,
    /// How heads of queries and keys are normalized.
    pub norm: Option<HeadNorm>,
    /// Whether each head of values is normalized.
    pub value_norm: bool,
    /// Whether all are limited to `job.clip` on both sides of 0, before rotation.
    pub clip: bool,
    /// Whether values are multiplied with `job.value_scale`.
    pub value_scale: bool,
    /// Whether queries grow with their position, by `job.growth` and `job.growth_positions`, and from where that is counted.
    pub growth: Option<usize>,
    /// Whether the cache has codes of 8 bits, and their scales; else it has f16.
    pub eight_bit: bool,
}

impl Place {
    /// Of heads as wide as keys are, as they are.
    pub const fn plain(head_dim: usize, eight_bit: bool) -> Place {
        Place {
            head_dim,
            key_dim: head_dim,
            rotated: 0,
            norm: None,
            value_norm: false,
            clip: false,
            value_scale: false,
            growth: None,
            eight_bit,
        }
    }

    /// The text of the kernel.
    pub fn wgsl(&self) -> String {
        let Place { head_dim, rotated, eight_bit, .. } = *self;
        let words = if eight_bit { row_words(head_dim) } else { head_dim.div_ceil(2) };
        let room = words * if eight_bit { 4 } else { 2 };
        let of_pairs = |last: bool| {
            let norm = self.norm.filter(|norm| norm.is_last() == last);
            norm.map_or(String::new(), |norm| {
                self.norm("is_q || is_k", norm == HeadNorm::HeadsApart, &norm.gain())
            })
        };
        let of_values = if self.value_norm { self.norm("is_v", false, "1.0") } else { String::new() };
        self.sized(Template::new(FILE))
            .when("EIGHT_BIT", eight_bit)
            .when("TAIL", room > head_dim)
            .when("CLIP", self.clip)
            .when("VALUE_SCALE", self.value_scale)
            .when("GROWTH", self.growth.is_some())
            .when("ROTATED", rotated > 0)
            .number("COUNTED_FROM", self.growth.unwrap_or(0))
            .number("HALF_THREADS", THREADS / 2)
            .number("ROOM", room)
            .number("TAIL", room - head_dim)
            .number("HALF", rotated / 2)
            .number("GROUP", GROUP)
            .number("GROUP_WORDS", GROUP / 4)
            .number("WORDS", words)
            .number("SCALE_WORDS", scale_words(head_dim))
            .number("KEY_SCALE_WORDS", scale_words(self.key_dim))
            .word("NORM_FIRST", of_pairs(false))
            .word("NORM_LAST", of_pairs(true) + &of_values)
            .word("HADAMARD", if eight_bit { rotate("head", head_dim, THREADS) } else { String::new() })
            .make()
    }

    fn sized(&self, text: Template) -> Template {
        text.number("THREADS", THREADS).number("WIDTH", self.head_dim).float("MEAN_OF", self.head_dim as f32)
    }

    /// Statements that normalize the head of a workgroup of which `normed` holds.
    fn norm(&self, normed: &'static str, centred: bool, gain: &str) -> String {
        // What is set is not looked through for places again.
        let gain = gain.replace("WIDTH", &format!("{}u", self.head_dim));
        let part = self.sized(Template::part(FILE, "norm")).when("CENTRED", centred);
        part.word("NORMED", normed).word("GAIN", gain).make()
    }
}
