//! What the configurations of most architectures have in common.

use qsf_format::printable::quote;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, Residual, TensorKind};

use super::architecture::{Reader, SourceConfig};
use super::rope::{self, Rope, RopeDefaults};
use crate::error::{Result, RuntimeError};

/// More layers than any model has; what is counted up to is written down layer by layer.
const MAX_LAYERS: u32 = 1 << 16;

/// Layers of which one has each kind of matrix that shapes are taken from.
const LOOKED_AT: u32 = 16;

/// What a configuration class of transformers takes for the fields that are not there.
pub(super) struct Defaults {
    pub vocab: u32,
    pub hidden: u32,
    pub ffn: u32,
    pub layers: u32,
    pub heads: u32,
    /// `None`: as many as heads.
    pub kv_heads: Option<u32>,
    /// `None`: `hidden / heads`.
    pub head_dim: Option<u32>,
    pub max_positions: u32,
    pub norm_epsilon: f32,
    pub theta: f32,
    pub tied_head: bool,
}

impl Reader<'_> {
    /// The first of these fields that is there. A model that is no part of another must have one.
    pub fn dimension(&self, names: &[&str], default: u32) -> Result<u32> {
        for name in names {
            if let Some(value) = self.fields.u32(name)? {
                return Ok(value);
            }
        }
        if self.nested { Ok(default) } else { self.fields.need_u32(names[0]) }
    }

    /// The number of layers.
    pub fn layers(&self, names: &[&str], default: u32) -> Result<u32> {
        let layers = self.dimension(names, default)?;
        if layers == 0 || layers > MAX_LAYERS {
            return Err(self.fields.wrong(names[0], format!("1 to {MAX_LAYERS}"), layers));
        }
        Ok(layers)
    }

    /// Inner width of the feed-forward. A list says it of each layer.
    fn ffn(&self, default: u32) -> Result<u32> {
        // Models with experts in every layer may do without the first.
        let names = ["intermediate_size", "moe_intermediate_size", "block_ff_dim"];
        if !self.fields.get(names[0]).is_some_and(serde_json::Value::is_array) {
            return self.dimension(&names, default);
        }
        let widths = self.fields.u32s(names[0])?.unwrap_or_default();
        if let Some(layers) =
            self.fields.u32("num_hidden_layers")?.filter(|&layers| layers as usize != widths.len())
        {
            return Err(self.fields.wrong(
                names[0],
                format!("one for each of {layers} layers"),
                widths.len(),
            ));
        }
        match widths.first() {
            Some(first) if widths.iter().all(|width| width == first) => Ok(*first),
            _ => {
                let what = format!("{} with several widths", names[0]);
                Err(RuntimeError::unsupported(self.fields.path, what, "one for all layers is"))
            }
        }
    }

    /// Rows and columns of the matrix that holds these kinds, of the first layer that has one.
    fn shape_of(&self, kinds: &[TensorKind]) -> Option<[u32; 2]> {
        let rule = self.architecture.table.rules.iter().find(|rule| rule.kinds == kinds)?;
        let name = |layer: u32| format!("{}{}", self.prefix, rule.name.replace("{}", &layer.to_string()));
        let (shape, _) = (0..LOOKED_AT).find_map(|layer| self.store.describe(&name(layer)))?;
        let [rows, cols] = *shape else { return None };
        Some([u32::try_from(rows).ok()?, u32::try_from(cols).ok()?])
    }

    /// Width of a head, and heads of keys and values: by `head_dim` and `num_key_value_heads`, or by the shapes of the
    /// projections, or else as the configuration class has it.
    pub fn heads(
        &self,
        hidden: u32,
        heads: u32,
        default_head_dim: Option<u32>,
        default_kv_heads: Option<u32>,
    ) -> Result<(u32, u32)> {
        use TensorKind::{AttnK, AttnOutput, AttnQ, AttnV};
        let of_queries = match self.shape_of(&[AttnQ]) {
            Some([rows, _]) => Some(rows),
            None => self.shape_of(&[AttnOutput]).map(|[_, cols]| cols),
        };
        let by_shape = of_queries.and_then(|rows| whole_part(rows, heads));
        let head_dim = match self.fields.u32("head_dim")?.or(by_shape).or(default_head_dim) {
            Some(head_dim) => head_dim,
            None => self.head_dim("hidden_size", hidden, "num_attention_heads", heads)?,
        };
        let of_keys = match self.shape_of(&[AttnK]) {
            Some([rows, _]) => Some(rows),
            None => self.shape_of(&[AttnQ, AttnK, AttnV]).and_then(|[rows, _]| {
                let queries = heads.checked_mul(head_dim)?;
                whole_part(rows.checked_sub(queries)?, 2)
            }),
        };
        let by_shape = of_keys.and_then(|rows| whole_part(rows, head_dim));
        let kv_heads = self.fields.u32("num_key_value_heads")?.or(by_shape).or(default_kv_heads);
        Ok((head_dim, kv_heads.unwrap_or(heads)))
    }

    /// `hidden / heads`, which must leave no rest.
    pub fn head_dim(&self, name: &str, hidden: u32, heads_name: &str, heads: u32) -> Result<u32> {
        match hidden.checked_rem(heads) {
            Some(0) => Ok(hidden / heads),
            _ => Err(self.fields.wrong(name, format!("a multiple of {heads_name} = {heads}"), hidden)),
        }
    }

    /// The function that a field names.
    pub fn activation(&self, name: &str, default: &str) -> Result<Activation> {
        match self.fields.str(name)?.unwrap_or(default) {
            "silu" | "swish" => Ok(Activation::Silu),
            "relu" => Ok(Activation::Relu),
            "relu2" => Ok(Activation::Relu2),
            "xielu" => Ok(Activation::Xielu),
            "gelu" | "gelu_python" => Ok(Activation::GeluErf),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
            other => Err(RuntimeError::unsupported(
                self.fields.path,
                format!("{name} {}", quote(other)),
                "supported: silu, relu, relu2, xielu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast",
            )),
        }
    }

    /// Refuses a truth value that would change what the model computes.
    pub fn only(&self, name: &str, supported: bool) -> Result<()> {
        match self.fields.bool(name)? {
            Some(value) if value != supported => {
                let advice = format!("only {name} = {supported} is");
                Err(RuntimeError::unsupported(self.fields.path, format!("{name} = {value}"), &advice))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a configuration without rotary parameters, for which transformers has a scaling of its own.
    pub fn need_rotation(&self) -> Result<()> {
        let said = |name| self.fields.get(name).is_some_and(serde_json::Value::is_object);
        match said("rope_parameters") || said("rope_scaling") {
            true => Ok(()),
            false => Err(self.fields.wrong("rope_parameters", "how positions are rotated", "no such field")),
        }
    }

    /// Whether kinds of tensors are there, as the field says; where it does not say, nothing is declared.
    pub fn declare(&self, name: &str, kinds: &[TensorKind]) -> Result<Vec<(TensorKind, bool)>> {
        let there = self.fields.bool(name)?;
        Ok(there.map_or_else(Vec::new, |there| declared(kinds, there)))
    }

    /// Whether the head is the embedding.
    pub fn tied_head(&self, default: bool) -> Result<bool> {
        Ok(self.fields.bool("tie_word_embeddings")?.unwrap_or(default))
    }

    /// A model with the field names of LLaMA: RMS norms before attention and feed-forward, rotary positions, a gated
    /// feed-forward.
    pub(super) fn llama_like(&self, defaults: &Defaults) -> Result<ModelConfig> {
        self.llama_like_part(defaults, None)
    }

    /// [`Reader::llama_like`] with rotation of a part of each head: of how much by default, and the name of the field.
    pub(super) fn llama_like_part(
        &self,
        defaults: &Defaults,
        part: Option<(f64, &'static str)>,
    ) -> Result<ModelConfig> {
        let fields = self.fields;
        let hidden = self.dimension(&["hidden_size"], defaults.hidden)?;
        let heads = self.dimension(&["num_attention_heads"], defaults.heads)?;
        let (head_dim, kv_heads) = self.heads(hidden, heads, defaults.head_dim, defaults.kv_heads)?;
        let positions = fields.u32("max_position_embeddings")?.unwrap_or(defaults.max_positions);
        let rope = RopeDefaults { part, ..RopeDefaults::new(defaults.theta, head_dim, positions) };
        let rope = rope::positions(fields, &rope)?;
        self.llama_of(defaults, (heads, kv_heads, head_dim), rope)
    }

    /// [`Reader::llama_like`] with these heads of queries and of keys, their width, and these positions.
    pub(super) fn llama_of(
        &self,
        defaults: &Defaults,
        (heads, kv_heads, head_dim): (u32, u32, u32),
        rope: Rope,
    ) -> Result<ModelConfig> {
        let fields = self.fields;
        Ok(ModelConfig {
            architecture: self.architecture.name().to_owned(),
            layers: self.layers(&["num_hidden_layers"], defaults.layers)?,
            hidden: self.dimension(&["hidden_size"], defaults.hidden)?,
            heads,
            kv_heads,
            head_dim,
            ffn: self.ffn(defaults.ffn)?,
            vocab: self.dimension(&["vocab_size"], defaults.vocab)?,
            max_positions: rope.max_positions,
            norm: NormConfig::new(
                NormKind::RmsNorm,
                fields.f32("rms_norm_eps")?.unwrap_or(defaults.norm_epsilon),
            ),
            activation: self.activation("hidden_act", "silu")?,
            gated_ffn: true,
            position: rope.position,
            tied_head: self.tied_head(defaults.tied_head)?,
            ..without_parts()
        })
    }

    /// `attention_bias` and `mlp_bias`.
    pub fn declared_biases(&self) -> Result<Vec<(TensorKind, bool)>> {
        use TensorKind::*;
        let mut declared = self.attention_bias()?;
        declared.extend(self.declare("mlp_bias", &[FfnGateBias, FfnUpBias, FfnDownBias])?);
        Ok(declared)
    }

    /// `attention_bias` alone.
    pub fn attention_bias(&self) -> Result<Vec<(TensorKind, bool)>> {
        use TensorKind::*;
        self.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias, AttnOutputBias])
    }
}

/// A model without the parts that only some architectures have. Every field of the configuration is named here: what a new one is
/// for architectures that do not mention it is decided in this place.
pub(super) fn without_parts() -> ModelConfig {
    ModelConfig {
        residual: Residual::Sequential,
        qk_norm: None,
        latent: None,
        full_attention: None,
        shared_kv: None,
        value_norm: false,
        per_layer_embedding: None,
        layer_scale: false,
        streams: None,
        laurel: None,
        gate_sparsity: Vec::new(),
        multipliers: None,
        attention_scale: None,
        attention_softcap: None,
        logit_softcap: None,
        embedding_scale: None,
        residual_scale: None,
        logit_scale: None,
        qkv_clip: None,
        attention_sinks: false,
        window_sinks: false,
        value_heads: None,
        sub_norms: false,
        window_chunks: false,
        query_growth: None,
        gate_clip: None,
        embedding_norm: false,
        sliding_window: None,
        attention_gate: false,
        recurrent: None,
        half_layers: None,
        experts: None,
        // `ConfigFiles::model` reads them.
        bos: None,
        stop_tokens: Vec::new(),
        pad: None,
        // What every architecture sets.
        architecture: String::new(),
        layers: 0,
        hidden: 0,
        heads: 0,
        kv_heads: 0,
        head_dim: 0,
        ffn: 0,
        vocab: 0,
        max_positions: 0,
        norm: NormConfig::default(),
        activation: Activation::default(),
        gated_ffn: false,
        position: PositionConfig::default(),
        tied_head: false,
    }
}

/// The configuration of a model of which nothing else is declared.
pub(super) fn plain(model: ModelConfig) -> SourceConfig {
    SourceConfig { model, declared: Vec::new() }
}

/// Kinds of tensors that are there, or are not.
pub(super) fn declared(kinds: &[TensorKind], there: bool) -> Vec<(TensorKind, bool)> {
    kinds.iter().map(|&kind| (kind, there)).collect()
}

/// `all / parts`, where it is at least 1 and leaves no rest.
fn whole_part(all: u32, parts: u32) -> Option<u32> {
    (all.checked_rem(parts) == Some(0)).then(|| all / parts).filter(|&part| part > 0)
}
