//! GGUF metadata to [`ModelConfig`]. Anything that changes what the model computes and that is not read here is refused.

mod architecture;
mod architectures;
mod experts;
mod keys;
mod layer_tensors;
mod reading;
mod rope;
mod tokens;

use std::path::Path;

use qsf_format::printable::quote;
use qsf_format::{
    Experts, ModelConfig, NormConfig, NormKind, PositionConfig, Residual, RopeScaling, SlidingWindow,
};

use self::architecture::Window;
pub(super) use self::architecture::{ARCHITECTURES, Architecture, ExpertUse, LayerValues, Positions};
pub(super) use self::architectures::{quantile_of, scale_of_yarn};
use self::experts::experts_of;
use self::keys::{Keys, need};
use self::reading::Reading;
use super::{GgufFile, GgufTensor};
use crate::error::{Result, RuntimeError};

const NEXT_LAYERS: &str = "nextn_predict_layers";
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";
const FIRST_DOWN: &str = "blk.0.ffn_down.weight";
const DOWN: &str = ".ffn_down.weight";

/// What a file says of its model.
pub(super) struct Described {
    pub config: ModelConfig,
    pub architecture: &'static Architecture,
    /// Layers behind the last that predict tokens further ahead, and are left out.
    pub layers_ahead: u32,
}

/// Reads the configuration of the model in `file`.
///
/// # Errors
/// The architecture, or something that changes what it computes, is not supported; a key is missing or makes no sense.
pub(super) fn read(file: &GgufFile) -> Result<Described> {
    let metadata = &file.metadata;
    let path = metadata.path();
    let name = metadata.need_str("general.architecture")?;
    if let Some(other) = metadata.str("general.type")?.filter(|&kind| kind != "model") {
        let what = format!("a file of type {}", quote(other));
        return Err(RuntimeError::unsupported(
            path,
            what,
            "a language model of its own is (general.type = model)",
        ));
    }
    let Some(architecture) = ARCHITECTURES.iter().find(|architecture| architecture.name == name) else {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|architecture| architecture.name).collect();
        let what = format!("architecture {}", quote(name));
        return Err(RuntimeError::unsupported(path, what, format!("supported: {}", known.join(", "))));
    };
    let keys =
        Keys { metadata, architecture: name, own: architecture.keys, per_layer: architecture.per_layer };
    keys.refuse_unknown()?;
    let config = decoder(file, keys, architecture)?;
    let mut reading = Reading { file, keys, config };
    (architecture.more)(&mut reading)?;
    let mut config = reading.config;
    tokens::read(metadata, &mut config)?;
    check(path, &config)?;
    let layers_ahead = layers_ahead(keys)?;
    Ok(Described { config, architecture, layers_ahead })
}

/// Checks what a decoder relies on.
pub(super) fn check(path: &Path, config: &ModelConfig) -> Result<()> {
    config
        .check()
        .map_err(|problem| RuntimeError::bad_input(path, "the metadata", "a model that can be run", problem))
}

fn decoder(file: &GgufFile, keys: Keys<'_>, architecture: &Architecture) -> Result<ModelConfig> {
    let layers = layers(keys)?;
    let hidden = keys.need_u32("embedding_length")?;
    let context = context(keys, architecture, hidden)?;
    let [heads, kv_heads, head_dim] = match architecture.attention {
        true => {
            let heads =
                need(keys, "attention.head_count", keys.same_for_all("attention.head_count", layers)?)?;
            let kv_heads = keys.same_for_all("attention.head_count_kv", layers)?.unwrap_or(heads);
            [heads, kv_heads, head_dim(keys, architecture, hidden, heads)?]
        }
        false => ModelConfig::WITHOUT_ATTENTION,
    };
    let experts = experts_of(file, keys, architecture, layers)?;
    let ffn = match architecture.attention {
        true => ffn(file, keys, layers, experts.as_ref())?,
        // Nor a feed-forward.
        false => 1,
    };
    let sliding_window = sliding_window(keys, architecture, layers, context)?;
    let shape = rope::Shape { head_dim, layers, context, has_window: sliding_window.is_some() };
    let position = rope::read(file, keys, architecture.positions, shape)?;
    // Files of Nemotron-H and Phi-3.5-MoE have the one of the other norm.
    let [name, other] = match architecture.norm {
        NormKind::RmsNorm => ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"],
        NormKind::LayerNorm => ["attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"],
    };
    let epsilon = match (keys.f32(name)?, keys.f32(other)?) {
        (Some(epsilon), _) | (None, Some(epsilon)) => epsilon,
        (None, None) => keys.need_f32(name)?,
    };
    let model_type = match architecture.experts {
        ExpertUse::Maybe(with_experts) if experts.is_some() => with_experts,
        _ => architecture.model_type,
    };
    Ok(ModelConfig {
        architecture: model_type.to_owned(),
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn,
        vocab: vocabulary(file)?,
        max_positions: match &position {
            PositionConfig::Rope { scaling, .. } => RopeScaling::extended(scaling.as_ref(), context),
            _ => context,
        },
        norm: NormConfig {
            kind: architecture.norm,
            epsilon,
            gain_plus_one: architecture.gain_plus_one,
            placement: architecture.placement,
            without_gain: false,
        },
        activation: architecture.activation,
        gated_ffn: architecture.gated_ffn,
        position,
        tied_head: architecture.may_tie_head && !file.tensors.iter().any(|tensor| tensor.name == HEAD),
        residual: residual(keys, architecture)?,
        qk_norm: architecture.qk_norm,
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
        attention_scale: attention_scale(keys, architecture, layers, hidden, heads)?,
        attention_softcap: softcap(
            keys,
            "attn_logit_softcapping",
            architecture.default_softcaps.map(|(attention, _)| attention),
        )?,
        logit_softcap: softcap(
            keys,
            "final_logit_softcapping",
            architecture.default_softcaps.map(|(_, logits)| logits),
        )?,
        embedding_scale: architecture.scaled_embedding.then(|| (hidden as f32).sqrt()),
        embedding_norm: architecture.embedding_norm,
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
        sliding_window,
        // No architecture of the table has these.
        attention_gate: false,
        recurrent: None,
        half_layers: None,
        experts,
        // `tokens` reads them.
        bos: None,
        stop_tokens: Vec::new(),
        pad: None,
    })
}

