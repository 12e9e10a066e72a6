//! From the command line to the options of a conversion.

use std::fs::File;
use std::path::{Path, PathBuf};

use qsf_converter::imatrix::is_imatrix;
use qsf_converter::plan::{GroupRecipe, Recipe};
use qsf_converter::{
    ClusterOptions, ConvertOptions, EvaluationText, HfOut, Limits, OutlierChoice, SavedPlan, Texts,
    calibrate, default_tokens, evaluation_text,
};
use qsf_format::{BlockSize, QuantType, human_bytes};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;

use super::args::{ConvertArgs, OutlierArg};
use super::format::Wanted;
use super::quant_arg::QuantArg;
use crate::byte_size::ByteSize;

/// Tokens of the text that vocabulary clusters are measured on.
const CLUSTER_TOKENS: usize = 4096;

/// Tokens of the text that early exits are learned from and measured on.
const EXIT_TOKENS: usize = 16_384;

/// Tokens per chunk of an evaluation, as llama.cpp's tools have it; fewer where the model was made for fewer.
const EVAL_CTX: usize = 512;

/// The plan that is to be replayed.
///
/// # Errors
/// When it cannot be read or is none.
pub(super) fn plan_to_replay(args: &ConvertArgs) -> anyhow::Result<Option<SavedPlan>> {
    Ok(args.plan.as_deref().map(SavedPlan::read).transpose()?)
}

/// The options of the conversion: those of `plan`, where one is replayed, and else of the command line.
pub(super) fn choose_options(
    args: &ConvertArgs,
    plan: Option<&SavedPlan>,
    source: &dyn WeightSource,
) -> anyhow::Result<ConvertOptions> {
    if let Some(path) = &args.save_plan {
        SavedPlan::check_place(path, args.force)?;
    }
    let evaluation = match &args.eval {
        Some(path) => {
            let chunks = args.eval_chunks.map(|chunks| chunks as usize);
            Some(evaluation_text(source, path, EVAL_CTX.min(source.config().max_positions as usize), chunks)?)
        }
        None => None,
    };
    let options = match plan.zip(args.plan.as_deref()) {
        Some((plan, path)) => {
            let (calibration, stats_in) = (&args.calibration[..], &args.stats_in[..]);
            plan.options(
                source,
                &Texts { plan: path, calibration, stats_in, evaluation: evaluation.as_ref() },
            )?
        }
        None => options_of_flags(args, source, evaluation)?,
    };
    Ok(ConvertOptions {
        merged_scales: args.merge_lora.iter().map(|at| at.scale).collect(),
        force: args.force,
        keep_tensors: args.batch.batch_worker,
        skip_tokenizer_check: args.skip_tokenizer_check,
        allow_requantize: args.allow_requantize,
        stats_out: args.stats_out.clone(),
        save_plan: args.save_plan.clone(),
        split_size: args.split_size.map(|size| size.0),
        limits: Limits {
            max_kld: args.max_kld,
            max_ppl_increase: args.max_ppl_increase,
            max_size: args.max_size.map(|size| size.0),
        },
        ..options
    })
}

