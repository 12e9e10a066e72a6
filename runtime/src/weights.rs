//! The weights of a model as the decoder uses them: matrices in their stored type, vectors as floats.

use std::collections::HashSet;

use qsf_format::{ModelConfig, PositionConfig, TensorId, TensorKind};

use crate::error::{Result, RuntimeError};
use crate::source::{Tensor, WeightSource};

/// A model in memory. Matrices share the source's bytes; nothing is expanded.
pub struct Model {
    /// The architecture.
    pub config: ModelConfig,
    /// `vocab` x `hidden`.
    pub embedding: Tensor,
    /// Norm of the embedding, where there is one.
    pub embedding_norm: Option<Norm>,
    /// `max_positions` x `hidden`, for learned positions.
    pub positions: Option<Tensor>,
    /// Transformer layers.
    pub layers: Vec<LayerWeights>,
    /// Norm before the head.
    pub final_norm: Norm,
    /// `vocab` x `hidden`; the embedding's bytes when tied.
    pub head: Linear,
}

/// One transformer layer. Norms are there as the configuration says.
pub struct LayerWeights {
    /// Norm before attention.
    pub attn_norm: Option<Norm>,
    /// Query projection.
    pub q: Linear,
    /// Key projection.
    pub k: Linear,
    /// Value projection.
    pub v: Linear,
    /// Norm of queries.
    pub q_norm: Option<Norm>,
    /// Norm of keys.
    pub k_norm: Option<Norm>,
    /// Attention output projection.
    pub output: Linear,
    /// Norm of what attention adds.
    pub post_attn_norm: Option<Norm>,
    /// Norm before the feed-forward.
    pub ffn_norm: Option<Norm>,
    /// Feed-forward.
    pub ffn: FeedForward,
    /// Norm of what the feed-forward adds.
    pub post_ffn_norm: Option<Norm>,
}

/// The feed-forward of a layer.
pub enum FeedForward {
    /// One for all tokens.
    Dense(Mlp),
    /// Some of many for each token.
    Experts {
        /// `experts` x `hidden`: how much a token wants each expert.
        router: Linear,
        /// The experts.
        experts: Vec<Mlp>,
    },
}

/// The matrices of one feed-forward.
pub struct Mlp {
    /// Gate, where it is gated.
    pub gate: Option<Linear>,
    /// Up projection.
    pub up: Linear,
    /// Down projection.
    pub down: Linear,
}

/// A matrix and its bias.
pub struct Linear {
    /// Rows are outputs, columns inputs.
    pub weight: Tensor,
    /// One value per row.
    pub bias: Option<Vec<f32>>,
}

/// Gain and bias of a norm, one value per column.
pub struct Norm {
    /// Multiplied.
    pub gain: Vec<f32>,
    /// Added.
    pub bias: Option<Vec<f32>>,
}

impl Model {
    /// Loads every tensor of a source.
    ///
    /// # Errors
    /// When a tensor is missing or damaged.
    pub fn load(source: &dyn WeightSource) -> Result<Model> {
        let (loader, layers) = (Loader::new(source), 0..source.config().layers);
        let layers = layers.map(|i| loader.layer(i)).collect::<Result<_>>()?;
        Ok(Model { layers, ..loader.ends()? })
    }

    /// Loads what is before and behind the layers, and none of these: for who runs them one by one.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub(crate) fn load_ends(source: &dyn WeightSource) -> Result<Model> {
        Loader::new(source).ends()
    }

    /// Bytes of all matrices of layer `index` that one decoded token reads.
    pub(crate) fn layer_bytes_per_token(&self, index: usize) -> u64 {
        let bytes = |linear: &Linear| linear.weight.stored_bytes();
        let layer = &self.layers[index];
        let attention: u64 = [&layer.q, &layer.k, &layer.v, &layer.output].into_iter().map(bytes).sum();
        let ffn: u64 = match &layer.ffn {
            FeedForward::Dense(mlp) => mlp.linears().map(bytes).sum(),
            FeedForward::Experts { router, experts } => {
                let used = self.config.experts.as_ref().map_or(0, |experts| experts.used as usize);
                bytes(router) + experts.iter().take(used).flat_map(Mlp::linears).map(bytes).sum::<u64>()
            }
        };
        attention + ffn
    }

    /// Whether any matrix is stored in blocks of the file format, so that int8 activations apply.
    pub fn has_blocks(&self) -> bool {
        self.linears().any(|linear| linear.weight.has_blocks())
    }

    /// Every matrix that tokens are multiplied with.
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let layers = self.layers.iter().flat_map(|layer| {
            let (router, mlps) = match &layer.ffn {
                FeedForward::Dense(mlp) => (None, std::slice::from_ref(mlp)),
                FeedForward::Experts { router, experts } => (Some(router), experts.as_slice()),
            };
            let attention = [&layer.q, &layer.k, &layer.v, &layer.output];
            attention.into_iter().chain(router).chain(mlps.iter().flat_map(Mlp::linears))
        });
        layers.chain([&self.head])
    }
}

impl LayerWeights {
    /// Loads one layer of a source.
    ///
    /// # Errors
    /// When a tensor is missing or damaged.
    pub fn load(source: &dyn WeightSource, layer: u32) -> Result<LayerWeights> {
        Loader::new(source).layer(layer)
    }
}

impl Mlp {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.gate.iter().chain([&self.up, &self.down])
    }
}

