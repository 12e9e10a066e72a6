//! Where one of the kinds that a stored tensor holds is in it.

use qsf_format::{ModelConfig, PositionConfig, RecurrentMixer, TensorId, TensorKind};

use super::assemble::StoredPart;
use super::table::{Form, NameRule};
use crate::source::shape::expected_shape;
use crate::source::{RowOrder, SHARDS};

/// Where one of the kinds that a stored tensor holds is in it.
pub(super) struct Place {
    /// Outputs before it, of all kinds, where they stand one below another.
    pub first: usize,
    /// Its outputs; of one expert, where these alternate.
    pub len: usize,
    /// Those of all kinds.
    pub all: usize,
    /// Which of the kinds it is, and how many there are.
    pub kind: usize,
    pub kinds: usize,
    /// Experts of the layer, where it is one of theirs.
    pub experts: usize,
}

impl Place {
    /// `None` where the model has no tensors of this form.
    pub fn stored_part(&self, form: Form, config: &ModelConfig, kind: TensorKind) -> Option<StoredPart> {
        let &Place { first, len, all, kind: i, kinds, experts } = self;
        let head_dim = config.head_dim as usize;
        Some(match form {
            Form::Rows => StoredPart::From(first),
            Form::Skip(skipped) => StoredPart::From(skipped + first),
            Form::Transposed => StoredPart::Transposed(first),
            Form::HeadByHead => StoredPart::Ordered(RowOrder::Strided {
                first: i * head_dim,
                run: head_dim,
                stride: kinds * head_dim,
            }),
            Form::GroupByGroup => {
                let (groups, head_dim) = (config.kv_heads as usize, head_dim);
                let runs = [head_dim * (config.heads / config.kv_heads) as usize, head_dim, head_dim, 0];
                StoredPart::Ordered(RowOrder::Sections { runs, first: i, groups })
            }
            Form::Sharded => {
                let rotated = if kind == TensorKind::AttnV { 0 } else { rotated_dims(config) };
                StoredPart::Ordered(RowOrder::Sharded { run: len / SHARDS, section: i, head_dim, rotated })
            }
            Form::ExpertByExpert => StoredPart::Ordered(RowOrder::Strided { first, run: len, stride: all }),
            Form::RowByRow => StoredPart::Ordered(RowOrder::Strided { first: i, run: 1, stride: kinds }),
            Form::TransposedExperts => StoredPart::TransposedExperts { experts, first, step: 1 },
            Form::TransposedRowByRow => StoredPart::TransposedExperts { experts, first: i, step: kinds },
            // Values are not rotated.
            Form::NeighbouringPairs | Form::WholeHeadPairs
                if matches!(kind, TensorKind::AttnV | TensorKind::AttnVBias) =>
            {
                StoredPart::From(first)
            }
            Form::NeighbouringPairs => {
                let rotated = rotated_dims(config);
                StoredPart::Ordered(RowOrder::Interleaved { first, head_dim, rotated })
            }
            Form::WholeHeadPairs => {
                StoredPart::Ordered(RowOrder::Interleaved { first, head_dim, rotated: head_dim })
            }
            Form::RotatedLast => rotated_last(config, kind, false),
            Form::RotatedLastPairs => rotated_last(config, kind, true),
            Form::KeysAndValuesOfLatents => keys_or_values(config, kind),
            Form::KeyHeadByKeyHead => StoredPart::Ordered(key_head_by_key_head(config, kind, i)?),
            Form::TiledHeads => tiled_heads(config, kind)?,
            Form::Filters => StoredPart::From(first),
            // Which part of the tensor it is depends on the others.
            Form::Piece => return None,
            Form::PlusOne => StoredPart::MinusOne,
            Form::MinusExp => StoredPart::MinusExp,
        })
    }
}

/// How each kind of a rule lies in its tensor of `layer`; `None` where the model has not all of them. Not for rules of single experts.
pub(in crate::source) fn parts_of(
    rule: &NameRule,
    config: &ModelConfig,
    layer: Option<u32>,
) -> Option<Vec<StoredPart>> {
    let outputs = |&kind: &TensorKind| {
        let (rows, cols) = expected_shape(config, TensorId { layer, kind })?;
        Some(if kind.is_matrix() { rows } else { cols })
    };
    let lens: Vec<usize> = rule.kinds.iter().map(outputs).collect::<Option<_>>()?;
    let (all, kinds, mut first) = (lens.iter().sum(), lens.len(), 0);
    let mut parts = Vec::with_capacity(kinds);
    for (i, (&kind, &len)) in rule.kinds.iter().zip(&lens).enumerate() {
        let experts =
            layer.and_then(|layer| config.experts(layer)).map_or(1, |experts| experts.count as usize);
        parts.push(Place { first, len, all, kind: i, kinds, experts }.stored_part(rule.form, config, kind)?);
        first += len;
    }
    Some(parts)
}

