//! What changes while a model runs on the graphics processor: keys and values, activations, logits.

use std::sync::Arc;

use qsf_format::{ModelConfig, PositionConfig};
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

use super::attention_weights::GpuAttention;
use super::cache::{CacheType, LayerCache};
use super::device::Gpu;
use super::dispatch::Bound;
use super::expert_room::ExpertRoom;
use super::input_rows::InputRows;
use super::latent::LatentBuffers;
use super::likeliest::{entries, words_back};
use super::mixer_buffers::MixerBuffers;
use super::model::GpuModel;
use super::per_layer::PerLayerBuffers;
use super::recurrent_state::RecurrentStates;
use super::step::attend::Attending;
use super::step::padded;
use super::streams::StreamBuffers;
use super::wgsl::choose;
use crate::decoder::Profile;
use crate::error::{Result, RuntimeError};
use crate::runner::Sequence;
use qsf_cpu::{RopeFrequencies, RopeTable};

/// State of one sequence.
pub struct GpuState {
    pub(super) buffers: Buffers,
    pub(super) recurrent: RecurrentStates,
    pub(super) position: usize,
    /// Tokens of the last step.
    pub(super) rows: usize,
    /// The token that was chosen behind `position` and whose step runs already.
    pub(super) ahead: Option<u32>,
    pub(super) profile: Profile,
    pub(super) bound: Bound,
    context: usize,
    batch: usize,
}

/// Buffers of a state.
pub struct Buffers {
    pub tokens: Arc<Buffer>,
    pub hidden: Arc<Buffer>,
    pub projected: Arc<Buffer>,
    pub normed: Arc<Buffer>,
    /// What makes inputs of matrix units such that f16 has them.
    pub factors: Arc<Buffer>,
    pub qkv: Arc<Buffer>,
    /// Keys and values of each layer.
    pub caches: Vec<LayerCache>,
    pub parts: Arc<Buffer>,
    /// Of recurrent mixers.
    pub mixer: MixerBuffers,
    /// What output projections read.
    pub attended: InputRows,
    /// Gate and up.
    pub inner: Arc<Buffer>,
    /// What down projections read.
    pub activated: InputRows,
    /// Of attention by way of latents.
    pub by_latents: LatentBuffers,
    /// Streams beside the first.
    pub streams: StreamBuffers,
    /// What layers get of a token besides.
    pub per_layer: PerLayerBuffers,
    /// Of mixtures: what routers say, which experts were chosen and with what weights, and what they made.
    pub routed: Arc<Buffer>,
    pub chosen: Arc<Buffer>,
    pub made: Arc<Buffer>,
    /// What the down projections of experts read. Not that of other layers: behind the values of a row are zeros.
    pub expert_activated: Arc<Buffer>,
    /// Gates and ups of experts, where they are not put together at once.
    pub expert_inner: Arc<Buffer>,
    /// Choices of the same expert.
    pub tiles: Arc<Buffer>,
    /// What experts read: times the weight of each choice, or normalized for them alone.
    pub weighed: Arc<Buffer>,
    pub own: Arc<Buffer>,
    /// What the down projections of what all tokens go through read.
    pub shared_activated: Arc<Buffer>,
    /// Between both matrices of an adapter.
    pub latent: Arc<Buffer>,
    pub logits: Arc<Buffer>,
    /// Logits in the order of the parts of a head.
    pub unordered: Arc<Buffer>,
    /// Tokens that one of is chosen, each with a key.
    pub candidates: Arc<Buffer>,
    /// The likeliest tokens, with what is needed on the way to them.
    pub likeliest: Arc<Buffer>,
    pub read_back: Arc<Buffer>,
    /// Cosine and sine of each position and pair, of layers without a window and then of those with one.
    pub angles: Arc<Buffer>,
    /// Where those of layers with a window begin, in pairs, if they have others.
    pub sliding_angles: Option<u32>,
    /// Positions whose logits there is room for.
    pub logit_rows: usize,
}

