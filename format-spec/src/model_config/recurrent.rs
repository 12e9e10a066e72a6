//! Layers that carry a state from token to token instead of looking back at all of them.

use serde::{Deserialize, Serialize};

use super::is_default;

/// The mixer of some layers in place of attention. MODEL.md section 7 says what each computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recurrent {
    /// What the mixer computes.
    pub mixer: RecurrentMixer,
    /// Tokens that the convolution of each channel sees, the current one included.
    pub taps: u32,
    /// The layers, ascending.
    pub layers: Vec<u32>,
    /// Whether these layers have attention as well: both read the same, and what they give is added up (Falcon-H1).
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside_attention: bool,
    /// Whether what a [`RecurrentMixer::Mamba2`] gives is gated and not normalized.
    #[serde(default, skip_serializing_if = "is_default")]
    pub without_norm: bool,
    /// What rates of replacing of a [`RecurrentMixer::GatedDelta`] are multiplied with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub beta_scale: Option<f32>,
    /// Width of what decays of the channels of keys, and gates, of a [`RecurrentMixer::GatedDelta`] are made of, where each channel has
    /// a decay (Kimi Delta Attention, arXiv 2510.26692); absent: each head has one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub channel_rank: Option<u32>,
    /// Added to the mean square in the norm of the output, where it is another than that of the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm_epsilon: Option<f32>,
}

impl Recurrent {
    /// A mixer in place of attention in `layers`.
    pub const fn new(mixer: RecurrentMixer, taps: u32, layers: Vec<u32>) -> Recurrent {
        Recurrent {
            mixer,
            taps,
            layers,
            beside_attention: false,
            without_norm: false,
            beta_scale: None,
            channel_rank: None,
            norm_epsilon: None,
        }
    }
}

/// What a recurrent mixer computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RecurrentMixer {
    /// The gated delta rule (arXiv 2412.06464), behind a convolution of queries, keys and values.
    GatedDelta {
        /// Heads of queries and keys.
        key_heads: u32,
        /// Width of such a head.
        key_dim: u32,
        /// Heads of values; a multiple of `key_heads`.
        value_heads: u32,
        /// Width of such a head.
        value_dim: u32,
    },
    /// The state space of Mamba-1 (arXiv 2312.00752), behind a convolution.
    Mamba1 {
        /// Channels.
        width: u32,
        /// Values that the state keeps for each channel.
        state: u32,
        /// Values that steps are made of.
        rank: u32,
        /// Whether these and the two inputs that all channels share are normalized, and by what.
        #[serde(default, skip_serializing_if = "is_default")]
        norm_epsilon: Option<f32>,
        /// Whether these norms have gains.
        #[serde(default, skip_serializing_if = "is_default")]
        norm_gains: bool,
    },
    /// The state space of Mamba-2 (arXiv 2405.21060), behind a convolution of its three inputs.
    Mamba2 {
        /// Heads; a multiple of `groups`.
        heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// Groups of heads that share two of the inputs, and parts of the output that are normalized by themselves.
        groups: u32,
        /// Values that the state keeps for each of a head.
        state: u32,
    },
    /// A convolution between two gates, as wide as the residual stream (LFM2).
    ShortConv {},
}

/// Shapes that follow from the numbers above.
impl Recurrent {
    /// Rows of the input projection, in a model of width `hidden`.
    pub fn input_rows(&self, hidden: usize) -> usize {
        match self.mixer {
            RecurrentMixer::GatedDelta { .. }
            | RecurrentMixer::Mamba1 { .. }
            | RecurrentMixer::Mamba2 { .. } => self.channels(hidden),
            RecurrentMixer::ShortConv {} => 3 * hidden,
        }
    }

    /// Channels of the convolution.
    pub fn channels(&self, hidden: usize) -> usize {
        match self.mixer {
            RecurrentMixer::GatedDelta { key_heads, key_dim, .. } => {
                2 * key_heads as usize * key_dim as usize + self.output_columns(hidden)
            }
            RecurrentMixer::Mamba2 { groups, state, .. } => {
                self.output_columns(hidden) + 2 * groups as usize * state as usize
            }
            RecurrentMixer::Mamba1 { width, .. } => width as usize,
            RecurrentMixer::ShortConv {} => hidden,
        }
    }

    /// Columns of the output projection.
    pub fn output_columns(&self, hidden: usize) -> usize {
        match self.mixer {
            RecurrentMixer::GatedDelta { value_heads, value_dim, .. } => {
                value_heads as usize * value_dim as usize
            }
            RecurrentMixer::Mamba2 { heads, head_dim, .. } => heads as usize * head_dim as usize,
            RecurrentMixer::Mamba1 { width, .. } => width as usize,
            RecurrentMixer::ShortConv {} => hidden,
        }
    }

    /// Steps of a token, one for each head, or for each channel of its keys.
    pub fn steps(&self) -> usize {
        match (self.mixer, self.channel_rank) {
            (RecurrentMixer::GatedDelta { key_dim, .. }, Some(_)) => self.heads() * key_dim as usize,
            _ => self.heads(),
        }
    }

    /// Heads, each with a decay of its own; 0 where there are none.
    pub fn heads(&self) -> usize {
        match self.mixer {
            RecurrentMixer::GatedDelta { value_heads, .. } => value_heads as usize,
            RecurrentMixer::Mamba2 { heads, .. } => heads as usize,
            // Each channel is one.
            RecurrentMixer::Mamba1 { width, .. } => width as usize,
            RecurrentMixer::ShortConv {} => 0,
        }
    }
}
