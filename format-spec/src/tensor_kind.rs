//! What a tensor is for (SPEC.md section 5): the id in its header and the name in reports.

use std::fmt;
use std::str::FromStr;

macro_rules! tensor_kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal, $text:literal;)+) => {
        /// The role of a tensor in the model. The discriminant is the id in the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum TensorKind {
            $($(#[doc = $doc])+ $name = $id,)+
        }

        impl TensorKind {
            /// Every kind, in id order.
            pub const ALL: &'static [TensorKind] = &[$(TensorKind::$name,)+];

            /// The kind with this id, if this version of the format knows one.
            pub fn from_id(id: u32) -> Option<TensorKind> {
                match id {
                    $($id => Some(TensorKind::$name),)+
                    _ => None,
                }
            }

            /// The name in reports and in META.
            pub const fn name(self) -> &'static str {
                match self {
                    $(TensorKind::$name => $text,)+
                }
            }
        }
    };
}

tensor_kinds! {
    /// Query projection, `heads * head_dim` x `hidden`.
    AttnQ = 0, "attn_q";
    /// Key projection, `kv_heads * head_dim` x `hidden`.
    AttnK = 1, "attn_k";
    /// Value projection, `kv_heads * head_dim` x `hidden`.
    AttnV = 2, "attn_v";
    /// Attention output projection, `hidden` x `heads * head_dim`.
    AttnOutput = 3, "attn_output";
    /// Gate of a gated feed-forward, `ffn` x `hidden`.
    FfnGate = 4, "ffn_gate";
    /// Up projection, `ffn` x `hidden`.
    FfnUp = 5, "ffn_up";
    /// Down projection, `hidden` x `ffn`.
    FfnDown = 6, "ffn_down";
    /// Norm before attention, 1 x `hidden`.
    AttnNorm = 7, "attn_norm";
    /// Norm before the feed-forward, 1 x `hidden`.
    FfnNorm = 8, "ffn_norm";
    /// Bias of the query projection.
    AttnQBias = 9, "attn_q_bias";
    /// Bias of the key projection.
    AttnKBias = 10, "attn_k_bias";
    /// Bias of the value projection.
    AttnVBias = 11, "attn_v_bias";
    /// Bias of the attention output projection.
    AttnOutputBias = 12, "attn_output_bias";
    /// Up bias followed by down bias in one tensor; read only, written as kinds 21 and 22.
    FfnBiases = 13, "ffn_biases";
    /// Norm of each query head, 1 x `head_dim`; of latent queries, 1 x `q_rank`.
    QNorm = 14, "q_norm";
    /// Norm of each key head, 1 x `head_dim`; of the latents of keys and values, 1 x `kv_rank`.
    KNorm = 15, "k_norm";
    /// Norm after attention.
    PostAttnNorm = 16, "post_attn_norm";
    /// Norm after the feed-forward.
    PostFfnNorm = 17, "post_ffn_norm";
    /// Bias of the norm before attention.
    AttnNormBias = 18, "attn_norm_bias";
    /// Bias of the norm before the feed-forward.
    FfnNormBias = 19, "ffn_norm_bias";
    /// Bias of the gate.
    FfnGateBias = 20, "ffn_gate_bias";
    /// Bias of the up projection.
    FfnUpBias = 21, "ffn_up_bias";
    /// Bias of the down projection.
    FfnDownBias = 22, "ffn_down_bias";
    /// Router of a mixture of experts, `experts` x `hidden`.
    Router = 23, "router";
    /// Gates of all experts, `experts * expert_ffn` x `hidden`.
    ExpertGate = 24, "expert_gate";
    /// Up projections of all experts.
    ExpertUp = 25, "expert_up";
    /// Down projections of all experts, `experts * hidden` x `expert_ffn`.
    ExpertDown = 26, "expert_down";
    /// Gate of the shared expert.
    SharedGate = 27, "shared_gate";
    /// Up projection of the shared expert.
    SharedUp = 28, "shared_up";
    /// Down projection of the shared expert.
    SharedDown = 29, "shared_down";
    /// Attention sinks, one per head.
    AttnSinks = 30, "attn_sinks";
    /// Rotary frequency factors.
    RopeFactors = 31, "rope_factors";
    /// Bias of the router, 1 x `experts`.
    RouterBias = 32, "router_bias";
    /// Added to the router's scores where experts are chosen, 1 x `experts`.
    RouterChoiceBias = 33, "router_choice_bias";
    /// Biases of the gates of all experts, 1 x `experts * expert_ffn`.
    ExpertGateBias = 34, "expert_gate_bias";
    /// Biases of the up projections of all experts.
    ExpertUpBias = 35, "expert_up_bias";
    /// Biases of the down projections of all experts, 1 x `experts * hidden`.
    ExpertDownBias = 36, "expert_down_bias";
    /// Router of the shared expert, 1 x `hidden`: how much it counts.
    SharedRouter = 37, "shared_router";
    /// What makes the factor of [`Activation::Xielu`](crate::Activation) above 0, 1 x 1.
    FfnActAbove = 38, "ffn_act_above";
    /// What makes its factor below 0, 1 x 1.
    FfnActBelow = 39, "ffn_act_below";
    /// Input projection of a recurrent mixer: what its convolution reads, and the two gates of a short convolution.
    MixerIn = 40, "mixer_in";
    /// Gate of a recurrent mixer's output, as wide as that.
    MixerGate = 41, "mixer_gate";
    /// Step of each head, `heads` x `hidden`: how much the state decays.
    MixerStep = 42, "mixer_step";
    /// How much of what a state held for a key is replaced, `heads` x `hidden`.
    MixerBeta = 43, "mixer_beta";
    /// Output projection of a recurrent mixer.
    MixerOutput = 44, "mixer_output";
    /// Filters of the convolution, 1 x `channels * taps`, channel by channel, oldest token first.
    MixerConv = 45, "mixer_conv";
    /// Bias of the convolution.
    MixerConvBias = 46, "mixer_conv_bias";
    /// Rate of decay of each head, below 0.
    MixerDecay = 47, "mixer_decay";
    /// Bias of the step.
    MixerStepBias = 48, "mixer_step_bias";
    /// What passes by the state, for each head.
    MixerSkip = 49, "mixer_skip";
    /// Norm of a recurrent mixer's output; gains as they multiply.
    MixerNorm = 50, "mixer_norm";
    /// Bias of the input projection of a recurrent mixer.
    MixerInBias = 51, "mixer_in_bias";
    /// Bias of the output projection of a recurrent mixer.
    MixerOutputBias = 52, "mixer_output_bias";
    /// Gate of what attention gives, `heads * head_dim` x `hidden`.
    AttnGate = 53, "attn_gate";
    /// Latents of queries, `q_rank` x `hidden`.
    AttnQDown = 54, "attn_q_down";
    /// What all heads share of a key, then the latent of keys and values, `shared_dim + kv_rank` x `hidden`.
    AttnKvDown = 55, "attn_kv_down";
    /// Of each head what turns the rest of its query to the latents, `heads * kv_rank` x `head_dim - shared_dim`.
    AttnKUp = 56, "attn_k_up";
    /// Values of each head from a latent, `heads * value_dim` x `kv_rank`.
    AttnVUp = 57, "attn_v_up";
    /// Of the input that each layer has of its own, the gate, `width` x `hidden`.
    PerLayerGate = 58, "per_layer_gate";
    /// What is made of it, `hidden` x `width`.
    PerLayerUp = 59, "per_layer_up";
    /// Norm of what is made of it, 1 x `hidden`.
    PerLayerNorm = 60, "per_layer_norm";
    /// What the residual stream is multiplied with at the end of the layer, 1 x 1.
    LayerScale = 61, "layer_scale";
    /// Norm of what the output projection of attention reads, 1 x its columns.
    AttnSubNorm = 62, "attn_sub_norm";
    /// Norm of what the down projection reads, 1 x `ffn`.
    FfnSubNorm = 63, "ffn_sub_norm";
    /// Norm before the head.
    FinalNorm = 64, "final_norm";
    /// Bias of the final norm.
    FinalNormBias = 65, "final_norm_bias";
    /// Separate output head, `vocab` x `hidden`.
    Head = 66, "head";
    /// Bias of the head.
    HeadBias = 67, "head_bias";
    /// Learned positions, `positions` x `hidden`.
    Positions = 68, "positions";
    /// Token embedding, `vocab` x `hidden`.
    TokenEmbedding = 69, "token_embedding";
    /// Norm of the embedding.
    EmbeddingNorm = 70, "embedding_norm";
    /// Bias of the embedding norm.
    EmbeddingNormBias = 71, "embedding_norm_bias";
    /// What each layer gets of a token, `vocab` x `layers * width`.
    PerLayerEmbedding = 72, "per_layer_embedding";
    /// What each layer gets of the token embedding, `layers * width` x `hidden`.
    PerLayerProjection = 73, "per_layer_projection";
    /// Norm of that, 1 x `width`.
    PerLayerProjectionNorm = 74, "per_layer_projection_norm";
    /// Of the token embedding, how all streams but the first begin, `(streams - 1) * hidden` x `hidden`.
    StreamProjection = 75, "stream_projection";
    /// For each of these streams the matrix that it comes back by, `(streams - 1) * hidden` x `hidden`.
    StreamReturn = 76, "stream_return";
    /// Gains of what the router reads, 1 x `hidden`, of experts beside a feed-forward.
    RouterNorm = 128, "router_norm";
    /// Gains of what such experts read, 1 x `hidden`.
    ExpertNorm = 129, "expert_norm";
    /// Norm of what the feed-forward beside them gives, 1 x `hidden`.
    PostSideNorm = 130, "post_side_norm";
    /// Norm of what they give, 1 x `hidden`.
    PostExpertNorm = 131, "post_expert_norm";
    /// Factor of each expert's weight, 1 x `experts`.
    ExpertScale = 132, "expert_scale";
    /// Of Mamba-1, what makes the values that steps are made of, and the two inputs that channels share, of what the convolution
    /// gives, `rank + 2 * state` x `width`.
    MixerSelect = 133, "mixer_select";
    /// What makes steps, `width` x `rank`.
    MixerStepUp = 134, "mixer_step_up";
    /// Norm of what steps are made of, 1 x `rank`.
    MixerStepNorm = 135, "mixer_step_norm";
    /// Norm of the first input that channels share, 1 x `state`.
    MixerBNorm = 136, "mixer_b_norm";
    /// Norm of the second, 1 x `state`.
    MixerCNorm = 137, "mixer_c_norm";
    /// What each stream has to do with a token, 1 x `streams * hidden`, stream by stream.
    StreamRouter = 138, "stream_router";
    /// Norm of what that reads, 1 x `hidden`.
    StreamRouterNorm = 139, "stream_router_norm";
    /// What makes the factors of streams before a layer, 1 x `streams^3`.
    StreamPrediction = 140, "stream_prediction";
    /// What makes the factors of streams behind a layer, 1 x `streams^2`.
    StreamCorrection = 141, "stream_correction";
    /// What the first stream is multiplied with where the other ones are given something of it, 1 x `hidden`.
    StreamScale = 142, "stream_scale";
    /// Of the learned residual beside attention, what comes first, `rank` x `hidden`.
    LaurelDown = 143, "laurel_down";
    /// And then, `hidden` x `rank`.
    LaurelUp = 144, "laurel_up";
    /// Norm of that, 1 x `hidden`.
    LaurelNorm = 145, "laurel_norm";
    /// What gates of a recurrent mixer are made of, `rank` x `hidden`, where they are not made of what it reads.
    MixerGateDown = 146, "mixer_gate_down";
}

