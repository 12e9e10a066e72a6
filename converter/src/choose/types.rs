//! The types among which one is chosen for a size.

use qsf_format::QuantType;
use qsf_runtime::ggml::GgmlType;

use crate::plan::{Candidate, Plan, PlannedTensor, StoredForm, TensorType};

/// Types of QSF files that a matrix may get, smallest first.
const OF_QSF: [QuantType; 7] =
    [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6, QuantType::Q8];

/// Types of GGUF files that a matrix may get: those that llama.cpp runs fast on all of its devices.
const OF_GGUF: [GgmlType; 7] = [
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::IQ4_XS,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::Q8_0,
];

/// The same for rows that are no whole number of blocks of 256.
const OF_GGUF_SHORT: [GgmlType; 3] = [GgmlType::IQ4_NL, GgmlType::Q5_0, GgmlType::Q8_0];

/// The types that a tensor may get, in a GGUF file or in one of QSF.
pub(super) fn types_to_choose(planned: &PlannedTensor, gguf: bool) -> Vec<TensorType> {
    if !gguf {
        return OF_QSF.map(TensorType::from).into();
    }
    let cols = planned.info.cols;
    let suits = |ty: &TensorType| ty.suits(cols);
    let long = OF_GGUF.into_iter().map(TensorType::Ggml);
    if long.clone().all(|ty| ty.suits(cols)) {
        return long.collect();
    }
    let found: Vec<TensorType> = OF_GGUF_SHORT.into_iter().map(TensorType::Ggml).filter(suits).collect();
    if found.is_empty() { vec![QuantType::F16.into()] } else { found }
}

/// The types that a survey would measure, with nothing known about them.
pub(super) fn unmeasured(plan: &Plan, wanted: impl Fn(&PlannedTensor) -> bool, gguf: bool) -> Vec<Candidate> {
    let free = plan.tensors().iter().filter(|planned| wanted(planned));
    free.map(|planned| {
        let types = types_to_choose(planned, gguf).into_iter();
        let options = types.map(|quant| (form_of(planned, quant), 0.0)).collect();
        Candidate { id: planned.info.id, with: Vec::new(), options }
    })
    .collect()
}

/// Candidates that are one tensor in the file, as `tensor_of` names it, as one: it does what they do together.
pub(super) fn joined(
    candidates: Vec<Candidate>,
    tensor_of: impl Fn(&Candidate) -> Option<String>,
) -> Vec<Candidate> {
    let mut all: Vec<(Option<String>, Candidate)> = Vec::new();
    for candidate in candidates {
        let name = tensor_of(&candidate);
        let known = all.iter_mut().find(|(other, _)| name.is_some() && *other == name);
        let Some((_, known)) = known else {
            all.push((name, candidate));
            continue;
        };
        known.with.push(candidate.id);
        known.options.retain_mut(|(form, damage)| {
            let same = candidate.options.iter().find(|(other, _)| other == form);
            *damage += same.map_or(0.0, |(_, damage)| *damage);
            same.is_some()
        });
    }
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// `quant` with the outliers that the plan has for the tensor.
pub(super) fn form_of(planned: &PlannedTensor, quant: TensorType) -> StoredForm {
    StoredForm { quant, ..planned.form() }
}
