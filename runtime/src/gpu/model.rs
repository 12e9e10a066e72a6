//! A model in buffers of the graphics processor.

use std::sync::Arc;

use qsf_format::{BUILT_IN, CodeTables, ModelConfig, QkNorm};
use wgpu::Buffer;

use super::attention_weights::GpuAttention;
use super::device::Gpu;
use super::embedding::{GpuEmbedding, Shares};
use super::experts::{GpuExperts, check_experts};
use super::host_rows::HostRows;
use super::linears::{norm, not_there, resident, streamed};
use super::mixer::{GpuRecurrent, upload_recurrent};
use super::mlp::GpuMlp;
use super::parts::{GpuHead, GpuParts};
use super::per_layer::{GpuPerLayer, GpuPerLayerInputs};
use super::room::Room;
use super::streams::{GpuLaurel, GpuStreamEnds, GpuStreams};
use super::weights::Uploader;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::weights::{Embedding, FeedForward, LayerWeights, Model, Norm};
use qsf_cpu::Isa;

/// A model.
pub struct GpuModel {
    /// The architecture.
    pub config: ModelConfig,
    /// Token embedding.
    pub embedding: GpuEmbedding,
    /// Learned positions, or nothing of use.
    pub positions: Arc<Buffer>,
    /// Whether there are learned positions.
    pub has_positions: bool,
    /// Norm of the embedding.
    pub embedding_norm: Option<u32>,
    /// Layers.
    pub layers: Vec<GpuLayer>,
    /// What layers get of a token besides, where they do.
    pub per_layer: Option<GpuPerLayerInputs>,
    /// How residual streams beside the first begin and end, where there are several.
    pub streams: Option<GpuStreamEnds>,
    /// Norm before the head.
    pub final_norm: u32,
    /// The head.
    pub head: GpuHead,
    /// Gains and biases; a norm is named by where its gains begin.
    pub vectors: Arc<Buffer>,
    /// What codes of learned types stand for.
    pub tables: CodeTables,
    /// Where the slopes of ALiBi are.
    pub slopes: Option<u32>,
    /// What its matrices take.
    pub room: Room,
    /// Largest rank of what adapters add to a matrix; 0 without any.
    pub most_rank: usize,
}

/// A layer.
pub struct GpuLayer {
    /// Norm before the mixer.
    pub attn_norm: Option<u32>,
    /// Attention, where the layer has it.
    pub attention: Option<GpuAttention>,
    /// A recurrent mixer, where the layer has one.
    pub recurrent: Option<GpuRecurrent>,
    /// Norm of what the mixer adds.
    pub post_attn_norm: Option<u32>,
    /// Norm before the feed-forward.
    pub ffn_norm: Option<u32>,
    /// Feed-forward, unless the layer is a mixer alone.
    pub ffn: Option<GpuFeedForward>,
    /// Norm of what the feed-forward adds.
    pub post_ffn_norm: Option<u32>,
    /// What is added beside attention.
    pub laurel: Option<GpuLaurel>,
    /// What streams beside each other become.
    pub streams: Option<GpuStreams>,
    /// What follows the feed-forward.
    pub per_layer: Option<GpuPerLayer>,
    /// What the residual stream is multiplied with at last.
    pub scale: Option<f32>,
}

impl GpuLayer {
    /// Whether something brings tokens together; else the layer is a feed-forward alone.
    pub fn has_mixer(&self) -> bool {
        self.attention.is_some() || self.recurrent.is_some()
    }

    /// Norm of what the first part of the layer reads.
    pub fn first_norm(&self) -> Option<u32> {
        if self.has_mixer() { self.attn_norm } else { self.ffn_norm }
    }
}

/// A feed-forward.
pub enum GpuFeedForward {
    /// One for all tokens.
    Dense(GpuMlp),
    /// Some of many for each token.
    Experts(Box<GpuExperts>),
}

