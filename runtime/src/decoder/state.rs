//! What changes while a decoder runs: the key/value cache and the activations of one step.

use qsf_format::{AttentionShape, ModelConfig};

use super::activations::CodedRows;
use super::caches::Caches;
use super::clustered_head::ProbeBuffers;
use super::exit_rule::LayerCount;
use super::kv_cache::CacheLayers;
use super::latent_buffers::{LatentBuffers, LatentWidths};
use super::mixer_buffers::MixerBuffers;
use super::per_layer_buffers::{PerLayerBuffers, PerLayerWidths};
use super::rotation::Rotation;
use super::routing::Routing;
use super::stream_buffers::{StreamBuffers, StreamWidths};
use super::{KvCache, KvOptions, MatrixTimes, Profile};
use crate::error::Result;
use qsf_cpu::{AlignedFloats, AttentionBuffer, Int8Rows};

/// State of one sequence, or of several that go through the model together ([`Decoder::states`](super::Decoder::states)). All
/// buffers are made once, for the largest step.
pub struct DecoderState {
    pub(super) caches: Caches,
    pub(super) rotation: Rotation,
    pub(super) routing: Routing,
    pub(super) hidden: AlignedFloats,
    pub(super) normed: AlignedFloats,
    pub(super) q: AlignedFloats,
    pub(super) k: AlignedFloats,
    pub(super) v: AlignedFloats,
    pub(super) attended: AlignedFloats,
    pub(super) latent: LatentBuffers,
    /// Gate of what attention gives.
    pub(super) attention_gate: AlignedFloats,
    pub(super) mixer: MixerBuffers,
    pub(super) per_layer: PerLayerBuffers,
    pub(super) streams: StreamBuffers,
    pub(super) projected: AlignedFloats,
    pub(super) gate: AlignedFloats,
    pub(super) up: AlignedFloats,
    pub(super) attention: AttentionBuffer,
    pub(super) coded: CodedRows,
    pub(super) probes: ProbeBuffers,
    pub(super) profile: Profile,
    /// Layers of decoded tokens.
    pub(super) decoded: LayerCount,
    widths: Widths,
    batch: usize,
}

/// Most floats that the activations of one step may take, 512 MiB.
const MAX_STEP_FLOATS: usize = 1 << 27;

struct Widths {
    hidden: usize,
    q: usize,
    k: usize,
    v: usize,
    attended: usize,
    attention_gate: usize,
    latent: LatentWidths,
    per_layer: PerLayerWidths,
    streams: StreamWidths,
    ffn: usize,
    gate: usize,
}

impl Widths {
    fn of(config: &ModelConfig) -> Widths {
        let of_experts = config
            .experts
            .as_ref()
            .map_or(0, |experts| experts.ffn.max(experts.shared.map_or(0, |shared| shared.ffn)));
        let of_layers = config.shared_kv.and_then(|shared| shared.ffn).unwrap_or(0);
        let ffn = config.ffn.max(of_experts).max(of_layers) as usize;
        let kept = |width: fn(AttentionShape) -> usize| {
            config.widest_layer(|layer| width(config.attention_shape(layer)))
        };
        Widths {
            hidden: config.hidden as usize,
            q: config.widest_layer(|layer| config.heads as usize * config.query_dim(layer)),
            k: kept(|shape| shape.kv_heads * shape.key_dim),
            v: kept(|shape| shape.kv_heads * shape.value_dim),
            attended: config.widest_layer(|layer| config.output_cols(layer)),
            attention_gate: if config.attention_gate { config.q_rows() } else { 0 },
            per_layer: PerLayerWidths::of(config),
            streams: StreamWidths::of(config),
            latent: LatentWidths::of(config),
            ffn,
            gate: if config.gated_ffn { ffn } else { 0 },
        }
    }

    fn floats_per_token(&self, config: &ModelConfig) -> usize {
        let routed = config.experts.as_ref().map_or(0, |experts| {
            // A choice takes as much as four floats.
            experts.count as usize + 2 * self.hidden + 4 * experts.used as usize
        });
        let attention = self.q + self.k + self.v + self.attended + self.attention_gate;
        let mixers = self.latent.floats_per_token() + MixerBuffers::floats_per_token(config);
        let attention =
            attention + mixers + self.per_layer.floats_per_token() + self.streams.floats_per_token();
        3 * self.hidden + attention + self.ffn + self.gate + routed
    }
}

/// Values of the widest value that attention of a layer gives.
fn widest_value(config: &ModelConfig) -> usize {
    config.widest_layer(|layer| config.attention_shape(layer).value_dim)
}

/// Memory of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateBytes {
    /// Keys and values.
    pub kv: u64,
    /// Activations of a step.
    pub activations: u64,
    /// Rotary tables and what attention works in.
    pub tables: u64,
}

impl StateBytes {
    /// Of a state with `context` positions and steps of `batch` tokens, without what the allocator adds.
    pub fn of(config: &ModelConfig, context: usize, batch: usize, kv: KvOptions) -> StateBytes {
        let widths = Widths::of(config);
        let mixed = config.recurrent.as_ref().map_or(0, |r| r.output_columns(widths.hidden));
        let widest = widths.hidden.max(widths.q).max(widths.attended).max(widths.ffn).max(mixed);
        let floats = (widths.floats_per_token(config) * size_of::<f32>()) as u64;
        let (heads, value_dim) = (config.heads as usize, widest_value(config));
        StateBytes {
            kv: KvCache::bytes(config, context, batch, kv),
            activations: floats.saturating_mul(batch as u64).saturating_add(Int8Rows::bytes(batch, widest)),
            tables: Rotation::bytes(config, context)
                .saturating_add(AttentionBuffer::bytes(heads, value_dim, context)),
        }
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.kv.saturating_add(self.activations).saturating_add(self.tables)
    }
}