/// Rows of a matrix that makes keys and values of latents.
pub(super) fn latent_rows(config: &ModelConfig) -> usize {
    let value_dim = config.latent.map_or(0, |latent| latent.value_dim);
    config.heads as usize * (unrotated(config) + value_dim as usize)
}

/// Values of a head that are not rotated, where heads share the others.
fn unrotated(config: &ModelConfig) -> usize {
    (config.head_dim - config.latent.map_or(0, |latent| latent.shared_dim).min(config.head_dim)) as usize
}

fn rotated_last(config: &ModelConfig, kind: TensorKind, neighbours: bool) -> StoredPart {
    let rotated = config.latent.map_or(0, |latent| latent.shared_dim) as usize;
    let head_dim = match (kind, config.latent) {
        (TensorKind::AttnKvDown, Some(latent)) => (latent.kv_rank + latent.shared_dim) as usize,
        _ => config.head_dim as usize,
    };
    StoredPart::Ordered(RowOrder::RotatedLast { head_dim, rotated, neighbours })
}

fn keys_or_values(config: &ModelConfig, kind: TensorKind) -> StoredPart {
    let value_dim = config.latent.map_or(0, |latent| latent.value_dim) as usize;
    let (run, stride) = (unrotated(config), unrotated(config) + value_dim);
    match kind {
        TensorKind::AttnVUp => StoredPart::Ordered(RowOrder::Strided { first: run, run: value_dim, stride }),
        _ => StoredPart::RunsTransposed { run, stride },
    }
}

/// Where rows lie that alternate with the key heads of a gated delta rule: of queries, keys, values and gates, or of rates and
/// steps. `None` for other models.
fn key_head_by_key_head(config: &ModelConfig, kind: TensorKind, place: usize) -> Option<RowOrder> {
    let RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } =
        config.recurrent.as_ref()?.mixer
    else {
        return None;
    };
    let (groups, keys) = (key_heads as usize, key_dim as usize);
    let heads = (value_heads / key_heads) as usize;
    let values = heads * value_dim as usize;
    Some(match kind {
        TensorKind::MixerIn => RowOrder::Sections { runs: [keys, keys, values, values], first: 0, groups },
        TensorKind::MixerGate => RowOrder::Sections { runs: [keys, keys, values, values], first: 3, groups },
        _ => RowOrder::Sections { runs: [heads, heads, 0, 0], first: place, groups },
    })
}

/// Where value heads lie that stand one behind another for all key heads, the first of each first. `None` for other models.
fn tiled_heads(config: &ModelConfig, kind: TensorKind) -> Option<StoredPart> {
    let recurrent = config.recurrent.as_ref()?;
    let RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } = recurrent.mixer else {
        return None;
    };
    let (groups, heads) = (key_heads as usize, (value_heads / key_heads) as usize);
    let (keys, value_dim) = (2 * groups * key_dim as usize, value_dim as usize);
    if groups == 1 || heads == 1 {
        return Some(StoredPart::From(0));
    }
    let rows = |before, run| StoredPart::Ordered(RowOrder::Tiled { before, run, groups, heads });
    let taps = recurrent.taps as usize;
    Some(match kind {
        TensorKind::MixerIn => rows(keys, value_dim),
        TensorKind::MixerConv => rows(keys * taps, value_dim * taps),
        TensorKind::MixerGate => rows(0, value_dim),
        TensorKind::MixerOutput => {
            StoredPart::Columns(RowOrder::Tiled { before: 0, run: value_dim, groups, heads })
        }
        _ => rows(0, 1),
    })
}

/// The pieces that a tensor is written in, as outputs of it: queries, keys and values, or one for each stream. `None` where it has
/// none.
pub(super) fn pieces_of(config: &ModelConfig, kind: TensorKind) -> Option<Vec<std::ops::Range<usize>>> {
    if matches!(kind, TensorKind::StreamProjection | TensorKind::StreamReturn) {
        let (others, hidden) = (config.streams?.saturating_sub(1) as usize, config.hidden as usize);
        return Some((0..others).map(|i| i * hidden..(i + 1) * hidden).collect());
    }
    let recurrent = config.recurrent.as_ref()?;
    let RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } = recurrent.mixer else {
        return None;
    };
    let times = if kind == TensorKind::MixerConv { recurrent.taps as usize } else { 1 };
    let keys = key_heads as usize * key_dim as usize * times;
    let values = value_heads as usize * value_dim as usize * times;
    Some(vec![0..keys, keys..2 * keys, 2 * keys..2 * keys + values])
}

/// Values of each head that are rotated.
fn rotated_dims(config: &ModelConfig) -> usize {
    match config.position {
        PositionConfig::Rope { dims: Some(dims), .. } => dims as usize,
        _ => config.head_dim as usize,
    }
}
