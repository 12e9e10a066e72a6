//! `qsf-run`: generates text with a model, measures how fast it and its kernels are, or shows the tokens of a text.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use qsf_format::cli::{exit_with, print, table};
use qsf_format::{Failure, ModelConfig};
use qsf_runtime::cli::{
    ActivationArgs, BenchArgs, BenchModel, ComputeArgs, DEFAULT_CONTEXT, DeviceArgs, InteractiveArgs, KvArgs,
    OpenModel, Runs, ShortcutArgs, ShortcutReport, StreamArgs, Streaming, TokenizeArgs, TurnOptions,
    adapters_json, adapters_text, answer_turns, cancel_on_interrupt, classify, model_name, only_on_cpu,
    print_tokens, read_text, run_bench, run_kernels,
};
use qsf_runtime::conversation::Conversation;
use qsf_runtime::cpu::threads::{Pinning, physical_cores};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::generate::{GenerateRequest, Generation, PROMPT_BATCH, StopReason, check_lengths, generate};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::source::WeightSource;
use qsf_runtime::stream::Need;
use qsf_runtime::{ChatTemplate, KvOptions, Message, Result, Runner, RuntimeError, Sequence, Tokenizer};
use serde_json::{Value, json};

/// Tokens generated when -n is not given and the context has room.
const DEFAULT_TOKENS: usize = 256;
/// The shortest output that will do where a RAM budget has no room for the default.
const LEAST_TOKENS: usize = 16;
/// The shortest context of a conversation that will do there.
const LEAST_CONVERSATION: usize = 256;

