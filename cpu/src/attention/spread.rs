//! A layer's attention, spread over the threads.

use std::ops::Range;

use super::super::aligned::AlignedFloats;
use super::super::backend::Cpu;
use super::super::byte_unit::AnyByteUnit;
use super::super::lanes::{LANES, Lanes};
use super::super::shared::Shared;
use super::super::vector::{self, Vector, VectorWork};
use super::bytes::{ByteQueries, Bytes};
use super::chunk::{ChunkBuffers, attend_chunk};
use super::join::{JoinAll, clear, finish, join};
use super::layer::KvLayer;
use super::own_unit::OwnUnit;
use super::packed::pack;
use super::queries::{Attention, Queries};
use super::room::QueryRoom;
use super::room::StepRoom;
use super::scratch::{Scratch, with_scratch};
use super::sizes::{CHUNK, most_spans, span_chunks};
use super::tile::ROW_LANES;
use crate::memory::OutOfMemory;

/// Most queries that are computed together: what they read from the second-level cache is shared by so many, and their
/// scores still fit the first.
pub(super) const ROWS: usize = 32;
/// Parts of a token's work that each thread should have at least, where there are so many chunks: what a part begins with, its
/// queries and what it waits for, is for all of its chunks.
const RUNS_PER_THREAD: usize = 8;
/// What it takes to join the result of a span besides its values, in multiply-adds: a power, which waits for that of the span before.
const JOIN_WORK: usize = 512;

/// Results of spans on their way to be joined.
#[derive(Debug)]
pub struct AttentionBuffer {
    parts: AlignedFloats,
}

impl AttentionBuffer {
    /// A buffer for a token whose `heads` heads get results of `value_dim` values, and that sees up to `capacity` positions.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(heads: usize, value_dim: usize, capacity: usize) -> Result<AttentionBuffer, OutOfMemory> {
        let floats = AttentionBuffer::floats(heads, value_dim, capacity);
        Ok(AttentionBuffer { parts: AlignedFloats::zeros(floats, "results of attention")? })
    }

    /// Bytes that it takes, without what the allocator adds.
    pub const fn bytes(heads: usize, value_dim: usize, capacity: usize) -> u64 {
        AlignedFloats::bytes(AttentionBuffer::floats(heads, value_dim, capacity)) as u64
    }

    const fn floats(heads: usize, value_dim: usize, capacity: usize) -> usize {
        let rows = heads.saturating_mul(most_spans(capacity));
        rows.saturating_mul((value_dim.div_ceil(LANES) + 1).saturating_mul(LANES))
    }
}

