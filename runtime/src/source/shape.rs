//! Which tensors an architecture has and what shape each must have: the same rules for every kind of source.

use std::collections::HashSet;
use std::path::Path;

use qsf_format::{
    Activation, Experts, ModelConfig, NormKind, NormPlacement, PositionConfig, QkNorm, Recurrent,
    RecurrentMixer, Residual, TensorId, TensorKind,
};

use super::TensorInfo;
use crate::error::{Result, RuntimeError};

/// Rows and columns that the configuration demands of a tensor; vectors are one row. `None` for tensors that the
/// configured model does not use.
pub fn expected_shape(config: &ModelConfig, id: TensorId) -> Option<(usize, usize)> {
    use TensorKind::*;
    if id.layer.is_some() != id.kind.is_per_layer() || id.layer.is_some_and(|layer| layer >= config.layers) {
        return None;
    }
    let (hidden, ffn, vocab) =
        (config.hidden as usize, config.ffn_of(id.layer.unwrap_or(0)) as usize, config.vocab as usize);
    let layer = id.layer.unwrap_or(0);
    let shape = config.attention_shape(layer);
    let (q, head) = (config.heads as usize * config.query_dim(layer), config.query_dim(layer));
    let (kv, per_layer) = (shape.kv_heads * shape.key_dim, config.per_layer_embedding);
    let values = shape.kv_heads * shape.value_dim;
    let all_layers = |width: u32| config.layers as usize * width as usize;
    let (heads, latent) = (config.heads as usize, config.latent);
    let (streams, laurel) = (config.streams.map(|streams| streams as usize), config.laurel);
    let experts = id.layer.and_then(|layer| config.experts(layer));
    let recurrent = id.layer.and_then(|layer| config.recurrent(layer));
    let parts = Parts {
        mixer: id.layer.is_some_and(|layer| config.has_mixer(layer)),
        attention: id.layer.is_some_and(|layer| config.has_attention(layer)),
        feed_forward: id.layer.is_some_and(|layer| config.has_feed_forward(layer)),
        experts,
        placement: config.placement(layer),
    };
    if !is_used(config, id.kind, parts) || !has_of_its_own(config, id) {
        return None;
    }
    let shared = experts.and_then(|experts| experts.shared);
    let of_head = matches!(config.qk_norm, Some(QkNorm::Head | QkNorm::RotatedHead));
    let all = |experts: &Experts, width: usize| experts.count as usize * width;
    Some(match id.kind {
        AttnQ => (q, latent.and_then(|latent| latent.q_rank).map_or(hidden, |rank| rank as usize)),
        AttnQDown => (latent?.q_rank? as usize, hidden),
        AttnKvDown => ((latent?.shared_dim + latent?.kv_rank) as usize, hidden),
        AttnKUp => (heads * latent?.kv_rank as usize, head - latent?.shared_dim as usize),
        AttnVUp => (heads * latent?.value_dim as usize, latent?.kv_rank as usize),
        AttnK => (kv, hidden),
        AttnV => (values, hidden),
        AttnOutput => (hidden, config.output_cols(layer)),
        FfnGate | FfnUp => (ffn, hidden),
        FfnDown => (hidden, ffn),
        AttnNorm | FfnNorm | AttnNormBias | FfnNormBias | PostAttnNorm | PostFfnNorm | AttnOutputBias
        | FfnDownBias | FinalNorm | FinalNormBias | EmbeddingNorm | EmbeddingNormBias => (1, hidden),
        AttnQBias => (1, q),
        AttnSubNorm => (1, config.output_cols(layer)),
        FfnSubNorm => (1, ffn),
        AttnKBias => (1, kv),
        AttnVBias => (1, values),
        QNorm if latent.is_some() => (1, latent?.q_rank? as usize),
        KNorm if latent.is_some() => (1, latent?.kv_rank as usize),
        QNorm => (1, if of_head { head } else { q }),
        KNorm => (1, if of_head { head } else { kv }),
        FfnGateBias | FfnUpBias => (1, ffn),
        Router => (experts?.count as usize, hidden),
        RouterBias | RouterChoiceBias => (1, experts?.count as usize),
        ExpertGateBias | ExpertUpBias => (1, all(experts?, experts?.ffn as usize)),
        ExpertDownBias => (1, all(experts?, hidden)),
        SharedGate | SharedUp => (shared?.ffn as usize, hidden),
        SharedDown => (hidden, shared?.ffn as usize),
        SharedRouter => (1, hidden),
        ExpertGate | ExpertUp => (all(experts?, experts?.ffn as usize), hidden),
        ExpertDown => (all(experts?, hidden), experts?.ffn as usize),
        Head | TokenEmbedding => (vocab, hidden),
        HeadBias => (1, vocab),
        PerLayerGate => (per_layer?.width as usize, hidden),
        PerLayerUp => (hidden, per_layer?.width as usize),
        PerLayerNorm => (1, hidden),
        LayerScale => (1, 1),
        StreamProjection | StreamReturn => ((streams? - 1) * hidden, hidden),
        StreamRouter => (1, streams? * hidden),
        StreamPrediction => (1, streams?.pow(3)),
        StreamCorrection => (1, streams?.pow(2)),
        StreamRouterNorm | StreamScale | LaurelNorm => (1, hidden),
        LaurelDown => (laurel? as usize, hidden),
        LaurelUp => (hidden, laurel? as usize),
        RouterNorm | ExpertNorm | PostSideNorm | PostExpertNorm => (1, hidden),
        ExpertScale => (1, experts?.count as usize),
        PerLayerEmbedding => (per_layer?.vocab as usize, all_layers(per_layer?.width)),
        PerLayerProjection => (all_layers(per_layer?.width), hidden),
        PerLayerProjectionNorm => (1, per_layer?.width as usize),
        Positions => (config.max_positions as usize, hidden),
        AttnSinks => (1, config.heads as usize),
        FfnActAbove | FfnActBelow => (1, 1),
        AttnGate => (q, hidden),
        MixerIn | MixerGate | MixerStep | MixerBeta | MixerOutput | MixerConv | MixerConvBias
        | MixerDecay | MixerStepBias | MixerSkip | MixerNorm | MixerInBias | MixerOutputBias
        | MixerSelect | MixerStepUp | MixerStepNorm | MixerBNorm | MixerCNorm | MixerGateDown => {
            mixer_shape(recurrent?, id.kind, hidden)?
        }
        FfnBiases | RopeFactors => return None,
    })
}