struct Loader<'a> {
    source: &'a dyn WeightSource,
    known: HashSet<TensorId>,
}

impl<'a> Loader<'a> {
    fn new(source: &'a dyn WeightSource) -> Loader<'a> {
        Loader { source, known: source.tensors().iter().map(|info| info.id).collect() }
    }

    /// A model without its layers.
    fn ends(&self) -> Result<Model> {
        use TensorKind::*;
        let config = self.source.config().clone();
        let of_model = |kind| self.source.load(TensorId::of_model(kind));
        let embedding = of_model(TokenEmbedding)?;
        let head = if config.tied_head { embedding.clone() } else { of_model(Head)? };
        let head_bias = self.vector(TensorId::of_model(HeadBias))?;
        let embedding_norm = config.embedding_norm.then_some((EmbeddingNorm, EmbeddingNormBias));
        // A rotary model that brings a table of positions all the same does not use it (SPEC.md section 7.5).
        let learned = config.position == PositionConfig::Learned {};
        Ok(Model {
            positions: learned.then(|| of_model(Positions)).transpose()?,
            embedding_norm: embedding_norm.map(|(gain, bias)| self.norm(None, gain, bias)).transpose()?,
            final_norm: self.norm(None, FinalNorm, FinalNormBias)?,
            head: Linear { weight: head, bias: head_bias },
            embedding,
            layers: Vec::new(),
            config,
        })
    }

    fn layer(&self, i: u32) -> Result<LayerWeights> {
        use TensorKind::*;
        let config = self.source.config();
        let layer_norm = |wanted: bool, gain, bias| -> Result<Option<Norm>> {
            wanted.then(|| self.norm(Some(i), gain, bias)).transpose()
        };
        let used = |kind| crate::source::expected_shape(config, TensorId::of_layer(i, kind)).is_some();
        Ok(LayerWeights {
            attn_norm: layer_norm(used(AttnNorm), AttnNorm, AttnNormBias)?,
            q: self.linear(i, AttnQ, AttnQBias)?,
            k: self.linear(i, AttnK, AttnKBias)?,
            v: self.linear(i, AttnV, AttnVBias)?,
            q_norm: self.gain_only(used(QNorm), i, QNorm)?,
            k_norm: self.gain_only(used(KNorm), i, KNorm)?,
            output: self.linear(i, AttnOutput, AttnOutputBias)?,
            post_attn_norm: self.gain_only(used(PostAttnNorm), i, PostAttnNorm)?,
            ffn_norm: layer_norm(used(FfnNorm), FfnNorm, FfnNormBias)?,
            ffn: self.feed_forward(i)?,
            post_ffn_norm: self.gain_only(used(PostFfnNorm), i, PostFfnNorm)?,
        })
    }

    fn feed_forward(&self, i: u32) -> Result<FeedForward> {
        use TensorKind::*;
        let config = self.source.config();
        let Some(experts) = config.experts(i) else {
            let gate = config.gated_ffn.then(|| self.linear(i, FfnGate, FfnGateBias)).transpose()?;
            let (up, down) = (self.linear(i, FfnUp, FfnUpBias)?, self.linear(i, FfnDown, FfnDownBias)?);
            return Ok(FeedForward::Dense(Mlp { gate, up, down }));
        };
        let all = |kind| self.source.load(TensorId::of_layer(i, kind));
        let (gates, ups, downs) = (all(ExpertGate)?, all(ExpertUp)?, all(ExpertDown)?);
        let of_expert = |all: &Tensor, e: usize| {
            let rows = all.rows() / experts.count as usize;
            Linear { weight: all.slice_rows(e * rows..(e + 1) * rows), bias: None }
        };
        let experts = (0..experts.count as usize)
            .map(|e| Mlp {
                gate: Some(of_expert(&gates, e)),
                up: of_expert(&ups, e),
                down: of_expert(&downs, e),
            })
            .collect();
        let router = Linear { weight: all(Router)?, bias: None };
        Ok(FeedForward::Experts { router, experts })
    }

    fn linear(&self, layer: u32, kind: TensorKind, bias: TensorKind) -> Result<Linear> {
        let weight = self.source.load(TensorId::of_layer(layer, kind))?;
        Ok(Linear { weight, bias: self.vector(TensorId::of_layer(layer, bias))? })
    }

    fn vector(&self, id: TensorId) -> Result<Option<Vec<f32>>> {
        if self.known.contains(&id) { Ok(Some(self.source.load(id)?.to_f32())) } else { Ok(None) }
    }

    fn norm(&self, layer: Option<u32>, gain: TensorKind, bias: TensorKind) -> Result<Norm> {
        Ok(Norm { bias: self.vector(TensorId { layer, kind: bias })?, ..self.gain(layer, gain)? })
    }

    fn gain_only(&self, wanted: bool, layer: u32, kind: TensorKind) -> Result<Option<Norm>> {
        wanted.then(|| self.gain(Some(layer), kind)).transpose()
    }

    fn gain(&self, layer: Option<u32>, kind: TensorKind) -> Result<Norm> {
        let id = TensorId { layer, kind };
        let found = self.vector(id)?;
        let mut gain = found.ok_or_else(|| {
            RuntimeError::bad_input(self.source.path(), id.to_string(), "this tensor", "none")
        })?;
        if self.source.config().norm.gain_plus_one {
            gain.iter_mut().for_each(|gain| *gain += 1.0);
        }
        Ok(Norm { gain, bias: None })
    }
}