impl Cpu {
    /// `out = softmax(scores of q and keys) values`, for every head of some tokens: `q` is tokens x heads x values of a key, and
    /// `out` alike with values of a value. The first token stands at `position`; keys and values are stored up to the last.
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
        let layer = Layer::new(attention, kv, position, q, out.len());
        let tokens = layer.tokens();
        match tokens {
            0 => {}
            1 => self.attend_one(layer, layer.work(), buffer, out),
            _ => self.attend_many(layer, tokens, layer.work(), out),
        }
    }

    /// One token: spans are computed apart, as there may be more threads than heads, and then joined.
    fn attend_one(&self, layer: Layer<'_>, work: usize, buffer: &mut AttentionBuffer, out: &mut [f32]) {
        let group = layer.group;
        let first = layer.queries(0, 0);
        let (seen, lanes) = (first.seen(0), first.kv.columns() + 1);
        let span = span_chunks(seen.len()) * CHUNK;
        let (first_span, spans) = (seen.start / span, seen.end.div_ceil(span) - seen.start / span);
        // Key/value heads x spans x heads of the group.
        let parts = &mut buffer.parts[..layer.attention.heads * spans * lanes * LANES];
        let span_floats = group * lanes * LANES;
        let run = spans.div_ceil((RUNS_PER_THREAD * self.threads()).div_ceil(layer.kv.kv_heads()));
        let runs = spans.div_ceil(run);
        let shared = Shared::new(&mut *parts);
        self.for_each_part(layer.kv.kv_heads() * runs, 1..=1, work, |part| {
            let (kv_head, first) = (part.start / runs, part.start % runs * run);
            let count = run.min(spans - first);
            let start = (kv_head * spans + first) * span_floats;
            // SAFETY: each span of each head is in one task.
            let parts = unsafe { shared.part(start..start + count * span_floats) };
            let parts = parts.as_chunks_mut().0;
            // SAFETY: the only one of this thread, which does nothing else meanwhile.
            let mut unit = unsafe { OwnUnit::new(self.isa(), layer.kv.types()) };
            with_scratch(|Scratch { packed, scores, step, bytes, .. }| {
                for first_row in (0..group).step_by(ROWS) {
                    let queries = layer.queries(0, kv_head * group + first_row);
                    let scores = scores.lanes(queries.heads * ROW_LANES);
                    let spans = first_span + first..first_span + first + count;
                    let parts = &mut parts[first_row * lanes..];
                    let stride = group * lanes;
                    let bytes = unit.get().map(|unit| Bytes { unit, room: bytes.get_or_insert_default() });
                    vector::run(
                        self.isa(),
                        OneRun { queries, spans, packed, scores, parts, stride, step, bytes },
                    );
                }
            });
        });
        let parts = parts.as_chunks::<LANES>().0;
        let rotated = first.kv.rotated_values();
        let dim = layer.kv.value_dim();
        self.for_each_chunk(out, dim, layer.attention.heads * spans * (dim + JOIN_WORK), |head, out| {
            let parts = &parts[head / group * group * spans * lanes..][..group * spans * lanes];
            let (parts, step) = (&parts[head % group * lanes..], group * lanes);
            let sink = layer.attention.sinks.get(head).copied();
            with_scratch(|Scratch { rows, .. }| {
                vector::run(self.isa(), JoinAll { parts, step, row: rows.lanes(lanes), out, sink, rotated });
            });
        });
    }

    /// Several tokens: tasks are blocks of them, for the heads of a group.
    fn attend_many(&self, layer: Layer<'_>, tokens: usize, work: usize, out: &mut [f32]) {
        let out = Shared::new(out);
        #[cfg(target_arch = "x86_64")]
        if layer.attention.by_unit && self.attend_by_own_unit(layer, tokens, work, &out) {
            return;
        }
        self.for_each_block(layer, tokens, ROWS, work, |block| self.attend_block(block, &out));
    }

    /// Calls `task` for blocks of tokens with `rows` rows about, for the heads of every group.
    pub(super) fn for_each_block<F>(&self, layer: Layer<'_>, tokens: usize, rows: usize, work: usize, task: F)
    where
        F: Fn(Block<'_>) + Sync,
    {
        let group = layer.group;
        let block = (rows / group.min(ROWS)).max(1);
        let (blocks, parts_of_group) = (tokens.div_ceil(block), group.div_ceil(ROWS));
        self.for_each(layer.kv.kv_heads() * parts_of_group * blocks, work, |i| {
            // Later tokens see more. Such blocks come first, so that none of them is left for the end.
            let (part, token) = (i / blocks, (blocks - 1 - i % blocks) * block);
            let head = part / parts_of_group * group + part % parts_of_group * ROWS;
            task(Block { layer, head, token, tokens: block.min(tokens - token) });
        });
    }

    pub(super) fn attend_block(&self, block: Block<'_>, out: &Shared<'_, f32>) {
        // SAFETY: the only one of this thread, which does nothing else meanwhile.
        let mut unit = unsafe { OwnUnit::new(self.isa(), block.layer.kv.types()) };
        self.attend_block_with(unit.get(), block, out);
    }

    /// [`Cpu::attend_block`] with the matrix unit for bytes of this thread, if there is one.
    pub(super) fn attend_block_with(
        &self,
        unit: Option<&mut AnyByteUnit>,
        block: Block<'_>,
        out: &Shared<'_, f32>,
    ) {
        let (queries, tokens) = (block.queries(), block.tokens);
        let (count, lanes) = (tokens * queries.heads, queries.kv.columns() + 1);
        with_scratch(|Scratch { packed, scores, parts, rows, step, bytes, .. }| {
            let rows = rows.lanes(count * lanes);
            let (scores, parts) = (scores.lanes(count * ROW_LANES), parts.lanes(count * lanes));
            let bytes = unit.map(|unit| Bytes { unit, room: bytes.get_or_insert_default() });
            vector::run(self.isa(), TokenBlock { queries, tokens, packed, scores, parts, rows, step, bytes });
            for (row, result) in rows.chunks_exact(lanes).enumerate() {
                // SAFETY: each head of each token is in one block.
                unsafe { block.store(row, result.as_flattened(), out) };
            }
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
    /// Checks what belongs together; `results` is the number of values that queries get.
    pub fn new(
        attention: &'a Attention<'a>,
        kv: &'a KvLayer,
        position: usize,
        q: &'a [f32],
        results: usize,
    ) -> Layer<'a> {
        let Attention { heads, window, first, slopes, sinks, .. } = *attention;
        let width = heads * kv.head_dim();
        assert!(heads.is_multiple_of(kv.kv_heads()), "{heads} heads for {} of keys", kv.kv_heads());
        assert!(window > 0, "attention of nothing");
        let one_each = [slopes, sinks].iter().all(|all| all.is_empty() || all.len() == heads);
        assert!(one_each, "slopes or sinks of other heads");
        let layer = Layer { attention, kv, position, q, group: heads / kv.kv_heads() };
        let tokens = layer.tokens();
        let whole = q.len() == tokens * width && results == tokens * heads * kv.value_dim();
        assert!(whole, "queries are not rows of {width}, or results not of as many tokens");
        assert!(first <= position, "positions behind a query");
        let first = (position + 1).saturating_sub(window).max(first);
        assert!(tokens == 0 || kv.holds(first, position + tokens - 1), "positions that are not there");
        layer
    }

    pub fn tokens(&self) -> usize {
        self.q.len() / (self.attention.heads * self.kv.head_dim())
    }

    /// Positions that any of its queries sees.
    #[cfg(any(test, target_arch = "x86_64"))]
    pub fn held(&self) -> Range<usize> {
        let end = self.position + self.tokens();
        self.queries(0, 0).seen(0).start..end
    }

    /// Multiply-adds, about.
    pub fn work(&self) -> usize {
        self.q.len().saturating_mul(2 * (self.position + self.tokens()).min(self.attention.window))
    }

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

/// Some tokens, for heads that share keys and values.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub layer: Layer<'a>,
    pub head: usize,
    pub token: usize,
    pub tokens: usize,
}

impl<'a> Block<'a> {
    pub fn queries(&self) -> Queries<'a> {
        self.layer.queries(self.token, self.head)
    }

    /// Copies the result of a row to where it goes.
    ///
    /// # Safety
    /// No other thread may use the same head of the same token.
    pub unsafe fn store(&self, row: usize, result: &[f32], out: &Shared<'_, f32>) {
        let (queries, dim) = (self.queries(), self.layer.kv.value_dim());
        let token = self.token + row / queries.heads;
        let at = (token * self.layer.attention.heads + queries.head(row)) * dim;
        // SAFETY: the caller's promise.
        unsafe { out.part(at..at + dim) }.copy_from_slice(&result[..dim]);
    }
}

/// Queries of one token over some spans that follow each other.
struct OneRun<'a> {
    queries: Queries<'a>,
    spans: Range<usize>,
    packed: &'a mut QueryRoom,
    scores: &'a mut [Lanes],
    /// The results of a span are `stride` vectors behind those of the one before.
    parts: &'a mut [Lanes],
    stride: usize,
    step: &'a mut StepRoom,
    bytes: Option<Bytes<'a>>,
}

impl VectorWork for OneRun<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let OneRun { queries, spans, packed, scores, parts, stride, step, bytes } = self;
        let (heads, lanes, all) = (queries.heads, queries.kv.columns() + 1, queries.seen(0));
        let span_chunks = span_chunks(all.len());
        let first = all.start.max(spans.start * span_chunks * CHUNK);
        let seen = first..all.end.min(spans.end * span_chunks * CHUNK);
        let (first, end) = (seen.start / CHUNK, seen.end.div_ceil(CHUNK));
        let packed = pack::<V>(&queries, heads, packed);
        let mut by_unit = ByteQueries::new(&queries, packed, seen.clone(), bytes);
        if by_unit.is_none() {
            queries.kv.bring_keys(seen.start..seen.end.min((first + 1) * CHUNK));
        }
        for (span, parts) in spans.zip(parts.chunks_mut(stride)) {
            parts[..heads * lanes].chunks_exact_mut(lanes).for_each(|row| clear(row, None));
            for chunk in first.max(span * span_chunks)..end.min((span + 1) * span_chunks) {
                if let Some(by_unit) = &mut by_unit {
                    by_unit.attend_chunk::<V>(chunk, 0..heads, scores, parts);
                    continue;
                }
                let next = Some(chunk + 1).filter(|next| *next < end);
                let (scores, parts) = (&mut *scores, &mut *parts);
                let buffers = ChunkBuffers { packed, scores, parts, step: &mut *step };
                attend_chunk::<V>(&queries, chunk, next, 0..heads, buffers);
            }
        }
    }
}