/// Positions whose logits are made at once.
const LOGIT_ROWS: usize = 64;

/// What does not depend on how many tokens come in one step.
struct Kept {
    caches: Vec<LayerCache>,
    angles: Arc<Buffer>,
    sliding_angles: Option<u32>,
}

impl GpuState {
    /// An empty state of a model with room for `context` positions, of which at most `batch` come in one step, or as many as buffers can
    /// have.
    ///
    /// # Errors
    /// When the device has not so much memory.
    pub(super) fn new(
        gpu: &Gpu,
        model: &GpuModel,
        context: usize,
        batch: usize,
        cache_type: CacheType,
    ) -> Result<GpuState> {
        let kept = Kept::new(gpu, &model.config, context, cache_type)?;
        let mut batch = batch;
        let buffers = loop {
            match Buffers::new(gpu, model, context, batch, &kept) {
                // What is in them is as much for each token.
                Err(RuntimeError::OutOfMemory { bytes, .. })
                    if bytes > gpu.max_buffer_bytes() && batch > 1 =>
                {
                    let most = u128::from(gpu.max_buffer_bytes()) * batch as u128 / u128::from(bytes);
                    batch = usize::try_from(most).unwrap_or(1).clamp(1, batch - 1);
                }
                made => break made?,
            }
        };
        Ok(GpuState {
            buffers,
            recurrent: RecurrentStates::new(gpu, &model.config)?,
            position: 0,
            rows: 0,
            ahead: None,
            profile: Profile::default(),
            bound: Bound::default(),
            context,
            batch,
        })
    }
}

impl Kept {
    fn new(gpu: &Gpu, config: &ModelConfig, context: usize, cache_type: CacheType) -> Result<Kept> {
        let mut caches: Vec<LayerCache> = Vec::new();
        for layer in 0..config.layers {
            let source = config.kv_source(layer);
            let positions = if config.has_attention(layer) { context } else { 0 };
            caches.push(match caches.get(source as usize) {
                Some(of_other) => of_other.clone(),
                None => LayerCache::new(gpu, cache_type, config.attention_shape(layer), positions)?,
            });
        }
        let (angles, sliding_angles) = angles(config, context)?;
        Ok(Kept { caches, angles: Arc::new(gpu.buffer_of(&angles, "rotary table")?), sliding_angles })
    }
}

