//! `--classify`: what comes behind each of many prompts, by one pass of the model, as lines of JSON in their order.

use std::io::Write as _;
use std::time::Instant;

use qsf_runtime::progress::Unwatched;
use qsf_runtime::{Decoder, Result, RuntimeError};
use serde_json::json;

use super::args::RunArgs;
use super::results::Results;
use super::session::Session;
use crate::interrupt::cancel_on_interrupt;
use crate::kept_model::KeptModel;

/// Prompts between two writes of results: those run together share steps.
const AT_ONCE: usize = 4096;

/// Classifies all prompts, and writes the results.
pub(super) fn classify_prompts(decoder: Decoder, args: &RunArgs, session: Session) -> anyhow::Result<()> {
    let cancel = cancel_on_interrupt()?;
    cancel.check()?;
    let (model, prompts) = session.keep(decoder, args)?;
    let labels = &args.classes.label;
    let tokens = model.label_tokens(labels)?;
    let path = args.many.results.as_deref();
    let mut results = Results::open("classification", path, &prompts.lines, &mut |_, _| Ok(()))?;
    let started = Instant::now();
    let mut done = results.done();
    let left = &prompts.tokens[done..];
    for together in left.chunks(AT_ONCE) {
        model.classify(together, &cancel, &Unwatched, &mut |number, logits| {
            let (label, of_all) = if labels.is_empty() {
                let token = likeliest(logits)? as u32;
                (model.tokenizer.decode(&[token], false)?, model.log_probabilities(logits, &[token]))
            } else {
                let of_all = model.log_probabilities(logits, &tokens);
                (labels[likeliest(&of_all)?].clone(), of_all)
            };
            let members = json!({
                "label": label,
                "log_probability": of_all[likeliest(&of_all)?],
                "log_probabilities": if labels.is_empty() { None } else { Some(&of_all) },
                "prompt_tokens": together[number].len(),
            });
            results.put(done + number, &members)
        })?;
        done += together.len();
    }
    if args.verbose {
        report(&model, left, started.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// The place of the largest; of several the first.
fn likeliest(values: &[f32]) -> Result<usize> {
    if values.iter().any(|value| value.is_nan()) {
        return Err(RuntimeError::NotANumber { what: "logits that are not numbers".into() });
    }
    let best = |best: usize, at: usize| if values[at] > values[best] { at } else { best };
    Ok((0..values.len()).fold(0, best))
}

fn report(model: &KeptModel, prompts: &[Vec<u32>], seconds: f64) -> std::io::Result<()> {
    let tokens: usize = prompts.iter().map(Vec::len).sum();
    let (count, threads, speed) = (prompts.len(), model.decoder.cpu().threads(), tokens as f64 / seconds);
    writeln!(
        std::io::stderr(),
        "{count} prompts of {tokens} tokens in {seconds:.2} s, {speed:.1} tokens/s on {threads} threads"
    )
}