/// Checked before anything is done for each of them.
fn layers(keys: Keys<'_>) -> Result<u32> {
    const MAX_LAYERS: u32 = 1 << 16;
    let all = keys.need_u32("block_count")?;
    let layers = all.saturating_sub(layers_ahead(keys)?);
    if layers > MAX_LAYERS {
        return Err(keys.wrong("block_count", format!("at most {MAX_LAYERS}"), layers));
    }
    Ok(layers)
}

/// Layers behind the last that predict tokens further ahead.
fn layers_ahead(keys: Keys<'_>) -> Result<u32> {
    let is_known = keys.own.contains(&NEXT_LAYERS);
    Ok(keys.u32(NEXT_LAYERS)?.filter(|_| is_known).unwrap_or(0))
}

/// The converter writes the width of BLOOM models where their configuration gives no length. All of them were trained on
/// 2048 tokens (arXiv 2211.05100, section 3.2).
fn context(keys: Keys<'_>, architecture: &Architecture, hidden: u32) -> Result<u32> {
    let context = keys.need_u32("context_length")?;
    Ok(if architecture.name == "bloom" && context == hidden { 2048 } else { context })
}

/// The converter writes four times the width for GPT-2, Phi-2 and BLOOM whatever they have; the tensor knows.
fn ffn(file: &GgufFile, keys: Keys<'_>, layers: u32, experts: Option<&Experts>) -> Result<u32> {
    let written = keys.same_for_all("feed_forward_length", layers)?.filter(|&width| width != 0);
    let is_down = |tensor: &&GgufTensor| tensor.name.ends_with(DOWN) && tensor.shape.len() == 2;
    let first = file.tensors.iter().find(|tensor| tensor.name == FIRST_DOWN && tensor.shape.len() == 2);
    let down = first.or_else(|| file.tensors.iter().find(is_down));
    let stored = down.and_then(|down| u32::try_from(down.shape[0]).ok());
    let found = stored.or(written).or(experts.map(|experts| experts.ffn));
    need(keys, "feed_forward_length", found)
}

fn head_dim(keys: Keys<'_>, architecture: &Architecture, hidden: u32, heads: u32) -> Result<u32> {
    let [of_keys, of_values] = architecture.head_widths;
    let given = match keys.u32(of_keys)? {
        None if of_keys != "attention.key_length" => keys.u32("attention.key_length")?,
        given => given,
    };
    let head_dim = match (given, hidden.checked_rem(heads)) {
        (Some(length), _) => length,
        (None, Some(0)) => hidden / heads,
        (None, _) => {
            let expected = format!("a multiple of attention.head_count = {heads}");
            return Err(keys.wrong("embedding_length", expected, hidden));
        }
    };
    match keys.u32(of_values)? {
        Some(length) if length != head_dim => {
            let what = format!("values of {length} beside keys of {head_dim}");
            Err(RuntimeError::unsupported(keys.metadata.path(), what, "both must be as wide"))
        }
        _ => Ok(head_dim),
    }
}

/// Rows of the embedding: some vocabularies name fewer tokens than the model has rows, but never more.
fn vocabulary(file: &GgufFile) -> Result<u32> {
    let Some(embedding) = file.tensors.iter().find(|tensor| tensor.name == EMBEDDING) else {
        let (what, supported) = ("a file without weights", "a vocabulary alone cannot be run");
        if file.tensors.is_empty() {
            return Err(RuntimeError::unsupported(file.path(), what, supported));
        }
        let place = format!("tensor {}", quote(EMBEDDING));
        return Err(RuntimeError::bad_input(file.path(), place, "the token embedding", "none"));
    };
    let rows = embedding.shape.get(1).and_then(|&rows| u32::try_from(rows).ok());
    rows.ok_or_else(|| {
        let path = &file.shards[embedding.shard].path;
        let place = format!("tensor {}", quote(EMBEDDING));
        RuntimeError::bad_input(path, place, "a row for each token", format!("shape {:?}", embedding.shape))
    })
}

