//! What a sequence has seen.

/// The tokens of a sequence, and what comes next.
#[derive(Default)]
pub(super) struct Seen {
    pub tokens: Vec<u32>,
    /// Those behind the last token; empty where that was not the last to be run.
    pub logits: Vec<f32>,
}
