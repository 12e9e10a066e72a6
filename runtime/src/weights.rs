//! The weights of a model as the decoder uses them: matrices in their stored type, vectors as floats.

mod adapters;
mod halves;
mod loader;
mod mixer;
mod mixer_loader;
mod streams_loader;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use qsf_cpu::{Cpu, Function};
use qsf_format::{FileMap, ModelConfig, TensorId, TensorKind};

use crate::error::{Result, RuntimeError};
use crate::huge_pages::HugePages;
use crate::linear::Narrow;
use crate::on_disk::{EmbeddingRows, StreamedMatrix};
use crate::source::WeightSource;
use crate::tensor::Tensor;

pub use mixer::{AttentionWeights, LatentWeights, Mixer, RecurrentWeights, Selection};

/// A model. Matrices share the source's bytes, or come from disk whenever they are used; nothing is expanded.
pub struct Model {
    /// The architecture.
    pub config: ModelConfig,
    /// `vocab` x `hidden`.
    pub embedding: Embedding,
    /// Norm of the embedding, where there is one.
    pub embedding_norm: Option<Norm>,
    /// `max_positions` x `hidden`, for learned positions.
    pub positions: Option<Tensor>,
    /// Transformer layers.
    pub layers: Vec<LayerWeights>,
    /// What layers get of a token besides, where they do.
    pub per_layer: Option<PerLayerInputs>,
    /// How residual streams beside the first begin and end, where there are several.
    pub streams: Option<StreamEnds>,
    /// Norm before the head.
    pub final_norm: Norm,
    /// `vocab` x `hidden`; the embedding's bytes when tied.
    pub head: Linear,
    /// The large pages that weights are in.
    pub huge_pages: HugePages,
    /// The file, where not all of it was checked when it was opened.
    pub unchecked: Option<Arc<FileMap>>,
}

/// What each layer gets of a token besides the residual stream.
pub struct PerLayerInputs {
    /// Of tokens, for all layers.
    pub embedding: Tensor,
    /// Of the token embedding, for all layers.
    pub projection: Linear,
    /// Norm of the latter, for one layer.
    pub norm: Norm,
}

/// What a layer makes of it.
pub struct PerLayer {
    /// Of the residual stream.
    pub gate: Linear,
    /// Of gate and input.
    pub up: Linear,
    /// Norm of what is added.
    pub norm: Norm,
}

/// How residual streams beside the first begin and end.
pub struct StreamEnds {
    /// Of the token embedding, all of them.
    pub projection: Linear,
    /// Of each stream, what comes back of it.
    pub returns: Vec<Linear>,
}

/// What a layer does to residual streams beside each other.
pub struct StreamWeights {
    /// Norm of what the router reads, with gains that are already divided by the width.
    pub router_norm: Norm,
    /// A row for each stream.
    pub router: Vec<f32>,
    /// For each stream and each stream that it is made of, a row with a value for each stream.
    pub prediction: Vec<f32>,
    /// A row for each stream.
    pub correction: Vec<f32>,
    /// Of what the other streams are given something of.
    pub scale: Vec<f32>,
}

/// A residual of low rank beside attention.
pub struct Laurel {
    /// `rank` x `hidden`.
    pub down: Linear,
    /// `hidden` x `rank`.
    pub up: Linear,
    /// Of what these make.
    pub norm: Norm,
}

/// One transformer layer. Norms are there as the configuration says.
pub struct LayerWeights {
    /// Norm before the mixer.
    pub attn_norm: Option<Norm>,
    /// What brings tokens together, unless the layer is a feed-forward alone.
    pub mixer: Option<Mixer>,
    /// Norm of what the mixer adds.
    pub post_attn_norm: Option<Norm>,
    /// Norm before the feed-forward.
    pub ffn_norm: Option<Norm>,
    /// Feed-forward, unless the layer is a mixer alone.
    pub ffn: Option<FeedForward>,
    /// Norm of what the feed-forward adds.
    pub post_ffn_norm: Option<Norm>,
    /// What is added beside the mixer.
    pub laurel: Option<Laurel>,
    /// What streams beside each other become.
    pub streams: Option<StreamWeights>,
    /// What follows the feed-forward.
    pub per_layer: Option<PerLayer>,
    /// What the residual stream is multiplied with at last.
    pub scale: Option<f32>,
}

