//! `--golden`: agreement with another implementation.

use std::path::Path;

use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::eval::{GoldenExpectation, compare_golden};
use qsf_runtime::progress::Cancel;
use qsf_runtime::{Model, Runner};
use serde_json::{Value, json};

use super::args::EvalArgs;
use super::measure::{decoder, only_on_cpu};
use crate::console::print;
use crate::json_document::document;
use crate::model_args::{LoraReport, Runs};
use crate::model_name::model_name;

/// Prints how well MODEL agrees with the file at `path`.
pub(super) fn print_agreement(
    args: &EvalArgs,
    cpu: &Cpu,
    path: &Path,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    let open = args.stream.open(args.model()?)?;
    let mut model = Model::load(open.source())?;
    model.adapt(open.adapters().to_vec())?;
    let decoder = decoder(args, cpu, model)?.stop_on(cancel);
    let kv = args.kv.kv_type;
    let lora = open.lora().iter().map(LoraReport::to_json).collect();
    match args.device.choose(decoder, only_on_cpu(args))? {
        Runs::OnCpu(decoder) => compare(args, &*decoder, kv.unwrap_or_default(), lora, path),
        #[cfg(feature = "gpu")]
        Runs::OnGpu(decoder) => compare(args, &*decoder, kv.unwrap_or(KvTypes::F16), lora, path),
    }
}

fn compare<R: Runner>(
    args: &EvalArgs,
    runner: &R,
    kv: KvTypes,
    lora: Value,
    path: &Path,
) -> anyhow::Result<()> {
    let result = compare_golden(runner, kv, path, &GoldenExpectation::read(path)?)?;
    let text = if args.json {
        let mut value = serde_json::to_value(result)?;
        value["model"] = json!(model_name(args.model()?));
        value["device"] = json!(runner.device());
        value["activations"] = json!(runner.activations());
        value["kv_type"] = json!(kv.to_string());
        value["lora"] = lora;
        format!("{:#}\n", document("agreement", value))
    } else {
        format!(
            "{} against {}: {} tokens\nlogits_relative_error  {:.3e}\nnll_mean_abs_error     {:.3e}\ngreedy_equal           {}\n",
            model_name(args.model()?),
            path.display(),
            result.tokens,
            result.logits_relative_error,
            result.nll_mean_abs_error,
            result.greedy_equal
        )
    };
    print(&text)?;
    Ok(())
}
