//! A model in buffers of the graphics processor.

use std::sync::Arc;

use qsf_format::{Activation, BUILT_IN, CodeTables, ModelConfig, NormKind, QkNorm};
use wgpu::Buffer;

use super::device::Gpu;
use super::experts::{GpuExperts, check_experts};
use super::room::Room;
use super::weights::{GpuMatrix, Uploader};
use super::wgsl::activation::Function;
use crate::error::{Result, RuntimeError};
use crate::tensor::Tensor;
use crate::weights::{Embedding, FeedForward, LayerWeights, Linear, Mlp, Model, Norm, Weight};
use qsf_cpu::Isa;

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
    /// Query, key and value.
    pub qkv: Vec<GpuLinear>,
    /// Gains of queries and keys, for each head or for all of a token, as the configuration says.
    pub qk_norm: Option<(u32, u32)>,
    /// Attention output.
    pub output: GpuLinear,
    /// Norm of what attention adds.
    pub post_attn_norm: Option<u32>,
    /// Norm before the feed-forward.
    pub ffn_norm: Option<u32>,
    /// Feed-forward.
    pub ffn: GpuFeedForward,
    /// Norm of what the feed-forward adds.
    pub post_ffn_norm: Option<u32>,
}

/// A matrix and its bias.
#[derive(Clone)]
pub struct GpuLinear {
    /// The matrix.
    pub matrix: GpuMatrix,
    /// Where the bias begins among the vectors.
    pub bias: Option<u32>,
    /// What adapters add, each to some of the rows.
    pub updates: Vec<GpuLowRank>,
}

/// What adapters add to some rows of a matrix: two narrow matrices among the vectors.
#[derive(Clone)]
pub struct GpuLowRank {
    /// The first of the rows in its matrix, and how many.
    pub first: u32,
    pub rows: u32,
    pub inputs: u32,
    pub rank: u32,
    /// Where `rank` x `inputs` begins.
    pub down: u32,
    /// Where `rank` x `rows` begins.
    pub up: u32,
}

/// A feed-forward.
pub enum GpuFeedForward {
    /// One for all tokens.
    Dense(GpuMlp),
    /// Some of many for each token.
    Experts(Box<GpuExperts>),
}

/// A feed-forward for all tokens.
pub struct GpuMlp {
    /// Whether there is a gate.
    pub gated: bool,
    /// What is done to each inner value.
    pub function: Function,
    /// Inner values.
    pub width: usize,
    /// Gate, where there is one, and up projection.
    pub inner: Vec<GpuLinear>,
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
        let tensors = matrices(model)?;
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
        logit_softcap: _,
        // Refused below.
        residual_scale,
        logit_scale,
        qkv_clip,
        attention_sinks,
        window_sinks: _,
        value_heads,
        sub_norms,
        query_growth,
        // `step/attention`.
        qk_norm,
        attention_scale: _,
        attention_softcap: _,
        sliding_window: _,
        window_chunks,
        attention_gate,
        recurrent,
        half_layers,
        // `step/feed_forward`, which sees by the weights whether there is a gate, and what is done to inner values.
        activation,
        gate_clip: _,
        gated_ffn: _,
        // `experts`, `wgsl/route`.
        experts,
        latent,
        full_attention,
        shared_kv,
        value_norm,
        per_layer_embedding,
        layer_scale,
        streams,
        laurel,
        gate_sparsity,
        multipliers,
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
        (*attention_gate, "gates of attention"),
        (latent.is_some(), "attention by way of latents (MLA)"),
        (full_attention.is_some(), "layers with heads of several widths"),
        (shared_kv.is_some(), "layers that share keys and values"),
        (*value_norm, "norms of values"),
        (per_layer_embedding.is_some(), "embeddings of layers"),
        (*layer_scale, "scaled layers"),
        (streams.is_some(), "residual streams beside each other (AltUp)"),
        (laurel.is_some(), "learned residuals beside attention (LAuReL)"),
        (!gate_sparsity.is_empty(), "sparse gates"),
        (multipliers.is_some(), "scaled parts of layers"),
        (residual_scale.is_some(), "scaled residual streams"),
        (logit_scale.is_some(), "scaled logits"),
        (qkv_clip.is_some(), "limited queries, keys and values"),
        (*attention_sinks, "attention sinks"),
        (value_heads.is_some(), "heads of values of another width"),
        (*sub_norms, "norms before output projections"),
        (query_growth.is_some(), "queries that grow with their position"),
        (*activation == Activation::Xielu, "xIELU"),
        (*window_chunks, "attention within chunks"),
        (
            matches!(qk_norm, Some(QkNorm::RotatedHead | QkNorm::RotatedHeadPlain)),
            "norms of queries and keys behind their rotation",
        ),
        (matches!(qk_norm, Some(QkNorm::HeadsApart)), "norms of queries and keys with gains for each head"),
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
    let gains = |uploader: &mut Uploader<'_>, n: &Option<Norm>| n.as_ref().map(|n| uploader.vector(&n.gain));
    let Some(attention) = layer.attention() else { return Err(not_there("recurrent layers")) };
    let Some(ffn) = &layer.ffn else { return Err(not_there("layers of one part")) };
    Ok(GpuLayer {
        attn_norm: wanted(uploader, &layer.attn_norm),
        qkv: stack(uploader, [&attention.q].into_iter().chain(&attention.k).chain(&attention.v))?,
        qk_norm: gains(uploader, &attention.q_norm).zip(gains(uploader, &attention.k_norm)),
        output: linear(uploader, &attention.output)?,
        post_attn_norm: wanted(uploader, &layer.post_attn_norm),
        ffn_norm: wanted(uploader, &layer.ffn_norm),
        ffn: match ffn {
            FeedForward::Dense(dense) => GpuFeedForward::Dense(mlp(uploader, dense)?),
            FeedForward::Experts(mixture) => {
                GpuFeedForward::Experts(Box::new(GpuExperts::upload(uploader, config, mixture)?))
            }
        },
        post_ffn_norm: wanted(uploader, &layer.post_ffn_norm),
    })
}

