//! Logits as keys that sort.

/// A function that makes a key of a logit.
pub const KEY: &str = include_str!("key.wgsl");