impl GpuModel {
    /// Takes a model up.
    ///
    /// # Errors
    /// When it does not fit into the device's memory, or is of a kind that does not run there.
    pub fn upload(gpu: &Gpu, model: &Model, isa: Isa, slopes: &[f32]) -> Result<GpuModel> {
        let embedding = match &model.embedding {
            Embedding::Resident(tensor) => tensor,
            Embedding::OnDisk(_) => return Err(streamed()),
        };
        let config = &model.config;
        let tied_head = check_known(config)?;
        let Shares { room, matrices, embedding_on_host } =
            Shares::of(gpu, matrices(model)?, embedding, tied_head)?;
        let native = |tensor: &&Tensor| tensor.native().filter(|rows| rows.quant().is_learned()).cloned();
        // A file has one set for all of its tensors.
        let learned = matrices.iter().find_map(native);
        let tables = learned.map_or(BUILT_IN, |rows| *rows.tables());
        let mut uploader = Uploader::new(gpu, isa, matrices.into_iter());
        let positions = model.positions.as_ref().filter(|_| !embedding_on_host).map(Tensor::to_f32);
        let embedding_rows = match embedding_on_host {
            true => GpuEmbedding::OnHost(HostRows {
                table: embedding.clone(),
                scale: config.embedding_scale.unwrap_or(1.0),
                positions: model.positions.clone(),
            }),
            false => GpuEmbedding::OnDevice(GpuParts::upload(&mut uploader, embedding)?),
        };
        let layers = model.layers.iter().map(|layer| upload_layer(&mut uploader, config, layer));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let per_layer = model.per_layer.as_ref();
        let per_layer =
            per_layer.map(|inputs| GpuPerLayerInputs::upload(&mut uploader, inputs)).transpose()?;
        let streams = model.streams.as_ref();
        let streams = streams.map(|ends| GpuStreamEnds::upload(&mut uploader, ends)).transpose()?;
        let parts = match embedding_rows.on_device().filter(|_| tied_head) {
            Some(parts) => parts.clone(),
            None => GpuParts::upload(&mut uploader, resident(&model.head.weight)?)?,
        };
        let head = GpuHead::new(&mut uploader, parts, &model.head);
        let final_norm = norm(&mut uploader, config, &model.final_norm);
        let embedding_norm = model.embedding_norm.as_ref().map(|n| norm(&mut uploader, config, n));
        let slopes = (!slopes.is_empty()).then(|| uploader.vector(slopes));
        let has_positions = positions.is_some();
        let words = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        let positions = gpu.buffer_of(&words(&positions.unwrap_or_default()), "positions")?;
        let vectors = gpu.buffer_of(&words(&uploader.finish()), "vectors")?;
        Ok(GpuModel {
            config: config.clone(),
            embedding: embedding_rows,
            positions: Arc::new(positions),
            has_positions,
            embedding_norm,
            layers,
            per_layer,
            streams,
            final_norm,
            head,
            vectors: Arc::new(vectors),
            slopes,
            tables,
            room,
            most_rank: model.most_rank(),
        })
    }
}