/// A feed-forward.
pub(super) fn mlp(uploader: &mut Uploader<'_>, mlp: &Mlp) -> Result<GpuMlp> {
    let Mlp { gate, up, down, norm: _, cutoff: _, function: between } = mlp;
    Ok(GpuMlp {
        gated: gate.is_some(),
        function: function(*between)?,
        width: up.weight.rows(),
        inner: stack(uploader, gate.iter().chain([up]))?,
        down: linear(uploader, down)?,
    })
}

/// The function of a feed-forward, as kernels have it.
pub(super) fn function(function: qsf_cpu::Function) -> Result<Function> {
    use qsf_cpu::Function as Of;
    Ok(Function::Named(match function {
        Of::GeluErf => Activation::GeluErf,
        Of::GeluTanh => Activation::GeluTanh,
        Of::Silu => Activation::Silu,
        Of::Relu => Activation::Relu,
        Of::Relu2 => Activation::Relu2,
        Of::Xielu { .. } => return Err(not_there("xIELU")),
        Of::ClippedSilu { alpha, limit } => {
            return Ok(Function::Clipped { alpha: alpha.to_bits(), limit: limit.to_bits() });
        }
    }))
}

pub(super) fn not_there(what: &str) -> RuntimeError {
    RuntimeError::NoGpu { why: format!("{what} do not run there; use --device cpu") }
}

pub(super) fn linear(uploader: &mut Uploader<'_>, linear: &Linear) -> Result<GpuLinear> {
    let matrix = uploader.matrix(resident(&linear.weight)?)?;
    Ok(with_vectors(uploader, matrix, linear))
}

/// A matrix with its bias and what adapters add to it.
fn with_vectors(uploader: &mut Uploader<'_>, matrix: GpuMatrix, linear: &Linear) -> GpuLinear {
    let bias = linear.bias.as_deref().map(|bias| uploader.vector(bias));
    GpuLinear { matrix, bias, updates: update(uploader, linear).into_iter().collect() }
}

/// What adapters add to a matrix.
fn update(uploader: &mut Uploader<'_>, linear: &Linear) -> Option<GpuLowRank> {
    let low_rank = linear.low_rank.as_ref()?;
    let [outputs, inputs] = low_rank.shape();
    Some(GpuLowRank {
        first: 0,
        rows: outputs as u32,
        inputs: inputs as u32,
        rank: low_rank.rank() as u32,
        down: uploader.vector(&low_rank.down_rows()),
        up: uploader.vector(&low_rank.up_columns()),
    })
}

/// Matrices over the same input, their outputs one behind the other; those that follow in the buffer are one.
fn stack<'a>(
    uploader: &mut Uploader<'_>,
    linears: impl IntoIterator<Item = &'a Linear>,
) -> Result<Vec<GpuLinear>> {
    let linears: Vec<&Linear> = linears.into_iter().collect();
    // All matrices before all biases or after them: biases of one matrix must follow each other.
    let mut biases = linears.iter().map(|linear| linear.bias.as_deref().map(|bias| uploader.vector(bias)));
    let biases: Vec<Option<u32>> = biases.by_ref().collect();
    let all_or_none = biases.iter().all(|bias| bias.is_some() == biases[0].is_some());
    let mut stacked: Vec<GpuLinear> = Vec::new();
    for (linear, bias) in linears.into_iter().zip(biases) {
        let matrix = uploader.matrix(resident(&linear.weight)?)?;
        let (mut first, mut below) = (0, Some(matrix));
        if let Some(above) = stacked.last_mut().filter(|_| all_or_none) {
            first = above.matrix.rows;
            below = below.and_then(|matrix| above.matrix.join(matrix));
        }
        if let Some(matrix) = below {
            stacked.push(GpuLinear { matrix, bias, updates: Vec::new() });
            first = 0;
        }
        if let (Some(to), Some(update)) = (stacked.last_mut(), update(uploader, linear)) {
            to.updates.push(GpuLowRank { first, ..update });
        }
    }
    Ok(stacked)
}

/// Gains, and for a kind that has them biases behind.
pub(super) fn norm(uploader: &mut Uploader<'_>, config: &ModelConfig, norm: &Norm) -> u32 {
    let at = uploader.vector(&norm.gain);
    if config.norm.kind == NormKind::LayerNorm {
        match &norm.bias {
            Some(bias) => uploader.vector(bias),
            None => uploader.vector(&vec![0.0; norm.gain.len()]),
        };
    }
    at
}

/// Every matrix but the embedding.
fn matrices(model: &Model) -> Result<Vec<&Tensor>> {
    let mut all = Vec::new();
    for layer in &model.layers {
        for linear in layer.mixer_and_ffn_linears() {
            all.push(resident(&linear.weight)?);
        }
    }
    if !model.config.tied_head {
        all.push(resident(&model.head.weight)?);
    }
    Ok(all)
}

pub(super) fn resident(weight: &Weight) -> Result<&Tensor> {
    weight.resident().ok_or_else(streamed)
}

fn streamed() -> RuntimeError {
    RuntimeError::NoGpu {
        why: "weights within a RAM budget are not for the GPU; leave out --ram-budget".into(),
    }
}