/// Generates text with a QSF file or a source model.
#[derive(Debug, Parser)]
#[command(name = "qsf-run", version, after_help = EXAMPLES)]
struct Args {
    /// QSF file; or HuggingFace directory or GGUF file (run at full precision)
    #[arg(value_name = "MODEL", required_unless_present_any = ["system", "kernel"])]
    model: Option<PathBuf>,
    /// Text to continue
    #[arg(short, long, value_name = "TEXT", group = "input")]
    prompt: Option<String>,
    /// File whose text to continue
    #[arg(short, long, value_name = "FILE", group = "input")]
    file: Option<PathBuf>,
    /// Token ids to continue instead of text
    #[arg(long, value_name = "IDS", value_delimiter = ',', group = "input")]
    prompt_ids: Option<Vec<u32>>,
    /// Tokens to generate at most [default: 256, or what the context leaves]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N")]
    max_tokens: Option<usize>,
    /// Context in tokens: prompt and output together [default: what they need; with --interactive up to 4096]
    #[arg(short, long, value_name = "N")]
    ctx_size: Option<usize>,
    /// Take the prompt as what a user says, in the model's chat template, and answer it
    #[arg(long, requires = "input", group = "conversation", conflicts_with_all = ["prompt_ids", "measure", "tokenize", "system"])]
    chat: bool,
    #[command(flatten)]
    interactive: InteractiveArgs,
    /// With --chat or --interactive: what the model is told before
    #[arg(long, visible_alias = "sys", value_name = "TEXT", requires = "conversation")]
    system_prompt: Option<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    activations: ActivationArgs,
    #[command(flatten)]
    shortcuts: ShortcutArgs,
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    tokens: TokenizeArgs,
    #[command(flatten)]
    bench: BenchArgs,
    /// Show threads, instruction sets and the kernels chosen for each type
    #[arg(long, conflicts_with_all = ["model", "measure", "input", "activations", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io", "device"])]
    system: bool,
    /// Print one JSON object at the end instead of streaming text
    #[arg(long)]
    json: bool,
    /// Print timings to stderr; with --bench, show where the time goes
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    compute: ComputeArgs,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sampling")]
struct SamplingArgs {
    /// Temperature; 0 always takes the likeliest token
    #[arg(long, visible_alias = "temp", value_name = "T", default_value_t = 0.7)]
    temperature: f32,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Keep the likeliest tokens until their probabilities reach P; 1 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    top_p: f32,
    /// Keep tokens at least P times as likely as the likeliest; 0 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Seed of the random choices [default: from the clock, shown by --verbose and --json]
    #[arg(short, long, value_name = "N")]
    seed: Option<u64>,
}

const EXAMPLES: &str = "Examples:
  qsf-run model.qsf -p \"Once upon a time\" -n 64 --temp 0
  qsf-run model.qsf --chat -p \"Name three trees.\" --temp 0
  qsf-run model.qsf -i --system-prompt \"Be short.\"
  qsf-run ./model-dir -p \"Once upon a time\" --json
  qsf-run model.qsf -p \"Once upon a time\" --head clusters
  qsf-run model.qsf -p \"Once upon a time\" --quality 0.8
  qsf-run model.qsf -p \"Once upon a time\" --early-exit 0.9
  qsf-run model.qsf --tokenize -f text.txt --json
  qsf-run model.qsf --bench --pp 128,512 --tg 64 -t 1,2 --verbose
  qsf-run --kernel 4bit/1 -t 1
  qsf-run --system

QSF_CPU=scalar|avx2 forces an instruction set.
Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory, 130 interrupted.";

fn main() -> ExitCode {
    let args = Args::parse();
    exit_with(run(&args), classify)
}

fn run(args: &Args) -> anyhow::Result<()> {
    if args.bench.kernel.is_some() {
        return run_kernels(&args.bench, args.device, &args.compute, args.json, &cancel_on_interrupt()?);
    }
    if let (true, Some(path)) = (args.bench.bench, &args.model) {
        let cancel = cancel_on_interrupt()?;
        let Args { compute, device, shortcuts, stream, kv, activations, .. } = args;
        let (device, activations) = (*device, *activations);
        let how = BenchModel { path, compute, device, shortcuts, stream, kv, activations };
        return run_bench(&args.bench, &how, args.json, args.verbose, &cancel);
    }
    let cpu = args.compute.start()?;
    if args.system {
        return system(args, &cpu);
    }
    let Some(path) = &args.model else {
        return Err(RuntimeError::Request("no model given".into()).into());
    };
    args.activations.check(cpu.isa(), &args.stream)?;
    if args.tokens.tokenize {
        return print_tokens(&args.tokens, path, &text(args)?, args.json);
    }
    let given = args.prompt.is_some() || args.file.is_some() || args.prompt_ids.is_some();
    if !given && !args.interactive.interactive {
        return Err(RuntimeError::Request(
            "nothing to continue: pass -p TEXT, -f FILE or --prompt-ids, or -i".into(),
        )
        .into());
    }
    let started = Instant::now();
    let mut open = args.stream.open(path)?;
    let cancel = cancel_on_interrupt()?;
    // Before the weights, so that a budget is made with what the tokenizer takes. Token ids that nobody reads need none.
    let ids_only = args.prompt_ids.is_some() && args.stream.ram_budget.is_some();
    let source = open.source();
    let json = source.tokenizer_json().filter(|_| !ids_only);
    let tokenizer = json.map(|json| Tokenizer::from_json(json, source.path())).transpose()?;
    let prompt = prompt(args, source, tokenizer.as_ref())?;
    let lengths = Lengths::new(args, source.config(), &prompt)?;
    let kv = args.kv.options(open.default_kv());
    let layers = args.shortcuts.layers(open.source())?;
    let (model, streaming) = open.load(Need {
        context: lengths.context,
        least_context: lengths.least_context,
        batch: lengths.step,
        logit_rows: 1,
        whole_head: args.shortcuts.whole_head(),
        kv,
        smaller_kv: if args.kv.kv_type.is_some() { Vec::new() } else { open.smaller_kv() },
        skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
        threads: cpu.threads(),
    })?;
    if let Some(streaming) = streaming.as_ref().filter(|_| args.stream.memory_plan) {
        return Ok(print(&streaming.describe(args.json))?);
    }
    if let Some(note) = streaming.as_ref().and_then(|streaming| streaming.concessions(lengths.context, kv)) {
        writeln!(std::io::stderr(), "note: {note}")?;
    }
    let decoder = args.activations.decoder(Arc::new(model), cpu)?.stop_on(&cancel);
    let (decoder, shortcuts) = args.shortcuts.apply_with(decoder, open.source(), layers)?;
    if args.verbose || std::io::stderr().is_terminal() {
        write!(std::io::stderr(), "{}", shortcuts.lines())?;
    }
    let setup = Setup { shortcuts, streaming, kv, tokenizer, started };
    let only_on_cpu = only_on_cpu(&args.stream, &args.kv, &args.shortcuts, args.activations);
    match args.device.choose(decoder, only_on_cpu)? {
        Runs::OnCpu(decoder) => run_on(&*decoder, args, &open, setup, (lengths, &prompt)),
        #[cfg(feature = "gpu")]
        Runs::OnGpu(decoder) => run_on(&*decoder, args, &open, setup, (lengths, &prompt)),
    }
}

/// Answers turns or continues a prompt.
fn run_on<R: Runner>(
    runner: &R,
    args: &Args,
    open: &OpenModel,
    mut setup: Setup,
    (lengths, prompt): (Lengths, &[u32]),
) -> anyhow::Result<()> {
    runner.cancel().check()?;
    let plan = setup.streaming.as_ref().map(|streaming| &streaming.plan);
    let (context, step, kv) =
        plan.map_or((lengths.context, PROMPT_BATCH, setup.kv), |p| (p.context, p.batch, p.kv));
    setup.kv = kv;
    let state = runner.state_with(context, step, kv)?;
    let load_seconds = setup.started.elapsed().as_secs_f64();
    if args.interactive.interactive {
        return converse(runner, args, open, &setup, state);
    }
    let max_tokens = lengths.max_tokens.min(context - prompt.len());
    generate_text(runner, args, open.source().path(), (&setup, load_seconds), state, (prompt, max_tokens))
}

/// How many tokens there will be.
#[derive(Clone, Copy)]
struct Lengths {
    max_tokens: usize,
    context: usize,
    /// What will do, where the user did not ask for a length.
    least_context: usize,
    /// Of the longest step.
    step: usize,
}

impl Lengths {
    fn new(args: &Args, config: &ModelConfig, prompt: &[u32]) -> Result<Lengths> {
        if let Some(id) = prompt.iter().find(|&&id| id >= config.vocab) {
            let problem = format!("token id {id} is beyond the model's vocabulary of {}", config.vocab);
            return Err(RuntimeError::Request(problem));
        }
        if args.max_tokens == Some(0) {
            return Err(RuntimeError::Request("-n 0: expected at least 1 token to generate".into()));
        }
        let longest = config.max_positions as usize;
        if args.interactive.interactive {
            let context = args.ctx_size.unwrap_or(DEFAULT_CONTEXT.min(longest));
            let max_tokens = args.max_tokens.unwrap_or(DEFAULT_TOKENS);
            let least_context = args.ctx_size.unwrap_or(LEAST_CONVERSATION.min(context));
            return Ok(Lengths { max_tokens, context, least_context, step: PROMPT_BATCH });
        }
        let limit = args.ctx_size.unwrap_or(longest);
        check_lengths(prompt.len(), args.max_tokens.unwrap_or(0), limit)?;
        let max_tokens = args.max_tokens.unwrap_or_else(|| DEFAULT_TOKENS.min(limit - prompt.len()));
        let context = args.ctx_size.unwrap_or(prompt.len() + max_tokens);
        let is_open = args.ctx_size.is_none() && args.max_tokens.is_none();
        let least_context = if is_open { context.min(prompt.len() + LEAST_TOKENS) } else { context };
        Ok(Lengths { max_tokens, context, least_context, step: prompt.len().min(PROMPT_BATCH) })
    }
}

/// What text is generated with.
struct Setup {
    shortcuts: ShortcutReport,
    streaming: Option<Streaming>,
    kv: KvOptions,
    tokenizer: Option<Tokenizer>,
    /// When loading began.
    started: Instant,
}

/// The text of -p or -f.
fn text(args: &Args) -> Result<String> {
    match (&args.prompt, &args.file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(file)) => read_text(file),
        (None, None) => Ok(String::new()),
    }
}