fn residual(keys: Keys<'_>, architecture: &Architecture) -> Result<Residual> {
    const KEY: &str = "use_parallel_residual";
    match (keys.bool(KEY)?, architecture.residual) {
        (Some(true), None) => Ok(Residual::Parallel),
        (Some(false), None) => Ok(Residual::Sequential),
        (None, None) => Err(keys.wrong(KEY, "true or false", "no such key")),
        (Some(parallel), Some(residual)) if parallel == (residual == Residual::Sequential) => {
            let what = format!("{} = {parallel}", keys.full(KEY));
            Err(RuntimeError::unsupported(
                keys.metadata.path(),
                what,
                "models of this architecture are otherwise",
            ))
        }
        (_, Some(residual)) => Ok(residual),
    }
}

/// What scores are multiplied with, where it is not the usual one.
fn attention_scale(
    keys: Keys<'_>,
    architecture: &Architecture,
    layers: u32,
    hidden: u32,
    heads: u32,
) -> Result<Option<f32>> {
    if let Some(scale) = keys.f32("attention.scale")?.filter(|&scale| scale != 0.0) {
        return Ok(Some(scale));
    }
    // Gemma's largest models (query_pre_attn_scalar in their configurations); files do not say it.
    let by_hidden = architecture.scaled_by_hidden == Some(layers);
    Ok(hidden.checked_div(heads).filter(|_| by_hidden).map(|width| 1.0 / (width as f32).sqrt()))
}

/// 0 means none.
fn softcap(keys: Keys<'_>, name: &str, default: Option<f32>) -> Result<Option<f32>> {
    Ok(keys.f32(name)?.or(default).filter(|&cap| cap != 0.0))
}

/// The window, and the layers that have it.
fn sliding_window(
    keys: Keys<'_>,
    architecture: &Architecture,
    layers: u32,
    context: u32,
) -> Result<Option<SlidingWindow>> {
    const SIZE: &str = "attention.sliding_window";
    const PATTERN: &str = "attention.sliding_window_pattern";
    let size = keys.u32(SIZE)?.or(architecture.default_window).filter(|&size| size != 0);
    let Some(size) = size else { return Ok(None) };
    let every = match architecture.window {
        Window::Unknown if size >= context => return Ok(None),
        Window::Unknown => {
            let what = format!("{} = {size}", keys.full(SIZE));
            let supported = "which layers have the window is not known for this architecture";
            return Err(RuntimeError::unsupported(keys.metadata.path(), what, supported));
        }
        Window::All => None,
        Window::AllButEvery(every) => Some(every),
    };
    let full = keys.full(PATTERN);
    let sliding: Vec<bool> = match pattern(keys, &full)? {
        // Layers behind the last count, too.
        Some(Pattern::Each(mut sliding))
            if sliding.len() == layers as usize
                || Some(sliding.len() as u32) == keys.u32("block_count")? =>
        {
            sliding.truncate(layers as usize);
            sliding
        }
        Some(Pattern::Each(sliding)) => {
            let expected = format!("a truth value for each of {layers} layers");
            return Err(keys.metadata.wrong(&full, expected, sliding.len()));
        }
        Some(Pattern::AllButEvery(every)) => slides(layers, Some(every).filter(|&every| every != 0)),
        None => slides(layers, every),
    };
    let layers: Vec<u32> =
        (0..layers).zip(sliding).filter(|(_, slides)| *slides).map(|(layer, _)| layer).collect();
    Ok((!layers.is_empty()).then_some(SlidingWindow { size, layers }))
}

enum Pattern {
    Each(Vec<bool>),
    /// 0: all.
    AllButEvery(u32),
}

/// A number, or a flag for each layer, which some writers store as numbers.
fn pattern(keys: Keys<'_>, key: &str) -> Result<Option<Pattern>> {
    let metadata = keys.metadata;
    if let Ok(number) = metadata.u32(key) {
        return Ok(number.map(Pattern::AllButEvery));
    }
    match metadata.bools(key) {
        Ok(flags) => Ok(flags.map(Pattern::Each)),
        Err(_) => {
            let numbers = metadata.u32s(key)?;
            Ok(numbers.map(|numbers| Pattern::Each(numbers.iter().map(|&number| number != 0).collect())))
        }
    }
}

impl Architecture {
    /// The layers with a sliding window, where a file does not say which; `None` where it must.
    pub(super) fn default_layers(&self, layers: u32) -> Option<Vec<u32>> {
        let every = match self.window {
            Window::Unknown => return None,
            Window::All => None,
            Window::AllButEvery(every) => Some(every),
        };
        let sliding = (0..layers).zip(slides(layers, every));
        Some(sliding.filter(|(_, slides)| *slides).map(|(layer, _)| layer).collect())
    }
}

fn slides(layers: u32, all_but_every: Option<u32>) -> Vec<bool> {
    (0..layers).map(|layer| all_but_every.is_none_or(|every| (layer + 1) % every != 0)).collect()
}
