//! What llama.cpp's architectures are, as far as their files do not say it: one entry for each that can be read.
//!
//! From the definitions of the models in `transformers`. Where llama.cpp computes something else (GPT-NeoX's exact GELU as
//! its approximation, Phi-3 without its window), the model's own definition counts.

use qsf_format::{
    Activation, ModelConfig, NormKind, NormPlacement, QkNorm, Residual, RouterScore, TensorKind,
};

use super::super::names;
use super::architectures::*;
use super::reading::Reading;
use crate::error::Result;
use crate::source::mapping::NameTable;

/// An architecture.
#[derive(Debug, Clone, Copy)]
pub(in crate::source::gguf) struct Architecture {
    /// `general.architecture`.
    pub name: &'static str,
    /// The `model_type` of the same model in `config.json`.
    pub model_type: &'static str,
    pub norm: NormKind,
    /// Whether norms multiply with 1 + w.
    pub gain_plus_one: bool,
    pub placement: NormPlacement,
    pub activation: Activation,
    pub gated_ffn: bool,
    /// `None`: the file says it.
    pub residual: Option<Residual>,
    pub positions: Positions,
    pub qk_norm: Option<QkNorm>,
    /// Whether any layer has attention.
    pub attention: bool,
    /// Whether such files are written, too.
    pub written: bool,
    /// Whether embeddings are multiplied with the root of their width.
    pub scaled_embedding: bool,
    pub embedding_norm: bool,
    /// Which layers have a sliding window, where the file gives one.
    pub window: Window,
    /// The window, where the file gives none.
    pub default_window: Option<u32>,
    /// Soft-caps of attention scores and logits, where the file gives none.
    pub default_softcaps: Option<(f32, f32)>,
    /// The number of layers of the one size whose queries are scaled by `hidden / heads` instead of the width of a head.
    pub scaled_by_hidden: Option<u32>,
    /// Whether a file without `output.weight` uses the embedding as head.
    pub may_tie_head: bool,
    pub experts: ExpertUse,
    /// Whether weights of the chosen experts are made to add up to 1, where the file does not say it.
    pub normalize_weights: bool,
    /// What makes weights of the scores of experts, where the file does not say it. `None`: the logistic function where the choice has
    /// a bias, else the softmax.
    pub router: Option<RouterScore>,
    /// The key with the width of a head, and the one with that of its values, which must be the same.
    pub head_widths: [&'static str; 2],
    /// Other values of `model_type` that mean it.
    pub also: &'static [&'static str],
    /// Keys that files of this architecture have beside those of all.
    pub keys: &'static [&'static str],
    /// Those of all that have a number for each layer here.
    pub per_layer: &'static [&'static str],
    /// Vectors that files have as keys.
    pub layer_values: &'static [LayerValues],
    /// What else there is to read.
    pub more: fn(&mut Reading<'_>) -> Result<()>,
    /// Tensor names.
    pub table: &'static NameTable,
    /// Tensor names where attention and feed-forward stand side by side, each with a norm of its own, if they are others.
    pub side_by_side: Option<&'static NameTable>,
    /// Vectors that every model of this kind has, of those that others go without.
    pub biases: &'static [TensorKind],
}

/// A key with a number for each layer, each a vector of the model.
#[derive(Debug, Clone, Copy)]
pub(in crate::source::gguf) struct LayerValues {
    /// The whole key.
    pub key: &'static str,
    /// What the table calls them.
    pub name: &'static str,
}

/// How positions enter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::source::gguf) enum Positions {
    /// A table.
    Learned,
    /// Slopes.
    Alibi,
    /// None.
    Unrotated,
    /// Rotation.
    Rotary {
        /// Base of the frequencies of layers with a window, where the file gives none and it is another.
        sliding_theta: Option<f32>,
        /// Every so manieth layer is not rotated.
        unrotated_every: Option<u32>,
        /// Whether scaling for longer contexts also holds for layers with a window.
        scaled_windows: bool,
        /// Whether whole heads are rotated in any case: rows are stored so that a part could not be told.
        whole_heads: bool,
    },
}

