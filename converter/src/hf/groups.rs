//! Which matrices of a directory become groups, and of which size: decided from names and shapes.

use std::collections::{HashMap, HashSet};

use qsf_format::TensorId;
use qsf_runtime::RuntimeError;
use qsf_runtime::grouped::{GroupType, GroupZero};
use qsf_runtime::source::{SavedTensor, TensorInfo, WeightSource};

use super::layout::saved_tensors;
use crate::dtype::HfOut;
use crate::error::Result;
use crate::plan::{GroupRecipe, GroupScheme, Plan, PlannedTensor, StoredForm, TensorType, TypeOverride};

/// Every tensor with its type: groups for the matrices of the layers, floats for all else.
///
/// # Errors
/// When no matrix can have groups, some cannot have those that were asked for, or an override asks for a type that the directory
/// cannot have.
pub(crate) fn plan_of_groups(
    source: &dyn WeightSource,
    out: HfOut,
    recipe: GroupRecipe,
    overrides: &[TypeOverride],
) -> Result<Plan> {
    let saved = saved_tensors(source, Some(recipe))?;
    let infos: HashMap<TensorId, &TensorInfo> = source.tensors().iter().map(|info| (info.id, info)).collect();
    let covered = |tensor: &&SavedTensor| {
        let of_layers = tensor.parts().all(|id| recipe.scheme.covers(id.kind) && infos.contains_key(&id));
        of_layers && tensor.name.ends_with(".weight") && tensor.row_origins().is_some()
    };
    let covered: HashSet<TensorId> = saved.iter().filter(covered).flat_map(SavedTensor::parts).collect();
    let widths: Vec<&TensorInfo> =
        source.tensors().iter().filter(|info| covered.contains(&info.id)).collect();
    // What an override keeps as floats has no groups, whatever its width.
    let kept = Plan::for_groups(
        source.tensors(),
        &|_| TensorType::Groups(recipe.scheme.with(32, out.dtype)),
        overrides,
    )?;
    let is_kept = |info: &TensorInfo| kept.tensor(info.id).is_some_and(|tensor| tensor.quant.is_float());
    let group = group_of(source, recipe, &widths, &is_kept)?;
    let ty = recipe.scheme.with(group, out.dtype);
    let assign = |info: &TensorInfo| match covered.contains(&info.id) && ty.suits(info.cols) {
        true => TensorType::Groups(ty),
        false => TensorType::F32,
    };
    let mut plan = Plan::for_groups(source.tensors(), &assign, overrides)?;
    // A directory has one type of floats, whichever an override names.
    for tensor in plan.clone().tensors() {
        if let TensorType::Groups(ty) = tensor.quant {
            let quant = TensorType::Groups(GroupType { scale: out.dtype, ..ty });
            plan.set(tensor.info.id, StoredForm { quant, ..tensor.form() });
        }
    }
    Ok(plan)
}

/// Columns that share a scale.
fn group_of(
    source: &dyn WeightSource,
    recipe: GroupRecipe,
    matrices: &[&TensorInfo],
    is_kept: &dyn Fn(&TensorInfo) -> bool,
) -> Result<usize> {
    let refused = |problem: String| Err(RuntimeError::Request(problem).into());
    if matrices.is_empty() {
        let what = format!(
            "a matrix that is stored inputs first, as {} models have them,",
            source.config().architecture
        );
        let program = if recipe.scheme.is_mlx() { "MLX" } else { "compressed-tensors" };
        let supported =
            format!("{program} quantizes layers of the class Linear: write --to hf, or a GGUF or QSF file");
        return Err(RuntimeError::unsupported(source.path(), what, supported).into());
    }
    let matrices: Vec<&TensorInfo> = matrices.iter().copied().filter(|info| !is_kept(info)).collect();
    let misfit = |group: usize| matrices.iter().find(|info| !info.cols.is_multiple_of(group));
    match recipe.group {
        Some(group) => match misfit(group) {
            Some(info) => refused(format!(
                "--group-size {group}: {} has {} columns, which are no whole groups: give {}",
                info.id,
                info.cols,
                best_group(&matrices)
                    .map_or("a --tensor-type of floats for it".to_owned(), |n| n.to_string()),
            )),
            None => Ok(group),
        },
        // What even the smallest does not divide stays as it is. MLX has kernels for all sizes, and takes 64 itself.
        None => {
            let best = best_group(&matrices).unwrap_or(GroupType::GROUPS[0]);
            Ok(if recipe.scheme.is_mlx() { best.min(64) } else { best })
        }
    }
}

/// The largest size of groups that divides all rows.
fn best_group(matrices: &[&TensorInfo]) -> Option<usize> {
    let divides = |group: &usize| matrices.iter().all(|info| info.cols.is_multiple_of(*group));
    GroupType::GROUPS.into_iter().rev().find(divides)
}

/// Checks the types of a plan: floats, and groups of one type but for MLX, which are the same in all parts of a tensor of the
/// directory.
///
/// # Errors
/// With the first that a directory cannot have.
pub(crate) fn check_groups(source: &dyn WeightSource, recipe: GroupRecipe, plan: &Plan) -> Result<()> {
    let of_mlx = recipe.scheme.is_mlx();
    let refused = |problem: String| Err(RuntimeError::Request(problem).into());
    let mut general: Option<&PlannedTensor> = None;
    for tensor in plan.tensors() {
        let (id, quant) = (tensor.info.id, tensor.quant);
        match quant {
            TensorType::Groups(ty) if (ty.zero == GroupZero::Bias) == of_mlx => {}
            _ if quant.is_float() => continue,
            _ => {
                let (program, more) = match of_mlx {
                    true => ("MLX", format!("{} for other groups, or ", GroupScheme::names(true))),
                    false => ("compressed-tensors", String::new()),
                };
                return refused(format!(
                    "{id}: {quant} is no type of a directory for {program}: give {more}f32, f16 or bf16 to leave the matrix as it \
                     is (--tensor-type)"
                ));
            }
        }
        if !quant.suits(tensor.info.cols) {
            return refused(format!(
                "{id} has {} columns, which are no whole groups of {quant}",
                tensor.info.cols
            ));
        }
        match general {
            Some(first) if first.quant != quant && !of_mlx => {
                return refused(format!(
                    "{id}: {quant}, and {} for {}: a directory has one type of groups, and floats (--tensor-type)",
                    first.quant, first.info.id
                ));
            }
            _ => general = Some(tensor),
        }
    }
    if general.is_none() {
        return refused(
            "no matrix is quantized: --to hf writes a directory of floats; groups need columns in whole groups of 32".into(),
        );
    }
    for saved in saved_tensors(source, Some(recipe))? {
        let types: Vec<(TensorId, TensorType)> =
            saved.parts().filter_map(|id| Some((id, plan.tensor(id)?.quant))).collect();
        let grouped = |(_, quant): &&(TensorId, TensorType)| matches!(quant, TensorType::Groups(_));
        let Some((id, own)) = types.iter().find(grouped) else { continue };
        if let Some((other, quant)) = types.iter().find(|(_, quant)| quant != own) {
            return refused(format!(
                "{other} is {quant} and {id} {own}: both are parts of {} (--tensor-type)",
                saved.name
            ));
        }
        if saved.row_origins().is_none() || !saved.name.ends_with(".weight") {
            return refused(format!(
                "{id}: {} is no layer of the class Linear, and stays as it is (--tensor-type)",
                saved.name
            ));
        }
    }
    Ok(())
}
