//! Types for a size: the plan that does least damage among those whose file is small enough.

use std::collections::HashMap;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, FileParts, LAYER_ALIGN, Layout, ModelConfig, TensorId, TensorKind};

use super::allocate::{Choice, allocate};
use super::error::PlanError;
use super::layout::layout_of;
use super::planned::{Plan, PlannedTensor};
use super::stored_form::StoredForm;
use super::tensor_type::TensorType;

/// A tensor whose type is to be chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which tensor.
    pub id: TensorId,
    /// Tensors that are one with it in the file, and get the same form.
    pub with: Vec<TensorId>,
    /// How it may be stored and the damage that each form does, in any unit that adds up.
    pub options: Vec<(StoredForm, f64)>,
}

/// What decides the size of a file beside its plan.
#[derive(Debug, Clone, Copy)]
pub struct SizeModel<'a> {
    /// The model.
    pub config: &'a ModelConfig,
    /// Block size of the file.
    pub block: BlockSize,
    /// Order of the blocks.
    pub layout: Layout,
    /// Stored bytes of META, or somewhat more, and of the other sections that are not tensors; the header of a GGUF file; of a
    /// directory all but its groups.
    pub sections: &'a [u64],
    /// What the tensors are stored in.
    pub container: Container,
    /// Bytes that a directory has more for a tensor whose groups are not those of most weights.
    pub described: &'a HashMap<TensorId, u64>,
}

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// A QSF file.
    Qsf,
    /// A GGUF file.
    Gguf,
    /// A directory with matrices in groups.
    Groups,
}

impl SizeModel<'_> {
    /// Bytes of the file with this plan, not compressed.
    pub fn file_bytes(&self, plan: &Plan) -> u64 {
        let of_tensor = |t: &PlannedTensor| {
            let (rows, cols) = (t.info.rows as u64, t.info.cols as u64);
            t.quant.tensor_bytes(self.block, rows, cols)
        };
        let with_sections = |tensors: &mut dyn Iterator<Item = Option<u64>>| {
            let tensors = tensors.map(|bytes| bytes.unwrap_or(u64::MAX));
            tensors.chain(self.sections.iter().copied()).fold(0, u64::saturating_add)
        };
        match self.container {
            Container::Qsf => {}
            Container::Gguf => {
                let aligned = |bytes: u64| bytes.checked_next_multiple_of(GGUF_ALIGNMENT);
                return with_sections(&mut plan.tensors().iter().map(|t| of_tensor(t).and_then(aligned)));
            }
            Container::Groups => {
                let grouped = || plan.tensors().iter().filter(|t| !t.quant.is_float());
                let mut weights: HashMap<TensorType, u64> = HashMap::new();
                for t in grouped() {
                    *weights.entry(t.quant).or_default() += t.info.rows as u64 * t.info.cols as u64;
                }
                // Of two types with as many, whichever: names are about as long.
                let general =
                    weights.into_iter().max_by_key(|(ty, count)| (*count, ty.name())).map(|(ty, _)| ty);
                let bytes = |t: &PlannedTensor| {
                    let described = self.described.get(&t.info.id).filter(|_| Some(t.quant) != general);
                    of_tensor(t)?.checked_add(described.copied().unwrap_or(0))
                };
                return with_sections(&mut grouped().map(bytes));
            }
        }
        let mut parts = FileParts {
            layers: vec![Vec::new(); self.config.layers as usize],
            sections: self.sections.to_vec(),
            ..FileParts::default()
        };
        for tensor in plan.tensors() {
            let (rows, cols) = (tensor.info.rows as u64, tensor.info.cols as u64);
            let bytes_of =
                |quant: TensorType, rows: u64| quant.tensor_bytes(self.block, rows, cols).unwrap_or(u64::MAX);
            let rows = rows.saturating_sub(tensor.finer.rows());
            let bytes = bytes_of(tensor.quant, rows);
            // Parts from the second on are where the first is, and those of the embedding behind the layers.
            let others = tensor.finer.types().map(|(quant, rows)| bytes_of(quant.into(), rows.into()));
            match tensor.info.id.layer {
                Some(layer) => parts.layers[layer as usize].extend(others),
                None => parts.last.extend(others),
            }
            match (tensor.info.id.layer, tensor.info.id.kind) {
                (Some(layer), _) => parts.layers[layer as usize].push(bytes),
                (None, TensorKind::TokenEmbedding) => {
                    let layout = layout_of(self.layout, self.config, &tensor.info, tensor.quant);
                    parts.embedding = bytes;
                    parts.embedding_chunks = rows.div_ceil(rows_per_chunk(layout, bytes / rows.max(1)));
                }
                (None, TensorKind::Positions) => parts.positions = Some(bytes),
                (None, _) => parts.last.push(bytes),
            }
        }
        for section in [plan.outlier_bytes(), plan.row_part_bytes()] {
            parts.sections.extend((section > 0).then_some(section));
        }
        parts.file_bytes()
    }
}

