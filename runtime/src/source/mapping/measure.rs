//! What the stored tensor of a rule is like in a layer: its shape, and where in it each kind is.

use qsf_format::{ModelConfig, RecurrentMixer, TensorId, TensorKind};

use super::place::{Place, latent_rows};
use super::table::{Form, NameRule};
use crate::source::shape::expected_shape;

/// The stored tensor of a rule, or one of its tensors where each expert has one.
pub(super) struct Measured {
    /// What it holds.
    pub ids: Vec<TensorId>,
    /// Rows and columns of each of these in the model.
    pub parts: Vec<(usize, usize)>,
    /// Experts of the layer; 1 where it is no tensor of theirs.
    pub experts: usize,
    /// Whether each expert has a tensor.
    pub one_by_one: bool,
    /// Whether it is a vector.
    pub is_vector: bool,
    /// Dimensions that it may have, slowest first.
    pub shapes: Vec<Vec<usize>>,
    /// Outputs of all kinds: values of a vector, rows of a matrix; of one expert where they come one by one.
    all: usize,
    /// Tensors, or parts of one, that outputs are shared among.
    groups: usize,
}

impl Measured {
    /// `None` where a model of this configuration has no such tensor.
    pub fn of(config: &ModelConfig, rule: &NameRule, layer: Option<u32>) -> Option<Measured> {
        let is_expert = is_of_experts(rule.kinds[0]);
        let experts = layer.and_then(|layer| config.experts(layer)).filter(|_| is_expert);
        let experts = experts.map_or(1, |experts| experts.count) as usize;
        let ids: Vec<TensorId> = rule.kinds.iter().map(|&kind| TensorId { layer, kind }).collect();
        let parts = ids.iter().map(|&id| expected_shape(config, id)).collect::<Option<Vec<_>>>()?;
        let one_by_one = rule.name.contains("{e}");
        let expert_by_expert =
            matches!(rule.form, Form::ExpertByExpert | Form::TransposedExperts | Form::TransposedRowByRow);
        let groups = if one_by_one || expert_by_expert { experts } else { 1 };
        let is_vector = !rule.kinds[0].is_matrix();
        let latents = rule.form == Form::KeysAndValuesOfLatents;
        let all = match latents {
            true => latent_rows(config),
            false => parts.iter().map(|shape| outputs(*shape, is_vector, groups)).sum(),
        };
        // What makes keys is turned round when it is loaded.
        let inputs = if latents { parts.get(1)?.1 } else { parts[0].1 };
        let together = (is_expert && !one_by_one).then_some(experts);
        let taps = config.recurrent.as_ref().map_or(1, |recurrent| recurrent.taps.max(1) as usize);
        let shapes = match rule.form {
            Form::Filters => vec![vec![all / taps, 1, taps], vec![all / taps, taps]],
            // Channels x values of their states.
            _ if rule.kinds == [TensorKind::MixerDecay] => match config.recurrent.as_ref().map(|r| r.mixer) {
                Some(RecurrentMixer::Mamba1 { width, .. }) if width > 0 => {
                    vec![vec![width as usize, all / width as usize]]
                }
                _ => vec![vec![all]],
            },
            Form::TiledHeads if rule.kinds == [TensorKind::MixerConv] => vec![vec![all / taps, taps]],
            // Heads may have a dimension of their own.
            Form::Rows if matches!(rule.kinds, [TensorKind::AttnKUp | TensorKind::AttnVUp]) => {
                let heads = config.heads.max(1) as usize;
                vec![vec![heads, all / heads, inputs], vec![all, inputs]]
            }
            // So may streams.
            Form::Rows if matches!(rule.kinds, [TensorKind::StreamProjection | TensorKind::StreamReturn]) => {
                let others = config.streams.map_or(1, |streams| streams.saturating_sub(1).max(1) as usize);
                vec![vec![others, all / others, inputs], vec![all, inputs]]
            }
            form => expected_shapes(form, is_vector, together, all, inputs),
        };
        Some(Measured { ids, parts, experts, one_by_one, is_vector, shapes, all, groups })
    }

    /// Where each kind is.
    pub fn places(&self) -> Vec<Place> {
        let mut first = 0;
        let place = |(kind, &shape): (usize, &(usize, usize))| {
            let len = outputs(shape, self.is_vector, self.groups);
            let Measured { all, experts, .. } = *self;
            let place = Place { first, len, all, kind, kinds: self.parts.len(), experts };
            first += len;
            place
        };
        self.parts.iter().enumerate().map(place).collect()
    }
}

/// Whether a layer has as many of a kind as it has experts.
pub(super) fn is_of_experts(kind: TensorKind) -> bool {
    matches!(kind, TensorKind::ExpertGate | TensorKind::ExpertUp | TensorKind::ExpertDown)
}

fn outputs((rows, cols): (usize, usize), is_vector: bool, groups: usize) -> usize {
    if is_vector { cols } else { rows / groups }
}

/// The dimensions that a stored tensor may have, slowest first. `together`: how many experts are in one tensor.
fn expected_shapes(
    form: Form,
    is_vector: bool,
    together: Option<usize>,
    outputs: usize,
    inputs: usize,
) -> Vec<Vec<usize>> {
    match form {
        _ if is_vector => vec![vec![outputs]],
        Form::Transposed => vec![vec![inputs, outputs]],
        Form::Skip(rows) => vec![vec![outputs + rows, inputs]],
        Form::ExpertByExpert => vec![vec![together.unwrap_or(1), outputs, inputs]],
        Form::TransposedExperts | Form::TransposedRowByRow => {
            vec![vec![together.unwrap_or(1), inputs, outputs]]
        }
        _ => match together {
            // Experts one below another have a dimension of their own in most files.
            Some(experts) => vec![vec![outputs, inputs], vec![experts, outputs / experts, inputs]],
            None => vec![vec![outputs, inputs]],
        },
    }
}