/// The shape of a tensor of a recurrent mixer; `None` where it has no such tensor.
fn mixer_shape(recurrent: &Recurrent, kind: TensorKind, hidden: usize) -> Option<(usize, usize)> {
    use TensorKind::*;
    let (inputs, outputs) = (recurrent.input_rows(hidden), recurrent.output_columns(hidden));
    let (channels, taps, heads) = (recurrent.channels(hidden), recurrent.taps as usize, recurrent.heads());
    if let RecurrentMixer::Mamba1 { width, state, rank, norm_gains, .. } = recurrent.mixer {
        let [width, state, rank] = [width, state, rank].map(|n| n as usize);
        match kind {
            MixerGate => return Some((width, hidden)),
            MixerSelect => return Some((rank + 2 * state, width)),
            MixerStepUp => return Some((width, rank)),
            MixerDecay => return Some((1, width * state)),
            MixerStepBias | MixerSkip | MixerConvBias => return Some((1, width)),
            MixerStepNorm if norm_gains => return Some((1, rank)),
            MixerBNorm | MixerCNorm if norm_gains => return Some((1, state)),
            _ => {}
        }
    }
    if let Some(rank) = recurrent.channel_rank {
        let (rank, steps) = (rank as usize, recurrent.steps());
        match kind {
            MixerStep | MixerGateDown => return Some((rank, hidden)),
            MixerStepUp => return Some((steps, rank)),
            MixerGate => return Some((outputs, rank)),
            MixerStepBias => return Some((1, steps)),
            _ => {}
        }
    }
    match (recurrent.mixer, kind) {
        (_, MixerIn) => Some((inputs, hidden)),
        (_, MixerOutput) => Some((hidden, outputs)),
        (_, MixerConv) => Some((1, channels * taps)),
        (RecurrentMixer::GatedDelta { .. } | RecurrentMixer::Mamba2 { .. }, MixerGate) => {
            Some((outputs, hidden))
        }
        (RecurrentMixer::GatedDelta { .. } | RecurrentMixer::Mamba2 { .. }, MixerStep) => {
            Some((heads, hidden))
        }
        (RecurrentMixer::GatedDelta { .. } | RecurrentMixer::Mamba2 { .. }, MixerDecay | MixerStepBias) => {
            Some((1, heads))
        }
        (RecurrentMixer::GatedDelta { .. }, MixerBeta) => Some((heads, hidden)),
        (RecurrentMixer::GatedDelta { value_dim, .. }, MixerNorm) => Some((1, value_dim as usize)),
        (RecurrentMixer::Mamba2 { .. }, MixerSkip) => Some((1, heads)),
        (RecurrentMixer::Mamba2 { .. }, MixerNorm) if recurrent.without_norm => None,
        (RecurrentMixer::Mamba2 { .. }, MixerNorm) => Some((1, outputs)),
        (RecurrentMixer::Mamba2 { .. }, MixerConvBias) => Some((1, channels)),
        (RecurrentMixer::ShortConv {}, MixerConvBias) => Some((1, channels)),
        (RecurrentMixer::ShortConv {}, MixerInBias) => Some((1, inputs)),
        (RecurrentMixer::ShortConv {}, MixerOutputBias) => Some((1, hidden)),
        _ => None,
    }
}

