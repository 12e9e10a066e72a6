//! What a directory will have, before anything is written.

use std::collections::HashMap;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::{HfNames, SavedTensor, WeightSource};

use super::companions::companion_bytes;
use super::config_json::{Configurations, configurations};
use super::shards::{bytes_of, header, shards};
use crate::dtype::HfOut;
use crate::error::Result;

/// More bytes than the small files of a directory have.
const SMALL_FILES: u64 = 8192;

/// Everything but the values.
pub(super) struct Laid {
    /// In the order in which they can be written.
    pub tensors: Vec<SavedTensor>,
    pub configurations: Configurations,
}

/// Lays out a directory for `source`.
///
/// # Errors
/// When transformers has no name for the architecture or a tensor, or no field for something that the model is.
pub(super) fn lay_out(source: &dyn WeightSource, out: HfOut) -> Result<Laid> {
    let config = source.config();
    let unknown = |what: String, why: String| RuntimeError::unsupported(source.path(), what, why);
    let names = HfNames::of(config).ok_or_else(|| {
        unknown(format!("architecture {} in a HuggingFace directory", config.architecture), HfNames::known())
    })?;
    let tensors = names.tensors(config, source.tensors()).map_err(|id| {
        let why = format!("transformers has no name for {} of {} models", id.kind.name(), names.model_type());
        unknown(format!("tensor {id} in a HuggingFace directory"), why)
    })?;
    let configurations = configurations(source, &names, out)?;
    Ok(Laid { tensors: in_order_of_arrival(source, tensors), configurations })
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
    lay_out(source, out).map(drop)
}

/// Bytes of all files, about.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn directory_bytes(source: &dyn WeightSource, out: HfOut) -> Result<u64> {
    let tensors = lay_out(source, out)?.tensors;
    let values: u64 = tensors.iter().map(|tensor| bytes_of(tensor, out)).fold(0, u64::saturating_add);
    let headers: usize =
        shards(&tensors, out).iter().map(|shard| header(&tensors[shard.tensors.clone()], out).len()).sum();
    Ok(values.saturating_add(headers as u64).saturating_add(companion_bytes(source) + SMALL_FILES))
}
