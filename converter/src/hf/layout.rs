//! What a directory will have, before anything is written.

use std::collections::HashMap;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::{HfNames, SavedTensor, WeightSource};

use super::companions::companion_bytes;
use super::config_json::{Configurations, configurations};
use super::quantization_config::quantization_config;
use super::shards::{bytes_of, header, shards};
use super::stored::DirTensor;
use crate::dtype::HfOut;
use crate::error::Result;
use crate::plan::{Plan, TensorType};

/// More bytes than the small files of a directory have.
const SMALL_FILES: u64 = 8192;

/// Everything but the values.
pub(super) struct Laid {
    /// In the order in which they can be written.
    pub tensors: Vec<DirTensor>,
    pub configurations: Configurations,
}

/// Lays out a directory for `source`, with the types of `plan`; without, all of floats.
///
/// # Errors
/// When transformers has no name for the architecture or a tensor, or no field for something that the model is.
pub(super) fn lay_out(source: &dyn WeightSource, out: HfOut, plan: Option<&Plan>) -> Result<Laid> {
    let groups_of = |saved: &SavedTensor| match plan?.tensor(saved.parts().next()?)?.quant {
        TensorType::Groups(ty) => Some(ty),
        _ => None,
    };
    let tensors = in_order_of_arrival(source, saved_tensors(source)?).into_iter();
    let tensors: Vec<DirTensor> =
        tensors.map(|saved| DirTensor { groups: groups_of(&saved), saved }).collect();
    let mut configurations = configurations(source, &names_of(source)?, out)?;
    if let Some(described) = quantization_config(&tensors) {
        configurations.config.insert("quantization_config".into(), described);
    }
    Ok(Laid { tensors, configurations })
}

/// The names of a model.
fn names_of(source: &dyn WeightSource) -> Result<HfNames> {
    let config = source.config();
    HfNames::of(config).ok_or_else(|| {
        let what = format!("architecture {} in a HuggingFace directory", config.architecture);
        RuntimeError::unsupported(source.path(), what, HfNames::known()).into()
    })
}

/// The tensors of a directory.
///
/// # Errors
/// When transformers has no name for the architecture or a tensor.
pub(super) fn saved_tensors(source: &dyn WeightSource) -> Result<Vec<SavedTensor>> {
    let names = names_of(source)?;
    names.tensors(source.config(), source.tensors()).map_err(|id| {
        let what = format!("tensor {id} in a HuggingFace directory");
        let why = format!("transformers has no name for {} of {} models", id.kind.name(), names.model_type());
        RuntimeError::unsupported(source.path(), what, why).into()
    })
}

/// Sorted by the last of the parts to come: layers follow the embedding, and positions all else.
fn in_order_of_arrival(source: &dyn WeightSource, mut tensors: Vec<SavedTensor>) -> Vec<SavedTensor> {
    let mut ids: Vec<TensorId> = source.tensors().iter().map(|info| info.id).collect();
    ids.sort_by_key(|id| id.layer.is_none() && id.kind == TensorKind::Positions);
    let turns: HashMap<TensorId, usize> = ids.into_iter().enumerate().map(|(i, id)| (id, i)).collect();
    tensors.sort_by_key(|tensor| tensor.parts().filter_map(|id| turns.get(&id)).max().copied());
    tensors
}

/// Checks that a directory can have the model.
///
/// # Errors
/// When transformers has no word for something.
pub(crate) fn check_model(source: &dyn WeightSource, out: HfOut) -> Result<()> {
    lay_out(source, out, None).map(drop)
}

/// Bytes of all files, about.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn directory_bytes(source: &dyn WeightSource, out: HfOut, plan: &Plan) -> Result<u64> {
    let tensors = lay_out(source, out, Some(plan))?.tensors;
    let values: u64 = tensors.iter().map(|tensor| bytes_of(tensor, out)).fold(0, u64::saturating_add);
    let headers: usize =
        shards(&tensors, out).iter().map(|shard| header(&tensors[shard.tensors.clone()], out).len()).sum();
    Ok(values.saturating_add(headers as u64).saturating_add(companion_bytes(source) + SMALL_FILES))
}
