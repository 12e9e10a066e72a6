//! `qsf-eval`: how good is a model, and how far is it from another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Parser, ValueEnum};
use qsf_format::cli::{print, printable};
use serde_json::{Value, json};

use super::{
    ComputeArgs, DeviceArgs, KvArgs, ProgressLine, Runs, ShortcutArgs, ShortcutReport, StreamArgs, Streaming,
    cancel_on_interrupt, model_name, read_text,
};
use crate::cpu::{Cpu, KvTypes};
use crate::decoder::{Activations, Decoder, KvOptions};
use crate::error::{Result, RuntimeError};
use crate::eval::{EvalOptions, Evaluation, GoldenExpectation, compare_golden, evaluate};
use crate::progress::{Cancel, Progress};
use crate::runner::Runner;
use crate::source::{self, WeightSource};
use crate::stream::Need;
use crate::tokenizer::Tokenizer;
use crate::weights::Model;

/// Measures perplexity of a model on a text, and its distance from a base model.
#[derive(Debug, Parser)]
#[command(name = "qsf-eval", version, after_help = EXAMPLES)]
#[command(group(ArgGroup::new("input").required(true).args(["file", "golden"])))]
pub struct EvalArgs {
    /// QSF file; or HuggingFace directory or GGUF file (evaluated at full precision)
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Text to evaluate on
    #[arg(short, long, value_name = "TEXT")]
    file: Option<PathBuf>,
    /// Compare with logits of another implementation: a safetensors file with input_ids, logits_last8, nll and
    /// greedy_prompt20
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "chunks", "ctx", "head", "quality", "early_exit", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io"])]
    golden: Option<PathBuf>,
    /// Base model (QSF file, directory or GGUF file) to measure the divergence from, run side by side
    #[arg(long, value_name = "MODEL2")]
    base: Option<PathBuf>,
    /// Tokens per chunk; the second half of each is scored
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    ctx: usize,
    /// Chunks to evaluate [default: all of the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Type of activations [default: int8 for quantized weights, f32 for a source]
    #[arg(long, value_enum, value_name = "TYPE")]
    activations: Option<ActivationArg>,
    #[command(flatten)]
    shortcuts: ShortcutArgs,
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    kv: KvArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    compute: ComputeArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ActivationArg {
    /// 8-bit, a scale per 32 values
    Int8,
    /// 32-bit floats: the reference
    F32,
}

/// Positions whose logits are held at once within a RAM budget.
const STREAMED_LOGIT_ROWS: usize = 4;

const EXAMPLES: &str = "Examples:
  qsf-eval model.qsf --file wiki.test.raw
  qsf-eval model.qsf --file text.txt --base ./model-dir --chunks 60 --json
  qsf-eval model.qsf --file text.txt --base ./model-dir --ram-budget 200
  qsf-eval ./model-dir --golden expected.safetensors

Figures follow llama-perplexity: chunks without overlap, positions ctx/2 to ctx-2 scored.
A RAM budget is that of MODEL; the base has memory of its own. The base runs with an f16 key/value cache; with --golden, the cache is f32 unless --kv-type says otherwise. A GPU keeps keys and values in f16 or 8bit, and runs the base too.
In JSON, top1 and delta_p are in per cent, kld in nats.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory, 130 interrupted.";

impl EvalArgs {
    /// Threads and so on.
    pub fn compute(&self) -> &ComputeArgs {
        &self.compute
    }
}

/// Prints what the flags ask for.
///
/// # Errors
/// When a model or the text cannot be read, or the two do not fit together.
pub fn print_evaluation(args: &EvalArgs) -> anyhow::Result<()> {
    let cpu = args.compute.start()?;
    if let Some(path) = &args.golden {
        let open = args.stream.open(&args.model)?;
        let cancel = cancel_on_interrupt()?;
        let decoder = decoder(args, &cpu, Model::load(open.source())?)?.stop_on(&cancel);
        let kv = args.kv.kv_type;
        return match args.device.choose(decoder, only_on_cpu(args))? {
            Runs::OnCpu(decoder) => golden(args, &*decoder, kv.unwrap_or_default(), path),
            #[cfg(feature = "gpu")]
            Runs::OnGpu(decoder) => golden(args, &*decoder, kv.unwrap_or(KvTypes::F16), path),
        };
    }
    match measure(args, &cpu, &ProgressLine::default(), &cancel_on_interrupt()?)? {
        Outcome::Plan(streaming) => print(&streaming.describe(args.json))?,
        Outcome::Measured(measured) if args.json => print(&format!("{:#}\n", measured.to_json(args)?))?,
        Outcome::Measured(measured) => print(&printable(&measured.to_text(args)))?,
    }
    Ok(())
}

/// What `qsf-eval` prints with `--json`.
///
/// # Errors
/// As [`print_evaluation`]; also for flags that ask for something else than an evaluation.
pub fn evaluation_json(
    args: &EvalArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Value> {
    match measure(args, cpu, progress, cancel)? {
        Outcome::Measured(measured) => measured.to_json(args),
        Outcome::Plan(_) => {
            Err(RuntimeError::Request("--memory-plan: asks for a plan, not for an evaluation".into()).into())
        }
    }
}

/// What came of the flags.
enum Outcome {
    /// Of `--memory-plan`.
    Plan(Box<Streaming>),
    Measured(Box<Measured>),
}

/// An evaluation, and how the model was run for it.
struct Measured {
    result: Evaluation,
    kv: KvOptions,
    /// What ran it.
    device: String,
    activations: &'static str,
    /// Of the model.
    layers: usize,
    shortcuts: ShortcutReport,
    streaming: Option<Streaming>,
}

fn measure(args: &EvalArgs, cpu: &Cpu, progress: &dyn Progress, cancel: &Cancel) -> anyhow::Result<Outcome> {
    let Some(file) = &args.file else {
        return Err(RuntimeError::Request("pass --file or --golden".into()).into());
    };
    let mut open = args.stream.open(&args.model)?;
    let text = read_text(file)?;
    let tokenizer = tokenizer(open.source())?;
    let tokens = tokenizer.encode(&text)?;
    let bos = tokenizer.bos();
    drop(tokenizer);
    cancel.check()?;
    // Before the model, so that a budget counts what it takes.
    let base = args.base.as_deref().map(|path| base(args, cpu, path, &text, &tokens)).transpose()?;
    let base = base.map(|base| args.device.choose(base.stop_on(cancel), only_on_cpu(args))).transpose()?;
    drop(text);
    let mut options = EvalOptions {
        ctx: args.ctx,
        chunks: args.chunks.map(|n| n as usize),
        bos,
        kv: args.kv.options(open.default_kv()),
        ..EvalOptions::default()
    };
    if args.stream.ram_budget.is_some() {
        options.logit_rows = STREAMED_LOGIT_ROWS;
    }
    let layers = args.shortcuts.layers(open.source())?;
    let (model, streaming) = open.load(Need {
        context: options.ctx,
        least_context: options.ctx,
        batch: options.ctx.clamp(1, options.step),
        logit_rows: options.logit_rows,
        whole_head: args.shortcuts.whole_head(),
        kv: options.kv,
        smaller_kv: Vec::new(),
        skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
        threads: cpu.threads(),
    })?;
    let streaming = match streaming {
        Some(streaming) if args.stream.memory_plan => return Ok(Outcome::Plan(Box::new(streaming))),
        streaming => streaming,
    };
    if let Some(streaming) = &streaming {
        options.step = streaming.plan.batch;
    }
    let decoder = decoder(args, cpu, model)?.stop_on(cancel);
    let (decoder, shortcuts) = args.shortcuts.apply_with(decoder, open.source(), layers)?;
    let how = How { tokens: &tokens, options, shortcuts, streaming };
    // Both on the same device, as the base was loaded first.
    let device = if matches!(base, Some(Runs::OnCpu(_))) { DeviceArgs::CPU } else { args.device };
    match (device.choose(decoder, only_on_cpu(args))?, base) {
        (Runs::OnCpu(model), None) => how.measure(&*model, None, progress),
        (Runs::OnCpu(model), Some(Runs::OnCpu(base))) => how.measure(&*model, Some(&*base), progress),
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), None) => how.measure(&*model, None, progress),
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), Some(Runs::OnGpu(base))) => how.measure(&*model, Some(&*base), progress),
        #[cfg(feature = "gpu")]
        (Runs::OnCpu(_), Some(Runs::OnGpu(_))) | (Runs::OnGpu(_), Some(Runs::OnCpu(_))) => {
            let problem =
                "only the base runs on the GPU, and both have to run on the same device: pass --device cpu";
            Err(RuntimeError::Request(problem.into()).into())
        }
    }
}

