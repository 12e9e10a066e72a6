//! The types among which one is chosen for a size.

use qsf_format::QuantType;
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::grouped::GroupType;

use crate::options::ConvertOptions;
use crate::plan::{Candidate, Container, FinerRows, Plan, PlannedTensor, StoredForm, TensorType};

/// Types of QSF files that a matrix may get, smallest first:
/// those with block scales beside a trellis of nearly the same size, for matrices whose columns differ much.
const OF_QSF: [QuantType; 8] = [
    QuantType::X2,
    QuantType::X3,
    QuantType::N3,
    QuantType::X4,
    QuantType::N4,
    QuantType::N5,
    QuantType::Q6,
    QuantType::Q8,
];

/// Types of GGUF files that a matrix may get, smallest first. Left out are those that another one betters at its size
/// (`Q2_K`, `Q3_K`) and those that are for models of their own (ternary ones, `MXFP4`).
const OF_GGUF: [GgmlType; 11] = [
    GgmlType::IQ1_M,
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::IQ3_XXS,
    GgmlType::IQ3_S,
    GgmlType::IQ4_XS,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::Q8_0,
];

/// The same for rows that are no whole number of blocks of 256.
const OF_GGUF_SHORT: [GgmlType; 3] = [GgmlType::IQ4_NL, GgmlType::Q5_0, GgmlType::Q8_0];

/// The least bits of a type that is measured, as a part of what a file has for a weight: what is smaller is never chosen,
/// and measuring takes time.
const LEAST_PART: f64 = 0.55;

/// Which types there are to choose from.
#[derive(Debug, Clone)]
pub(super) enum Offer {
    /// Those of QSF files.
    Qsf,
    /// Those of GGUF files that pay, with at least so many bits.
    Gguf { least_bits: f64 },
    /// Those of groups of the planned size, with at least so many bits.
    Groups { least_bits: f64 },
    /// Those that the user named.
    Named(Vec<TensorType>),
}

impl Offer {
    /// For a file of at most `limit` bytes; of a directory, for tensors of so many.
    pub fn of(options: &ConvertOptions, limit: u64, plan: &Plan) -> Offer {
        let weights: f64 = plan.tensors().iter().map(|t| t.info.rows as f64 * t.info.cols as f64).sum();
        let least_bits = LEAST_PART * 8.0 * limit as f64 / weights.max(1.0);
        match options.container() {
            Container::Qsf => Offer::Qsf,
            Container::Gguf if !options.gguf_types.is_empty() => Offer::Named(options.gguf_types.clone()),
            Container::Gguf => Offer::Gguf { least_bits },
            Container::Groups => Offer::Groups { least_bits },
        }
    }

    /// The types that a tensor may get.
    pub fn types(&self, planned: &PlannedTensor) -> Vec<TensorType> {
        let cols = planned.info.cols;
        let suitable = |types: &mut dyn Iterator<Item = TensorType>| -> Vec<TensorType> {
            types.filter(|ty| ty.suits(cols)).collect()
        };
        match self {
            Offer::Qsf => OF_QSF.map(TensorType::from).into(),
            Offer::Groups { least_bits } => match planned.quant {
                TensorType::Groups(ty) => {
                    let enough = |bits: &u32| f64::from(*bits) >= *least_bits || *bits == 8;
                    let of_bits = |bits| TensorType::Groups(GroupType { bits, ..ty });
                    GroupType::BITS.into_iter().filter(enough).map(of_bits).collect()
                }
                other => vec![other],
            },
            Offer::Gguf { least_bits } => {
                let bits = |ty: GgmlType| ty.block_bytes() as f64 * 8.0 / ty.block_len() as f64;
                let enough =
                    OF_GGUF.into_iter().filter(|ty| bits(*ty) >= *least_bits || *ty == GgmlType::Q8_0);
                let long = suitable(&mut enough.map(TensorType::Ggml));
                let needs_short = !cols.is_multiple_of(GgmlType::Q6_K.block_len());
                let found = match needs_short {
                    true => suitable(&mut OF_GGUF_SHORT.into_iter().map(TensorType::Ggml)),
                    false => long,
                };
                if found.is_empty() { vec![QuantType::F16.into()] } else { found }
            }
            Offer::Named(named) => {
                let found = suitable(&mut named.iter().copied());
                if !found.is_empty() {
                    return found;
                }
                let mut instead = Vec::new();
                for ty in named.iter().map(|ty| ty.or_smaller_blocks(cols)) {
                    if !instead.contains(&ty) {
                        instead.push(ty);
                    }
                }
                instead
            }
        }
    }
}

/// The types that a survey would measure, with nothing known about them.
pub(super) fn unmeasured(
    plan: &Plan,
    wanted: impl Fn(&PlannedTensor) -> bool,
    offer: &Offer,
) -> Vec<Candidate> {
    let free = plan.tensors().iter().filter(|planned| wanted(planned));
    free.map(|planned| {
        let types = offer.types(planned).into_iter();
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
    StoredForm { quant, finer: FinerRows::NONE, ..planned.form() }
}
