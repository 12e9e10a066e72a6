//! What a loaded model does: continue a prompt, or answer turns.

use std::io::Write as _;
use std::path::Path;

use qsf_format::{Failure, human_bytes};
use qsf_runtime::conversation::{Conversation, Ending};
use qsf_runtime::generate::{Flow, GenerateRequest, Generation, PROMPT_BATCH, StopReason, generate};
use qsf_runtime::sample::Sampler;
use qsf_runtime::{ChatTemplate, Result, Runner, RuntimeError, Sequence};
use serde_json::json;

use super::args::RunArgs;
use super::interactive::{TurnOptions, answer_turns};
use super::lengths::DEFAULT_TOKENS;
use super::prompt::no_tokenizer;
use super::rates::Rates;
use super::session::Session;
use crate::console::{print, print_json};
use crate::interrupt::ctrl_c_ends_an_answer;
use crate::json_document::document;
use crate::model_args::Streaming;
use crate::model_name::model_name;

/// Answers turns or continues the prompt.
pub(super) fn answer<R: Runner>(runner: &R, args: &RunArgs, mut session: Session) -> anyhow::Result<()> {
    runner.cancel().check()?;
    let plan = session.streaming.as_ref().map(|streaming| &streaming.plan);
    let (context, step, kv) = plan.map_or((session.lengths.context, PROMPT_BATCH, session.kv), |plan| {
        (plan.context, plan.batch, plan.kv)
    });
    session.kv = kv;
    session.lengths.context = context;
    let state = runner.state_with(context, step, kv)?;
    if args.interactive.interactive {
        converse(runner, args, &session, state)
    } else {
        continue_prompt(runner, args, &session, state)
    }
}

/// Answers turns from stdin until it ends.
fn converse<R: Runner>(runner: &R, args: &RunArgs, session: &Session, state: R::State) -> anyhow::Result<()> {
    let source = session.open.source();
    let tokenizer = session.tokenizer.as_ref().ok_or_else(|| no_tokenizer(source.path()))?;
    let template = source.chat_template().map(|_| ChatTemplate::of_source(source, tokenizer)).transpose()?;
    let template = template.map(|template| template.on(args.today()));
    let (sampler, seed) = args.sampling.sampler()?;
    let mut sampler = without_stop_tokens(runner, args, sampler);
    let name = model_name(source.path());
    let system = args.system_prompt.as_deref();
    let mut conversation = Conversation::new(runner, state, tokenizer, template, system)?;
    let first = if args.prompt.is_some() || args.file.is_some() { Some(args.text()?) } else { None };
    let options = TurnOptions {
        first: first.as_deref(),
        ending: Ending {
            max_tokens: args.max_tokens.unwrap_or(DEFAULT_TOKENS),
            stop_texts: args.stop_texts(),
            ignore_eos: args.ignore_eos,
        },
        json: args.json,
        verbose: args.verbose,
        name: &name,
    };
    ctrl_c_ends_an_answer();
    let turns = answer_turns(&mut conversation, &options, &mut sampler, runner.cancel())?;
    if args.json {
        let mut value = json!({
            "model": name,
            "turns": turns,
            "seed": seed,
            "device": runner.device(),
            "activations": runner.activations(),
            "kv_type": session.kv.types.to_string(),
            "streaming": session.streaming.as_ref().map(Streaming::to_json),
            "huge_page_bytes": runner.huge_page_bytes(),
        });
        session.shortcuts.add_to(&mut value);
        print_json(&document("conversation", value))?;
    }
    Ok(())
}

/// With `--ignore-eos` the model's stop tokens are never chosen: what it would say behind them is another text.
fn without_stop_tokens<R: Runner>(runner: &R, args: &RunArgs, sampler: Sampler) -> Sampler {
    if args.ignore_eos { sampler.never(&runner.config().stop_tokens) } else { sampler }
}

/// A text that was generated.
struct Generated {
    generation: Generation,
    text: String,
    seed: u64,
    /// Loading of the model; what follows is not in it.
    load_seconds: f64,
    /// Layers that an output token went through on average, where that is not all of them.
    layers_per_token: Option<f64>,
}

/// Tokens of a prompt that is there together with the answer: the file is checked with the first step, which takes a moment.
const SHORT_PROMPT: usize = 32;

