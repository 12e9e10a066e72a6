//! A layer's attention, spread over the threads.

use super::super::Cpu;
use super::super::aligned::AlignedFloats;
use super::super::lanes::{LANES, Lanes};
use super::super::shared::Shared;
use super::super::vector::{self, Vector, VectorWork};
use super::chunk::{CHUNK, ChunkBuffers, attend_chunk, pack, packed_lanes};
use super::join::{JoinAll, clear, finish, join};
use super::scratch::{Scratch, StepRoom, with_scratch};
use super::tile::ROW_LANES;
use super::{Attention, KvLayer, Queries};
use crate::error::Result;

/// Most queries that are computed together: what they read from the second-level cache is shared by so many, and their
/// scores still fit the first.
pub(super) const ROWS: usize = 32;

/// Results of single chunks on their way to be joined.
#[derive(Debug)]
pub struct AttentionBuffer {
    parts: AlignedFloats,
}

impl AttentionBuffer {
    /// A buffer for a token of up to `heads` heads of `head_dim` values that sees up to `capacity` positions.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(heads: usize, head_dim: usize, capacity: usize) -> Result<AttentionBuffer> {
        let floats = AttentionBuffer::floats(heads, head_dim, capacity);
        Ok(AttentionBuffer { parts: AlignedFloats::zeros(floats, "results of attention")? })
    }

    /// Bytes that it takes, without what the allocator adds.
    pub const fn bytes(heads: usize, head_dim: usize, capacity: usize) -> u64 {
        AlignedFloats::bytes(AttentionBuffer::floats(heads, head_dim, capacity)) as u64
    }

    const fn floats(heads: usize, head_dim: usize, capacity: usize) -> usize {
        let rows = heads.saturating_mul(capacity.div_ceil(CHUNK));
        rows.saturating_mul((head_dim.div_ceil(LANES) + 1).saturating_mul(LANES))
    }
}

impl Cpu {
    /// `out = softmax(scores of q and keys) values`, for every head of some tokens: `q` and `out` are tokens x heads x head
    /// size. The first token stands at `position`; keys and values are stored up to the last.
    ///
    /// # Panics
    /// When the heads are not as many for each key/value head, the window is empty, or lengths do not fit together.
    pub fn attend(
        &self,
        attention: &Attention<'_>,
        kv: &KvLayer,
        position: usize,
        q: &[f32],
        buffer: &mut AttentionBuffer,
        out: &mut [f32],
    ) {
        let Attention { heads, window, slopes, .. } = *attention;
        let width = heads * kv.head_dim();
        assert!(heads.is_multiple_of(kv.kv_heads()), "{heads} heads for {} of keys", kv.kv_heads());
        assert!(window > 0 && (slopes.is_empty() || slopes.len() == heads), "attention of nothing");
        assert!(q.len() == out.len() && q.len().is_multiple_of(width), "queries are not rows of {width}");
        let tokens = q.len() / width;
        let first = (position + 1).saturating_sub(window);
        assert!(tokens == 0 || kv.holds(first, position + tokens - 1), "positions that are not there");
        let work = q.len().saturating_mul(2 * (position + tokens).min(window));
        let layer = Layer { attention, kv, position, q, group: heads / kv.kv_heads() };
        match tokens {
            0 => {}
            1 => self.attend_one(layer, work, buffer, out),
            _ => self.attend_many(layer, tokens, work, out),
        }
    }

    /// One token: chunks are computed apart, as there may be more threads than heads, and then joined.
    fn attend_one(&self, layer: Layer<'_>, work: usize, buffer: &mut AttentionBuffer, out: &mut [f32]) {
        let (dim, group) = (layer.kv.head_dim(), layer.group);
        let first = layer.queries(0, 0);
        let (seen, lanes) = (first.seen(0), first.kv.columns() + 1);
        let (first_chunk, chunks) = (seen.start / CHUNK, seen.end.div_ceil(CHUNK) - seen.start / CHUNK);
        // Key/value heads x chunks x heads of the group.
        let parts = &mut buffer.parts[..layer.attention.heads * chunks * lanes * LANES];
        self.for_each_chunk(parts, group * lanes * LANES, work, |task, parts| {
            let (kv_head, chunk) = (task / chunks, first_chunk + task % chunks);
            with_scratch(|Scratch { packed, scores, step, .. }| {
                for (i, parts) in parts.chunks_mut(ROWS * lanes * LANES).enumerate() {
                    let queries = layer.queries(0, kv_head * group + i * ROWS);
                    let packed = packed.lanes(packed_lanes(queries.heads, dim));
                    let scores = scores.lanes(queries.heads * ROW_LANES);
                    let parts = parts.as_chunks_mut().0;
                    vector::run(self.isa(), OneChunk { queries, chunk, packed, scores, parts, step });
                }
            });
        });
        let parts = parts.as_chunks::<LANES>().0;
        let rotated = first.kv.rotated_values();
        self.for_each_chunk(out, dim, layer.attention.heads * chunks * dim, |head, out| {
            let parts = &parts[head / group * group * chunks * lanes..][..group * chunks * lanes];
            let (parts, step) = (&parts[head % group * lanes..], group * lanes);
            with_scratch(|Scratch { rows, .. }| {
                vector::run(self.isa(), JoinAll { parts, step, row: rows.lanes(lanes), out, rotated });
            });
        });
    }