/// How a model is evaluated.
struct How<'a> {
    tokens: &'a [u32],
    options: EvalOptions,
    shortcuts: ShortcutReport,
    streaming: Option<Streaming>,
}

impl How<'_> {
    fn measure<R: Runner>(
        self,
        model: &R,
        base: Option<&R>,
        progress: &dyn Progress,
    ) -> anyhow::Result<Outcome> {
        let How { tokens, options, shortcuts, streaming } = self;
        let result = evaluate(model, base, tokens, options, progress)?;
        Ok(Outcome::Measured(Box::new(Measured {
            result,
            kv: options.kv,
            device: model.device(),
            activations: model.activations(),
            layers: model.config().layers as usize,
            shortcuts,
            streaming,
        })))
    }
}

/// The first of the flags given that only the CPU honours.
fn only_on_cpu(args: &EvalArgs) -> Option<&'static str> {
    let activations = args.activations.map(|_| "--activations");
    activations.or_else(|| super::only_on_cpu(&args.stream, &args.kv, &args.shortcuts))
}

impl Measured {
    fn to_json(&self, args: &EvalArgs) -> anyhow::Result<Value> {
        let mut value = serde_json::to_value(&self.result)?;
        value["model"] = json!(model_name(&args.model));
        value["base"] = json!(args.base.as_deref().map(model_name));
        value["text"] = json!(args.file.as_deref().map(model_name));
        value["device"] = json!(self.device);
        value["activations"] = json!(self.activations);
        value["kv_type"] = json!(self.kv.types.to_string());
        value["kv_window"] = json!(self.kv.keep.map(|keep| keep.positions));
        value["kv_policy"] = json!(self.kv.keep.map(|keep| keep.policy.name()));
        value["streaming"] = json!(self.streaming.as_ref().map(Streaming::to_json));
        self.shortcuts.add_to(&mut value);
        Ok(value)
    }

