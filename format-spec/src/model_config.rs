//! The one description of a model's architecture (MODEL.md section 1), shared by converter and runtime and stored as
//! `model` in META. A decoder is configured by it; there is no decoder per architecture.

mod attention;
mod check;
mod check_attention;
mod half_layers;
mod multipliers;
mod position;
mod recurrent;
mod streams;

use serde::{Deserialize, Serialize};

pub use attention::{
    AttentionShape, FullAttention, LatentAttention, PerLayerEmbedding, SharedKv, ValueHeads,
};
pub use half_layers::HalfLayers;
pub use multipliers::Multipliers;
pub use position::{PositionConfig, RopeScaling};
pub use recurrent::{Recurrent, RecurrentMixer};

/// What a decoder must know to run a model. Unknown fields are refused: they would change what the model computes.
///
/// The default has no layers and no width, which [`ModelConfig::check`] refuses: it is a start for the fields that most
/// architectures leave alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The HuggingFace `model_type`, such as `llama` or `gpt2`.
    pub architecture: String,
    /// Number of transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads per layer.
    pub heads: u32,
    /// Key and value heads per layer; divides `heads`.
    pub kv_heads: u32,
    /// Width of one head.
    pub head_dim: u32,
    /// Inner width of the feed-forward.
    pub ffn: u32,
    /// Rows of the token embedding.
    pub vocab: u32,
    /// Longest sequence the model was made for.
    pub max_positions: u32,
    /// Normalization of the residual stream.
    pub norm: NormConfig,
    /// Activation of the feed-forward.
    pub activation: Activation,
    /// Whether the feed-forward is `down(activation(gate(x)) * up(x))` rather than `down(activation(up(x)))`.
    pub gated_ffn: bool,
    /// How positions enter the model.
    pub position: PositionConfig,
    /// Whether the head is the token embedding.
    pub tied_head: bool,
    /// Whether attention and feed-forward read the same residual stream, or the feed-forward that behind attention.
    #[serde(default, skip_serializing_if = "is_default")]
    pub residual: Residual,
    /// Normalization of queries and keys before rotation, where there is one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qk_norm: Option<QkNorm>,
    /// Keys and values by way of latents, where they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latent: Option<LatentAttention>,
    /// Another shape of attention in layers without a sliding window.
    #[serde(default, skip_serializing_if = "is_default")]
    pub full_attention: Option<FullAttention>,
    /// Last layers that attend to keys and values of earlier ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared_kv: Option<SharedKv>,
    /// Whether each head of values is normalized, without gains.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_norm: bool,
    /// An embedding of its own for each layer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_layer_embedding: Option<PerLayerEmbedding>,
    /// Residual streams beside each other, of which the first goes through the layers, as in AltUp; absent: one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub streams: Option<u32>,
    /// Rank of what is added beside attention, as in LAuReL.
    #[serde(default, skip_serializing_if = "is_default")]
    pub laurel: Option<u32>,
    /// Which part of the gates of the feed-forward is made 0, for each layer; empty: in none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate_sparsity: Vec<f32>,
    /// Whether what the output projection of attention and the down projection read is normalized, as in BitNet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sub_norms: bool,
    /// Whether the residual stream is multiplied at the end of each layer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub layer_scale: bool,
    /// What `q . k` is multiplied with; absent: `1 / sqrt(head_dim)`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention_scale: Option<f32>,
    /// Attention scores become `cap * tanh(score / cap)`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention_softcap: Option<f32>,
    /// Logits become `cap * tanh(logit / cap)`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logit_softcap: Option<f32>,
    /// What the embedding of a token is multiplied with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub embedding_scale: Option<f32>,
    /// What attention and feed-forward are multiplied with before they are added to the residual stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub residual_scale: Option<f32>,
    /// What logits are multiplied with, before any cap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logit_scale: Option<f32>,
    /// Queries, keys and values are limited to as much on both sides of 0, behind their norm and before rotation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qkv_clip: Option<f32>,
    /// Whether each head has a score of its own that takes part in the softmax and has no value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention_sinks: bool,
    /// Whether only layers with a sliding window have these.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_sinks: bool,
    /// Heads of values of another width than those of keys.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_heads: Option<ValueHeads>,
    /// Queries far from the beginning are larger.
    #[serde(default, skip_serializing_if = "is_default")]
    pub query_growth: Option<QueryGrowth>,
    /// Limits in a gated feed-forward.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate_clip: Option<GateClip>,
    /// Whether embeddings are normalized before the first layer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub embedding_norm: bool,
    /// Layers whose attention reaches back a limited number of positions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sliding_window: Option<SlidingWindow>,
    /// Whether windows do not slide: of the positions of a window, counted from the first of all, a query sees those up to its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_chunks: bool,
    /// Whether what attention gives is multiplied with the sigmoid of a gate before the output projection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention_gate: bool,
    /// Layers whose mixer is a recurrence instead of attention, or beside it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recurrent: Option<Recurrent>,
    /// What parts of layers are multiplied with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub multipliers: Option<Multipliers>,
    /// Layers that are a mixer alone, or a feed-forward alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub half_layers: Option<HalfLayers>,
    /// Mixture of experts in place of the feed-forward.
    #[serde(default, skip_serializing_if = "is_default")]
    pub experts: Option<Experts>,
    /// Token that starts a text, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos: Option<u32>,
    /// Tokens that end a generation.
    #[serde(default)]
    pub stop_tokens: Vec<u32>,
    /// Padding token, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<u32>,
}

