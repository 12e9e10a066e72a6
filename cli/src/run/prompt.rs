//! The tokens that a model is to continue.

use std::path::Path;

use qsf_runtime::source::WeightSource;
use qsf_runtime::{ChatTemplate, Message, Result, RuntimeError, Tokenizer};

use super::args::RunArgs;
use super::prompt_lines::{Prompts, read_prompts};

/// The tokens to continue; in a conversation that is read, none.
pub(super) fn prompt_tokens(
    args: &RunArgs,
    source: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u32>> {
    if let Some(ids) = &args.prompt_ids {
        return Ok(ids.clone());
    }
    if args.interactive.interactive {
        return Ok(Vec::new());
    }
    if args.chat {
        return chat_tokens(args, source, tokenizer, args.text()?);
    }
    if args.has_no_text()? {
        return Ok(Vec::new());
    }
    let tokenizer = tokenizer.ok_or_else(|| no_tokenizer(source.path()))?;
    let limit = args.ctx_size.unwrap_or(source.config().max_positions as usize);
    let tokens = tokenizer.encode_first(args.input()?.as_mut(), limit.saturating_add(1), true)?;
    if tokens.len() > limit {
        let problem = format!("the prompt has more tokens than the context of {limit}: shorten it");
        return Err(RuntimeError::Request(problem));
    }
    Ok(tokens)
}

/// The tokens of a conversation of one turn, up to where the answer begins.
fn chat_tokens(
    args: &RunArgs,
    source: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
    text: String,
) -> Result<Vec<u32>> {
    let tokenizer = tokenizer.ok_or_else(|| no_tokenizer(source.path()))?;
    let template = ChatTemplate::of_source(source, tokenizer)?.on(args.today());
    turn_tokens(args, tokenizer, &template, text)
}

fn turn_tokens(
    args: &RunArgs,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    text: String,
) -> Result<Vec<u32>> {
    let system = args.system_prompt.as_ref().map(|text| Message::new("system", text));
    let messages: Vec<Message> = system.into_iter().chain([Message::new("user", text)]).collect();
    tokenizer.encode_plain(&template.render(&messages, true)?)
}

/// The prompts of --prompts or --classify, where there are such.
pub(super) fn all_prompts(
    args: &RunArgs,
    source: &dyn WeightSource,
    tokenizer: Option<&Tokenizer>,
) -> Result<Option<Prompts>> {
    let Some((path, _)) = args.lines() else { return Ok(None) };
    let lines = read_prompts(path)?;
    let tokenizer = tokenizer.ok_or_else(|| no_tokenizer(source.path()))?;
    let template =
        if args.chat { Some(ChatTemplate::of_source(source, tokenizer)?.on(args.today())) } else { None };
    let tokens = lines.iter().map(|line| match &template {
        Some(template) => turn_tokens(args, tokenizer, template, line.prompt.clone()),
        None => tokenizer.encode(&line.prompt),
    });
    let tokens = tokens.collect::<Result<Vec<_>>>()?;
    Ok(Some(Prompts { lines, tokens }))
}

/// There is text, and nothing that makes tokens of it.
pub(super) fn no_tokenizer(path: &Path) -> RuntimeError {
    RuntimeError::bad_input(path, "tokenizer.json", "a tokenizer, or a prompt as --prompt-ids", "none")
}