/// Which layers have a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source::gguf) enum Window {
    /// None: a file that gives a window is not understood.
    Unknown,
    /// All.
    All,
    /// All but every so manieth.
    AllButEvery(u32),
}

/// Whether feed-forwards are mixtures of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source::gguf) enum ExpertUse {
    Never,
    /// Where the file says so; another `model_type` then.
    Maybe(&'static str),
    Always,
}

pub(super) const ROTARY: Positions = rotary(None, None, true, false);
pub(super) const PAIRS: Positions = rotary(None, None, true, true);

pub(super) const fn rotary(
    sliding_theta: Option<f32>,
    unrotated_every: Option<u32>,
    scaled_windows: bool,
    whole_heads: bool,
) -> Positions {
    Positions::Rotary { sliding_theta, unrotated_every, scaled_windows, whole_heads }
}

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    model_type: "llama",
    norm: NormKind::RmsNorm,
    gain_plus_one: false,
    placement: NormPlacement::Pre,
    activation: Activation::Silu,
    gated_ffn: true,
    residual: Some(Residual::Sequential),
    positions: PAIRS,
    qk_norm: None,
    attention: true,
    written: true,
    scaled_embedding: false,
    embedding_norm: false,
    window: Window::All,
    default_window: None,
    default_softcaps: None,
    scaled_by_hidden: None,
    may_tie_head: true,
    experts: ExpertUse::Maybe("mixtral"),
    normalize_weights: true,
    router: Some(RouterScore::Softmax),
    head_widths: ["attention.key_length", "attention.value_length"],
    also: &["mistral"],
    keys: &[],
    per_layer: &[],
    layer_values: &[],
    more: |_| Ok(()),
    table: &names::NEIGHBOURING_PAIRS,
    side_by_side: None,
    biases: &[],
};

impl Architecture {
    /// Tensor names of a model of this architecture.
    pub fn table(&self, config: &ModelConfig) -> &'static NameTable {
        self.side_by_side.filter(|_| config.residual == Residual::Parallel).unwrap_or(self.table)
    }
}

const QWEN2: Architecture = Architecture {
    name: "qwen2",
    model_type: "qwen2",
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    also: &[],
    table: &names::PLAIN,
    biases: &[TensorKind::AttnQBias, TensorKind::AttnKBias, TensorKind::AttnVBias],
    ..LLAMA
};

const QWEN3: Architecture =
    Architecture { name: "qwen3", model_type: "qwen3", qk_norm: Some(QkNorm::Head), biases: &[], ..QWEN2 };

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    model_type: "gemma2",
    gain_plus_one: true,
    placement: NormPlacement::PreAndPost,
    activation: Activation::GeluTanh,
    scaled_embedding: true,
    window: Window::AllButEvery(2),
    default_window: Some(4096),
    default_softcaps: Some((50.0, 30.0)),
    scaled_by_hidden: Some(46),
    table: &names::NORM_PLUS_ONE,
    biases: &[],
    ..QWEN2
};

pub(super) const GPT2: Architecture = Architecture {
    name: "gpt2",
    model_type: "gpt2",
    norm: NormKind::LayerNorm,
    activation: Activation::GeluTanh,
    gated_ffn: false,
    positions: Positions::Learned,
    biases: &[
        TensorKind::AttnQBias,
        TensorKind::AttnKBias,
        TensorKind::AttnVBias,
        TensorKind::AttnOutputBias,
        TensorKind::AttnNormBias,
        TensorKind::FfnNormBias,
        TensorKind::FfnUpBias,
        TensorKind::FfnDownBias,
        TensorKind::FinalNormBias,
    ],
    ..QWEN2
};

