//! The plan of a conversion: from its options to a type for every tensor of the source.

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;

use crate::error::Result;
use crate::gguf::{check_plan, head_columns, names_of};
use crate::hf::{check_groups, check_model, plan_of_groups};
use crate::options::ConvertOptions;
use crate::plan::{Container, GgufRules, Plan, TensorType, nearest_type};
use crate::replay::Replay;

/// Every tensor of `source` with the type that `options`, or the plan that is replayed, give it.
///
/// # Errors
/// When an override applies to no tensor, the file cannot have a type, a GGUF file cannot have the model, or the plan does not fit
/// the model.
pub(crate) fn plan_of(source: &dyn WeightSource, options: &ConvertOptions) -> Result<Plan> {
    if let Some(hf) = options.hf {
        check_model(source, hf)?;
    }
    let replay = options.replay.as_ref();
    // A plan names every tensor: what the overrides did is in it.
    let overrides = if replay.is_some() { &[] } else { &options.overrides[..] };
    let groups = options.hf.and_then(|hf| Some((hf, hf.groups?)));
    let mut plan = match (options.gguf, groups) {
        (_, Some((hf, recipe))) => plan_of_groups(source, hf, recipe, overrides)?,
        (None, None) => Plan::new(source.tensors(), options.recipe, overrides, options.outliers.share())?,
        (Some(recipe), None) => {
            let names = names_of(source)?;
            let calibrated = options.calibration.is_some() || !options.stats_in.is_empty();
            let queries = names.of_tensor(TensorId::of_layer(0, TensorKind::AttnQ));
            let fused = queries.is_some_and(|name| name.kinds.contains(&TensorKind::AttnV));
            let rules = GgufRules {
                config: source.config(),
                architecture: names.architecture(),
                calibrated,
                fused,
                head_columns: head_columns(source, &names),
            };
            Plan::for_gguf(source.tensors(), recipe, &rules, overrides)?
        }
    };
    if let Some(replay) = replay {
        replay.apply(&mut plan)?;
    }
    let split = plan.tensors().iter().find(|tensor| !tensor.finer.is_none());
    let head = if source.config().tied_head { TensorKind::TokenEmbedding } else { TensorKind::Head };
    let head = plan.tensor(TensorId::of_model(head)).filter(|head| !head.finer.is_none());
    if let Some(head) = head.filter(|_| options.clusters.is_some()) {
        let (id, form) = (head.info.id, head.form());
        let problem = format!("--clusters: the rows of such a head are in one type, and {id} is {form}");
        return Err(RuntimeError::Request(problem).into());
    }
    if let Some(tensor) = split.filter(|_| options.container() != Container::Qsf || options.hf.is_some()) {
        let (id, form) = (tensor.info.id, tensor.form());
        let problem = format!("{id} as {form}: only QSF files have rows in several types (--tensor-type)");
        return Err(RuntimeError::Request(problem).into());
    }
    match options.gguf {
        None => match groups {
            Some((_, recipe)) => check_groups(source, recipe, &plan)?,
            None => check_types_of_qsf(&plan, replay)?,
        },
        Some(_) => check_plan(source, &plan)?,
    }
    Ok(plan)
}

fn check_types_of_qsf(plan: &Plan, replay: Option<&Replay>) -> Result<()> {
    let foreign = plan.tensors().iter().find(|tensor| tensor.quant.qsf().is_none());
    let Some(tensor) = foreign else { return Ok(()) };
    let whose = match tensor.quant {
        TensorType::Groups(_) => "of directories for compressed-tensors or MLX",
        _ => "of GGUF files",
    };
    let problem = format!(
        "{}: {} is a type {whose}, which a QSF file cannot have{} ({})",
        tensor.info.id,
        tensor.quant,
        nearest_type(tensor.quant.name())
            .map_or_else(String::new, |nearest| format!(": the nearest is {}", nearest.name())),
        replay.map_or_else(|| "--tensor-type".to_owned(), |replay| replay.path.display().to_string()),
    );
    Err(RuntimeError::Request(problem).into())
}