/// Queries of some tokens over all that they see; the first values of each row of `rows` are the result.
struct TokenBlock<'a> {
    queries: Queries<'a>,
    tokens: usize,
    packed: &'a mut QueryRoom,
    scores: &'a mut [Lanes],
    parts: &'a mut [Lanes],
    rows: &'a mut [Lanes],
    step: &'a mut StepRoom,
    bytes: Option<Bytes<'a>>,
}

impl VectorWork for TokenBlock<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let TokenBlock { queries, tokens, packed, scores, parts, rows, step, bytes } = self;
        let lanes = queries.kv.columns() + 1;
        let packed = pack::<V>(&queries, tokens * queries.heads, packed);
        for (i, row) in rows.chunks_exact_mut(lanes).enumerate() {
            clear(row, queries.sink(i));
        }
        let end = (queries.position + tokens).div_ceil(CHUNK);
        let seen = queries.seen(0).start..queries.position + tokens;
        let mut by_unit = ByteQueries::new(&queries, packed, seen, bytes);
        for chunk in queries.seen(0).start / CHUNK..end {
            let next = Some(chunk + 1).filter(|next| *next < end);
            let seeing = queries.seeing(chunk, tokens);
            for row in seeing.clone() {
                if queries.span(row, chunk).start == chunk {
                    clear(&mut parts[row * lanes..][..lanes], None);
                }
            }
            if let Some(by_unit) = &mut by_unit {
                by_unit.attend_chunk::<V>(chunk, seeing.clone(), scores, parts);
            } else {
                let (scores, parts) = (&mut *scores, &mut *parts);
                let buffers = ChunkBuffers { packed, scores, parts, step: &mut *step };
                attend_chunk::<V>(&queries, chunk, next, seeing.clone(), buffers);
            }
            for row in seeing {
                if queries.span(row, chunk).end == chunk + 1 {
                    join::<V>(&mut rows[row * lanes..][..lanes], &parts[row * lanes..][..lanes]);
                }
            }
        }
        for row in rows.chunks_exact_mut(lanes) {
            finish::<V>(row, queries.kv.value_dim(), queries.kv.rotated_values());
        }
    }
}