/// What a layer consists of.
#[derive(Clone, Copy)]
struct Parts<'a> {
    mixer: bool,
    attention: bool,
    feed_forward: bool,
    experts: Option<&'a Experts>,
    placement: NormPlacement,
}

/// Whether a layer has keys and values of its own, and scores without a value, where the tensor is for them.
fn has_of_its_own(config: &ModelConfig, id: TensorId) -> bool {
    use TensorKind::*;
    let Some(layer) = id.layer else { return true };
    match id.kind {
        AttnV | AttnVBias if config.full_attention_of(layer).is_some_and(|full| full.keys_are_values) => {
            false
        }
        AttnK | AttnKBias | AttnV | AttnVBias | KNorm => config.kv_source(layer) == layer,
        AttnSinks if config.window_sinks => config.window(layer).is_some(),
        _ => true,
    }
}

/// Whether the configuration leaves room for a tensor, in a layer of these parts.
fn is_used(config: &ModelConfig, kind: TensorKind, parts: Parts<'_>) -> bool {
    use TensorKind::*;
    // Every field that decides which tensors there are: whoever adds one says what it adds, or that it adds none.
    let &ModelConfig {
        norm,
        activation,
        attention_sinks,
        sub_norms,
        gated_ffn,
        tied_head,
        residual,
        qk_norm,
        latent,
        per_layer_embedding,
        layer_scale,
        streams,
        laurel,
        // Which layers have some of them: `has_of_its_own`.
        full_attention: _,
        shared_kv: _,
        window_sinks: _,
        value_norm: _,
        embedding_norm,
        attention_gate,
        // How many layers and experts there are, and the widths of their tensors: `expected_shape`.
        layers: _,
        hidden: _,
        heads: _,
        kv_heads: _,
        head_dim: _,
        ffn: _,
        vocab: _,
        max_positions: _,
        value_heads: _,
        experts: _,
        // Which layers have them: `expected_shape`.
        recurrent: _,
        half_layers: _,
        // Learned positions may be there without being used: `is_required`.
        position: _,
        // Numbers and choices of the arithmetic, which need no tensor.
        attention_scale: _,
        attention_softcap: _,
        logit_softcap: _,
        embedding_scale: _,
        residual_scale: _,
        logit_scale: _,
        qkv_clip: _,
        multipliers: _,
        query_growth: _,
        gate_clip: _,
        gate_sparsity: _,
        sliding_window: _,
        window_chunks: _,
        // What says nothing of weights.
        architecture: _,
        bos: _,
        stop_tokens: _,
        pad: _,
    } = config;
    let Parts { mixer, attention, feed_forward, experts, placement } = parts;
    let shared = experts.and_then(|experts| experts.shared);
    let beside = experts.is_some_and(|experts| experts.beside_ffn);
    let layer_norm = norm.kind == NormKind::LayerNorm;
    match kind {
        AttnQ | AttnOutput | AttnOutputBias => attention,
        AttnGate => attention && attention_gate,
        FfnGate | FfnGateBias => gated_ffn && feed_forward && (experts.is_none() || beside),
        FfnUp | FfnUpBias | FfnDown | FfnDownBias => feed_forward && (experts.is_none() || beside),
        RouterNorm | ExpertNorm | PostSideNorm | PostExpertNorm | ExpertScale => beside,
        Router | RouterBias | ExpertUp | ExpertUpBias | ExpertDown | ExpertDownBias => experts.is_some(),
        ExpertGate | ExpertGateBias => gated_ffn && experts.is_some(),
        RouterChoiceBias => experts.is_some_and(|experts| experts.choice_bias),
        SharedGate => gated_ffn && shared.is_some(),
        SharedUp | SharedDown => shared.is_some(),
        SharedRouter => shared.is_some_and(|shared| shared.gated),
        FfnActAbove | FfnActBelow => feed_forward && activation == Activation::Xielu,
        AttnSinks => attention && attention_sinks,
        AttnSubNorm => attention && sub_norms,
        FfnSubNorm => feed_forward && sub_norms,
        AttnNorm | AttnNormBias | FfnNorm | FfnNormBias | PostAttnNorm | PostFfnNorm | FinalNorm
        | FinalNormBias
            if norm.without_gain =>
        {
            false
        }
        AttnNorm => mixer && placement.has_pre(),
        AttnNormBias => mixer && placement.has_pre() && layer_norm,
        FfnNorm => feed_forward && placement.has_pre() && residual != Residual::ParallelOneNorm,
        FfnNormBias => {
            feed_forward && placement.has_pre() && layer_norm && residual != Residual::ParallelOneNorm
        }
        PostAttnNorm | PostFfnNorm => placement.has_post(),
        AttnK | AttnV | AttnKBias | AttnVBias | AttnQBias => attention && latent.is_none(),
        AttnKvDown | AttnKUp | AttnVUp => attention && latent.is_some(),
        PerLayerGate
        | PerLayerUp
        | PerLayerNorm
        | PerLayerEmbedding
        | PerLayerProjection
        | PerLayerProjectionNorm => per_layer_embedding.is_some(),
        LayerScale => layer_scale,
        StreamProjection | StreamReturn | StreamRouter | StreamRouterNorm | StreamPrediction
        | StreamCorrection | StreamScale => streams.is_some(),
        LaurelDown | LaurelUp | LaurelNorm => laurel.is_some(),
        AttnQDown => attention && latent.is_some_and(|latent| latent.q_rank.is_some()),
        QNorm | KNorm if qk_norm == Some(QkNorm::RotatedHeadPlain) => false,
        QNorm => attention && (qk_norm.is_some() || latent.is_some_and(|latent| latent.q_rank.is_some())),
        KNorm => attention && (qk_norm.is_some() || latent.is_some()),
        FinalNormBias => layer_norm,
        EmbeddingNorm => embedding_norm,
        EmbeddingNormBias => embedding_norm && layer_norm,
        Head => !tied_head,
        _ => true,
    }
}

