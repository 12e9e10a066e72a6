//! The way back: tensors as a model directory has them, made of those of the model. What is read by a rule is written by it.

use std::collections::HashSet;
use std::ops::Range;

use qsf_cpu::Isa;
use qsf_format::{ModelConfig, QkNorm, TensorId, TensorKind};
use rayon::prelude::*;

use super::assemble::StoredPart;
use super::measure::Measured;
use super::place::pieces_of;
use super::table::{Form, NameRule, NameTable};
use crate::source::TensorInfo;
use crate::tensor::Tensor;

/// Values that are handed on together.
const VALUES_PER_RUN: usize = 1 << 20;

/// What tensors are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SavedNames<'a> {
    pub table: &'a NameTable,
    /// In front of every name but that of the output head.
    pub prefix: &'a str,
}

/// A tensor that is to be written.
#[derive(Debug, Clone)]
pub struct SavedTensor {
    /// Its name.
    pub name: String,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    parts: Vec<Part>,
    cols: usize,
}

/// What it holds of a tensor of the model.
#[derive(Debug, Clone)]
struct Part {
    id: TensorId,
    /// These rows: those of an expert, or all.
    rows: Range<usize>,
    place: StoredPart,
    /// What stands there instead of its values.
    constant: Option<f32>,
}

/// The tensors of a file with those of a model, in the order of the first of `tensors` that each holds.
///
/// # Errors
/// The first tensor that there is no name for.
pub(crate) fn saved_tensors(
    names: SavedNames<'_>,
    config: &ModelConfig,
    tensors: &[TensorInfo],
) -> Result<Vec<SavedTensor>, TensorId> {
    let there: HashSet<TensorId> = tensors.iter().map(|info| info.id).collect();
    let mut done = HashSet::new();
    let mut saved = Vec::new();
    for info in tensors {
        let id = info.id;
        if done.contains(&id) {
            continue;
        }
        let suits = |rule: &&NameRule| {
            let all = rule.kinds.iter().map(|&kind| TensorId { layer: id.layer, kind });
            rule.kinds.contains(&id.kind)
                && all.into_iter().all(|id| there.contains(&id) && !done.contains(&id))
                && is_named_so(rule, id, &there)
                && rule.suits(config)
        };
        // The first is the one that transformers writes itself, or has written for longest.
        let rule = names.table.rules.iter().find(suits).ok_or(id)?;
        let tensors = match rule.form {
            Form::Piece => pieces(names, config, rule, info),
            _ => of_rule(names, config, rule, id.layer),
        };
        saved.extend(tensors.ok_or(id)?);
        done.extend(rule.kinds.iter().map(|&kind| TensorId { layer: id.layer, kind }));
    }
    Ok(saved)
}

/// Queries that are made of latents have a name of their own, in the tables of models that can do without.
fn is_named_so(rule: &NameRule, id: TensorId, there: &HashSet<TensorId>) -> bool {
    let latents = there.contains(&TensorId { kind: TensorKind::AttnQDown, ..id });
    let of_latents = rule.name.ends_with("q_b_proj.weight");
    rule.kinds != [TensorKind::AttnQ] || !of_latents || latents
}

fn of_rule(
    names: SavedNames<'_>,
    config: &ModelConfig,
    rule: &NameRule,
    layer: Option<u32>,
) -> Option<Vec<SavedTensor>> {
    let measured = Measured::of(config, rule, layer)?;
    let bare = matches!(rule.kinds, [TensorKind::Head | TensorKind::HeadBias]);
    let prefix = if bare { "" } else { names.prefix };
    let layer_number = layer.map_or_else(String::new, |layer| layer.to_string());
    let name = format!("{prefix}{}", rule.name.replace("{}", &layer_number));
    let places = measured.places();
    let count = if measured.one_by_one { measured.experts } else { 1 };
    let of_expert = |e: usize| {
        let parts =
            measured.ids.iter().zip(&measured.parts).zip(&places).map(|((&id, &(rows, _)), place)| {
                let rows = rows / count;
                let place = place.stored_part(rule.form, config, id.kind)?;
                Some(Part { id, rows: e * rows..(e + 1) * rows, place, constant: None })
            });
        Some(SavedTensor {
            name: name.replace("{e}", &e.to_string()),
            shape: shape(&name, &measured, config),
            parts: parts.collect::<Option<_>>()?,
            cols: measured.parts[0].1,
        })
    };
    (0..count).map(of_expert).collect()
}