/// The feed-forward of a layer.
#[expect(clippy::large_enum_variant, reason = "there is one for each layer, and most are the large one")]
pub enum FeedForward {
    /// One for all tokens.
    Dense(Mlp),
    /// Some of many for each token.
    Experts(Mixture),
}

/// A mixture of experts.
pub struct Mixture {
    /// `experts` x `hidden`: how much a token wants each expert.
    pub router: Linear,
    /// Added to the scores where experts are chosen.
    pub choice_bias: Option<Vec<f32>>,
    /// The experts.
    pub experts: Vec<Mlp>,
    /// What all tokens go through besides.
    pub shared: Option<Shared>,
    /// What is of experts beside a feed-forward only, which then is `shared`.
    pub beside: Option<BesideFeedForward>,
}

/// Norms of experts beside a feed-forward, and factors of their weights.
pub struct BesideFeedForward {
    /// Of what the router reads.
    pub router_norm: Norm,
    /// Of what the experts read.
    pub expert_norm: Norm,
    /// Of what the feed-forward gives.
    pub post_side_norm: Norm,
    /// Of what the experts give together.
    pub post_expert_norm: Norm,
    /// One for each expert.
    pub scale: Vec<f32>,
}

/// The experts that all tokens go through.
pub struct Shared {
    /// 1 x `hidden`: how much they count, where that depends on the token.
    pub router: Option<Linear>,
    /// All of them as one.
    pub mlp: Mlp,
}

/// The matrices of one feed-forward.
pub struct Mlp {
    /// Gate, where it is gated.
    pub gate: Option<Linear>,
    /// Up projection.
    pub up: Linear,
    /// Norm of what the down projection reads.
    pub norm: Option<Norm>,
    /// Down projection.
    pub down: Linear,
    /// Gates below their mean and so many times their standard deviation are 0, and as much is taken off the others.
    pub cutoff: Option<f32>,
    /// What is between.
    pub function: Function,
}

/// The vectors that tokens begin as.
pub enum Embedding {
    /// All in memory.
    Resident(Tensor),
    /// On disk, but for what was used last.
    OnDisk(Box<EmbeddingRows>),
}

/// A matrix of a model.
pub enum Weight {
    /// In memory.
    Resident(Tensor),
    /// Read from disk whenever it is used.
    Streamed(Box<StreamedMatrix>),
}

impl Weight {
    /// Rows: outputs.
    pub fn rows(&self) -> usize {
        match self {
            Weight::Resident(tensor) => tensor.rows(),
            Weight::Streamed(matrix) => matrix.rows(),
        }
    }

    /// Columns: inputs.
    pub fn cols(&self) -> usize {
        match self {
            Weight::Resident(tensor) => tensor.cols(),
            Weight::Streamed(matrix) => matrix.form().cols,
        }
    }

    /// Whether kernels multiply this with 8-bit activations.
    pub fn has_blocks(&self) -> bool {
        match self {
            Weight::Resident(tensor) => tensor.has_blocks(),
            Weight::Streamed(matrix) => !matrix.form().quant.is_float(),
        }
    }

    /// Bytes of all rows as stored.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Weight::Resident(tensor) => tensor.stored_bytes(),
            Weight::Streamed(matrix) => (matrix.form().row_bytes() * matrix.rows()) as u64,
        }
    }

    /// The type in reports; types of parts one behind the other.
    pub fn type_name(&self) -> String {
        match self {
            Weight::Resident(tensor) => {
                let types = tensor.stored_parts().iter().map(|part| part.stored_type().to_string());
                types.collect::<Vec<_>>().join("/")
            }
            Weight::Streamed(matrix) => matrix.form().quant.to_string(),
        }
    }

    /// The matrix, where it is in memory.
    pub fn resident(&self) -> Option<&Tensor> {
        match self {
            Weight::Resident(tensor) => Some(tensor),
            Weight::Streamed(_) => None,
        }
    }

    /// Some rows of the matrix; `None` where it comes from disk as a whole.
    pub(crate) fn slice_rows(&self, rows: std::ops::Range<usize>) -> Option<Weight> {
        match self {
            Weight::Resident(tensor) => Some(Weight::Resident(tensor.slice_rows(rows))),
            Weight::Streamed(matrix) => Some(Weight::Streamed(Box::new(matrix.slice_rows(rows)?))),
        }
    }
}