/// Whether the configured model cannot run without this tensor, of those that it uses.
pub fn is_required(config: &ModelConfig, id: TensorId) -> bool {
    use TensorKind::*;
    match id.kind {
        AttnQBias | AttnKBias | AttnVBias | AttnOutputBias | FfnGateBias | FfnUpBias | FfnDownBias
        | RouterBias | ExpertGateBias | ExpertUpBias | ExpertDownBias | HeadBias | MixerConvBias
        | MixerInBias | MixerOutputBias => false,
        // Some models have norms without bias (Cohere, MPT).
        AttnNormBias | FfnNormBias | FinalNormBias | EmbeddingNormBias => false,
        // A rotary model that brings a table of positions all the same does not use it (SPEC.md section 7.5).
        Positions => config.position == (PositionConfig::Learned {}),
        _ => expected_shape(config, id).is_some(),
    }
}

/// The kinds of tensors that `layer` (`None`: the model as a whole) uses, by id.
pub fn used_kinds(config: &ModelConfig, layer: Option<u32>) -> impl Iterator<Item = TensorId> {
    let of_model = layer.is_none();
    TensorKind::ALL
        .iter()
        .filter(move |kind| kind.is_per_layer() != of_model)
        .map(move |&kind| TensorId { layer, kind })
        .filter(move |&id| expected_shape(config, id).is_some())
}

/// The tensors without which the configured model cannot run.
pub fn required_tensors(config: &ModelConfig) -> impl Iterator<Item = TensorId> {
    let layers = (0..config.layers).map(Some);
    [None]
        .into_iter()
        .chain(layers)
        .flat_map(|layer| used_kinds(config, layer))
        .filter(|&id| is_required(config, id))
}

/// Checks that `found` has every tensor that the model needs, in its shape, and none that the decoder would not use.
///
/// # Errors
/// The first tensor that is missing, of another shape or unused.
pub fn check_complete(path: &Path, config: &ModelConfig, found: &[TensorInfo]) -> Result<()> {
    let ids: HashSet<TensorId> = found.iter().map(|info| info.id).collect();
    if let Some(missing) = required_tensors(config).find(|id| !ids.contains(id)) {
        return Err(RuntimeError::bad_input(path, missing.to_string(), "this tensor", "none"));
    }
    for info in found {
        let Some(expected) = expected_shape(config, info.id) else {
            return Err(RuntimeError::Unsupported {
                path: path.to_owned(),
                what: format!("tensor {}", info.name),
                supported: "a model of this configuration would not use it, and compute something else"
                    .into(),
            });
        };
        if expected != (info.rows, info.cols) {
            return Err(RuntimeError::bad_input(
                path,
                format!("tensor {}", info.name),
                format!("{} x {}", expected.0, expected.1),
                format!("{} x {}", info.rows, info.cols),
            ));
        }
    }
    Ok(())
}