/// The tensors that one of the model is written as.
fn pieces(
    names: SavedNames<'_>,
    config: &ModelConfig,
    rule: &NameRule,
    info: &TensorInfo,
) -> Option<Vec<SavedTensor>> {
    let id = info.id;
    let rules =
        names.table.rules.iter().filter(|other| other.form == Form::Piece && other.kinds == rule.kinds);
    let layer = id.layer.map_or_else(String::new, |layer| layer.to_string());
    let one = |(rule, outputs): (&NameRule, Range<usize>)| {
        let (rows, place, shape) = if id.kind.is_matrix() {
            let shape = vec![outputs.len(), info.cols];
            (outputs, StoredPart::From(0), shape)
        } else {
            let taps = config.recurrent.as_ref().map_or(1, |recurrent| recurrent.taps.max(1) as usize);
            let shape = vec![outputs.len() / taps, 1, taps];
            (0..1, StoredPart::Piece(outputs.start), shape)
        };
        let name = format!("{}{}", names.prefix, rule.name.replace("{}", &layer));
        SavedTensor { name, shape, parts: vec![Part { id, rows, place, constant: None }], cols: info.cols }
    };
    Some(rules.zip(pieces_of(config, id.kind)?).map(one).collect())
}

/// Of the shapes that a tensor may have, the one that transformers gives it.
fn shape(name: &str, measured: &Measured, config: &ModelConfig) -> Vec<usize> {
    use TensorKind::*;
    let values: usize = measured.shapes[0].iter().product();
    let table = |rows: usize| vec![rows, values / rows.max(1)];
    let (kind, layer) = (measured.ids[0].kind, measured.ids[0].layer.unwrap_or(0));
    match kind {
        SharedRouter => table(1),
        MixerDecay if config.recurrent.as_ref().is_some_and(|r| r.channel_rank.is_some()) => {
            vec![1, 1, values, 1]
        }
        StreamRouter => table(config.streams.unwrap_or(1) as usize),
        StreamPrediction => table(config.streams.unwrap_or(1).pow(2) as usize),
        StreamCorrection => table(config.streams.unwrap_or(1) as usize),
        RouterChoiceBias if name.contains("moe_statics") => table(1),
        QNorm if config.qk_norm == Some(QkNorm::HeadsApart) => table(config.heads as usize),
        KNorm if config.qk_norm == Some(QkNorm::HeadsApart) => table(config.kv_heads as usize),
        ExpertGateBias | ExpertUpBias | ExpertDownBias => {
            table(config.experts(layer).map_or(1, |experts| experts.count as usize))
        }
        ExpertGate | ExpertUp | ExpertDown if !measured.one_by_one => {
            measured.shapes.last().cloned().unwrap_or_default()
        }
        _ => measured.shapes[0].clone(),
    }
}

impl SavedTensor {
    /// The tensors of the model that it is made of.
    pub fn parts(&self) -> impl Iterator<Item = TensorId> {
        self.parts.iter().map(|part| part.id)
    }

    /// Whether its rows are those of one tensor, in their order: they can be written as they come.
    pub fn is_plain(&self) -> bool {
        matches!(&self.parts[..], [part] if part.place == StoredPart::From(0) && part.constant.is_none())
    }

    /// Matrices of experts, in their order, as one tensor with a dimension more in front. `None` where they are not the rows of one
    /// tensor of the model, one expert behind the other.
    pub fn stacked(experts: &[SavedTensor], name: String) -> Option<SavedTensor> {
        let (first, last) = (experts.first()?, experts.last()?);
        let part_of = |tensor: &SavedTensor| match &tensor.parts[..] {
            [part] if tensor.is_plain() => Some((part.id, part.rows.clone())),
            _ => None,
        };
        let (id, rows) = part_of(first)?;
        let follow = experts.iter().enumerate().all(|(e, tensor)| {
            let place = rows.start + e * rows.len();
            tensor.shape == first.shape && part_of(tensor) == Some((id, place..place + rows.len()))
        });
        let rows = rows.start..part_of(last)?.1.end;
        let shape = [&[experts.len()], &first.shape[..]].concat();
        let parts = vec![Part { id, rows, place: StoredPart::From(0), constant: None }];
        follow.then_some(SavedTensor { name, shape, parts, cols: first.cols })
    }

    /// A number beside a tensor, under a name that ends otherwise.
    pub(crate) fn constant_beside(&self, end: &str, other: &str, value: f32) -> Option<SavedTensor> {
        let mut made = self.clone();
        made.name = format!("{}{other}", self.name.strip_suffix(end)?);
        made.shape = Vec::new();
        made.parts.iter_mut().for_each(|part| part.constant = Some(value));
        Some(made)
    }

