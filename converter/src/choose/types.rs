//! The types among which one is chosen for a size.

use qsf_format::QuantType;

use crate::plan::{Candidate, Plan, PlannedTensor, StoredForm};

/// Types that a matrix of a layer may get, smallest first.
const OF_LAYERS: [QuantType; 7] =
    [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// Types that embedding and head may get.
const OF_ENDS: [QuantType; 7] =
    [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6, QuantType::Q8];

/// The types that a tensor may get.
pub(super) fn types_to_choose(planned: &PlannedTensor) -> Vec<QuantType> {
    if planned.info.id.layer.is_some() { OF_LAYERS.into() } else { OF_ENDS.into() }
}

/// The types that a survey would measure, with nothing known about them.
pub(super) fn unmeasured(plan: &Plan, wanted: impl Fn(&PlannedTensor) -> bool) -> Vec<Candidate> {
    let free = plan.tensors().iter().filter(|planned| wanted(planned));
    free.map(|planned| {
        let options =
            types_to_choose(planned).into_iter().map(|quant| (form_of(planned, quant), 0.0)).collect();
        Candidate { id: planned.info.id, options }
    })
    .collect()
}

/// `quant` with the outliers that the plan has for the tensor.
pub(super) fn form_of(planned: &PlannedTensor, quant: QuantType) -> StoredForm {
    StoredForm { quant, ..planned.form() }
}
