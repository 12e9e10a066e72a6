//! `qsf-eval`: how good is a model, and how far is it from another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgGroup, Parser, ValueEnum};
use qsf_format::cli::{exit_with, print, printable};
use qsf_runtime::cli::{
    ComputeArgs, KvArgs, ProgressLine, ShortcutArgs, cancel_on_interrupt, classify, model_name, read_text,
};
use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::eval::{EvalOptions, Evaluation, GoldenExpectation, compare_golden, evaluate};
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::{Activations, Decoder, Model, Result, RuntimeError, Tokenizer};
use serde_json::json;

/// Measures perplexity of a model on a text, and its distance from a base model.
#[derive(Debug, Parser)]
#[command(name = "qsf-eval", version, after_help = EXAMPLES)]
#[command(group(ArgGroup::new("input").required(true).args(["file", "golden"])))]
struct Args {
    /// QSF file; or HuggingFace directory or GGUF file (evaluated at full precision)
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Text to evaluate on
    #[arg(short, long, value_name = "TEXT")]
    file: Option<PathBuf>,
    /// Compare with logits of another implementation: a safetensors file with input_ids, logits_last8, nll and
    /// greedy_prompt20
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base", "chunks", "ctx", "head", "quality"])]
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
    kv: KvArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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

const EXAMPLES: &str = "Examples:
  qsf-eval model.qsf --file wiki.test.raw
  qsf-eval model.qsf --file text.txt --base ./model-dir --chunks 60 --json
  qsf-eval ./model-dir --golden expected.safetensors

Figures follow llama-perplexity: chunks without overlap, positions ctx/2 to ctx-2 scored.
The base runs with an f16 key/value cache; with --golden, the cache is f32 unless --kv-type says otherwise.
In JSON, top1 and delta_p are in per cent, kld in nats.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory, 130 interrupted.";

fn main() -> ExitCode {
    let args = Args::parse();
    exit_with(run(&args), classify)
}

fn run(args: &Args) -> anyhow::Result<()> {
    let cpu = args.compute.start()?;
    let source = source::open(&args.model)?;
    let cancel = cancel_on_interrupt()?;
    let decoder = decoder(args, &cpu, source.as_ref())?.stop_on(&cancel);
    let (decoder, shortcuts) = args.shortcuts.apply(decoder, source.as_ref())?;
    if let Some(path) = &args.golden {
        return golden(args, &decoder, path);
    }
    let Some(file) = &args.file else {
        return Err(RuntimeError::Request("pass --file or --golden".into()).into());
    };
    let text = read_text(file)?;
    let tokenizer = tokenizer(source.as_ref())?;
    let tokens = tokenizer.encode(&text)?;
    cancel.check()?;
    let base = args.base.as_deref().map(|path| base(args, &cpu, path, &text, &tokens)).transpose()?;
    let base = base.map(|base| base.stop_on(&cancel));
    let options = EvalOptions {
        ctx: args.ctx,
        chunks: args.chunks.map(|n| n as usize),
        bos: tokenizer.bos(),
        kv: args.kv.types(),
        base_kv: KvTypes::F16,
    };
    let progress = ProgressLine::default();
    let result = evaluate(&decoder, base.as_ref(), &tokens, options, &progress)?;
    if args.json {
        let mut value = serde_json::to_value(&result)?;
        value["model"] = json!(model_name(&args.model));
        value["base"] = json!(args.base.as_deref().map(model_name));
        value["text"] = json!(model_name(file));
        value["activations"] = json!(decoder.activations().name());
        value["kv_type"] = json!(args.kv.types().to_string());
        shortcuts.add_to(&mut value);
        print(&format!("{value:#}\n"))?;
    } else {
        print(&printable(&(report(args, file, &decoder, &result) + &shortcuts.lines())))?;
    }
    Ok(())
}

fn decoder(args: &Args, cpu: &Cpu, source: &dyn WeightSource) -> Result<Decoder> {
    let activations = args.activations.map(|a| match a {
        ActivationArg::Int8 => Activations::Int8,
        ActivationArg::F32 => Activations::F32,
    });
    let model = Model::load(source)?;
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
fn base(args: &Args, cpu: &Cpu, path: &Path, text: &str, tokens: &[u32]) -> Result<Decoder> {
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

fn report(args: &Args, file: &Path, decoder: &Decoder, result: &Evaluation) -> String {
    let mut out = format!(
        "{} on {}: {} chunks of {} tokens, {} positions scored, {} activations, {} KV cache, {:.1} s\n",
        model_name(&args.model),
        model_name(file),
        result.chunks,
        result.ctx,
        result.tokens,
        decoder.activations().name(),
        args.kv.types(),
        result.seconds
    );
    out += &format!("perplexity            {:.4} +- {:.4}\n", result.ppl, result.ppl_stderr);
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

fn golden(args: &Args, decoder: &Decoder, path: &Path) -> anyhow::Result<()> {
    let kv = args.kv.kv_type.unwrap_or_default();
    let result = compare_golden(decoder, kv, path, &GoldenExpectation::read(path)?)?;
    let text = if args.json {
        let mut value = serde_json::to_value(result)?;
        value["model"] = json!(model_name(&args.model));
        value["activations"] = json!(decoder.activations().name());
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