/// A matrix and its bias.
pub struct Linear {
    /// Rows are outputs, columns inputs.
    pub weight: Weight,
    /// One value per row.
    pub bias: Option<Vec<f32>>,
    /// What adapters add to the matrix.
    pub low_rank: Option<Box<Narrow>>,
}

impl Linear {
    /// A matrix without adapters.
    pub fn new(weight: Weight, bias: Option<Vec<f32>>) -> Linear {
        Linear { weight, bias, low_rank: None }
    }

    /// The matrix with its bias, where it is in memory.
    pub fn resident(&self) -> Option<(&Tensor, Option<&[f32]>)> {
        Some((self.weight.resident()?, self.bias.as_deref()))
    }
}

/// Gain and bias of a norm, one value per column.
pub struct Norm {
    /// Multiplied.
    pub gain: Vec<f32>,
    /// Added.
    pub bias: Option<Vec<f32>>,
}

impl Model {
    /// Bytes of all matrices of layer `index` that one decoded token reads.
    pub(crate) fn layer_bytes_per_token(&self, index: usize) -> u64 {
        let bytes = |linear: &Linear| linear.weight.stored_bytes();
        let layer = &self.layers[index];
        let mixer: u64 = layer
            .mixer_linears()
            .chain(layer.laurel_linears())
            .chain(layer.per_layer_linears())
            .map(bytes)
            .sum();
        let ffn: u64 = match &layer.ffn {
            None => 0,
            Some(FeedForward::Dense(mlp)) => mlp.linears().map(bytes).sum(),
            Some(FeedForward::Experts(mixture)) => {
                let used = self.config.experts.as_ref().map_or(0, |experts| experts.used as usize);
                let chosen = mixture.experts.iter().take(used).flat_map(Mlp::linears);
                mixture.for_all_tokens().chain(chosen).map(bytes).sum()
            }
        };
        mixer + ffn
    }

    /// Whether all of the file was checked when it was opened.
    pub(crate) fn is_settled(&self) -> bool {
        self.unchecked.is_none()
    }

    /// Checks what was not checked when the file was opened, and has not been used since: before anything that was computed is given out.
    ///
    /// # Errors
    /// When any of the file that a model needs is damaged.
    pub(crate) fn settle(&self, cpu: &Cpu) -> Result<()> {
        let Some(file) = &self.unchecked else { return Ok(()) };
        Ok(file.settle(|parts, check| cpu.for_each(parts, usize::MAX, check))?)
    }

    /// From now on, weights that are used where their file is mapped get into large pages while tokens are decoded.
    pub fn use_huge_pages(&mut self) {
        let resident = self.linears().filter_map(|linear| linear.weight.resident());
        let parts = resident.flat_map(Tensor::stored_parts);
        let places = parts.filter_map(|tensor| tensor.native()?.mapped()).collect();
        self.huge_pages = HugePages::new(places);
    }

    /// Whether any matrix is stored in blocks of the file format, so that int8 activations apply.
    pub fn has_blocks(&self) -> bool {
        self.linears().any(|linear| linear.weight.has_blocks())
    }

    /// Every matrix that tokens are multiplied with, the head last.
    pub(crate) fn linears(&self) -> impl Iterator<Item = &Linear> {
        let layers = self.layers.iter().flat_map(|layer| {
            layer.mixer_and_ffn_linears().chain(layer.laurel_linears()).chain(layer.per_layer_linears())
        });
        let streams =
            self.streams.iter().flat_map(|ends| [&ends.projection].into_iter().chain(&ends.returns));
        let inputs = self.per_layer.iter().map(|inputs| &inputs.projection);
        layers.chain(inputs).chain(streams).chain([&self.head])
    }
}

