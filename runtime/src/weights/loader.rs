//! From the tensors of a model to its weights.

use qsf_cpu::Function;
use qsf_format::{Activation, GateClip, PositionConfig, Residual, TensorId, TensorKind};

use super::{
    BesideFeedForward, FeedForward, InMemory, LayerWeights, Linear, Mixture, Mlp, Model, ModelParts, Norm,
    PerLayer, PerLayerInputs, Shared, Weight,
};
use crate::error::{Result, RuntimeError};
use crate::huge_pages::HugePages;
use crate::normal::normal_quantile;
use crate::source::WeightSource;
use crate::source::adapter::Adapter;
use crate::tensor::Tensor;

impl Model {
    /// Loads every tensor of a source, and adds what adapters in its file add.
    ///
    /// # Errors
    /// When a tensor is missing or damaged.
    pub fn load(source: &dyn WeightSource) -> Result<Model> {
        let loaded = || {
            let mut model = Model::assemble(&InMemory::new(source))?;
            model.adapt(Adapter::embedded(source)?)?;
            Ok(model)
        };
        let Some(unchecked) = source.unchecked() else { return loaded() };
        match loaded() {
            Ok(model) => Ok(Model { unchecked: Some(unchecked), ..model }),
            // What contradicts something may be damaged, which then is what to say.
            Err(error) => {
                unchecked.settle(|parts, check| (0..parts).for_each(check))?;
                Err(error)
            }
        }
    }

    /// A model of these parts.
    ///
    /// # Errors
    /// When one is missing or damaged.
    pub(crate) fn assemble(parts: &dyn ModelParts) -> Result<Model> {
        let (loader, layers) = (Loader { parts }, 0..parts.config().layers);
        let layers = layers.map(|i| loader.layer(i)).collect::<Result<_>>()?;
        Ok(Model { layers, ..loader.ends()? })
    }

    /// Loads what is before and behind the layers, and none of these: for who runs them one by one.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub(crate) fn load_ends(source: &dyn WeightSource) -> Result<Model> {
        Loader { parts: &InMemory::new(source) }.ends()
    }
}

impl LayerWeights {
    /// Loads one layer of a source.
    ///
    /// # Errors
    /// When a tensor is missing or damaged.
    pub fn load(source: &dyn WeightSource, layer: u32) -> Result<LayerWeights> {
        Loader { parts: &InMemory::new(source) }.layer(layer)
    }
}

/// Makes weights of the parts of a model.
pub(super) struct Loader<'a> {
    pub(super) parts: &'a dyn ModelParts,
}

