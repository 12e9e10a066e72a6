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
    /// `max_positions` x `hidden`, for learned positions.
    pub positions: Option<Tensor>,
    /// Transformer layers.
    pub layers: Vec<LayerWeights>,
    /// Norm before the head.
    pub final_norm: Norm,
    /// `vocab` x `hidden`; the embedding's bytes when tied.
    pub head: Linear,
}

/// One transformer layer.
pub struct LayerWeights {
    /// Norm before attention.
    pub attn_norm: Norm,
    /// Query projection.
    pub q: Linear,
    /// Key projection.
    pub k: Linear,
    /// Value projection.
    pub v: Linear,
    /// Attention output projection.
    pub output: Linear,
    /// Norm before the feed-forward.
    pub ffn_norm: Norm,
    /// Gate of a gated feed-forward.
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
        let config = source.config().clone();
        let known = source.tensors().iter().map(|info| info.id).collect();
        let loader = Loader { source, known };
        let embedding = loader.matrix(TensorId::of_model(TensorKind::TokenEmbedding))?;
        let layers = (0..config.layers).map(|i| loader.layer(i)).collect::<Result<_>>()?;
        let head = if config.tied_head {
            embedding.clone()
        } else {
            loader.matrix(TensorId::of_model(TensorKind::Head))?
        };
        let head_bias = loader.vector(TensorId::of_model(TensorKind::HeadBias))?;
        // A rotary model that brings a table of positions all the same does not use it (SPEC.md section 7.5).
        let learned = config.position == PositionConfig::Learned {};
        let positions = TensorId::of_model(TensorKind::Positions);
        Ok(Model {
            positions: learned.then(|| loader.matrix(positions)).transpose()?,
            final_norm: loader.norm(None, TensorKind::FinalNorm, TensorKind::FinalNormBias)?,
            head: Linear { weight: head, bias: head_bias },
            embedding,
            layers,
            config,
        })
    }

    /// Bytes of all matrices that one decoded token reads.
    pub fn bytes_per_token(&self) -> u64 {
        self.linears().map(|linear| linear.weight.stored_bytes()).sum()
    }

    /// Every matrix that a token is multiplied with.
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let layers = self
            .layers
            .iter()
            .flat_map(|l| [&l.q, &l.k, &l.v, &l.output, &l.up, &l.down].into_iter().chain(l.gate.as_ref()));
        layers.chain([&self.head])
    }

    /// Whether any matrix is stored in blocks of the file format, so that int8 activations apply.
    pub fn has_blocks(&self) -> bool {
        self.linears().any(|linear| linear.weight.has_blocks())
    }
}

struct Loader<'a> {
    source: &'a dyn WeightSource,
    known: HashSet<TensorId>,
}

impl Loader<'_> {
    fn layer(&self, i: u32) -> Result<LayerWeights> {
        use TensorKind::*;
        let id = |kind| TensorId::of_layer(i, kind);
        let linear = |kind, bias| -> Result<Linear> {
            Ok(Linear { weight: self.matrix(id(kind))?, bias: self.vector(id(bias))? })
        };
        let gated = self.source.config().gated_ffn;
        Ok(LayerWeights {
            attn_norm: self.norm(Some(i), AttnNorm, AttnNormBias)?,
            q: linear(AttnQ, AttnQBias)?,
            k: linear(AttnK, AttnKBias)?,
            v: linear(AttnV, AttnVBias)?,
            output: linear(AttnOutput, AttnOutputBias)?,
            ffn_norm: self.norm(Some(i), FfnNorm, FfnNormBias)?,
            gate: gated.then(|| linear(FfnGate, FfnGateBias)).transpose()?,
            up: linear(FfnUp, FfnUpBias)?,
            down: linear(FfnDown, FfnDownBias)?,
        })
    }

    fn has(&self, id: TensorId) -> bool {
        self.known.contains(&id)
    }

    fn matrix(&self, id: TensorId) -> Result<Tensor> {
        self.source.load(id)
    }

    fn vector(&self, id: TensorId) -> Result<Option<Vec<f32>>> {
        if self.has(id) { Ok(Some(self.source.load(id)?.to_f32())) } else { Ok(None) }
    }

    fn norm(&self, layer: Option<u32>, gain: TensorKind, bias: TensorKind) -> Result<Norm> {
        let gain = TensorId { layer, kind: gain };
        let found = self.vector(gain)?;
        let gain = found.ok_or_else(|| {
            RuntimeError::bad_input(self.source.path(), gain.to_string(), "this tensor", "none")
        })?;
        Ok(Norm { gain, bias: self.vector(TensorId { layer, kind: bias })? })
    }
}