/// Continues the prompt once, and ends the program if the user interrupts.
fn continue_prompt<R: Runner>(
    runner: &R,
    args: &RunArgs,
    session: &Session,
    mut state: R::State,
) -> anyhow::Result<()> {
    let load_seconds = session.started.elapsed().as_secs_f64();
    let (sampler, seed) = args.sampling.sampler()?;
    let mut sampler = without_stop_tokens(runner, args, sampler);
    let prompt = session.prompt.as_slice();
    let (mut text, mut stop) = (String::new(), args.stop_texts());
    let mut stream = match &session.tokenizer {
        Some(tokenizer) => Some(tokenizer.stream_after(prompt)?),
        None => None,
    };
    // A damaged file is not begun to be continued. Of a long prompt somebody wants to see something before the answer.
    let mut echo = args.prompt.as_deref().filter(|_| !args.json && !args.chat);
    if prompt.len() > SHORT_PROMPT || runner.is_settled() {
        runner.settle()?;
        echo.take().map_or(Ok(()), print)?;
    }
    let mut show = |piece: String| -> Result<()> {
        if !args.json {
            let shown = echo.take().map_or(Ok(()), print).and_then(|()| print(&piece));
            shown.map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))?;
        }
        text.push_str(&piece);
        Ok(())
    };
    let request = GenerateRequest {
        prompt,
        max_tokens: session.lengths.max_tokens.min(session.lengths.context - prompt.len()),
        stop_tokens: if args.ignore_eos { &[] } else { &runner.config().stop_tokens },
    };
    let generation = generate(runner, &mut state, request, &mut sampler, |token| {
        let piece = match &mut stream {
            Some(stream) => stream.push(token)?,
            None => Some(format!("{token} ")),
        };
        if let Some(piece) = piece {
            show(stop.push(&piece))?;
        }
        Ok(if stop.found() { Flow::Stop } else { Flow::Continue })
    })?;
    if let Some(rest) = stream.as_mut().map(|stream| stream.finish()).transpose()?.flatten() {
        show(stop.push(&rest))?;
    }
    show(stop.finish())?;
    let layers_per_token = state.decoded_layers().mean();
    let generated = Generated { generation, text, seed, load_seconds, layers_per_token };
    report(runner, args, session, &generated)?;
    if generated.generation.stop == StopReason::Interrupted {
        std::process::exit(Failure::Interrupted.exit_code().into());
    }
    Ok(())
}

/// Ends the text on stdout, or prints the JSON; with `--verbose`, timings on stderr.
fn report<R: Runner>(runner: &R, args: &RunArgs, session: &Session, found: &Generated) -> anyhow::Result<()> {
    let Session { shortcuts, streaming, kv, prompt, .. } = session;
    let Generated { generation, text, seed, load_seconds, layers_per_token } = found;
    let rates = Rates::new(prompt, generation, *load_seconds);
    if args.json {
        let mut value = json!({
            "model": model_name(session.open.source().path()),
            "text": text,
            "tokens": generation.tokens.len(),
            "token_ids": generation.tokens,
            "prompt_tokens": prompt.len(),
            "prompt_token_ids": prompt,
            "stop_reason": generation.stop,
            "seed": seed,
            "device": runner.device(),
            "activations": runner.activations(),
            "streaming": streaming.as_ref().map(Streaming::to_json),
            "huge_page_bytes": runner.huge_page_bytes(),
            "kv_type": kv.types.to_string(),
            "kv_window": kv.keep.map(|keep| keep.positions),
            "kv_policy": kv.keep.map(|keep| keep.policy.name()),
            "load_seconds": load_seconds,
            "prefill_seconds": generation.prefill.as_secs_f64(),
            "decode_seconds": generation.decode.as_secs_f64(),
            "prefill_tokens_per_second": rates.prefill,
            "decode_tokens_per_second": rates.decode,
            "layers_per_token": layers_per_token,
        });
        shortcuts.add_to(&mut value);
        print_json(&document("generation", value))?;
    } else {
        print("\n")?;
    }
    if args.verbose {
        let mut out = std::io::stderr();
        if let Some(streaming) = streaming {
            write!(out, "{}", streaming.describe(false))?;
        }
        let huge = runner.huge_page_bytes();
        if huge > 0 {
            writeln!(out, "{} of weights in huge pages", human_bytes(huge))?;
        }
        writeln!(out, "run by {}", runner.device())?;
        rates.report(prompt, generation, *seed, &mut out)?;
        if let Some(layers) = layers_per_token {
            writeln!(out, "{layers:.2} of {} layers per output token", runner.config().layers)?;
        }
    }
    Ok(())
}
