//! What attention computes, and of which queries.

use std::ops::Range;

use super::layer::KvHead;
use super::sizes::{CHUNK, span_chunks};

/// What attention computes of queries, keys and values.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Query heads: as many for each key/value head, and those of one side by side.
    pub heads: usize,
    /// Positions that a query sees, its own the last of them; at least 1.
    pub window: usize,
    /// The first position that any query sees, whatever the window; not behind any query.
    pub first: usize,
    /// What `q . k` is multiplied with: that is the score.
    pub scale: f32,
    /// Then it becomes `cap * tanh(score / cap)`, where given.
    pub softcap: Option<f32>,
    /// Then it is less by the head's slope for each position that the key is behind the query (ALiBi, arXiv 2108.12409).
    /// One per head; empty for none.
    pub slopes: &'a [f32],
    /// A score for each head that takes part in the softmax and has no value (arXiv 2309.17453); empty for none.
    pub sinks: &'a [f32],
    /// Whether products are in bfloat16 or bytes where the processor multiplies many of these at once and there are several tokens: an
    /// exception from what is said above, for all is rounded to that, and sums in bfloat16 are in an order of the unit's own.
    pub by_unit: bool,
}

/// Queries of some heads that share keys and values, for tokens at consecutive positions. Rows are numbered by tokens,
/// then heads.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) kv: KvHead<'a>,
    /// Tokens x heads x head size, from the first token on.
    pub(super) q: &'a [f32],
    pub(super) first_head: usize,
    pub(super) heads: usize,
    /// Of the first token.
    pub(super) position: usize,
}

impl<'a> Queries<'a> {
    #[inline(always)]
    pub(super) fn head(&self, row: usize) -> usize {
        self.first_head + row % self.heads
    }

    /// The score without a value of the head of a row.
    #[inline(always)]
    pub(super) fn sink(&self, row: usize) -> Option<f32> {
        self.attention.sinks.get(self.head(row)).copied()
    }

    #[inline(always)]
    pub(super) fn query(&self, row: usize) -> &'a [f32] {
        let dim = self.kv.dim();
        &self.q[(row / self.heads * self.attention.heads + self.head(row)) * dim..][..dim]
    }

    /// Positions that a row sees.
    #[inline(always)]
    pub(super) fn seen(&self, row: usize) -> Range<usize> {
        let end = self.position + row / self.heads + 1;
        end.saturating_sub(self.attention.window).max(self.attention.first)..end
    }

    /// The chunks that a row sees of the span that one of them is in.
    #[inline(always)]
    pub(super) fn span(&self, row: usize, chunk: usize) -> Range<usize> {
        let seen = self.seen(row);
        let size = span_chunks(seen.len());
        let first = chunk / size * size;
        first.max(seen.start / CHUNK)..(first + size).min(seen.end.div_ceil(CHUNK))
    }

    /// The rows of so many tokens that see some of a chunk, which any of them must see.
    #[inline(always)]
    pub(super) fn seeing(&self, chunk: usize, tokens: usize) -> Range<usize> {
        // The first token behind the chunk's start, and behind its end by a window.
        let first = (chunk * CHUNK).saturating_sub(self.position);
        let behind = ((chunk + 1) * CHUNK).saturating_add(self.attention.window - 1);
        let last = behind.saturating_sub(self.position).min(tokens);
        first * self.heads..last * self.heads
    }
}