/// The tokens to continue; in a conversation that is read, none.
fn prompt(args: &Args, source: &dyn WeightSource, tokenizer: Option<&Tokenizer>) -> Result<Vec<u32>> {
    if let Some(ids) = &args.prompt_ids {
        return Ok(ids.clone());
    }
    if args.interactive.interactive {
        return Ok(Vec::new());
    }
    let text = text(args)?;
    if args.chat {
        return chat_tokens(args, source, tokenizer, text);
    }
    if text.is_empty() {
        return Ok(Vec::new());
    }
    tokenizer.ok_or_else(|| no_tokenizer(source.path()))?.encode(&text)
}

/// The tokens of a conversation of one turn, up to where the answer begins.
fn chat_tokens(
    args: &Args,
    source: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
    text: String,
) -> Result<Vec<u32>> {
    let tokenizer = tokenizer.ok_or_else(|| no_tokenizer(source.path()))?;
    let template = ChatTemplate::of_source(source, tokenizer)?;
    let system = args.system_prompt.as_ref().map(|text| Message::new("system", text));
    let messages: Vec<Message> = system.into_iter().chain([Message::new("user", text)]).collect();
    tokenizer.encode_plain(&template.render(&messages, true)?)
}

/// Answers turns from stdin until it ends.
fn converse<R: Runner>(
    runner: &R,
    args: &Args,
    open: &OpenModel,
    setup: &Setup,
    state: R::State,
) -> anyhow::Result<()> {
    let source = open.source();
    let tokenizer = setup.tokenizer.as_ref().ok_or_else(|| no_tokenizer(source.path()))?;
    let template = source.chat_template().map(|_| ChatTemplate::of_source(source, tokenizer)).transpose()?;
    let (mut sampler, seed) = sampler(args)?;
    let system = args.system_prompt.as_deref();
    let mut conversation = Conversation::new((runner, state), tokenizer, template, system)?;
    let first = if args.prompt.is_some() || args.file.is_some() { Some(text(args)?) } else { None };
    let options = TurnOptions {
        first: first.as_deref(),
        max_tokens: args.max_tokens.unwrap_or(DEFAULT_TOKENS),
        json: args.json,
        verbose: args.verbose,
    };
    let turns = answer_turns(&mut conversation, &options, &mut sampler, runner.cancel())?;
    if args.json {
        let mut value = json!({
            "model": model_name(source.path()), "turns": turns, "seed": seed, "device": runner.device(), "activations": runner.activations(), "kv_type": setup.kv.types.to_string(),
            "streaming": setup.streaming.as_ref().map(Streaming::to_json),
        });
        setup.shortcuts.add_to(&mut value);
        print(&format!("{value:#}\n"))?;
    }
    Ok(())
}