/// What decides the bytes of the file, by the flags.
fn options_of_flags(
    args: &ConvertArgs,
    source: &dyn WeightSource,
    evaluation: Option<EvaluationText>,
) -> anyhow::Result<ConvertOptions> {
    let weights: u64 = source.tensors().iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    let size_limit = match (args.target_size, args.target_bpw) {
        (Some(ByteSize(bytes)), _) => Some(bytes),
        (None, Some(bits)) if bits > 0.0 && bits <= 32.0 => Some((weights as f64 * bits / 8.0) as u64),
        (None, Some(bits)) => {
            let problem = format!("--target-bpw {bits}: bits per weight are between 0 and 32");
            return Err(RuntimeError::Request(problem).into());
        }
        (None, None) => None,
    };
    let calibrated = !args.calibration.is_empty() || size_limit.is_some() || args.stats_out.is_some();
    let calibration = if calibrated {
        Some(calibrate(source, &args.calibration, text_tokens(args, source), args.chat_template)?)
    } else {
        None
    };
    let clusters = match args.clusters {
        Some(count) => Some(ClusterOptions {
            count,
            text: calibrate(source, &args.calibration, CLUSTER_TOKENS, args.chat_template)?,
        }),
        None => None,
    };
    let early_exit = if args.early_exit {
        Some(calibrate(source, &args.calibration, EXIT_TOKENS, args.chat_template)?)
    } else {
        None
    };
    let wanted = Wanted::of(args)?;
    let (recipe, gguf) = match wanted {
        Wanted::Qsf(recipe) => (recipe, None),
        Wanted::Gguf(recipe) | Wanted::Hf(Some(QuantArg::Gguf(recipe))) => (Recipe::DEFAULT, Some(recipe)),
        Wanted::Hf(Some(QuantArg::Qsf(recipe))) => (recipe, None),
        // What is not in groups keeps its values.
        Wanted::Groups(_) | Wanted::Hf(Some(QuantArg::Groups(_))) => (Recipe::Uniform(QuantType::F32), None),
        // The values of the source, whatever type holds them at last.
        Wanted::Hf(None) if size_limit.is_none() => (Recipe::Uniform(QuantType::F32), None),
        Wanted::Hf(None) => (Recipe::DEFAULT, None),
    };
    let stats_in = match &args.imatrix {
        Some(path) => vec![imatrix_of(path)?],
        None => args.stats_in.clone(),
    };
    let groups = match wanted {
        Wanted::Groups(scheme) => {
            Some(GroupRecipe { scheme, group: args.block_size.map(|size| usize::from(u16::from(size))) })
        }
        _ => None,
    };
    let hf = matches!(wanted, Wanted::Hf(_) | Wanted::Groups(_)).then(|| {
        let shard_size = args.shard_size.map(|size| size.0);
        HfOut { groups, ..HfOut::new(args.dtype.map(Into::into), shard_size, source.tensors()) }
    });
    check_gguf_types(args, gguf.is_some(), size_limit.is_some())?;
    Ok(ConvertOptions {
        recipe,
        gguf,
        gguf_types: args.gguf_types.clone(),
        hf,
        outliers: if gguf.is_some() || groups.is_some() {
            OutlierChoice::OFF
        } else {
            choose_outliers(args)?
        },
        min_cosine: args.min_cosine,
        overrides: args.tensor_type.clone(),
        block: args.block_size.filter(|_| groups.is_none()).unwrap_or(BlockSize::B64),
        compression: args.compress.into(),
        layout: args.layout.into(),
        calibration,
        stats_in,
        size_limit,
        effort: args.effort.into(),
        clusters,
        early_exit,
        evaluation,
        named: type_name(args, None)?,
        ..ConvertOptions::default()
    })
}

/// The file of `--imatrix`, which must be one.
fn imatrix_of(path: &Path) -> Result<PathBuf, RuntimeError> {
    File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    if is_imatrix(path) {
        return Ok(path.to_owned());
    }
    let expected = "an importance matrix of llama.cpp (GGUF, or the older .dat)";
    Err(RuntimeError::bad_input(path, "the start of the file", expected, "other bytes"))
}

/// Whether there is a choice that `--gguf-types` can narrow.
fn check_gguf_types(args: &ConvertArgs, is_gguf: bool, chooses: bool) -> Result<(), RuntimeError> {
    let problem = match (args.gguf_types.is_empty(), is_gguf, chooses) {
        (true, ..) | (_, true, true) => return Ok(()),
        (_, false, _) => "--gguf-types is about GGUF files: give OUT.gguf or --to gguf",
        (_, true, false) => {
            "--gguf-types goes with --target-size or --target-bpw; without, --quant names a recipe, such as Q4_0"
        }
    };
    Err(RuntimeError::Request(problem.into()))
}

/// What `--outliers` asks for, or else what suits the other options.
fn choose_outliers(args: &ConvertArgs) -> Result<OutlierChoice, RuntimeError> {
    let chooses = args.target_size.is_some() || args.target_bpw.is_some();
    match args.outliers {
        Some(OutlierArg(OutlierChoice::Auto)) if !chooses => {
            let problem =
                "--outliers auto goes with --target-size or --target-bpw; without, give a share such as 0.5%";
            Err(RuntimeError::Request(problem.into()))
        }
        Some(OutlierArg(choice)) => Ok(choice),
        None => Ok(if chooses { OutlierChoice::Auto } else { OutlierChoice::OFF }),
    }
}

/// What stands for the types of the matrices in names and reports.
pub(super) fn type_name(args: &ConvertArgs, plan: Option<&SavedPlan>) -> Result<String, RuntimeError> {
    if let Some(plan) = plan {
        return Ok(plan.named().to_owned());
    }
    Ok(match (args.target_size, args.target_bpw) {
        (Some(ByteSize(bytes)), _) => human_bytes(bytes).replace(' ', ""),
        (None, Some(bits)) => format!("{bits}bpw"),
        (None, None) => match Wanted::of(args)? {
            Wanted::Hf(None) => "hf".to_owned(),
            wanted => wanted.name().to_owned(),
        },
    })
}

/// Tokens of the calibration text that are wanted.
pub(super) fn text_tokens(args: &ConvertArgs, source: &dyn WeightSource) -> usize {
    args.calibration_tokens.unwrap_or_else(|| default_tokens(source, args.effort.into()))
}
