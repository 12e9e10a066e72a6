//! The one description of a model's architecture (SPEC.md section 8.1), shared by converter and runtime and stored as
//! `model` in META. A decoder is configured by it; there is no decoder per architecture.

use serde::{Deserialize, Serialize};

/// What a decoder must know to run a model. Unknown fields are refused: they would change what the model computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Normalization kind and its epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Which statistics are removed.
    pub kind: NormKind,
    /// Added to the variance (or mean square) before the root.
    pub epsilon: f32,
}

/// Which statistics a norm removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Mean and variance; gain and bias.
    LayerNorm,
    /// Mean square; gain only.
    RmsNorm,
}

/// Activation function of the feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x * Phi(x)` by the error function.
    GeluErf,
    /// The tanh approximation of GELU (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
}

/// How positions enter the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PositionConfig {
    /// A learned vector per position, added to the embedding.
    Learned {},
    /// Rotary embedding of queries and keys, first half of a head against its second half.
    Rope {
        /// Base of the frequencies.
        theta: f32,
        /// How frequencies are changed for longer contexts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scaling: Option<RopeScaling>,
    },
}

/// Change of rotary frequencies for contexts longer than the model was first trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RopeScaling {
    /// Every frequency divided by `factor`.
    Linear {
        /// Divisor.
        factor: f32,
    },
    /// LLaMA 3.1: long wavelengths divided by `factor`, short ones kept, a linear ramp between.
    Llama3 {
        /// Divisor of the lowest frequencies.
        factor: f32,
        /// Wavelengths above `original_positions / low_freq_factor` are divided.
        low_freq_factor: f32,
        /// Wavelengths below `original_positions / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// Context of the first training.
        original_positions: u32,
    },
}

impl ModelConfig {
    /// Rows of the query projection.
    pub fn q_rows(&self) -> usize {
        self.heads as usize * self.head_dim as usize
    }

    /// Rows of the key and of the value projection.
    pub fn kv_rows(&self) -> usize {
        self.kv_heads as usize * self.head_dim as usize
    }

    /// Checks what a decoder relies on: no zero or absurd dimension, heads that divide, token ids inside the vocabulary.
    ///
    /// # Errors
    /// A sentence that names the field, its value and what it should be.
    pub fn check(&self) -> Result<(), String> {
        let limits = [
            ("layers", self.layers, 1 << 16),
            ("hidden", self.hidden, 1 << 20),
            ("heads", self.heads, 1 << 16),
            ("kv_heads", self.kv_heads, 1 << 16),
            ("head_dim", self.head_dim, 1 << 16),
            ("ffn", self.ffn, 1 << 24),
            ("vocab", self.vocab, 1 << 26),
            ("max_positions", self.max_positions, 1 << 30),
        ];
        for (name, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(format!("{name} is {value}, expected 1 to {limit}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!(
                "heads is {}, expected a multiple of kv_heads = {}",
                self.heads, self.kv_heads
            ));
        }
        if u64::from(self.heads) * u64::from(self.head_dim) > 1 << 24 {
            return Err(format!("heads * head_dim is {}, expected at most {}", self.q_rows(), 1 << 24));
        }
        if !(self.norm.epsilon.is_finite() && self.norm.epsilon >= 0.0) {
            return Err(format!(
                "norm epsilon is {}, expected a finite number of 0 or more",
                self.norm.epsilon
            ));
        }
        for (name, id) in [("bos", self.bos), ("pad", self.pad)]
            .into_iter()
            .chain(self.stop_tokens.iter().map(|&t| ("stop_tokens", Some(t))))
        {
            if let Some(id) = id.filter(|&id| id >= self.vocab) {
                return Err(format!("{name} holds token {id}, expected below vocab = {}", self.vocab));
            }
        }
        if let PositionConfig::Rope { theta, scaling } = &self.position {
            check_rope(*theta, scaling.as_ref(), self.head_dim)?;
        }
        Ok(())
    }
}

fn check_rope(theta: f32, scaling: Option<&RopeScaling>, head_dim: u32) -> Result<(), String> {
    let positive = |name: &str, v: f32| {
        if v.is_finite() && v > 0.0 {
            Ok(())
        } else {
            Err(format!("{name} is {v}, expected a finite number above 0"))
        }
    };
    if !head_dim.is_multiple_of(2) {
        return Err(format!("head_dim is {head_dim}, expected an even number for rotary positions"));
    }
    positive("rope theta", theta)?;
    match scaling {
        None => Ok(()),
        Some(RopeScaling::Linear { factor }) => positive("rope scaling factor", *factor),
        Some(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions }) => {
            positive("rope scaling factor", *factor)?;
            positive("low_freq_factor", *low_freq_factor)?;
            positive("high_freq_factor", *high_freq_factor)?;
            if high_freq_factor <= low_freq_factor || *original_positions == 0 {
                return Err(format!(
                    "rope scaling has low_freq_factor {low_freq_factor}, high_freq_factor {high_freq_factor}, \
                     original_positions {original_positions}; expected low below high and positions above 0"
                ));
            }
            Ok(())
        }
    }
}
