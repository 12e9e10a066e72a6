//! Which tensors a file has, in its order, and what of the model each holds.

use qsf_format::{ModelConfig, QkNorm, QuantType, RecurrentMixer, TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::WeightSource;
use qsf_runtime::source::gguf::{GgufForm, GgufName, GgufNames};

use super::arrange::columns_of_head;
use super::header::Entry;
use crate::error::{ConvertError, Result};
use crate::plan::{Plan, PlannedTensor, TensorType, experts_of};

/// A tensor of the file.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// What the header says of it.
    pub entry: Entry,
    /// What it holds, and how.
    pub parts: Vec<(TensorId, GgufForm)>,
}

/// The names of the tensors of a model.
///
/// # Errors
/// When llama.cpp's files have no word for the architecture.
pub(crate) fn names_of(source: &dyn WeightSource) -> Result<GgufNames> {
    let config = source.config();
    GgufNames::of(config).ok_or_else(|| {
        let what = format!("architecture {} in a GGUF file", config.architecture);
        let known = GgufNames::model_types().join(", ");
        let supported = format!("QSF makes GGUF files of these: {known}; write a QSF file instead (OUT.qsf)");
        RuntimeError::unsupported(source.path(), what, supported).into()
    })
}

/// The number of a type in GGUF files; `None` for one that they cannot have.
pub(super) fn ggml_type(ty: TensorType) -> Option<GgmlType> {
    match ty {
        TensorType::Ggml(ty) => Some(ty),
        TensorType::Qsf(QuantType::F32) => Some(GgmlType::F32),
        TensorType::Qsf(QuantType::F16) => Some(GgmlType::F16),
        TensorType::Qsf(QuantType::Bf16) => Some(GgmlType::BF16),
        TensorType::Qsf(_) | TensorType::Groups(_) => None,
    }
}

/// Checks that the file can have the tensors of `plan` in their types.
///
/// # Errors
/// When one of them is of a type of QSF files, its rows are no whole number of blocks, or parts of one tensor of the file are of
/// several types.
pub(crate) fn check_plan(source: &dyn WeightSource, plan: &Plan) -> Result<()> {
    place_all(source, &names_of(source)?, plan).map(|_| ())
}

/// All tensors of a file with the tensors of `plan`.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn place_all(source: &dyn WeightSource, names: &GgufNames, plan: &Plan) -> Result<Vec<Placed>> {
    let mut placed: Vec<Placed> = Vec::new();
    for planned in plan.tensors() {
        let id = planned.info.id;
        if names.layer_values().any(|(_, kind)| kind == id.kind) {
            continue;
        }
        let name = names.of_tensor(id).ok_or_else(|| no_name(source, id))?;
        let ty = type_in_file(planned)?;
        let Some(form) = form_in(&name, id.kind) else { return Err(no_name(source, id)) };
        check_columns(planned, form, ty)?;
        let rows = rows_in_file(source.config(), planned);
        let bytes = planned.quant.tensor_bytes(Default::default(), rows, planned.info.cols as u64);
        let bytes = bytes.ok_or_else(|| no_whole_blocks(planned))?;
        if let Some(known) = placed.iter_mut().find(|known| known.entry.name == name.name) {
            if known.entry.ty != ty {
                return Err(several_types(planned, &name, known.entry.ty, ty));
            }
            let grown = known.entry.dims.len().saturating_sub(1);
            known.entry.dims[grown] += planned.info.rows as u64 * u64::from(id.kind.is_matrix())
                + planned.info.cols as u64 * u64::from(!id.kind.is_matrix());
            known.entry.bytes = known.entry.bytes.saturating_add(bytes);
            known.parts.push((id, form));
            continue;
        }
        let dims = dims(source.config(), planned);
        let entry = Entry { name: name.name, dims, ty, bytes };
        placed.push(Placed { entry, parts: vec![(id, form)] });
    }
    Ok(placed)
}

fn form_in(name: &GgufName, kind: TensorKind) -> Option<GgufForm> {
    let at = name.kinds.iter().position(|&held| held == kind)?;
    name.forms.get(at).copied()
}

/// llama.cpp has a row for each token, also of those without an embedding for layers.
fn rows_in_file(config: &ModelConfig, planned: &PlannedTensor) -> u64 {
    let rows = planned.info.rows as u64;
    if planned.info.id.kind == TensorKind::PerLayerEmbedding { rows.max(config.vocab.into()) } else { rows }
}