impl DecoderState {
    /// A state for all layers, or for one at a time.
    pub(super) fn new(
        config: &ModelConfig,
        layers: CacheLayers,
        sequences: usize,
        context: usize,
        batch: usize,
        kv: KvOptions,
    ) -> Result<DecoderState> {
        let widths = Widths::of(config);
        // A hostile configuration of absurd widths gets steps of one token rather than all memory.
        let batch = batch.min(MAX_STEP_FLOATS / widths.floats_per_token(config).max(1)).max(1);
        // The largest part first: where memory is short, this is what says so.
        let cache = |_| KvCache::for_layers(config, layers, context, batch, kv);
        let caches = (0..sequences.max(1)).map(cache).collect::<Result<_>>()?;
        let (heads, value_dim) = (config.heads as usize, widest_value(config));
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "activations of a step");
        Ok(DecoderState {
            caches: Caches::new(caches, batch),
            rotation: Rotation::new(config, context),
            routing: Routing::new(config, batch)?,
            hidden: buffer(widths.hidden)?,
            normed: buffer(widths.hidden)?,
            q: buffer(widths.q)?,
            k: buffer(widths.k)?,
            v: buffer(widths.v)?,
            attended: buffer(widths.attended)?,
            attention_gate: buffer(widths.attention_gate)?,
            latent: LatentBuffers::new(widths.latent, batch)?,
            mixer: MixerBuffers::new(config, batch)?,
            per_layer: PerLayerBuffers::new(widths.per_layer, batch)?,
            streams: StreamBuffers::new(widths.streams, batch)?,
            projected: buffer(widths.hidden)?,
            gate: buffer(widths.gate)?,
            up: buffer(widths.ffn)?,
            attention: AttentionBuffer::new(heads, value_dim, context)?,
            coded: CodedRows::default(),
            probes: ProbeBuffers::default(),
            profile: Profile::default(),
            decoded: LayerCount::default(),
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
        self.begin_parts([(0, tokens)])
    }

    /// [`DecoderState::begin`] of a step with so many tokens of each of these sequences.
    ///
    /// # Errors
    /// When there is no memory for that.
    pub(super) fn begin_parts(&mut self, parts: impl IntoIterator<Item = (usize, usize)>) -> Result<()> {
        self.caches.begin(parts)?;
        self.rotation.reserve(self.caches.end())?;
        let tokens = self.caches.positions().len();
        let w = &self.widths;
        for (buffer, width) in [
            (&mut self.hidden, w.hidden),
            (&mut self.normed, w.hidden),
            (&mut self.q, w.q),
            (&mut self.k, w.k),
            (&mut self.v, w.v),
            (&mut self.attended, w.attended),
            (&mut self.attention_gate, w.attention_gate),
            (&mut self.projected, w.hidden),
            (&mut self.gate, w.gate),
            (&mut self.up, w.ffn),
        ] {
            buffer.resize(tokens * width);
        }
        self.latent.resize(w.latent, tokens);
        self.mixer.resize(tokens);
        self.per_layer.resize(w.per_layer, tokens);
        self.streams.resize(w.streams, tokens);
        Ok(())
    }

    /// Most tokens of one step.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// What each sequence keeps.
    pub fn sequences(&self) -> &[KvCache] {
        self.caches.all()
    }

    /// What each sequence keeps, to be taken back, or to begin anew, between steps.
    pub fn sequences_mut(&mut self) -> &mut [KvCache] {
        self.caches.all_mut()
    }

    /// Positions seen so far; of several sequences those of the first.
    pub fn position(&self) -> usize {
        self.caches.first().len()
    }

    /// Positions that fit.
    pub fn context(&self) -> usize {
        self.caches.first().capacity()
    }

    /// Layers that decoded tokens have gone through. Fewer than the model has for each where it is left early or layers are left
    /// out.
    pub fn decoded_layers(&self) -> LayerCount {
        self.decoded
    }

    /// Where the time of the steps goes; off until it is switched on.
    pub fn profile(&mut self) -> &mut Profile {
        &mut self.profile
    }

    /// What each product of matrices takes; off until it is switched on.
    pub fn matrix_times(&mut self) -> &mut MatrixTimes {
        &mut self.coded.times
    }

    /// Forgets all positions from `position` on.
    ///
    /// # Errors
    /// When what is seen from there has been let go, by layers with a sliding window unless the state is one of
    /// [`KvOptions::whole`], or by [`KvOptions::keep`], or was never kept, by recurrent layers. Position 0 can always be gone
    /// back to, and a position that is marked.
    pub fn rewind(&mut self, position: usize) -> Result<()> {
        self.caches.first_mut().truncate(position)
    }

    /// Makes sure that the present position can be gone back to later, until another one is marked.
    ///
    /// # Errors
    /// When there is no memory for what recurrent layers keep for that.
    pub fn mark(&mut self) -> Result<()> {
        self.caches.first_mut().mark()
    }

    /// The last position up to `position` that can be gone back to.
    pub fn way_back(&self, position: usize) -> usize {
        self.caches.first().way_back(position)
    }
}
