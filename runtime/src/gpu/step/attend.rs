//! Attention by itself: queries over what is in the cache.

use std::sync::Arc;

use wgpu::Buffer;

use super::command::{Command, MANY};
use crate::gpu::cache::LayerCache;
use crate::gpu::kernels::Kernel;
use crate::gpu::wgsl::attend::{Attend, Join, PART, TILE};

/// Queries of some tokens over what a layer's cache has of them and of the positions before them.
#[derive(Debug, Clone, Copy)]
pub struct Attending {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and of values.
    pub kv_heads: usize,
    /// Width of a head of queries and keys.
    pub key_dim: usize,
    /// Width of a head of values.
    pub value_dim: usize,
    /// Tokens.
    pub tokens: usize,
    /// Position of the first.
    pub position: usize,
    /// Positions that the cache has room for.
    pub context: usize,
    /// Positions that a token sees, its own the last.
    pub window: Option<usize>,
    /// Whether windows do not slide, but begin at each multiple of their length.
    pub in_chunks: bool,
    /// What `q . k` is multiplied with.
    pub scale: f32,
    /// What scores are capped at.
    pub softcap: Option<f32>,
    /// Where the slopes of heads are (ALiBi).
    pub slopes: Option<u32>,
    /// Where the scores of heads are that have no value.
    pub sinks: Option<u32>,
    /// Values from one token's queries to the next.
    pub row: usize,
    /// Values from one token's results to the next.
    pub stride: usize,
    /// Values from one head's results to the next.
    pub head_stride: usize,
}

/// What attention reads and writes beside the cache.
#[derive(Clone, Copy)]
pub struct AttendBuffers<'a> {
    /// Queries of the tokens.
    pub qkv: &'a Arc<Buffer>,
    /// Gains and the like, for the slopes.
    pub vectors: &'a Arc<Buffer>,
    /// Results of parts.
    pub parts: &'a Arc<Buffer>,
    /// Results.
    pub attended: &'a Arc<Buffer>,
}

/// Workgroups that keep a large device busy, two for each that an H200 runs at once (132 multiprocessors with 32 workgroups of 64 threads).
/// More parts would only have to be put together again, and the memory of their results would grow with the context.
const MOST_UNITS: usize = 8192;

/// How positions are shared out.
struct Parts {
    /// Where the first part begins: no token sees what is before.
    begin: usize,
    /// Positions of each.
    length: usize,
    count: usize,
}

impl Attending {
    /// Values of parts of `batch` tokens at most, each behind as many positions as there may be.
    pub fn part_values(batch: usize, heads: usize, value_dim: usize, context: usize) -> usize {
        let units = batch.min(MANY - 1) * heads * context.div_ceil(PART);
        units.min(MOST_UNITS) * (value_dim + 2)
    }

    /// Many tokens keep the device busy with one part each; few share their positions out.
    fn parts(&self) -> Parts {
        let Attending { heads, tokens, position, .. } = *self;
        let begin = match self.window {
            Some(window) if self.in_chunks => position / window * window,
            Some(window) => (position + 1).saturating_sub(window),
            None => 0,
        };
        let positions = position + tokens - begin;
        let most = if tokens < MANY { (MOST_UNITS / (heads * tokens)).max(1) } else { 1 };
        let length = positions.div_ceil(most).next_multiple_of(TILE).max(PART);
        Parts { begin, length, count: if most == 1 { 1 } else { positions.div_ceil(length) } }
    }

    /// The dispatches.
    pub fn commands(&self, cache: &LayerCache, buffers: AttendBuffers<'_>) -> Vec<Command> {
        let Attending { heads, kv_heads, key_dim, value_dim, tokens, position, context, .. } = *self;
        let AttendBuffers { qkv, vectors, parts: part_results, attended } = buffers;
        let Parts { begin, length, count: parts } = self.parts();
        let eight_bit = cache.scales.is_some();
        let attend = Attend {
            key_dim,
            value_dim,
            softcap: self.softcap.is_some(),
            slopes: self.slopes.is_some(),
            sinks: self.sinks.is_some(),
            in_chunks: self.in_chunks && self.window.is_some(),
            is_whole: parts == 1,
            eight_bit,
        };
        let results = if parts == 1 { attended } else { part_results };
        let mut bound = vec![qkv, &cache.keys, &cache.values, results, vectors];
        bound.extend(&cache.scales);
        // Windows reach no further back than any context.
        let window = self.window.unwrap_or(usize::MAX).min(1 << 30);
        let job = [
            heads as u32,
            kv_heads as u32,
            position as u32,
            context as u32,
            window as u32,
            self.scale.to_bits(),
            self.softcap.unwrap_or(0.0).to_bits(),
            self.slopes.unwrap_or(0),
            self.stride as u32,
            self.head_stride as u32,
            self.row as u32,
            self.sinks.unwrap_or(0),
            begin as u32,
            length as u32,
        ];
        let groups = (heads as u32, parts as u32, tokens as u32);
        let mut commands = vec![Command::new(Kernel::Attend(attend), &bound, &job, groups)];
        if parts > 1 {
            commands.push(Command::new(
                Kernel::Join(Join { value_dim, eight_bit }),
                &[part_results, attended],
                &[heads as u32, parts as u32, self.stride as u32, self.head_stride as u32],
                (heads as u32, tokens as u32, 1),
            ));
        }
        commands
    }
}
