//! What a directory will have, before anything is written.

use std::collections::HashMap;

use qsf_format::{BlockSize, TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::{HfNames, SavedTensor, WeightSource};

use super::companions::{companion_bytes, pretty};
use super::config_json::{Configurations, configurations, plain_fields};
use super::mlx::{add_plain_fields, describe_for_mlx, named_for_mlx};
use super::quantization_config::quantization_config;
use super::shards::{bytes_of, header, index, shards};
use super::stored::DirTensor;
use crate::dtype::HfOut;
use crate::error::Result;
use crate::plan::{GroupRecipe, Plan, TensorType};

/// More bytes than the words of a directory about where it is from, without the names of its sources.
const ORIGIN_BYTES: usize = 2048;

/// Bytes of the words that say which type a tensor has, where it is not that of the others, beside the name of the tensor.
const BYTES_TO_DESCRIBE: usize = 96;

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
    let tensors = in_order_of_arrival(source, saved_tensors(source, out.groups)?).into_iter();
    let tensors: Vec<DirTensor> =
        tensors.map(|saved| DirTensor { groups: groups_of(&saved), saved }).collect();
    let names = names_of(source)?;
    let mut configurations = configurations(source, &names, out)?;
    if out.groups.is_some_and(|groups| groups.scheme.is_mlx()) {
        let plain = plain_fields(source, &names);
        add_plain_fields(&mut configurations.config, names.model_type(), plain);
        configurations.config.extend(describe_for_mlx(&tensors));
    } else if let Some(described) = quantization_config(&tensors) {
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
/// When transformers, or MLX where it is for that, has no name for the architecture or a tensor.
pub(super) fn saved_tensors(
    source: &dyn WeightSource,
    groups: Option<GroupRecipe>,
) -> Result<Vec<SavedTensor>> {
    let names = names_of(source)?;
    let saved = names.tensors(source.config(), source.tensors()).map_err(|id| {
        let what = format!("tensor {id} in a HuggingFace directory");
        let why = format!("transformers has no name for {} of {} models", id.kind.name(), names.model_type());
        RuntimeError::unsupported(source.path(), what, why)
    })?;
    match groups {
        Some(recipe) if recipe.scheme.is_mlx() => named_for_mlx(source, names.model_type(), saved),
        _ => Ok(saved),
    }
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

/// What the tensors of a model are part of, in a directory with groups.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn names_of_groups(
    source: &dyn WeightSource,
    groups: Option<GroupRecipe>,
) -> Result<HashMap<TensorId, String>> {
    let saved = saved_tensors(source, groups)?.into_iter();
    Ok(saved.flat_map(|saved| saved.parts().map(|id| (id, saved.name.clone())).collect::<Vec<_>>()).collect())
}

/// Bytes of all files but those of groups, whichever types these have, or somewhat more.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn bytes_beside_groups(source: &dyn WeightSource, out: HfOut, plan: &Plan) -> Result<u64> {
    let grouped = plan.tensors().iter().filter(|tensor| !tensor.quant.is_float());
    let bytes = grouped.clone().filter_map(|tensor| {
        let (rows, cols) = (tensor.info.rows as u64, tensor.info.cols as u64);
        tensor.quant.tensor_bytes(BlockSize::B64, rows, cols)
    });
    Ok(directory_bytes(source, out, plan)?.saturating_sub(bytes.sum()))
}

/// Bytes of the words that say which type a tensor has, where it is not that of most.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn bytes_described(
    source: &dyn WeightSource,
    groups: Option<GroupRecipe>,
) -> Result<HashMap<TensorId, u64>> {
    // Two fields of config.json have them.
    let of_name = |(id, name): (TensorId, String)| (id, 2 * (name.len() + BYTES_TO_DESCRIBE) as u64);
    Ok(names_of_groups(source, groups)?.into_iter().map(of_name).collect())
}

/// Bytes of all files, about.
///
/// # Errors
/// As [`check_model`].
pub(crate) fn directory_bytes(source: &dyn WeightSource, out: HfOut, plan: &Plan) -> Result<u64> {
    let Laid { tensors, configurations } = lay_out(source, out, Some(plan))?;
    let values: u64 = tensors.iter().map(|tensor| bytes_of(tensor, out)).fold(0, u64::saturating_add);
    let shards = shards(&tensors, out);
    let headers: usize = shards.iter().map(|shard| header(&tensors[shard.tensors.clone()], out).len()).sum();
    let words = [Some(configurations.config), configurations.generation, index(&tensors, &shards, out)];
    let words: usize = words.iter().flatten().map(|fields| pretty(fields).len()).sum();
    let sources: usize = source.files().iter().map(|path| path.as_os_str().len() + 128).sum();
    let small = headers + words + sources + ORIGIN_BYTES;
    Ok(values.saturating_add(small as u64).saturating_add(companion_bytes(source)))
}
