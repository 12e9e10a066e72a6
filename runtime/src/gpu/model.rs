//! A model in buffers of the graphics processor.

use std::sync::Arc;

use qsf_format::{BUILT_IN, CodeTables, Experts, ModelConfig, QkNorm, RouterScore};
use wgpu::Buffer;

use super::attention_weights::GpuAttention;
use super::device::Gpu;
use super::linears::{
    GpuLinear, linear, norm, norm_gains, not_there, resident, stack, streamed, with_vectors,
};
use super::per_layer::{GpuPerLayer, GpuPerLayerInputs};
use super::room::Room;
use super::streams::{GpuLaurel, GpuStreamEnds, GpuStreams};
use super::weights::{GpuMatrix, Uploader};
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use crate::weights::{Embedding, FeedForward, LayerWeights, Linear, Mlp, Model, Norm};
use qsf_cpu::{Function, Isa};

/// A model.
pub struct GpuModel {
    /// The architecture.
    pub config: ModelConfig,
    /// Token embedding.
    pub embedding: GpuMatrix,
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
    pub head: GpuLinear,
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
    /// Norm before attention.
    pub attn_norm: Option<u32>,
    /// Attention.
    pub attention: GpuAttention,
    /// Norm of what attention adds.
    pub post_attn_norm: Option<u32>,
    /// Norm before the feed-forward.
    pub ffn_norm: Option<u32>,
    /// Feed-forward.
    pub ffn: GpuFeedForward,
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

/// A feed-forward.
pub enum GpuFeedForward {
    /// One for all tokens.
    Dense(GpuMlp),
    /// Some of many for each token.
    Experts(GpuExperts),
}

/// Experts of a layer, each as many words behind the one before.
pub struct GpuExperts {
    /// How much a token wants each.
    pub router: GpuLinear,
    /// Gate and up projection of the first.
    pub inner: GpuMatrix,
    /// Words from one expert's to the next.
    pub inner_words: u32,
    /// Down projection of the first.
    pub down: GpuMatrix,
    /// Words from one expert's to the next.
    pub down_words: u32,
}

/// A feed-forward for all tokens.
pub struct GpuMlp {
    /// Whether there is a gate.
    pub gated: bool,
    /// Gate, where there is one, and up projection.
    pub inner: Vec<GpuLinear>,
    /// Gains of what the down projection reads.
    pub norm: Option<u32>,
    /// Gates below their mean and so many times their standard deviation are 0, and as much is taken off the others.
    pub cutoff: Option<f32>,
    /// Factors of xIELU above 0 and below.
    pub xielu: [f32; 2],
    /// Down projection.
    pub down: GpuLinear,
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
        let mut tensors = matrices(model)?;
        tensors.extend(model.per_layer.iter().map(|inputs| &inputs.embedding));
        let native = |tensor: &&Tensor| tensor.native().filter(|rows| rows.quant().is_learned()).cloned();
        // A file has one set for all of its tensors.
        let learned = tensors.iter().chain([&embedding]).find_map(native);
        let tables = learned.map_or(BUILT_IN, |rows| *rows.tables());
        let room = Room::of(tensors.iter().copied().chain([embedding]));
        room.check(gpu)?;
        let mut uploader = Uploader::new(gpu, isa, tensors.into_iter().chain([embedding]));
        let config = &model.config;
        let tied_head = check_known(config)?;
        let embedding_matrix = uploader.matrix(embedding)?;
        let layers = model.layers.iter().map(|layer| upload_layer(&mut uploader, config, layer));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let per_layer = model.per_layer.as_ref();
        let per_layer =
            per_layer.map(|inputs| GpuPerLayerInputs::upload(&mut uploader, inputs)).transpose()?;
        let streams = model.streams.as_ref();
        let streams = streams.map(|ends| GpuStreamEnds::upload(&mut uploader, ends)).transpose()?;
        let matrix = match tied_head {
            true => embedding_matrix.clone(),
            false => uploader.matrix(resident(&model.head.weight)?)?,
        };
        let head = with_vectors(&mut uploader, matrix, &model.head);
        let final_norm = norm(&mut uploader, config, &model.final_norm);
        let embedding_norm = model.embedding_norm.as_ref().map(|n| norm(&mut uploader, config, n));
        let slopes = (!slopes.is_empty()).then(|| uploader.vector(slopes));
        let positions = model.positions.as_ref().map(Tensor::to_f32);
        let has_positions = positions.is_some();
        let words = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        let positions = gpu.buffer_of(&words(&positions.unwrap_or_default()), "positions")?;
        let vectors = gpu.buffer_of(&words(&uploader.finish()), "vectors")?;
        Ok(GpuModel {
            config: config.clone(),
            embedding: embedding_matrix,
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
        // `step`, `step/feed_forward`; those of recurrent mixers are of layers that are refused below.
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
        // `step/attention`; `state`, whose caches are shared.
        shared_kv: _,
        // `step/attention`, `step/feed_forward`, where the weights have such norms.
        sub_norms: _,
        // `step/per_layer`.
        per_layer_embedding: _,
        // `step/feed_forward`, which sees by the weights whether there is a gate, and which is sparse.
        activation: _,
        gated_ffn: _,
        gate_sparsity: _,
        experts,
        // `step/latent`.
        latent: _,
        // `step/streams`.
        streams: _,
        laurel: _,
        // Refused below.
        gate_clip,
        recurrent,
        half_layers,
        // Whether there is such a norm, the weights say.
        embedding_norm: _,
        // What a caller begins, ends and pads a text with, and a name for messages.
        architecture: _,
        bos: _,
        stop_tokens: _,
        pad: _,
    } = config;
    let refused = [
        (recurrent.is_some(), "recurrent layers"),
        (half_layers.is_some(), "layers of one part"),
        (gate_clip.is_some(), "limited gates"),
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

/// Refuses mixtures of experts that the kernels there do not compute.
fn check_experts(experts: &Experts) -> Result<()> {
    let Experts {
        // `step/feed_forward`, and the buffers of `state`.
        count: _,
        used: _,
        ffn: _,
        normalize_weights: _,
        dense_layers: _,
        // Of a score that is not there.
        margin: _,
        score,
        choice_bias,
        groups,
        weight_scale,
        weigh_inputs,
        shared,
        beside_ffn,
    } = experts;
    let refused = [
        (*score != RouterScore::Softmax, "of a router without softmax"),
        (*choice_bias, "with a bias of their choice"),
        (groups.is_some(), "in groups"),
        (weight_scale.is_some(), "with weights that are scaled"),
        (*weigh_inputs, "whose inputs are weighted"),
        (shared.is_some(), "that are shared"),
        (*beside_ffn, "beside a feed-forward"),
    ];
    match refused.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(unlike(what)),
        None => Ok(()),
    }
}

fn upload_layer(uploader: &mut Uploader<'_>, config: &ModelConfig, layer: &LayerWeights) -> Result<GpuLayer> {
    let wanted =
        |uploader: &mut Uploader<'_>, n: &Option<Norm>| n.as_ref().map(|n| norm(uploader, config, n));
    let Some(attention) = layer.attention() else { return Err(not_there("recurrent layers")) };
    let Some(ffn) = &layer.ffn else { return Err(not_there("layers of one part")) };
    Ok(GpuLayer {
        attn_norm: wanted(uploader, &layer.attn_norm),
        attention: GpuAttention::upload(uploader, attention)?,
        post_attn_norm: wanted(uploader, &layer.post_attn_norm),
        ffn_norm: wanted(uploader, &layer.ffn_norm),
        ffn: match ffn {
            FeedForward::Dense(Mlp { gate, up, down, norm, cutoff, function }) => {
                GpuFeedForward::Dense(GpuMlp {
                    gated: gate.is_some(),
                    inner: stack(uploader, gate.iter().chain([up]))?,
                    norm: norm_gains(uploader, norm),
                    cutoff: *cutoff,
                    xielu: match function {
                        Function::Xielu { above, below } => [*above, *below],
                        _ => [0.0; 2],
                    },
                    down: linear(uploader, down)?,
                })
            }
            FeedForward::Experts(mixture) => {
                GpuFeedForward::Experts(upload_experts(uploader, &mixture.router, &mixture.experts)?)
            }
        },
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

fn upload_experts(uploader: &mut Uploader<'_>, router: &Linear, experts: &[Mlp]) -> Result<GpuExperts> {
    let router = linear(uploader, router)?;
    let mut inner = Vec::new();
    for Mlp { gate, up, .. } in experts {
        inner.extend([gate.as_ref().ok_or_else(|| unlike("without a gate"))?, up]);
    }
    let down: Vec<&Linear> = experts.iter().map(|expert| &expert.down).collect();
    let (inner, down) = (alike(uploader, &inner)?, alike(uploader, &down)?);
    Ok(GpuExperts {
        router,
        inner_words: 2 * inner.words(inner.rows),
        down_words: down.words(down.rows),
        inner,
        down,
    })
}

/// Matrices of one shape and type, each behind the one before; the first of them.
fn alike(uploader: &mut Uploader<'_>, linears: &[&Linear]) -> Result<GpuMatrix> {
    let tensors = linears.iter().map(|linear| resident(&linear.weight)).collect::<Result<Vec<_>>>()?;
    uploader.keep_together(&tensors)?;
    let mut all = Vec::new();
    for (linear, tensor) in linears.iter().zip(tensors) {
        if linear.bias.is_some() || tensor.has_outliers() || linear.low_rank.is_some() {
            return Err(unlike("with biases, with adapters, or with weights that are stored apart,"));
        }
        all.push(uploader.matrix(tensor)?);
    }
    let first = all.first().ok_or_else(|| unlike("that are none"))?.clone();
    let shape = |matrix: &GpuMatrix| (matrix.codes, matrix.rows, matrix.cols);
    if all.iter().any(|matrix| shape(matrix) != shape(&first)) {
        return Err(unlike("of several types or shapes"));
    }
    Ok(first)
}

fn unlike(what: &str) -> RuntimeError {
    RuntimeError::NoGpu { why: format!("experts {what} do not run there; use --device cpu") }
}

/// Every matrix but the embedding.
fn matrices(model: &Model) -> Result<Vec<&Tensor>> {
    let mut all = Vec::new();
    for linear in model.linears() {
        all.push(resident(&linear.weight)?);
    }
    if model.config.tied_head {
        // The head, which is last.
        all.pop();
    }
    Ok(all)
}