/// The sampler that the flags ask for, and its seed.
fn sampler(args: &Args) -> Result<(Sampler, u64)> {
    let seed = args.sampling.seed.unwrap_or_else(clock_seed);
    let SamplingArgs { temperature, top_k, top_p, min_p, .. } = args.sampling;
    Ok((Sampler::new(SamplerOptions::new(temperature, top_k, top_p, min_p, seed)?), seed))
}

fn no_tokenizer(path: &Path) -> RuntimeError {
    RuntimeError::bad_input(path, "tokenizer.json", "a tokenizer, or a prompt as --prompt-ids", "none")
}

fn generate_text<R: Runner>(
    runner: &R,
    args: &Args,
    path: &Path,
    (setup, load_seconds): (&Setup, f64),
    mut state: R::State,
    (prompt, max_tokens): (&[u32], usize),
) -> anyhow::Result<()> {
    let Setup { shortcuts, streaming, kv, tokenizer, .. } = setup;
    let (config, streaming) = (runner.config(), streaming.as_ref());
    let (mut sampler, seed) = sampler(args)?;
    let mut text = String::new();
    let mut stream = tokenizer.as_ref().map(|tokenizer| tokenizer.stream_after(prompt)).transpose()?;
    if let Some(prompt) = args.prompt.as_ref().filter(|_| !args.json && !args.chat) {
        print(prompt)?;
    }
    let mut show = |piece: &str| -> Result<()> {
        if !args.json {
            print(piece).map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))?;
        }
        text.push_str(piece);
        Ok(())
    };
    let result = generate(
        runner,
        &mut state,
        GenerateRequest { prompt, max_tokens, stop_tokens: &config.stop_tokens },
        &mut sampler,
        |token| match &mut stream {
            Some(stream) => match stream.push(token)? {
                Some(piece) => show(&piece),
                None => Ok(()),
            },
            None => show(&format!("{token} ")),
        },
    )?;
    if let Some(rest) = stream.as_mut().map(|s| s.finish()).transpose()?.flatten() {
        show(&rest)?;
    }
    let rates = Rates::new(prompt, &result, load_seconds);
    if args.json {
        let mut value = json!({
            "model": model_name(path),
            "text": text,
            "tokens": result.tokens,
            "prompt_tokens": prompt,
            "stop_reason": result.stop,
            "seed": seed,
            "device": runner.device(),
            "activations": runner.activations(),
            "streaming": streaming.map(Streaming::to_json),
            "kv_type": kv.types.to_string(),
            "kv_window": kv.keep.map(|keep| keep.positions),
            "kv_policy": kv.keep.map(|keep| keep.policy.name()),
            "load_seconds": load_seconds,
            "prefill_seconds": result.prefill.as_secs_f64(),
            "decode_seconds": result.decode.as_secs_f64(),
            "prefill_tokens_per_second": rates.prefill,
            "decode_tokens_per_second": rates.decode,
            "layers_per_token": state.decoded_layers().mean(),
        });
        shortcuts.add_to(&mut value);
        print(&format!("{value:#}\n"))?;
    } else {
        print("\n")?;
    }
    if args.verbose {
        if let Some(streaming) = streaming {
            write!(std::io::stderr(), "{}", streaming.describe(false))?;
        }
        writeln!(std::io::stderr(), "run by {}", runner.device())?;
        rates.report(prompt, &result, seed, std::io::stderr())?;
        if let Some(layers) = state.decoded_layers().mean() {
            writeln!(std::io::stderr(), "{layers:.2} of {} layers per output token", config.layers)?;
        }
    }
    if result.stop == StopReason::Interrupted {
        std::process::exit(Failure::Interrupted.exit_code().into());
    }
    Ok(())
}

