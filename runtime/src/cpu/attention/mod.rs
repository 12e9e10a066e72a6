//! Attention over cached keys and values.
//!
//! A query takes the positions that it sees in chunks of 256, counted from the start of the text. Of each chunk it gets the
//! largest score, the sum of `e^(score - largest)`, and the sum of the values with these weights; these are joined in
//! ascending order of chunks: the online softmax of Milakov and Gimelshein, arXiv 1805.02867, over blocks as in Dao et al.,
//! arXiv 2205.14135. A score is one chain of fused multiply-adds over the dimensions, each column of a sum one over the
//! positions. So nothing depends on which queries and chunks are computed together, or where.
//!
//! Queries that read the same keys and values (those of a group of heads, for one token or several) read them together.
//!
//! What is stored in fewer bits than a float is turned into floats 64 positions at a time, just before all queries read it.
//!
//! | File | Duty |
//! |---|---|
//! | `kv_type` | the types that keys and values are stored in |
//! | `codes` | 32 values as codes of a few bits |
//! | `stored` | keys or values of a head in their type |
//! | `layer` | those of a layer: pages, rings |
//! | `tile` | products of several queries with several vectors |
//! | `chunk` | some queries over one chunk |
//! | `tiles` | the same by a matrix unit, where that is asked for |
//! | `join` | chunks to the result of a query |
//! | `mass` | how much attention positions get |
//! | `spread`, `scratch` | a layer's work, on all threads; what each of them keeps |

mod chunk;
mod codes;
mod join;
mod kv_type;
mod layer;
mod mass;
mod scratch;
mod spread;
mod stored;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(any(test, target_arch = "x86_64"))]
mod tiles;

use std::ops::Range;

use chunk::CHUNK;
use layer::KvHead;

pub use kv_type::{KvType, KvTypes};
pub use layer::{KvLayer, KvShape};
pub use spread::AttentionBuffer;

/// What attention computes of queries, keys and values.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Query heads: as many for each key/value head, and those of one side by side.
    pub heads: usize,
    /// Positions that a query sees, its own the last of them; at least 1.
    pub window: usize,
    /// What `q . k` is multiplied with: that is the score.
    pub scale: f32,
    /// Then it becomes `cap * tanh(score / cap)`, where given.
    pub softcap: Option<f32>,
    /// Then it is less by the head's slope for each position that the key is behind the query (ALiBi, arXiv 2108.12409).
    /// One per head; empty for none.
    pub slopes: &'a [f32],
    /// Whether products are in bfloat16 where the processor has a matrix unit and there are several tokens: an exception from what is
    /// said above, for sums are in an order of the unit's own.
    pub by_unit: bool,
}

/// Queries of some heads that share keys and values, for tokens at consecutive positions. Rows are numbered by tokens,
/// then heads.
#[derive(Clone, Copy)]
struct Queries<'a> {
    attention: &'a Attention<'a>,
    kv: KvHead<'a>,
    /// Tokens x heads x head size, from the first token on.
    q: &'a [f32],
    first_head: usize,
    heads: usize,
    /// Of the first token.
    position: usize,
}

impl<'a> Queries<'a> {
    #[inline(always)]
    fn head(&self, row: usize) -> usize {
        self.first_head + row % self.heads
    }

    #[inline(always)]
    fn query(&self, row: usize) -> &'a [f32] {
        let dim = self.kv.dim();
        &self.q[(row / self.heads * self.attention.heads + self.head(row)) * dim..][..dim]
    }

    /// Positions that a row sees.
    #[inline(always)]
    fn seen(&self, row: usize) -> Range<usize> {
        let end = self.position + row / self.heads + 1;
        end.saturating_sub(self.attention.window)..end
    }

    /// The rows of so many tokens that see some of a chunk, which any of them must see.
    #[inline(always)]
    fn seeing(&self, chunk: usize, tokens: usize) -> Range<usize> {
        // The first token behind the chunk's start, and behind its end by a window.
        let first = (chunk * CHUNK).saturating_sub(self.position);
        let behind = ((chunk + 1) * CHUNK).saturating_add(self.attention.window - 1);
        let last = behind.saturating_sub(self.position).min(tokens);
        first * self.heads..last * self.heads
    }
}
