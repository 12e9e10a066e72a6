//! The plan of a conversion: from its options to a type for every tensor of the source.

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;

use crate::error::Result;
use crate::gguf::{check_plan, names_of};
use crate::options::ConvertOptions;
use crate::plan::{GgufRules, Plan, TensorType};

/// Every tensor of `source` with the type that `options` give it.
///
/// # Errors
/// When an override applies to no tensor, the file cannot have a type, or a GGUF file cannot have the model.
pub(crate) fn plan_of(source: &dyn WeightSource, options: &ConvertOptions) -> Result<Plan> {
    let Some(recipe) = options.gguf else {
        let plan = Plan::new(source.tensors(), options.recipe, &options.overrides, options.outliers.share())?;
        if let Some(tensor) = plan.tensors().iter().find(|t| matches!(t.quant, TensorType::Ggml(_))) {
            let problem = format!(
                "{}: {} is a type of GGUF files, which a QSF file cannot have (--tensor-type)",
                tensor.info.id, tensor.quant
            );
            return Err(RuntimeError::Request(problem).into());
        }
        return Ok(plan);
    };
    let names = names_of(source)?;
    let calibrated = options.calibration.is_some() || !options.stats_in.is_empty();
    let queries = names.of_tensor(TensorId::of_layer(0, TensorKind::AttnQ));
    let fused = queries.is_some_and(|name| name.kinds.contains(&TensorKind::AttnV));
    let rules = GgufRules { config: source.config(), architecture: names.architecture(), calibrated, fused };
    let plan = Plan::for_gguf(source.tensors(), recipe, &rules, &options.overrides)?;
    check_plan(source, &plan)?;
    Ok(plan)
}