    /// Values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Hands all values to `take`, in their order and some at a time; `tensors` has the parts.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn write<E>(
        &self,
        isa: Isa,
        tensors: &dyn Fn(TensorId) -> Option<Tensor>,
        take: &mut dyn FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let found = |part: &Part| Some(tensors(part.id)?.slice_rows(part.rows.clone()));
        let Some(parts) = self.parts.iter().map(found).collect::<Option<Vec<Tensor>>>() else {
            return Ok(());
        };
        if let Some(origins) = self.origins() {
            return self.row_by_row(isa, &parts, &origins, take);
        }
        self.whole(isa, &parts).chunks(VALUES_PER_RUN).try_for_each(take)
    }

    /// Of each of its rows the tensor of the model and the row there, where it is a matrix of whole rows of them. A row that means
    /// nothing has none.
    pub fn row_origins(&self) -> Option<Vec<Option<(TensorId, usize)>>> {
        let of_model = |(part, row): (usize, usize)| (self.parts[part].id, self.parts[part].rows.start + row);
        Some(self.origins()?.into_iter().map(|origin| origin.map(of_model)).collect())
    }

    /// The same with the number of the part, and the row within it.
    fn origins(&self) -> Option<Vec<Option<(usize, usize)>>> {
        let by_rows = |part: &Part| {
            matches!(part.place, StoredPart::From(_) | StoredPart::Ordered(_)) && part.constant.is_none()
        };
        if !self.parts[0].id.kind.is_matrix() || !self.parts.iter().all(by_rows) {
            return None;
        }
        let mut origins = vec![None; self.values() / self.cols.max(1)];
        for (of, part) in self.parts.iter().enumerate() {
            for row in 0..part.rows.len() {
                let stored = match part.place {
                    StoredPart::Ordered(order) => order.stored_row(row),
                    StoredPart::From(first) => first + row,
                    _ => row,
                };
                if let Some(place) = origins.get_mut(stored) {
                    *place = Some((of, row));
                }
            }
        }
        Some(origins)
    }

    /// Rows of the parts in the order of the file.
    fn row_by_row<E>(
        &self,
        isa: Isa,
        tensors: &[Tensor],
        origins: &[Option<(usize, usize)>],
        take: &mut dyn FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let cols = self.cols;
        let mut values = vec![0.0; cols * (VALUES_PER_RUN / cols.max(1)).clamp(1, origins.len().max(1))];
        for rows in origins.chunks(values.len() / cols.max(1)) {
            let values = &mut values[..rows.len() * cols];
            values.par_chunks_mut(cols.max(1)).zip(rows).for_each(|(out, row)| match row {
                Some((of, row)) => tensors[*of].decode_row(isa, *row, out),
                // Rows that mean nothing.
                None => out.fill(0.0),
            });
            take(values)?;
        }
        Ok(())
    }

    /// All values, of forms that turn matrices round or change values.
    fn whole(&self, isa: Isa, tensors: &[Tensor]) -> Vec<f32> {
        let mut out = vec![0.0; self.values()];
        for (part, tensor) in self.parts.iter().zip(tensors) {
            let (rows, cols) = (tensor.rows(), tensor.cols());
            let mut row = vec![0.0; cols];
            for r in 0..rows {
                tensor.decode_row(isa, r, &mut row);
                for (c, value) in row.iter().enumerate() {
                    let value = part.constant.unwrap_or(*value);
                    let (place, value) = match part.place {
                        StoredPart::MinusOne => (c, value + 1.0),
                        StoredPart::MinusExp => (c, f64::from(-value).ln() as f32),
                        place => (self.place_of(place, [rows, cols], [r, c]), value),
                    };
                    if let Some(out) = out.get_mut(place) {
                        *out = value;
                    }
                }
            }
        }
        out
    }

    /// Where a value of a part stands.
    fn place_of(&self, part: StoredPart, [rows, cols]: [usize; 2], [row, col]: [usize; 2]) -> usize {
        let is_vector = !self.parts[0].id.kind.is_matrix();
        match part {
            StoredPart::From(first) | StoredPart::Transposed(first) if is_vector => first + col,
            StoredPart::Ordered(order) if is_vector => order.stored_row(col),
            StoredPart::From(first) => (first + row) * cols + col,
            StoredPart::Ordered(order) => order.stored_row(row) * cols + col,
            StoredPart::Columns(order) => row * cols + order.stored_row(col),
            StoredPart::Transposed(first) => {
                let outputs = self.values() / cols;
                col * outputs + first + row
            }
            StoredPart::TransposedExperts { experts, first, step } => {
                let (of_part, of_all) = (rows / experts, self.values() / experts / cols);
                let (expert, output) = (row / of_part, row % of_part);
                (expert * cols + col) * of_all + first + output * step
            }
            StoredPart::RunsTransposed { stride, .. } => {
                // Of each run, the inputs are rows here.
                let inputs = self.shape.last().copied().unwrap_or(1);
                let (run, input) = (row / inputs, row % inputs);
                (run * stride + col) * inputs + input
            }
            // Values of other pieces are beyond the end.
            StoredPart::Piece(first) => col.wrapping_sub(first),
            StoredPart::MinusOne | StoredPart::MinusExp => col,
        }
    }
}
