//! What changes while a decoder runs: the key/value cache and the activations of one step.

use qsf_format::ModelConfig;

use super::clustered_head::ProbeBuffers;
use super::rotation::Rotation;
use super::routing::Routing;
use super::{KvCache, KvOptions, Profile};
use crate::cpu::{AttentionBuffer, Int8Rows};
use crate::error::Result;
use crate::memory::zeros;

/// State of one sequence. All buffers are made once, for the largest step.
pub struct DecoderState {
    pub(super) kv: KvCache,
    pub(super) rotation: Rotation,
    pub(super) routing: Routing,
    pub(super) hidden: Vec<f32>,
    pub(super) normed: Vec<f32>,
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) attended: Vec<f32>,
    pub(super) projected: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) attention: AttentionBuffer,
    pub(super) int8: Int8Rows,
    pub(super) probes: ProbeBuffers,
    pub(super) profile: Profile,
    widths: Widths,
    batch: usize,
}

/// Most floats that the activations of one step may take, 512 MiB.
const MAX_STEP_FLOATS: usize = 1 << 27;

struct Widths {
    hidden: usize,
    q: usize,
    kv: usize,
    ffn: usize,
    gate: usize,
}

impl DecoderState {
    /// Bytes of what grows with the positions of a sequence, when `context` of them are there: keys and values, rotary tables,
    /// and results of attention on their way. Without what the allocator adds.
    pub fn bytes_of_context(config: &ModelConfig, context: usize, batch: usize, kv: KvOptions) -> u64 {
        let attention = AttentionBuffer::bytes(config.heads as usize, config.head_dim as usize, context);
        let cache = KvCache::bytes(config, context, batch, kv);
        cache.saturating_add(Rotation::bytes(config, context)).saturating_add(attention)
    }

    /// A state with the keys and values of `layers` layers.
    pub(super) fn new(
        config: &ModelConfig,
        layers: u32,
        context: usize,
        batch: usize,
        kv: KvOptions,
    ) -> Result<DecoderState> {
        let ffn = config.experts.as_ref().map_or(config.ffn, |experts| experts.ffn.max(config.ffn)) as usize;
        let widths = Widths {
            hidden: config.hidden as usize,
            q: config.q_rows(),
            kv: config.kv_rows(),
            ffn,
            gate: if config.gated_ffn { ffn } else { 0 },
        };
        // A hostile configuration of absurd widths gets steps of one token rather than all memory.
        let routed = config.experts.as_ref().map_or(0, |experts| experts.count as usize + 2 * widths.hidden);
        let per_token = 4 * widths.hidden + 3 * widths.q + 2 * widths.kv + widths.ffn + widths.gate + routed;
        let batch = batch.min(MAX_STEP_FLOATS / per_token.max(1)).max(1);
        // The largest part first: where memory is short, this is what says so.
        let kv = KvCache::new(config, layers, (context, batch), kv)?;
        let buffer = |width: usize| zeros(batch * width, "activations of a step");
        Ok(DecoderState {
            kv,
            rotation: Rotation::new(config, context),
            routing: Routing::new(config, batch)?,
            hidden: buffer(widths.hidden)?,
            normed: buffer(widths.hidden)?,
            q: buffer(widths.q)?,
            k: buffer(widths.kv)?,
            v: buffer(widths.kv)?,
            attended: buffer(widths.q)?,
            projected: buffer(widths.hidden)?,
            gate: buffer(widths.gate)?,
            up: buffer(widths.ffn)?,
            attention: AttentionBuffer::new(config.heads as usize, config.head_dim as usize, context)?,
            int8: Int8Rows::default(),
            probes: ProbeBuffers::default(),
            profile: Profile::default(),
            widths,
            batch,
        })
    }

    /// Sizes the buffers for a step of `tokens` tokens; within the batch nothing is allocated but what the key/value cache
    /// and rotary tables grow by.
    ///
    /// # Errors
    /// When there is no memory for that.
    pub(super) fn begin(&mut self, tokens: usize) -> Result<()> {
        self.kv.reserve(tokens)?;
        self.rotation.reserve(self.kv.len() + tokens)?;
        let w = &self.widths;
        for (buffer, width) in [
            (&mut self.hidden, w.hidden),
            (&mut self.normed, w.hidden),
            (&mut self.q, w.q),
            (&mut self.k, w.kv),
            (&mut self.v, w.kv),
            (&mut self.attended, w.q),
            (&mut self.projected, w.hidden),
            (&mut self.gate, w.gate),
            (&mut self.up, w.ffn),
        ] {
            buffer.resize(tokens * width, 0.0);
        }
        Ok(())
    }

    /// Most tokens of one step.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Positions seen so far.
    pub fn position(&self) -> usize {
        self.kv.len()
    }

    /// Positions that fit.
    pub fn context(&self) -> usize {
        self.kv.capacity()
    }

    /// Where the time of the steps goes; off until it is switched on.
    pub fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }

    /// Forgets all positions from `position` on.
    ///
    /// # Errors
    /// When layers with a sliding window have forgotten what is seen from there; not for a state of [`KvOptions::whole`], nor
    /// for position 0.
    pub fn rewind(&mut self, position: usize) -> Result<()> {
        self.kv.truncate(position)
    }
}