/// Speeds of one generation; nothing where too little happened to speak of a speed.
struct Rates {
    load_seconds: f64,
    prefill: Option<f64>,
    decode: Option<f64>,
}

impl Rates {
    fn new(prompt: &[u32], result: &Generation, load_seconds: f64) -> Rates {
        let rate =
            |tokens: usize, seconds: f64| (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds);
        Rates {
            load_seconds,
            prefill: rate(prompt.len(), result.prefill.as_secs_f64()),
            decode: rate(result.tokens.len().saturating_sub(1), result.decode.as_secs_f64()),
        }
    }

    fn report(
        &self,
        prompt: &[u32],
        result: &Generation,
        seed: u64,
        mut out: impl Write,
    ) -> std::io::Result<()> {
        let rate = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.1}"));
        writeln!(
            out,
            "load {:.2} s; prompt {} tokens at {} tokens/s; output {} tokens at {} tokens/s; seed {seed}",
            self.load_seconds,
            prompt.len(),
            rate(self.prefill),
            result.tokens.len(),
            rate(self.decode)
        )
    }
}

fn clock_seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn system(args: &Args, cpu: &Cpu) -> anyhow::Result<()> {
    let available: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    let kernels = cpu.kernels().entries();
    let (threads, pinned) = (cpu.threads(), cpu.pool().pinning() == Pinning::Cores);
    let cores = physical_cores().map(<[usize]>::len);
    if args.json {
        let kernels: Vec<Value> =
            kernels.map(|k| json!({"type": k.quant, "path": k.path, "kernel": k.kernel})).collect();
        let value = json!({
            "arch": std::env::consts::ARCH, "os": std::env::consts::OS, "threads": threads,
            "physical_cores": cores, "pinned": pinned, "isa_available": available, "isa": cpu.isa().name(), "kernels": kernels,
            "adapters": adapters_json(),
        });
        print(&format!("{value:#}\n"))?;
        return Ok(());
    }
    let mut out = format!(
        "{} {}, {threads} threads{}, {} physical cores\ninstruction sets: {} (in use: {})\n",
        std::env::consts::ARCH,
        std::env::consts::OS,
        if pinned { " (pinned)" } else { "" },
        cores.map_or("an unknown number of".to_owned(), |cores| cores.to_string()),
        available.join(", "),
        cpu.isa().name()
    );
    out += &format!("{}\n", adapters_text());
    out += &table(
        &["type", "activations", "kernel"],
        3,
        kernels.map(|k| vec![k.quant.to_string(), k.path.to_string(), k.kernel.to_string()]),
    );
    print(&out)?;
    Ok(())
}