impl Loader<'_> {
    /// A model without its layers.
    pub(super) fn ends(&self) -> Result<Model> {
        use TensorKind::*;
        let config = self.parts.config().clone();
        let head = TensorId::of_model(if config.tied_head { TokenEmbedding } else { Head });
        let head_bias = self.vector(TensorId::of_model(HeadBias))?;
        let embedding_norm = config.embedding_norm.then_some((EmbeddingNorm, EmbeddingNormBias));
        // A rotary model that brings a table of positions all the same does not use it (SPEC.md section 7.5).
        let learned = config.position == PositionConfig::Learned {};
        Ok(Model {
            positions: learned.then(|| self.tensor(TensorId::of_model(Positions))).transpose()?,
            embedding_norm: embedding_norm.map(|(gain, bias)| self.norm(None, gain, bias)).transpose()?,
            final_norm: self.norm(None, FinalNorm, FinalNormBias)?,
            embedding: self.parts.embedding()?,
            head: Linear::new(self.parts.matrix(head)?, head_bias),
            per_layer: config.per_layer_embedding.map(|_| self.per_layer_inputs()).transpose()?,
            streams: config.streams.map(|streams| self.stream_ends(streams as usize - 1)).transpose()?,
            layers: Vec::new(),
            huge_pages: HugePages::default(),
            unchecked: None,
            config,
        })
    }

    pub(super) fn layer(&self, i: u32) -> Result<LayerWeights> {
        use TensorKind::*;
        let config = self.parts.config();
        let layer_norm = |wanted: bool, gain, bias| -> Result<Option<Norm>> {
            wanted.then(|| self.norm(Some(i), gain, bias)).transpose()
        };
        let placement = config.placement(i);
        let (pre, post) = (placement.has_pre(), placement.has_post());
        let (mixer, ffn) = (config.has_mixer(i), config.has_feed_forward(i));
        let ffn_norm = pre && ffn && config.residual != Residual::ParallelOneNorm;
        Ok(LayerWeights {
            attn_norm: layer_norm(pre && mixer, AttnNorm, AttnNormBias)?,
            mixer: self.mixer(i)?,
            post_attn_norm: self.gain_only(post, i, PostAttnNorm)?,
            ffn_norm: layer_norm(ffn_norm, FfnNorm, FfnNormBias)?,
            ffn: ffn.then(|| self.feed_forward(i)).transpose()?,
            post_ffn_norm: self.gain_only(post, i, PostFfnNorm)?,
            laurel: self.is_used(i, LaurelDown).then(|| self.laurel(i)).transpose()?,
            streams: self.is_used(i, StreamRouter).then(|| self.streams(i)).transpose()?,
            per_layer: self.is_used(i, PerLayerGate).then(|| self.per_layer(i)).transpose()?,
            scale: match self.is_used(i, LayerScale) {
                true => self.tensor(TensorId::of_layer(i, LayerScale))?.to_f32().first().copied(),
                false => None,
            },
        })
    }

    pub(super) fn is_used(&self, layer: u32, kind: TensorKind) -> bool {
        crate::source::expected_shape(self.parts.config(), TensorId::of_layer(layer, kind)).is_some()
    }

    pub(super) fn matrix(&self, layer: u32, kind: TensorKind) -> Result<Linear> {
        Ok(Linear::new(self.parts.matrix(TensorId::of_layer(layer, kind))?, None))
    }

    pub(super) fn per_layer_inputs(&self) -> Result<PerLayerInputs> {
        use TensorKind::*;
        let weight = self.parts.matrix(TensorId::of_model(PerLayerProjection))?;
        Ok(PerLayerInputs {
            embedding: self.tensor(TensorId::of_model(PerLayerEmbedding))?,
            projection: Linear::new(weight, None),
            norm: self.gain(None, PerLayerProjectionNorm)?,
        })
    }

    pub(super) fn per_layer(&self, i: u32) -> Result<PerLayer> {
        use TensorKind::*;
        let (gate, up) = (self.matrix(i, PerLayerGate)?, self.matrix(i, PerLayerUp)?);
        Ok(PerLayer { gate, up, norm: self.gain(Some(i), PerLayerNorm)? })
    }

    pub(super) fn feed_forward(&self, i: u32) -> Result<FeedForward> {
        use TensorKind::*;
        let config = self.parts.config();
        let Some(experts) = config.experts(i) else { return Ok(FeedForward::Dense(self.dense(i)?)) };
        let function = self.function(i)?;
        let count = experts.count as usize;
        let stack = |kind, bias| -> Result<Vec<Linear>> {
            let bias = self.vector(TensorId::of_layer(i, bias))?;
            let weights = self.parts.stack(TensorId::of_layer(i, kind), count)?;
            let of_expert = |(e, weight): (usize, Weight)| {
                let rows = weight.rows();
                Linear::new(weight, bias.as_ref().map(|bias| bias[e * rows..(e + 1) * rows].to_vec()))
            };
            Ok(weights.into_iter().enumerate().map(of_expert).collect())
        };
        let gates = if config.gated_ffn { stack(ExpertGate, ExpertGateBias)? } else { Vec::new() };
        let mut gates = gates.into_iter();
        let (ups, downs) = (stack(ExpertUp, ExpertUpBias)?, stack(ExpertDown, ExpertDownBias)?);
        let expert = |(up, down)| Mlp { gate: gates.next(), up, norm: None, down, cutoff: None, function };
        let experts_of_layer = ups.into_iter().zip(downs).map(expert).collect();
        let shared = match experts.beside_ffn {
            true => Some(Shared { router: None, mlp: self.dense(i)? }),
            false => experts.shared.map(|shared| self.shared(i, shared.gated)).transpose()?,
        };
        let choice_bias = self.vector(TensorId::of_layer(i, RouterChoiceBias))?;
        Ok(FeedForward::Experts(Mixture {
            router: self.linear(i, Router, RouterBias)?,
            choice_bias: choice_bias.filter(|_| experts.choice_bias),
            experts: experts_of_layer,
            shared,
            beside: experts.beside_ffn.then(|| self.beside_feed_forward(i)).transpose()?,
        }))
    }

    /// The feed-forward of all tokens.
    fn dense(&self, i: u32) -> Result<Mlp> {
        use TensorKind::*;
        let config = self.parts.config();
        let gate = config.gated_ffn.then(|| self.linear(i, FfnGate, FfnGateBias)).transpose()?;
        let (up, down) = (self.linear(i, FfnUp, FfnUpBias)?, self.linear(i, FfnDown, FfnDownBias)?);
        let norm = self.gain_only(config.sub_norms, i, FfnSubNorm)?;
        let cutoff = config.gate_sparsity_of(i).map(normal_quantile);
        Ok(Mlp { gate, up, norm, down, cutoff, function: self.function(i)? })
    }

    fn beside_feed_forward(&self, i: u32) -> Result<BesideFeedForward> {
        use TensorKind::*;
        let gain = |kind| self.gain(Some(i), kind);
        // These gains are factors of the stream's own scale, never 1 + w.
        let mut of_router = self.tensor(TensorId::of_layer(i, RouterNorm))?.to_f32();
        let by_width = 1.0 / (self.parts.config().hidden as f32).sqrt();
        of_router.iter_mut().for_each(|gain| *gain *= by_width);
        Ok(BesideFeedForward {
            router_norm: Norm { gain: of_router, bias: None },
            expert_norm: gain(ExpertNorm)?,
            post_side_norm: gain(PostSideNorm)?,
            post_expert_norm: gain(PostExpertNorm)?,
            scale: self.tensor(TensorId::of_layer(i, ExpertScale))?.to_f32(),
        })
    }

    pub(super) fn shared(&self, i: u32, gated: bool) -> Result<Shared> {
        use TensorKind::*;
        let matrix = |kind| -> Result<Linear> {
            Ok(Linear::new(self.parts.matrix(TensorId::of_layer(i, kind))?, None))
        };
        let gate = self.parts.config().gated_ffn.then(|| matrix(SharedGate)).transpose()?;
        let (up, down) = (matrix(SharedUp)?, matrix(SharedDown)?);
        let mlp = Mlp { gate, up, norm: None, down, cutoff: None, function: self.function(i)? };
        Ok(Shared { router: gated.then(|| matrix(SharedRouter)).transpose()?, mlp })
    }

    /// The function of the feed-forward of layer `i`.
    pub(super) fn function(&self, i: u32) -> Result<Function> {
        use TensorKind::*;
        let config = self.parts.config();
        if let Some(GateClip { alpha, limit }) = config.gate_clip {
            return Ok(Function::ClippedSilu { alpha, limit });
        }
        if config.activation != Activation::Xielu {
            return Ok(config.activation.into());
        }
        let value = |kind| -> Result<f32> {
            let values = self.tensor(TensorId::of_layer(i, kind))?.to_f32();
            Ok(values.first().copied().unwrap_or_default())
        };
        Ok(Function::xielu(value(FfnActAbove)?, value(FfnActBelow)?))
    }

    pub(super) fn linear(&self, layer: u32, kind: TensorKind, bias: TensorKind) -> Result<Linear> {
        let weight = self.parts.matrix(TensorId::of_layer(layer, kind))?;
        Ok(Linear::new(weight, self.vector(TensorId::of_layer(layer, bias))?))
    }

    pub(super) fn vector(&self, id: TensorId) -> Result<Option<Vec<f32>>> {
        Ok(self.parts.tensor(id)?.map(|tensor| tensor.to_f32()))
    }

    pub(super) fn tensor(&self, id: TensorId) -> Result<Tensor> {
        let missing = || RuntimeError::bad_input(self.parts.path(), id.to_string(), "this tensor", "none");
        self.parts.tensor(id)?.ok_or_else(missing)
    }

    pub(super) fn norm(&self, layer: Option<u32>, gain: TensorKind, bias: TensorKind) -> Result<Norm> {
        Ok(Norm { bias: self.vector(TensorId { layer, kind: bias })?, ..self.gain(layer, gain)? })
    }

    pub(super) fn gain_only(&self, wanted: bool, layer: u32, kind: TensorKind) -> Result<Option<Norm>> {
        wanted.then(|| self.gain(Some(layer), kind)).transpose()
    }

    pub(super) fn gain(&self, layer: Option<u32>, kind: TensorKind) -> Result<Norm> {
        use TensorKind::*;
        let config = self.parts.config();
        let of_stream = matches!(kind, AttnNorm | FfnNorm | PostAttnNorm | PostFfnNorm | FinalNorm);
        if config.norm.without_gain && of_stream {
            return Ok(Norm { gain: vec![1.0; config.hidden as usize], bias: None });
        }
        let id = TensorId { layer, kind };
        let mut gain = self.tensor(id)?.to_f32();
        if config.norm.gain_plus_one {
            gain.iter_mut().for_each(|gain| *gain += 1.0);
        }
        Ok(Norm { gain, bias: None })
    }
}
