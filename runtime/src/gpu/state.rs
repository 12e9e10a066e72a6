//! What changes while a model runs on the graphics processor: keys and values, activations, logits.

use std::sync::Arc;

use qsf_format::{ModelConfig, PositionConfig};
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

use super::cache::{CacheType, LayerCache};
use super::device::Gpu;
use super::input_rows::InputRows;
use super::latent::LatentBuffers;
use super::likeliest::{entries, words_back};
use super::model::GpuModel;
use super::per_layer::PerLayerBuffers;
use super::step::MAX_BLOCK;
use super::step::attend::Attending;
use super::streams::StreamBuffers;
use super::wgsl::choose;
use crate::decoder::Profile;
use crate::error::{Result, RuntimeError};
use crate::runner::Sequence;
use qsf_cpu::{RopeFrequencies, RopeTable};

/// State of one sequence.
pub struct GpuState {
    pub(super) buffers: Buffers,
    pub(super) position: usize,
    /// Tokens of the last step.
    pub(super) rows: usize,
    /// The token that was chosen behind `position` and whose step runs already.
    pub(super) ahead: Option<u32>,
    pub(super) profile: Profile,
    context: usize,
    batch: usize,
}

/// Buffers of a state. The sizes are for steps of `batch` tokens.
pub struct Buffers {
    pub tokens: Arc<Buffer>,
    pub hidden: Arc<Buffer>,
    pub projected: Arc<Buffer>,
    pub normed: Arc<Buffer>,
    pub qkv: Arc<Buffer>,
    /// Keys and values of each layer.
    pub caches: Vec<LayerCache>,
    pub parts: Arc<Buffer>,
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
    /// Between both matrices of an adapter.
    pub latent: Arc<Buffer>,
    pub logits: Arc<Buffer>,
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

impl GpuState {
    /// An empty state of a model with room for `context` positions, of which at most `batch` come in one step.
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
        let floats =
            |count: usize, name| Ok::<_, RuntimeError>(Arc::new(gpu.empty_buffer(4 * count as u64, name)?));
        let config = &model.config;
        let hidden = config.hidden as usize;
        let (experts, used, expert_ffn) = config
            .experts
            .as_ref()
            .map_or((0, 0, 0), |e| (e.count as usize, e.used as usize, e.ffn as usize));
        // Kernels may read a word behind the last query.
        let qkv = model.layers.iter().map(|layer| layer.attention.row()).max().unwrap_or(0) + 4;
        let mut caches: Vec<LayerCache> = Vec::new();
        for layer in 0..config.layers {
            let source = config.kv_source(layer);
            caches.push(match caches.get(source as usize) {
                Some(of_other) => of_other.clone(),
                None => LayerCache::new(gpu, cache_type, config.attention_shape(layer), context)?,
            });
        }
        let value_dim = config.widest_layer(|layer| config.attention_shape(layer).value_dim);
        let widest_ffn = config.widest_layer(|layer| config.ffn_of(layer) as usize);
        // Rows of inputs are read four values at a time, in whole blocks.
        let padded = |width: usize| width.next_multiple_of(MAX_BLOCK);
        let (angles, sliding_angles) = angles(config, context)?;
        let logit_rows = LOGIT_ROWS.min(batch);
        let logits = logit_rows * config.vocab as usize;
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let vocab = config.vocab as usize;
        let size = 4 * logits.max(words_back(vocab)) as u64;
        let descriptor =
            BufferDescriptor { label: Some("read back"), size, usage, mapped_at_creation: false };
        let buffers = Buffers {
            tokens: floats(batch, "tokens")?,
            hidden: floats(batch * hidden, "activations")?,
            projected: floats(batch * hidden, "activations")?,
            normed: floats(batch * padded(hidden), "activations")?,
            qkv: floats(batch * qkv, "activations")?,
            caches,
            parts: floats(
                Attending::part_values(batch, config.heads as usize, value_dim, context),
                "attention",
            )?,
            attended: InputRows::new(gpu, batch, (0..config.layers).map(|layer| config.output_cols(layer)))?,
            inner: floats(batch * 2 * padded(widest_ffn), "activations")?,
            activated: InputRows::new(
                gpu,
                batch,
                (0..config.layers).map(|layer| config.ffn_of(layer) as usize),
            )?,
            by_latents: LatentBuffers::new(gpu, config, batch)?,
            streams: StreamBuffers::new(gpu, config, batch)?,
            per_layer: PerLayerBuffers::new(gpu, config, batch)?,
            routed: floats(batch * experts, "activations")?,
            chosen: floats(batch * 2 * used, "activations")?,
            expert_activated: floats(batch * used * padded(expert_ffn), "activations")?,
            made: floats(batch * used * hidden, "activations")?,
            latent: floats(batch * model.most_rank, "activations")?,
            logits: floats(logits, "logits")?,
            candidates: floats(2 * choose::PARTS, "candidates")?,
            likeliest: floats(2 * entries(vocab), "candidates")?,
            read_back: Arc::new(gpu.device.create_buffer(&descriptor)),
            angles: Arc::new(gpu.buffer_of(&angles, "rotary table")?),
            sliding_angles,
            logit_rows,
        };
        Ok(GpuState {
            buffers,
            position: 0,
            rows: 0,
            ahead: None,
            profile: Profile::default(),
            context,
            batch,
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
        self.position = self.position.min(position);
        self.ahead = None;
        Ok(())
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