/// Normalization of the residual stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Which statistics are removed.
    pub kind: NormKind,
    /// Added to the variance (or mean square) before the root.
    pub epsilon: f32,
    /// Whether gains are stored as w and multiply as 1 + w, which keeps the bits of a w near 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gain_plus_one: bool,
    /// Where in a layer norms are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: NormPlacement,
    /// Whether the norms of the residual stream multiply with 1 and add nothing, and none of this is stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub without_gain: bool,
}

impl NormConfig {
    /// The usual norm: before attention and before the feed-forward, gains stored as they multiply.
    pub const fn new(kind: NormKind, epsilon: f32) -> NormConfig {
        NormConfig { kind, epsilon, gain_plus_one: false, placement: NormPlacement::Pre, without_gain: false }
    }
}

/// Where in a layer norms are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPlacement {
    /// On what attention and feed-forward read.
    #[default]
    Pre,
    /// On what they add to the residual stream.
    Post,
    /// On both.
    PreAndPost,
    /// On what they read in layers of [`Recurrent`], and on what they add in others.
    ByMixer,
}

impl NormPlacement {
    /// Whether attention and feed-forward read a normalized stream.
    pub const fn has_pre(self) -> bool {
        matches!(self, NormPlacement::Pre | NormPlacement::PreAndPost)
    }

    /// Whether what they add is normalized.
    pub const fn has_post(self) -> bool {
        matches!(self, NormPlacement::Post | NormPlacement::PreAndPost)
    }
}

/// How attention and feed-forward of a layer are joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residual {
    /// The feed-forward reads what attention has added to.
    #[default]
    Sequential,
    /// Both read the stream as it enters the layer, each through a norm of its own.
    Parallel,
    /// Both read the same norm of the stream as it enters the layer.
    ParallelOneNorm,
}

/// What a norm of queries and keys runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// Each head; gains of `head_dim`, shared by all heads.
    Head,
    /// All heads of a token together; gains of `heads * head_dim` and `kv_heads * head_dim`.
    Projection,
    /// [`QkNorm::Head`], after rotation.
    RotatedHead,
    /// [`QkNorm::RotatedHead`] without gains, in layers with rotation only.
    RotatedHeadPlain,
    /// Each head, by a layer norm without bias; gains of `heads * head_dim` and `kv_heads * head_dim`.
    HeadsApart,
}

/// Queries at position p are multiplied with `1 + factor * ln(1 + floor(p / original_positions))`, after rotation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryGrowth {
    /// How fast they grow.
    pub factor: f32,
    /// How many positions do not grow.
    pub original_positions: u32,
    /// Whether p is one more than the position.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from_one: bool,
    /// Whether it is so only in layers without rotation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unrotated_only: bool,
}

impl QueryGrowth {
    /// In all layers, from the position itself.
    pub const fn rotated(factor: f32, original_positions: u32) -> QueryGrowth {
        QueryGrowth { factor, original_positions, from_one: false, unrotated_only: false }
    }
}

/// The gate g and the output u of the up projection give
/// `min(g, limit) * sigmoid(alpha * min(g, limit)) * (1 + max(-limit, min(u, limit)))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateClip {
    /// Slope of the logistic function.
    pub alpha: f32,
    /// Limit of both.
    pub limit: f32,
}

/// Layers whose attention reaches back a limited number of positions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Positions that a query sees, its own included.
    pub size: u32,
    /// The layers, ascending.
    pub layers: Vec<u32>,
}