    /// The same for people.
    fn to_text(&self, args: &EvalArgs) -> String {
        let streaming = self.streaming.as_ref().map(|streaming| streaming.describe(false));
        self.report(args) + &self.shortcuts.lines() + &streaming.unwrap_or_default()
    }

    fn report(&self, args: &EvalArgs) -> String {
        let Measured { result, kv, .. } = self;
        let keep = kv.keep.map(|keep| format!(" of {} positions ({})", keep.positions, keep.policy.name()));
        let mut out = format!(
            "{} on {}: {} chunks of {} tokens, {} positions scored, {}, {} activations, {} KV cache{}, {:.1} s\n",
            model_name(&args.model),
            args.file.as_deref().map(model_name).unwrap_or_default(),
            result.chunks,
            result.ctx,
            result.tokens,
            self.device,
            self.activations,
            kv.types,
            keep.unwrap_or_default(),
            result.seconds
        );
        out += &format!("perplexity            {:.4} +- {:.4}\n", result.ppl, result.ppl_stderr);
        if let Some(decoding) = &result.decoding {
            out += &format!(
                "layers per token      {:.2} of {}, decoded at {:.1} tokens/s\n",
                decoding.layers_per_token, self.layers, decoding.tokens_per_second
            );
        }
        if let (Some(d), Some(base)) = (&result.divergence, &args.base) {
            let k = &d.kld;
            out += &format!(
                "perplexity of base    {:.4} ({:+.2} %), {}\n",
                d.base_ppl,
                100.0 * (result.ppl / d.base_ppl - 1.0),
                model_name(base)
            );
            out += &format!("KL divergence, mean   {:.6} +- {:.6} nats\n", k.mean, k.stderr);
            out += &format!(
                "  median {:.6}, 90 % {:.6}, 99 % {:.6}, 99.9 % {:.6}, max {:.6}\n",
                k.p50, k.p90, k.p99, k.p999, k.max
            );
            out += &format!("same top token        {:.3} %\n", d.top1);
            out += &format!(
                "probability of truth  mean change {:+.4} %, RMS {:.4} %\n",
                d.delta_p.mean, d.delta_p.rms
            );
        }
        out
    }
}

fn decoder(args: &EvalArgs, cpu: &Cpu, model: Model) -> Result<Decoder> {
    let activations = args.activations.map(|a| match a {
        ActivationArg::Int8 => Activations::Int8,
        ActivationArg::F32 => Activations::F32,
    });
    if activations == Some(Activations::Int8) && !model.has_blocks() {
        return Err(RuntimeError::Request(
            "--activations int8: no matrix of this model is quantized, so that all would run in f32".into(),
        ));
    }
    Ok(Decoder::new(Arc::new(model), cpu.clone(), activations))
}

fn tokenizer(source: &dyn WeightSource) -> Result<Tokenizer> {
    match source.tokenizer_json() {
        Some(json) => Tokenizer::from_json(json, source.path()),
        None => Err(RuntimeError::bad_input(source.path(), "tokenizer.json", "a tokenizer", "none")),
    }
}

/// The base model at its own default precision, after checking that it reads the text as the same tokens.
fn base(args: &EvalArgs, cpu: &Cpu, path: &Path, text: &str, tokens: &[u32]) -> Result<Decoder> {
    let source = source::open(path)?;
    if tokenizer(source.as_ref())?.encode(text)? != tokens {
        return Err(RuntimeError::Request(format!(
            "{} and {} have different tokenizers: their distributions cannot be compared",
            args.model.display(),
            path.display()
        )));
    }
    Ok(Decoder::new(Arc::new(Model::load(source.as_ref())?), cpu.clone(), None))
}

fn golden<R: Runner>(args: &EvalArgs, runner: &R, kv: KvTypes, path: &Path) -> anyhow::Result<()> {
    let result = compare_golden(runner, kv, path, &GoldenExpectation::read(path)?)?;
    let text = if args.json {
        let mut value = serde_json::to_value(result)?;
        value["model"] = json!(model_name(&args.model));
        value["device"] = json!(runner.device());
        value["activations"] = json!(runner.activations());
        value["kv_type"] = json!(kv.to_string());
        format!("{value:#}\n")
    } else {
        format!(
            "{} against {}: {} tokens\nlogits_rel_err  {:.3e}\nnll_mean_err    {:.3e}\ngreedy_equal    {}\n",
            model_name(&args.model),
            path.display(),
            result.tokens,
            result.logits_rel_err,
            result.nll_mean_err,
            result.greedy_equal
        )
    };
    print(&text)?;
    Ok(())
}