/// All that can be read.
pub(in crate::source::gguf) const ARCHITECTURES: &[Architecture] = &[
    LLAMA,
    Architecture {
        name: "smollm3",
        model_type: "smollm3",
        positions: rotary(None, Some(4), true, true),
        window: Window::Unknown,
        experts: ExpertUse::Never,
        also: &[],
        ..LLAMA
    },
    QWEN2,
    QWEN3,
    Architecture { name: "qwen3moe", model_type: "qwen3_moe", experts: ExpertUse::Always, ..QWEN3 },
    Architecture {
        name: "olmo2",
        model_type: "olmo2",
        also: &["olmo3"],
        placement: NormPlacement::Post,
        qk_norm: Some(QkNorm::Projection),
        positions: rotary(None, None, false, false),
        window: Window::AllButEvery(4),
        may_tie_head: false,
        ..QWEN3
    },
    Architecture {
        name: "phi3",
        model_type: "phi3",
        window: Window::All,
        table: &names::GATE_AND_UP,
        biases: &[],
        ..QWEN2
    },
    GEMMA2,
    Architecture {
        name: "gemma3",
        model_type: "gemma3_text",
        also: &["gemma3"],
        qk_norm: Some(QkNorm::Head),
        positions: rotary(Some(10_000.0), None, false, false),
        window: Window::AllButEvery(6),
        default_window: None,
        default_softcaps: None,
        scaled_by_hidden: Some(62),
        ..GEMMA2
    },
    GPT2,
    Architecture {
        name: "gptneox",
        model_type: "gpt_neox",
        activation: Activation::GeluErf,
        residual: None,
        positions: ROTARY,
        may_tie_head: false,
        // Attention may be without.
        biases: &[
            TensorKind::AttnNormBias,
            TensorKind::FfnNormBias,
            TensorKind::FfnUpBias,
            TensorKind::FfnDownBias,
            TensorKind::FinalNormBias,
        ],
        ..GPT2
    },
    Architecture {
        name: "phi2",
        model_type: "phi",
        residual: Some(Residual::ParallelOneNorm),
        positions: ROTARY,
        may_tie_head: false,
        biases: &[
            TensorKind::AttnQBias,
            TensorKind::AttnKBias,
            TensorKind::AttnVBias,
            TensorKind::AttnOutputBias,
            TensorKind::AttnNormBias,
            TensorKind::FfnUpBias,
            TensorKind::FfnDownBias,
            TensorKind::FinalNormBias,
            TensorKind::HeadBias,
        ],
        ..GPT2
    },
    Architecture {
        name: "bloom",
        model_type: "bloom",
        positions: Positions::Alibi,
        embedding_norm: true,
        biases: &[
            TensorKind::AttnQBias,
            TensorKind::AttnKBias,
            TensorKind::AttnVBias,
            TensorKind::AttnOutputBias,
            TensorKind::AttnNormBias,
            TensorKind::FfnNormBias,
            TensorKind::FfnUpBias,
            TensorKind::FfnDownBias,
            TensorKind::FinalNormBias,
            TensorKind::EmbeddingNormBias,
        ],
        ..GPT2
    },
    QWEN35,
    QWEN35_MOE,
    QWEN3_NEXT,
    GPT_OSS,
    DEEPSEEK2,
    MINICPM3,
    GLM4,
    GLM4_MOE,
    GEMMA,
    GEMMA4,
    LFM2,
    LFM2_MOE,
    GRANITE,
    GRANITE_MOE,
    GRANITE_HYBRID,
    FALCON_H1,
    MAMBA1,
    JAMBA,
    MAMBA2,
    NEMOTRON_H,
    NEMOTRON_H_MOE,
    QWEN2_MOE,
    OLMOE,
    OLMO,
    MINIMAX_M2,
    COMMAND_R,
    COHERE2,
    EXAONE4,
    SEED_OSS,
    STARCODER2,
    STABLELM,
    ERNIE4_5,
    ERNIE4_5_MOE,
    DOTS1,
    ARCEE,
    NEMOTRON,
    MISTRAL3,
    HUNYUAN_DENSE,
    HUNYUAN_MOE,
    GEMMA3N,
    KIMI_LINEAR,
    MIMO2,
    MISTRAL4,
    CHATGLM,
    APERTUS,
    LLAMA4,
    PHIMOE,
    STARCODER,
    MPT,
    FALCON,
];