impl Buffers {
    /// Those of steps of `batch` tokens.
    fn new(gpu: &Gpu, model: &GpuModel, context: usize, batch: usize, kept: &Kept) -> Result<Buffers> {
        let floats =
            |count: usize, name| Ok::<_, RuntimeError>(Arc::new(gpu.empty_buffer(4 * count as u64, name)?));
        let config = &model.config;
        let hidden = config.hidden as usize;
        let room = ExpertRoom::of(model, batch);
        // Kernels may read a word behind the last query.
        let rows = model.layers.iter().filter_map(|layer| layer.attention.as_ref());
        let qkv = rows.map(GpuAttention::row).max().unwrap_or(0) + 4;
        let value_dim = config.widest_layer(|layer| config.attention_shape(layer).value_dim);
        let widest_ffn = config.widest_layer(|layer| config.ffn_of(layer) as usize);
        let vocab = config.vocab as usize;
        let most_rows = gpu.max_buffer_bytes() as usize / (4 * vocab).max(1);
        let logit_rows = LOGIT_ROWS.min(batch).min(most_rows).max(1);
        let logits = logit_rows * vocab;
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let size = 4 * logits.max(words_back(vocab)) as u64;
        let descriptor =
            BufferDescriptor { label: Some("read back"), size, usage, mapped_at_creation: false };
        let layers = 0..config.layers;
        Ok(Buffers {
            tokens: floats(batch, "tokens")?,
            hidden: floats(batch * hidden, "activations")?,
            projected: floats(batch * hidden, "activations")?,
            normed: floats(batch * padded(hidden), "activations")?,
            factors: floats(batch, "activations")?,
            qkv: floats(batch * qkv, "activations")?,
            caches: kept.caches.clone(),
            parts: floats(
                Attending::part_values(batch, config.heads as usize, value_dim, context),
                "attention",
            )?,
            mixer: MixerBuffers::new(gpu, config, batch)?,
            attended: InputRows::new(gpu, batch, layers.clone().map(|layer| config.output_cols(layer)))?,
            inner: floats(batch * 2 * padded(widest_ffn.max(room.shared)), "activations")?,
            activated: InputRows::new(gpu, batch, layers.map(|layer| config.ffn_of(layer) as usize))?,
            by_latents: LatentBuffers::new(gpu, config, batch)?,
            streams: StreamBuffers::new(gpu, config, batch)?,
            per_layer: PerLayerBuffers::new(gpu, config, batch)?,
            routed: floats(room.routed, "activations")?,
            chosen: floats(room.chosen, "activations")?,
            expert_activated: floats(room.activated, "activations")?,
            expert_inner: floats(room.inner, "activations")?,
            tiles: floats(room.tiles, "activations")?,
            weighed: floats(room.weighed, "activations")?,
            own: floats(room.own, "activations")?,
            shared_activated: floats(batch * padded(room.shared), "activations")?,
            made: floats(room.made, "activations")?,
            latent: floats(batch.max(room.chosen / 2) * model.most_rank, "activations")?,
            logits: floats(logits, "logits")?,
            unordered: floats(if model.head.places.is_some() { logits } else { 0 }, "logits")?,
            candidates: floats(2 * choose::PARTS, "candidates")?,
            likeliest: floats(2 * entries(vocab), "candidates")?,
            read_back: Arc::new(gpu.device.create_buffer(&descriptor)),
            angles: kept.angles.clone(),
            sliding_angles: kept.sliding_angles,
            logit_rows,
        })
    }
}

impl Sequence for GpuState {
    fn position(&self) -> usize {
        self.position
    }

    fn context(&self) -> usize {
        self.context
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn profile(&mut self) -> Option<&mut Profile> {
        Some(&mut self.profile)
    }

    fn rewind(&mut self, position: usize) -> Result<()> {
        if position < self.position {
            self.recurrent.rewind(position, self.position)?;
            self.position = position;
        }
        self.ahead = None;
        Ok(())
    }

    fn mark(&mut self) -> Result<()> {
        self.recurrent.mark(self.position)
    }

    fn way_back(&self, position: usize) -> usize {
        self.recurrent.way_back(position, self.position)
    }
}

/// Cosines and sines, as words, and where those of layers with a window begin, if they have others.
fn angles(config: &ModelConfig, context: usize) -> Result<(Vec<u32>, Option<u32>)> {
    let PositionConfig::Rope { theta, scaling, dims, sliding_theta, .. } = &config.position else {
        return Ok((Vec::new(), None));
    };
    let mut words = Vec::new();
    let mut add = |theta, scaling, head_dim: u32| -> Result<()> {
        let dims = dims.unwrap_or(head_dim) as usize;
        let frequencies = RopeFrequencies::new(theta, scaling, dims, context);
        let mut table = RopeTable::new(&frequencies, head_dim as usize);
        table.reserve(context)?;
        for position in 0..context {
            let pairs = table.angles(position);
            words.extend(pairs.flat_map(|(cos, sin)| [cos.to_bits(), sin.to_bits()]));
        }
        Ok(())
    };
    let full_dim = config.full_attention.map_or(config.head_dim, |full| full.head_dim);
    add(*theta, scaling.as_ref(), full_dim)?;
    let sliding = (context * (dims.unwrap_or(full_dim) / 2) as usize) as u32;
    match (sliding_theta, config.full_attention) {
        (Some(theta), _) => add(*theta, None, config.head_dim)?,
        (None, Some(_)) => add(*theta, scaling.as_ref(), config.head_dim)?,
        (None, None) => return Ok((words, None)),
    }
    Ok((words, Some(sliding)))
}