/// Names everything that a GPU computes by, and the file that does it: whoever adds a field says here where it is obeyed, or refuses
/// such models. Returns whether the head is the token embedding.
fn check_known(config: &ModelConfig) -> Result<bool> {
    let ModelConfig {
        tied_head,
        // The widths of buffers: `state`.
        layers: _,
        hidden: _,
        heads: _,
        kv_heads: _,
        head_dim: _,
        ffn: _,
        vocab: _,
        // Rotary tables: `state`, `step/attention`. Learned positions are taken up here, slopes of ALiBi come from the decoder.
        position: _,
        // Bounds of a request: `decoder`.
        max_positions: _,
        // `step`.
        norm: _,
        residual: _,
        embedding_scale: _,
        residual_scale: _,
        layer_scale: _,
        logit_scale: _,
        logit_softcap: _,
        // `step/layers`, `step/recurrent`, `step/feed_forward`, `mixer`.
        multipliers: _,
        // `step/attention`, `attention_weights`.
        qk_norm,
        qkv_clip: _,
        query_growth: _,
        value_norm,
        value_heads: _,
        full_attention: _,
        attention_scale: _,
        attention_softcap: _,
        attention_sinks: _,
        window_sinks: _,
        sliding_window: _,
        window_chunks: _,
        attention_gate: _,
        // `step/recurrent`, `mixer`.
        recurrent: _,
        // `step/layers`, which sees by the weights what a layer has.
        half_layers: _,
        // `step/attention`; `state`, whose caches are shared.
        shared_kv: _,
        // `step/attention`, `step/feed_forward`, where the weights have such norms.
        sub_norms: _,
        // `step/per_layer`.
        per_layer_embedding: _,
        // `step/feed_forward`, which sees by the weights whether there is a gate, whether it is sparse, and what is done to inner values.
        activation: _,
        gate_clip: _,
        gated_ffn: _,
        gate_sparsity: _,
        // `experts`, `wgsl/route`.
        experts,
        // `step/latent`.
        latent: _,
        // `step/streams`.
        streams: _,
        laurel: _,
        // Whether there is such a norm, the weights say.
        embedding_norm: _,
        // What a caller begins, ends and pads a text with, and a name for messages.
        architecture: _,
        bos: _,
        stop_tokens: _,
        pad: _,
    } = config;
    let refused = [
        // No architecture has both.
        (*value_norm && *qk_norm == Some(QkNorm::HeadsApart), "norms of values beside gains for each head"),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(is_there, _)| *is_there) {
        return Err(not_there(what));
    }
    if let Some(experts) = experts {
        check_experts(experts)?;
    }
    Ok(*tied_head)
}

fn upload_layer(uploader: &mut Uploader<'_>, config: &ModelConfig, layer: &LayerWeights) -> Result<GpuLayer> {
    let wanted =
        |uploader: &mut Uploader<'_>, n: &Option<Norm>| n.as_ref().map(|n| norm(uploader, config, n));
    let attention = match layer.attention() {
        Some(attention) => Some(GpuAttention::upload(uploader, attention)?),
        None => None,
    };
    let recurrent = match layer.recurrent() {
        Some(recurrent) => Some(upload_recurrent(uploader, config, recurrent)?),
        None => None,
    };
    let ffn = match &layer.ffn {
        Some(FeedForward::Dense(dense)) => Some(GpuFeedForward::Dense(GpuMlp::upload(uploader, dense)?)),
        Some(FeedForward::Experts(mixture)) => {
            Some(GpuFeedForward::Experts(Box::new(GpuExperts::upload(uploader, config, mixture)?)))
        }
        None => None,
    };
    Ok(GpuLayer {
        attn_norm: wanted(uploader, &layer.attn_norm),
        attention,
        recurrent,
        post_attn_norm: wanted(uploader, &layer.post_attn_norm),
        ffn_norm: wanted(uploader, &layer.ffn_norm),
        ffn,
        post_ffn_norm: wanted(uploader, &layer.post_ffn_norm),
        laurel: match &layer.laurel {
            Some(laurel) => Some(GpuLaurel::upload(uploader, laurel)?),
            None => None,
        },
        streams: layer.streams.as_ref().map(|streams| GpuStreams::upload(uploader, streams)),
        per_layer: layer
            .per_layer
            .as_ref()
            .map(|of_layer| GpuPerLayer::upload(uploader, of_layer))
            .transpose()?,
        scale: layer.scale,
    })
}

/// Every matrix but the embedding, or the parts of it.
fn matrices(model: &Model) -> Result<Vec<&Tensor>> {
    let mut linears: Vec<_> = model.linears().collect();
    if model.config.tied_head {
        // The head, which is last.
        linears.pop();
    }
    let mut all = Vec::new();
    for linear in linears {
        // Besides the embedding, the head alone can be in parts.
        all.extend(resident(&linear.weight)?.stored_parts());
    }
    Ok(all)
}