/// Rows of the embedding that are stored together (SPEC.md section 7.3).
fn rows_per_chunk(layout: Layout, row_bytes: u64) -> u64 {
    let rows = (qsf_format::CHUNK_BYTES as u64 / row_bytes.max(1)).max(1);
    match layout {
        Layout::Rows => rows,
        Layout::Panels16 => (rows - rows % PANEL_ROWS as u64).max(PANEL_ROWS as u64),
    }
}

/// `plan` with the types of `candidates` chosen so that the file has at most `limit` bytes, and the sum of their damages.
///
/// # Errors
/// When even the smallest types make a larger file.
pub fn plan_for_size(
    plan: &Plan,
    candidates: &[Candidate],
    limit: u64,
    size: &SizeModel<'_>,
) -> Result<(Plan, f64), PlanError> {
    let of = |id: TensorId| plan.tensors().iter().find(|tensor| tensor.info.id == id);
    let items: Vec<Vec<Choice>> = candidates
        .iter()
        .map(|candidate| {
            let all = || [candidate.id].into_iter().chain(candidate.with.iter().copied()).filter_map(of);
            let one = |form: StoredForm, t: &PlannedTensor| {
                form.bytes(size.block, t.info.rows, t.info.cols).unwrap_or(u64::MAX)
            };
            let bytes = |form: StoredForm| all().map(|t| one(form, t)).fold(0, u64::saturating_add);
            let choice = |&(form, damage): &(StoredForm, f64)| Choice { bytes: bytes(form), damage };
            candidate.options.iter().map(choice).collect()
        })
        .collect();
    let with = |chosen: &[usize]| {
        let mut plan = plan.clone();
        for (candidate, &k) in candidates.iter().zip(chosen) {
            for id in std::iter::once(candidate.id).chain(candidate.with.iter().copied()) {
                plan.set(id, candidate.options[k].0);
            }
        }
        plan
    };
    let total = |chosen: &[usize]| items.iter().zip(chosen).map(|(item, k)| item[*k].bytes).sum::<u64>();
    let smallest: Vec<usize> =
        items.iter().map(|item| (0..item.len()).min_by_key(|k| item[*k].bytes).unwrap_or(0)).collect();
    let least = size.file_bytes(&with(&smallest));
    // What is not in the tensors that are chosen, alignment included; it changes a little with the choice.
    let mut budget = limit.saturating_add(total(&smallest)).checked_sub(least);
    let mut best: Option<(u64, Vec<usize>)> = None;
    for round in 0..MOST_ROUNDS {
        if round >= ROUNDS && best.is_some() {
            break;
        }
        let Some(chosen) = budget.and_then(|budget| allocate(&items, budget)) else { break };
        let bytes = size.file_bytes(&with(&chosen));
        if bytes <= limit {
            if best.as_ref().is_none_or(|(most, _)| bytes > *most) {
                best = Some((bytes, chosen));
            }
            budget = budget.map(|budget| budget.saturating_add(limit - bytes));
        } else {
            budget = budget.and_then(|budget| budget.checked_sub(bytes - limit));
        }
    }
    let mut chosen = match best {
        Some((_, chosen)) => chosen,
        None if least <= limit => smallest,
        None => return Err(PlanError::TooSmall { limit, least }),
    };
    // Alignment decides what still fits: of all better types for one tensor the one that avoids most damage per byte.
    loop {
        let mut better: Option<(f64, usize, usize)> = None;
        // What alignment can absorb at most of a tensor that grows.
        let left = (limit - size.file_bytes(&with(&chosen))).saturating_add(LAYER_ALIGN);
        for (i, item) in items.iter().enumerate() {
            let now = item[chosen[i]];
            for (k, other) in item.iter().enumerate().filter(|(_, other)| other.damage < now.damage) {
                if other.bytes > now.bytes.saturating_add(left) {
                    continue;
                }
                let gain = (now.damage - other.damage) / other.bytes.saturating_sub(now.bytes).max(1) as f64;
                let mut changed = chosen.clone();
                changed[i] = k;
                if better.is_none_or(|(most, ..)| gain > most) && size.file_bytes(&with(&changed)) <= limit {
                    better = Some((gain, i, k));
                }
            }
        }
        let Some((_, i, k)) = better else { break };
        chosen[i] = k;
    }
    let damage = items.iter().zip(&chosen).map(|(item, k)| item[*k].damage).sum();
    Ok((with(&chosen), damage))
}

/// Where the values of a tensor of a GGUF file may begin.
const GGUF_ALIGNMENT: u64 = 32;

/// Rounds of choosing types and looking at what alignment makes of the size.
const ROUNDS: usize = 6;
/// Rounds until one of the choices fits: where alignment takes more than was left for it, each takes a little less.
const MOST_ROUNDS: usize = 64;
