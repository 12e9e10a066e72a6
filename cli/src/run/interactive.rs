//! `--interactive`: turns are read from stdin and answered.

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use clap::Args;
use qsf_runtime::conversation::{Conversation, Turn};
use qsf_runtime::generate::StopReason;
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::Sampler;
use qsf_runtime::{Result, Runner, RuntimeError};
use serde_json::{Value, json};

use crate::console::print;

/// Bytes of a turn: far more than any context holds, and less than would fill the memory.
const MAX_TURN_BYTES: u64 = 16 << 20;
/// Context where none is asked for, if the model was made for more: keys and values of all of it take memory.
pub const DEFAULT_CONTEXT: usize = 4096;

/// Flag of `--interactive`.
#[derive(Debug, Clone, Copy, Args)]
pub struct InteractiveArgs {
    /// Answer what is typed, line by line, in the model's chat template, or continue it where there is none; -p or -f is the
    /// first line. A line that ends with \ goes on. Ctrl-C stops an answer, at the prompt it ends the program
    #[arg(short, long, group = "conversation", conflicts_with_all = ["prompt_ids", "measure", "tokenize", "system", "chat"])]
    pub interactive: bool,
}

/// How turns are read and answered.
#[derive(Debug, Clone, Copy)]
pub struct TurnOptions<'a> {
    /// The first turn, which is not read.
    pub first: Option<&'a str>,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// Print one JSON object at the end instead of the answers.
    pub json: bool,
    /// Print timings of each answer to stderr.
    pub verbose: bool,
}

/// Answers turns until the input ends. Gives them for JSON.
///
/// `cancel` is what Ctrl-C requests, and what stops the decoder of `conversation`.
///
/// # Errors
/// When the input is not UTF-8, a turn is too long, or answering fails.
pub fn answer_turns(
    conversation: &mut Conversation<'_, impl Runner>,
    options: &TurnOptions<'_>,
    sampler: &mut Sampler,
    cancel: &Cancel,
) -> Result<Vec<Value>> {
    let (mut turns, mut input) = (Vec::new(), io::stdin().lock());
    // At a terminal someone waits for a sign that it is their turn.
    let prompts = !options.json && input.is_terminal() && io::stdout().is_terminal();
    let mut first = options.first.map(str::to_owned);
    loop {
        let text = match first.take() {
            Some(text) => text,
            None => {
                if prompts {
                    show("> ")?;
                }
                // A second request ends the process, so at the prompt the next one does.
                cancel.request();
                let line = read_turn(&mut input)?;
                cancel.withdraw();
                match line {
                    Some(line) => line,
                    None => break,
                }
            }
        };
        // An empty message is none; an empty piece of text goes on with the text that there is.
        if text.trim().is_empty() && (conversation.has_template() || turns.is_empty()) {
            continue;
        }
        let say = |piece: &str| if options.json { Ok(()) } else { show(piece) };
        let turn = conversation.answer(&text, options.max_tokens, sampler, say)?;
        if turn.generation.stop == StopReason::Interrupted {
            cancel.withdraw();
        }
        if !options.json {
            show("\n")?;
        }
        report(&turn, options.verbose)?;
        turns.push(turn_json(&text, &turn));
    }
    if prompts {
        show("\n")?;
    }
    Ok(turns)
}

fn show(text: &str) -> Result<()> {
    print(text).map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))
}

/// The next lines up to one that does not end with a backslash; `None`: the input has ended.
fn read_turn(input: &mut impl BufRead) -> Result<Option<String>> {
    let (path, mut text) = (Path::new("stdin"), String::new());
    loop {
        let left = MAX_TURN_BYTES - text.len() as u64;
        let read = input.by_ref().take(left).read_line(&mut text);
        let read = read.map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => RuntimeError::bad_input(path, "a line", "UTF-8", "other bytes"),
            _ => RuntimeError::io(path, "read", e),
        })?;
        if read == 0 && text.len() as u64 >= MAX_TURN_BYTES {
            let expected = format!("at most {MAX_TURN_BYTES} bytes");
            return Err(RuntimeError::bad_input(path, "a turn", expected, "more"));
        }
        if read == 0 {
            return Ok((!text.is_empty()).then_some(text));
        }
        let Some(line) = text.strip_suffix('\n') else { continue };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let Some(begun) = line.strip_suffix('\\') else { return Ok(Some(line.to_owned())) };
        text = format!("{begun}\n");
    }
}

fn report(turn: &Turn, verbose: bool) -> Result<()> {
    let mut lines = String::new();
    if turn.forgot {
        lines += "the context is full: the oldest part of the conversation is forgotten\n";
    }
    if verbose {
        let generation = &turn.generation;
        lines += &format!(
            "prompt {} tokens, {} of them new, {:.2} s; answer {} tokens, {:.2} s\n",
            turn.prompt_tokens,
            turn.prompt_run,
            generation.prefill.as_secs_f64(),
            generation.tokens.len(),
            generation.decode.as_secs_f64()
        );
    }
    let written = io::stderr().write_all(lines.as_bytes());
    written.map_err(|e| RuntimeError::io(Path::new("stderr"), "write", e))
}

fn turn_json(said: &str, turn: &Turn) -> Value {
    let generation = &turn.generation;
    json!({
        "user": said,
        "text": turn.text,
        "tokens": generation.tokens.len(),
        "token_ids": generation.tokens,
        "prompt_tokens": turn.prompt_tokens,
        "prompt_tokens_run": turn.prompt_run,
        "forgot": turn.forgot,
        "stop_reason": generation.stop,
        "prefill_seconds": generation.prefill.as_secs_f64(),
        "decode_seconds": generation.decode.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(input: &str) -> Vec<String> {
        let mut input = input.as_bytes();
        std::iter::from_fn(|| read_turn(&mut input).unwrap()).collect()
    }

    #[test]
    fn a_turn_is_a_line_and_a_backslash_at_its_end_goes_on() {
        assert_eq!(turns("one\ntwo\r\n\nthree"), ["one", "two", "", "three"]);
        assert_eq!(turns("one\\\ntwo\nthree\n"), ["one\ntwo", "three"]);
        assert_eq!(turns("one\\\n"), ["one\n"]);
        assert_eq!(turns(""), [""; 0]);
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_an_error() {
        let error = read_turn(&mut &b"a\xff\n"[..]).unwrap_err().to_string();
        assert!(error.contains("stdin") && error.contains("UTF-8"), "{error}");
        let mut endless = io::BufReader::new(io::repeat(b'a'));
        let error = read_turn(&mut endless).unwrap_err().to_string();
        assert!(error.contains("at most 16777216 bytes"), "{error}");
    }
}