impl LayerWeights {
    /// The norm of what the layer reads first.
    pub(crate) fn first_norm(&self) -> Option<&Norm> {
        if self.mixer.is_some() { self.attn_norm.as_ref() } else { self.ffn_norm.as_ref() }
    }

    /// The matrices of mixer and feed-forward.
    pub(crate) fn mixer_and_ffn_linears(&self) -> impl Iterator<Item = &Linear> {
        self.mixer_linears().chain(self.ffn.iter().flat_map(FeedForward::linears))
    }

    /// The matrices of what is added beside the mixer.
    pub(crate) fn laurel_linears(&self) -> impl Iterator<Item = &Linear> {
        self.laurel.iter().flat_map(|laurel| [&laurel.down, &laurel.up])
    }

    /// The matrices of what follows the feed-forward.
    pub(crate) fn per_layer_linears(&self) -> impl Iterator<Item = &Linear> {
        self.per_layer.iter().flat_map(|per_layer| [&per_layer.gate, &per_layer.up])
    }
}

impl FeedForward {
    /// Every matrix.
    pub(crate) fn linears(&self) -> impl Iterator<Item = &Linear> {
        let (dense, mixture) = match self {
            FeedForward::Dense(mlp) => (Some(mlp), None),
            FeedForward::Experts(mixture) => (None, Some(mixture)),
        };
        let of_mixture = mixture.into_iter().flat_map(|mixture| {
            mixture.for_all_tokens().chain(mixture.experts.iter().flat_map(Mlp::linears))
        });
        dense.into_iter().flat_map(Mlp::linears).chain(of_mixture)
    }
}

impl Mixture {
    /// The matrices that every token is multiplied with.
    fn for_all_tokens(&self) -> impl Iterator<Item = &Linear> {
        let shared = self.shared.iter().flat_map(|shared| shared.router.iter().chain(shared.mlp.linears()));
        [&self.router].into_iter().chain(shared)
    }
}

impl Mlp {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.gate.iter().chain([&self.up, &self.down])
    }
}

/// What a model is made of.
pub(crate) trait ModelParts {
    /// The file, for messages.
    fn path(&self) -> &Path;

    /// The architecture.
    fn config(&self) -> &ModelConfig;

    /// The token embedding.
    fn embedding(&self) -> Result<Embedding>;

    /// A matrix that tokens are multiplied with. That of the token embedding is a tied head.
    fn matrix(&self, id: TensorId) -> Result<Weight>;

    /// The matrices of a stack of `count`, as many rows each; of experts, these may be in parts of several types.
    fn stack(&self, id: TensorId, count: usize) -> Result<Vec<Weight>> {
        let all = self.matrix(id)?;
        let rows = all.rows() / count.max(1);
        let cut = || RuntimeError::Request(format!("a stack of matrices on the schedule: {id}"));
        (0..count).map(|i| all.slice_rows(i * rows..(i + 1) * rows).ok_or_else(cut)).collect()
    }

    /// A vector, or learned positions, which are looked up; `None`: there is none of this name.
    fn tensor(&self, id: TensorId) -> Result<Option<Tensor>>;
}

/// Everything as a source hands it out.
struct InMemory<'a> {
    source: &'a dyn WeightSource,
    known: HashSet<TensorId>,
}

impl<'a> InMemory<'a> {
    fn new(source: &'a dyn WeightSource) -> InMemory<'a> {
        InMemory { source, known: source.tensors().iter().map(|info| info.id).collect() }
    }
}

impl ModelParts for InMemory<'_> {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn config(&self) -> &ModelConfig {
        self.source.config()
    }

    fn embedding(&self) -> Result<Embedding> {
        self.source.load(TensorId::of_model(TensorKind::TokenEmbedding)).map(Embedding::Resident)
    }

    fn matrix(&self, id: TensorId) -> Result<Weight> {
        self.source.load(id).map(Weight::Resident)
    }

    fn tensor(&self, id: TensorId) -> Result<Option<Tensor>> {
        self.known.contains(&id).then(|| self.source.load(id)).transpose()
    }
}