/// Fastest first; experts and heads are the slowest.
fn dims(config: &ModelConfig, planned: &PlannedTensor) -> Vec<u64> {
    use TensorKind::*;
    let (cols, id) = (planned.info.cols as u64, planned.info.id);
    let rows = rows_in_file(config, planned);
    let experts = id.layer.and_then(|layer| config.experts(layer)).map_or(1, |experts| experts.count.max(1));
    let heads = u64::from(config.heads.max(1));
    let groups = config.recurrent.as_ref().and_then(|recurrent| match recurrent.mixer {
        RecurrentMixer::Mamba2 { groups, .. } => Some(u64::from(groups.max(1))),
        _ => None,
    });
    let width = config.recurrent.as_ref().and_then(|recurrent| match recurrent.mixer {
        RecurrentMixer::Mamba1 { width, .. } => Some(u64::from(width.max(1))),
        _ => None,
    });
    let in_parts = |len: u64, parts: u64| vec![len / parts, parts];
    match id.kind {
        StreamProjection | StreamReturn => {
            let others = u64::from(config.streams.unwrap_or(2).saturating_sub(1).max(1));
            vec![cols, rows / others, others]
        }
        AttnKUp | AttnVUp => vec![cols, rows / heads, heads],
        MixerConv => {
            let taps = config.recurrent.as_ref().map_or(1, |recurrent| u64::from(recurrent.taps.max(1)));
            vec![taps, cols / taps]
        }
        MixerDecay if width.is_some() => width.map_or_else(Vec::new, |width| in_parts(cols, width)),
        MixerDecay | MixerSkip if groups.is_some() => vec![1, cols],
        MixerNorm => groups.map_or_else(|| vec![cols], |groups| in_parts(cols, groups)),
        ExpertGateBias | ExpertUpBias | ExpertDownBias => in_parts(cols, experts.into()),
        QNorm if config.qk_norm == Some(QkNorm::HeadsApart) => in_parts(cols, heads),
        KNorm if config.qk_norm == Some(QkNorm::HeadsApart) => in_parts(cols, config.kv_heads.max(1).into()),
        _ => match experts_of(config, id) {
            Some(experts) => vec![cols, rows / u64::from(experts.max(1)), experts.into()],
            None if id.kind.is_matrix() => vec![cols, rows],
            None => vec![cols],
        },
    }
}

/// Columns of a head of the output of recurrent mixers, where the file has the heads in another order.
pub(crate) fn head_columns(source: &dyn WeightSource, names: &GgufNames) -> Option<usize> {
    let outputs =
        source.tensors().iter().map(|info| info.id).find(|id| id.kind == TensorKind::MixerOutput)?;
    let name = names.of_tensor(outputs)?;
    match form_in(&name, TensorKind::MixerOutput)? {
        GgufForm::Columns(order) => Some(columns_of_head(order)),
        _ => None,
    }
}

/// Columns that move by heads need heads of whole blocks.
fn check_columns(planned: &PlannedTensor, form: GgufForm, ty: GgmlType) -> Result<()> {
    let GgufForm::Columns(order) = form else { return Ok(()) };
    let run = columns_of_head(order);
    if run.is_multiple_of(ty.block_len()) {
        return Ok(());
    }
    let problem = format!(
        "{}: llama.cpp's files have its heads of {run} columns in another order, which needs whole blocks, not blocks of {} as \
         {ty} has them (--tensor-type)",
        planned.info.id,
        ty.block_len()
    );
    Err(RuntimeError::Request(problem).into())
}

fn type_in_file(planned: &PlannedTensor) -> Result<GgmlType> {
    ggml_type(planned.quant).ok_or_else(|| {
        let problem = format!(
            "{}: a GGUF file cannot have the type {} of QSF files: give one of llama.cpp's, such as Q4_K (--tensor-type)",
            planned.info.id, planned.quant
        );
        RuntimeError::Request(problem).into()
    })
}

fn no_whole_blocks(planned: &PlannedTensor) -> ConvertError {
    let problem = format!(
        "{}: its rows of {} values are no whole number of blocks of {}: types with blocks of 32 (IQ4_NL, Q4_0, Q5_0, Q8_0) fit \
         multiples of 32 (--tensor-type)",
        planned.info.id, planned.info.cols, planned.quant
    );
    RuntimeError::Request(problem).into()
}

fn several_types(planned: &PlannedTensor, name: &GgufName, a: GgmlType, b: GgmlType) -> ConvertError {
    let kinds: Vec<&str> = name.kinds.iter().map(|kind| kind.name()).collect();
    let problem = format!(
        "{}: {} are one tensor of a GGUF file of this architecture ({}), and need one type, not {a} and {b}",
        planned.info.id,
        kinds.join(", "),
        name.name
    );
    RuntimeError::Request(problem).into()
}

fn no_name(source: &dyn WeightSource, id: TensorId) -> ConvertError {
    let kind: TensorKind = id.kind;
    let what = format!("tensor {id} in a GGUF file");
    let supported = format!("llama.cpp has no name for {} of this architecture", kind.name());
    RuntimeError::unsupported(source.path(), what, supported).into()
}