/// A mixture of experts in place of the feed-forward.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Experts per layer.
    pub count: u32,
    /// Experts that each token goes through.
    pub used: u32,
    /// Inner width of an expert.
    pub ffn: u32,
    /// Whether the weights of the experts in use are divided by their sum.
    pub normalize_weights: bool,
    /// Layers with an ordinary feed-forward instead, ascending.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dense_layers: Vec<u32>,
    /// How the router's outputs become scores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub score: RouterScore,
    /// Whether a bias is added to the scores where experts are chosen, and not where they are weighted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choice_bias: bool,
    /// Groups of experts of which some are chosen first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub groups: Option<ExpertGroups>,
    /// How far below the largest score, as a part of it, scores still count in a [`RouterScore::SparseMixer`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub margin: Option<f32>,
    /// What weights are multiplied with at last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight_scale: Option<f32>,
    /// Whether weights multiply what an expert reads rather than what it gives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weigh_inputs: bool,
    /// Experts that all tokens go through, as one feed-forward.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: Option<SharedExperts>,
    /// Whether the ordinary feed-forward of the model is there beside them: both read the residual stream, each through norms of its
    /// own, and what they give is normalized before it is added up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside_ffn: bool,
}

/// How the outputs of a router become scores of experts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterScore {
    /// Softmax over all experts.
    #[default]
    Softmax,
    /// The logistic function of each.
    Sigmoid,
    /// The best of two, then the best of the others, each by the softmax over those that are near (arXiv 2409.12136).
    SparseMixer,
}

/// Groups of equally many experts, of which a token's experts come from the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertGroups {
    /// Groups of a layer; divides the number of experts.
    pub count: u32,
    /// Groups that a token chooses experts from.
    pub used: u32,
    /// How many of its largest scores, added up, are the score of a group.
    pub best: u32,
}

/// Experts that all tokens go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedExperts {
    /// Inner width of all of them together.
    pub ffn: u32,
    /// Whether what they give is multiplied with the logistic function of a router's output of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gated: bool,
}

/// Which statistics a norm removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Mean and variance; gain and bias.
    LayerNorm,
    /// Mean square; gain only.
    #[default]
    RmsNorm,
}

/// Activation function of the feed-forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x * Phi(x)` by the error function.
    GeluErf,
    /// The tanh approximation of GELU (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// `x * sigmoid(x)`.
    #[default]
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    Relu2,
    /// A parabola above 0 and an exponential below, with two factors in each layer (arXiv 2411.13010).
    Xielu,
}

impl ModelConfig {
    /// Heads, heads of keys and their width in models of which no layer has attention: the least that there can be (MODEL.md
    /// section 1).
    pub const WITHOUT_ATTENTION: [u32; 3] = [1, 1, 2];

    /// Rows of the query projection.
    pub fn q_rows(&self) -> usize {
        self.heads as usize * self.head_dim as usize
    }

    /// Rows of the key and of the value projection.
    pub fn kv_rows(&self) -> usize {
        self.kv_heads as usize * self.head_dim as usize
    }

    /// Positions that attention of `layer` reaches back, its own included; `None`: all.
    pub fn window(&self, layer: u32) -> Option<u32> {
        let window = self.sliding_window.as_ref()?;
        window.layers.binary_search(&layer).is_ok().then_some(window.size)
    }

    /// Where norms are in `layer`.
    pub fn placement(&self, layer: u32) -> NormPlacement {
        match (self.norm.placement, self.recurrent(layer)) {
            (NormPlacement::ByMixer, Some(_)) => NormPlacement::Pre,
            (NormPlacement::ByMixer, None) => NormPlacement::Post,
            (placement, _) => placement,
        }
    }

    /// The recurrence of `layer`; `None`: it has none.
    pub fn recurrent(&self, layer: u32) -> Option<&Recurrent> {
        self.recurrent.as_ref().filter(|recurrent| recurrent.layers.binary_search(&layer).is_ok())
    }

    /// Whether `layer` has attention.
    pub fn has_attention(&self, layer: u32) -> bool {
        self.has_mixer(layer) && self.recurrent(layer).is_none_or(|recurrent| recurrent.beside_attention)
    }

    /// Whether `layer` has attention or a recurrence.
    pub fn has_mixer(&self, layer: u32) -> bool {
        self.half_layers.as_ref().is_none_or(|halves| halves.feed_forward.binary_search(&layer).is_err())
    }

    /// Whether `layer` has a feed-forward or experts.
    pub fn has_feed_forward(&self, layer: u32) -> bool {
        self.half_layers.as_ref().is_none_or(|halves| halves.mixer.binary_search(&layer).is_err())
    }

    /// The experts of `layer`; `None`: an ordinary feed-forward, or none.
    pub fn experts(&self, layer: u32) -> Option<&Experts> {
        let has_them = |experts: &&Experts| experts.dense_layers.binary_search(&layer).is_err();
        self.experts.as_ref().filter(has_them).filter(|_| self.has_feed_forward(layer))
    }
}

/// Fields that say nothing are left out, so that files of plain models have the bytes that they always had.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