impl TensorKind {
    /// The id stored in files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Whether the tensor belongs to a layer rather than to the model as a whole.
    pub fn is_per_layer(self) -> bool {
        self.id() < 64 || self.id() >= 128
    }

    /// The place of a matrix among those of its layer, in the order of use: the mixer first, and the others by their ids.
    pub fn order_of_use(self) -> u32 {
        use TensorKind::*;
        let mixer = [
            MixerIn,
            MixerGateDown,
            MixerGate,
            MixerStep,
            MixerBeta,
            MixerSelect,
            MixerStepUp,
            MixerOutput,
            AttnQDown,
            AttnQ,
            AttnK,
            AttnV,
            AttnKvDown,
            AttnGate,
            AttnKUp,
            AttnVUp,
            AttnOutput,
            LaurelDown,
            LaurelUp,
        ];
        match mixer.iter().position(|of_mixer| *of_mixer == self) {
            Some(place) => place as u32,
            None => mixer.len() as u32 + self.id(),
        }
    }

    /// Whether the tensor multiplies activations or is looked up by row, and so is worth quantizing;
    /// norms, biases and the like are vectors that are kept as floats.
    pub const fn is_matrix(self) -> bool {
        matches!(
            self,
            TensorKind::AttnQ
                | TensorKind::AttnK
                | TensorKind::AttnV
                | TensorKind::AttnOutput
                | TensorKind::AttnQDown
                | TensorKind::AttnKvDown
                | TensorKind::AttnKUp
                | TensorKind::AttnVUp
                | TensorKind::PerLayerGate
                | TensorKind::PerLayerUp
                | TensorKind::PerLayerEmbedding
                | TensorKind::PerLayerProjection
                | TensorKind::StreamProjection
                | TensorKind::StreamReturn
                | TensorKind::LaurelDown
                | TensorKind::LaurelUp
                | TensorKind::FfnGate
                | TensorKind::FfnUp
                | TensorKind::FfnDown
                | TensorKind::Router
                | TensorKind::ExpertGate
                | TensorKind::ExpertUp
                | TensorKind::ExpertDown
                | TensorKind::SharedGate
                | TensorKind::SharedUp
                | TensorKind::SharedDown
                | TensorKind::MixerIn
                | TensorKind::MixerGate
                | TensorKind::MixerGateDown
                | TensorKind::MixerStep
                | TensorKind::MixerBeta
                | TensorKind::MixerSelect
                | TensorKind::MixerStepUp
                | TensorKind::MixerOutput
                | TensorKind::AttnGate
                | TensorKind::Head
                | TensorKind::Positions
                | TensorKind::TokenEmbedding
        )
    }
}

