//! `--prompts`: texts that continue many prompts, packed into the steps of the model, as lines of JSON in their order.

use std::io::Write as _;
use std::time::Instant;

use qsf_runtime::Decoder;
use qsf_runtime::progress::Unwatched;
use serde_json::json;

use super::args::{RunArgs, UNTIL_FULL};
use super::results::Results;
use super::seeds::Seeds;
use super::session::Session;
use crate::interrupt::cancel_on_interrupt;
use crate::kept_model::{BatchRequest, TextRequest};

/// Continues all prompts, and writes each result as soon as those before it are there.
pub(super) fn answer_prompts(decoder: Decoder, args: &RunArgs, session: Session) -> anyhow::Result<()> {
    let cancel = cancel_on_interrupt()?;
    cancel.check()?;
    let (model, prompts) = session.keep(decoder, args)?;
    let (sampling, first_seed) = args.sampling.options()?;
    let mut seeds = Seeds::new(args.sampling.given_seed());
    let (path, lines) = (args.many.results.as_deref(), &prompts.lines);
    let mut results =
        Results::open("prompt_result", path, lines, &mut |line, result| seeds.keep(line, result))?;
    let done = results.done();
    let seeds: Vec<u64> = lines[done..].iter().map(|line| seeds.of(line, first_seed)).collect();
    let options = |length: usize, seed: u64| TextRequest {
        prompt: String::new(),
        max_tokens: args
            .max_tokens
            .map(|most| if most == UNTIL_FULL { model.context.saturating_sub(length) } else { most }),
        sampling: sampling.with_seed(seed),
        chat: false,
        system_prompt: None,
        stop: args.stop.clone(),
        ignore_eos: args.ignore_eos,
    };
    let requests: Vec<BatchRequest> = prompts.tokens[done..]
        .iter()
        .zip(&seeds)
        .map(|(tokens, seed)| BatchRequest { prompt: tokens.clone(), options: options(tokens.len(), *seed) })
        .collect();
    let started = Instant::now();
    let (mut prompt_tokens, mut tokens) = (0, 0);
    let sequences = args.many.sequences_at_once();
    model.generate_batch(&requests, sequences, &cancel, &Unwatched, &mut |number, text| {
        prompt_tokens += text.prompt_tokens;
        tokens += text.tokens;
        let members = json!({
            "text": text.text,
            "tokens": text.tokens,
            "prompt_tokens": text.prompt_tokens,
            "stop_reason": text.stop,
            "seed": seeds[number],
        });
        results.put(done + number, &members)
    })?;
    if args.verbose {
        let seconds = started.elapsed().as_secs_f64();
        writeln!(
            std::io::stderr(),
            "{} prompts of {prompt_tokens} tokens, {tokens} tokens generated in {seconds:.2} s, {:.1} tokens/s",
            requests.len(),
            tokens as f64 / seconds
        )?;
    }
    Ok(())
}