    /// Several tokens: tasks are blocks of them, for the heads of a group.
    fn attend_many(&self, layer: Layer<'_>, tokens: usize, work: usize, out: &mut [f32]) {
        let (dim, heads, group) = (layer.kv.head_dim(), layer.attention.heads, layer.group);
        let block = (ROWS / group).max(1);
        let (blocks, parts_of_group) = (tokens.div_ceil(block), group.div_ceil(ROWS));
        let out = Shared::new(out);
        self.for_each(layer.kv.kv_heads() * parts_of_group * blocks, work, |task| {
            // Later tokens see more. Such blocks come first, so that none of them is left for the end.
            let (part, token) = (task / blocks, (blocks - 1 - task % blocks) * block);
            let head = part / parts_of_group * group + part % parts_of_group * ROWS;
            let queries = layer.queries(token, head);
            let (tokens, lanes) = (block.min(tokens - token), queries.kv.columns() + 1);
            let count = tokens * queries.heads;
            with_scratch(|Scratch { packed, scores, parts, rows, step }| {
                let rows = rows.lanes(count * lanes);
                let packed = packed.lanes(packed_lanes(count, dim));
                let (scores, parts) = (scores.lanes(count * ROW_LANES), parts.lanes(count * lanes));
                vector::run(self.isa(), TokenBlock { queries, tokens, packed, scores, parts, rows, step });
                for (row, result) in rows.chunks_exact(lanes).enumerate() {
                    let at = ((token + row / queries.heads) * heads + queries.head(row)) * dim;
                    // SAFETY: each head of each token is in one task.
                    unsafe { out.part(at..at + dim) }.copy_from_slice(&result.as_flattened()[..dim]);
                }
            });
        });
    }
}

/// The arguments of [`Cpu::attend`].
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub attention: &'a Attention<'a>,
    pub kv: &'a KvLayer,
    pub position: usize,
    pub q: &'a [f32],
    /// Heads for each key/value head.
    pub group: usize,
}

impl<'a> Layer<'a> {
    /// Queries of the heads from `first_head` on that share its keys, [`ROWS`] at most, of the tokens from `token` on.
    pub fn queries(&self, token: usize, first_head: usize) -> Queries<'a> {
        let Layer { attention, kv, position, q, group } = *self;
        Queries {
            attention,
            kv: kv.head(first_head / group),
            q: &q[token * attention.heads * kv.head_dim()..],
            first_head,
            heads: (group - first_head % group).min(ROWS),
            position: position + token,
        }
    }
}

/// All queries of one token over one chunk.
struct OneChunk<'a> {
    queries: Queries<'a>,
    chunk: usize,
    packed: &'a mut [Lanes],
    scores: &'a mut [Lanes],
    parts: &'a mut [Lanes],
    step: &'a mut StepRoom,
}

impl VectorWork for OneChunk<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let OneChunk { queries, chunk, packed, scores, parts, step } = self;
        pack(&queries, queries.heads, packed);
        attend_chunk::<V>(&queries, chunk, 0..queries.heads, ChunkBuffers { packed, scores, parts, step });
    }
}

/// Queries of some tokens over all that they see; the first `dim` values of each row of `rows` are the result.
struct TokenBlock<'a> {
    queries: Queries<'a>,
    tokens: usize,
    packed: &'a mut [Lanes],
    scores: &'a mut [Lanes],
    parts: &'a mut [Lanes],
    rows: &'a mut [Lanes],
    step: &'a mut StepRoom,
}

impl VectorWork for TokenBlock<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let TokenBlock { queries, tokens, packed, scores, parts, rows, step } = self;
        let lanes = queries.kv.columns() + 1;
        pack(&queries, tokens * queries.heads, packed);
        for row in rows.chunks_exact_mut(lanes) {
            clear(row);
        }
        let end = queries.position + tokens;
        for chunk in queries.seen(0).start / CHUNK..end.div_ceil(CHUNK) {
            // The first token behind the chunk's start, and behind its end by a window.
            let first = (chunk * CHUNK).saturating_sub(queries.position);
            let behind = ((chunk + 1) * CHUNK).saturating_add(queries.attention.window - 1);
            let last = behind.saturating_sub(queries.position).min(tokens);
            let seeing = first * queries.heads..last * queries.heads;
            let buffers = ChunkBuffers { packed, scores: &mut *scores, parts: &mut *parts, step: &mut *step };
            attend_chunk::<V>(&queries, chunk, seeing.clone(), buffers);
            for row in seeing {
                join::<V>(&mut rows[row * lanes..][..lanes], &parts[row * lanes..][..lanes]);
            }
        }
        for row in rows.chunks_exact_mut(lanes) {
            finish(row, queries.kv.dim(), queries.kv.rotated_values());
        }
    }
}