impl TensorKind {
    /// Whether rows of such a matrix may be in parts of several types (SPEC.md section 5.2).
    pub const fn may_have_parts(self) -> bool {
        use TensorKind::*;
        matches!(self, ExpertGate | ExpertUp | ExpertDown | Head | TokenEmbedding)
    }
}

impl fmt::Display for TensorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One tensor of a model: its kind and, for tensors of a layer, which layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId {
    /// The layer, counted from 0; `None` for tensors of the model as a whole.
    pub layer: Option<u32>,
    /// What the tensor is for.
    pub kind: TensorKind,
}

impl TensorId {
    /// A tensor of layer `layer`.
    pub const fn of_layer(layer: u32, kind: TensorKind) -> TensorId {
        TensorId { layer: Some(layer), kind }
    }

    /// A tensor of the model as a whole.
    pub const fn of_model(kind: TensorKind) -> TensorId {
        TensorId { layer: None, kind }
    }
}

impl FromStr for TensorId {
    type Err = String;

    /// From what it is called in reports: `layer 3 attn_q`, `final_norm`.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parts = match s.strip_prefix("layer ") {
            Some(rest) => {
                rest.split_once(' ').and_then(|(layer, kind)| Some((Some(layer.parse().ok()?), kind)))
            }
            None => Some((None, s)),
        };
        let found = parts.and_then(|(layer, name)| {
            let kind = TensorKind::ALL.iter().copied().find(|kind| kind.name() == name)?;
            Some(TensorId { layer, kind })
        });
        found.filter(|id| id.kind.is_per_layer() == id.layer.is_some()).ok_or_else(|| {
            format!("'{s}' is no name of a tensor such as 'layer 0 attn_q' or 'token_embedding'")
        })
    }
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => f.pad(&format!("layer {layer} {}", self.kind)),
            None => f.pad(self.kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_id_and_no_two_share_a_name() {
        let mut names = std::collections::HashSet::new();
        for &kind in TensorKind::ALL {
            assert_eq!(TensorKind::from_id(kind.id()), Some(kind));
            assert!(names.insert(kind.name()), "{kind} twice");
        }
        assert_eq!(TensorKind::from_id(127), None);
    }

    #[test]
    fn a_tensor_comes_back_from_its_name_and_nothing_else_does() {
        for &kind in TensorKind::ALL {
            let id = TensorId { layer: kind.is_per_layer().then_some(7), kind };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for wrong in
            ["", "attn_q", "layer 0 head", "layer attn_q", "layer -1 attn_q", "layer 0  attn_q", "layer 1"]
        {
            assert!(wrong.parse::<TensorId>().is_err(), "{wrong}");
        }
    }
}
