//! What a thread keeps between the steps of a product by the tile unit, where it lies best for the caches.

use super::tiles::{Codes, Floats, SLOTS, Sums, TOKENS};

/// Panels that share the codes of tokens while these are in the first-level cache.
pub(super) const PAIR: usize = 2;
/// Groups of a chunk: the codes of a pair of panels (16 KiB) stay in the first-level cache for all tokens.
pub(super) const CHUNK: usize = 16;

/// What a thread needs between the steps of a task. It only grows, and not with the number of tokens.
#[derive(Default)]
pub(super) struct Scratch {
    /// The sums of the last products.
    pub(super) ring: Box<Page<[Sums; SLOTS]>>,
    /// Codes of a chunk, panel after panel.
    pub(super) codes: Box<Page<[[Codes; CHUNK]; PAIR]>>,
    /// Scales a of a chunk per group.
    pub(super) a: Box<Page<[[Floats; CHUNK]; PAIR]>>,
    /// Offsets b of the panels of a pass: panels x blocks.
    pub(super) b: Vec<Floats>,
    /// Sums sx of the tokens of a pass: tiles x groups.
    pub(super) sx: Vec<Floats>,
    /// Results so far: panels x tiles x tokens.
    pub(super) acc: Vec<[Floats; TOKENS]>,
}

/// Starts at a page, so that a load never seems to depend on a store that has the same place in another page: the processor
/// compares only those bits at first.
#[repr(C, align(4096))]
pub(super) struct Page<T>(pub(super) T);

impl Default for Page<[Sums; SLOTS]> {
    fn default() -> Self {
        Page([Sums::ZERO; SLOTS])
    }
}

impl Default for Page<[[Codes; CHUNK]; PAIR]> {
    fn default() -> Self {
        Page([[Codes::ZERO; CHUNK]; PAIR])
    }
}

impl Default for Page<[[Floats; CHUNK]; PAIR]> {
    fn default() -> Self {
        Page([[Floats::ZERO; CHUNK]; PAIR])
    }
}

/// Makes room for `len` values.
pub(super) fn grow<T: Copy>(buffer: &mut Vec<T>, len: usize, zero: T) {
    if buffer.len() < len {
        buffer.resize(len, zero);
    }
}
