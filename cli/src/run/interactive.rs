//! `--interactive`: turns are read and answered.

use std::io::{self, Write as _};
use std::path::Path;

use clap::Args;
use qsf_runtime::conversation::{Conversation, Ending, Turn};
use qsf_runtime::generate::StopReason;
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::Sampler;
use qsf_runtime::{Message, Result, Runner, RuntimeError};
use serde_json::{Value, json};

use super::chat_command::{HELP, Typed, save};
use super::turn_input::TurnInput;
use crate::console::{note, print};

/// Context where none is asked for, if the model was made for more: keys and values of all of it take memory.
pub const DEFAULT_CONTEXT: usize = 4096;

/// Flag of `--interactive`.
#[derive(Debug, Clone, Copy, Args)]
pub struct InteractiveArgs {
    /// Answer what is typed, line by line, in the model's chat template, or continue it where there is none; -p or -f is the
    /// first line. /help shows commands. A line that ends with \ goes on. Ctrl-C stops an answer, at the prompt it ends the
    /// program
    #[arg(short, long, group = "conversation", conflicts_with_all = ["prompt_ids", "measure", "tokenize", "system", "chat"])]
    pub interactive: bool,
}

/// How turns are read and answered.
#[derive(Debug, Clone)]
pub struct TurnOptions<'a> {
    /// The first turn, which is not read.
    pub first: Option<&'a str>,
    /// How answers end.
    pub ending: Ending,
    /// Print one JSON object at the end instead of the answers.
    pub json: bool,
    /// Print timings of each answer to stderr.
    pub verbose: bool,
    /// What the model is called.
    pub name: &'a str,
}

/// Answers turns until the input ends. Gives them for JSON.
///
/// `cancel` is what Ctrl-C requests, and what stops the decoder of `conversation`.
///
/// # Errors
/// When the input is not UTF-8, a turn is too long, or answering fails.
pub fn answer_turns<R: Runner>(
    conversation: &mut Conversation<'_, R>,
    options: &TurnOptions<'_>,
    sampler: &mut Sampler,
    cancel: &Cancel,
) -> Result<Vec<Value>> {
    let mut input = TurnInput::of_process(options.json)?;
    let mut talk = Talk {
        conversation,
        options,
        sampler,
        cancel,
        turns: Vec::new(),
        said: Vec::new(),
        told_full: false,
    };
    if input.is_typed() {
        talk.greet();
    }
    let mut first = options.first.map(str::to_owned);
    loop {
        let text = match first.take() {
            Some(text) => text,
            None => match input.next_turn(cancel)? {
                Some(line) if input.is_typed() => match talk.obey(Typed::of(line))? {
                    Next::Say(text) => text,
                    Next::Read => continue,
                    Next::End => break,
                },
                Some(line) => line,
                None => break,
            },
        };
        match talk.answer(&text) {
            // Whoever types can say something else.
            Err(RuntimeError::Request(problem)) if input.is_typed() => note(&problem),
            result => result?,
        }
    }
    Ok(talk.turns)
}

/// What comes after a typed line.
enum Next {
    Say(String),
    Read,
    End,
}

/// A conversation, and what came of it.
struct Talk<'a, 'c, R: Runner> {
    conversation: &'a mut Conversation<'c, R>,
    options: &'a TurnOptions<'a>,
    sampler: &'a mut Sampler,
    cancel: &'a Cancel,
    /// For JSON.
    turns: Vec<Value>,
    /// All that was said, also what the model has forgotten.
    said: Vec<Message>,
    told_full: bool,
}

impl<R: Runner> Talk<'_, '_, R> {
    fn greet(&self) {
        if !self.conversation.has_template() {
            note(&format!(
                "{} has no chat template: it is a base model, which continues the text and does not answer",
                self.options.name
            ));
        }
        note("/help shows commands, /exit ends");
    }

    /// Does what a typed line asks for.
    fn obey(&mut self, typed: Typed) -> Result<Next> {
        match typed {
            Typed::Text(text) => return Ok(Next::Say(text)),
            Typed::Exit => return Ok(Next::End),
            Typed::Help => show(&format!("{HELP}\n"))?,
            Typed::Clear => {
                self.conversation.clear();
                self.said.clear();
                self.told_full = false;
                note("the conversation is forgotten");
            }
            Typed::Regenerate => match self.conversation.take_back() {
                Some(text) => {
                    self.said.truncate(self.said.len().saturating_sub(2));
                    return Ok(Next::Say(text));
                }
                None => note("there is no answer to give again"),
            },
            Typed::Save(path) => match save(&path, &self.said) {
                Ok(()) => note(&format!("{}: written", path.display())),
                // A name that is taken is no reason to lose the conversation.
                Err(error) => {
                    note(&error.to_string().replace("pass --force to replace it", "choose another name"));
                }
            },
            Typed::Mistake(what) => note(&what),
        }
        Ok(Next::Read)
    }

    fn answer(&mut self, text: &str) -> Result<()> {
        // An empty message is none; an empty piece of text goes on with the text that there is.
        if text.trim().is_empty() && (self.conversation.has_template() || self.turns.is_empty()) {
            return Ok(());
        }
        let json = self.options.json;
        let say = |piece: &str| if json { Ok(()) } else { show(piece) };
        let turn = self.conversation.answer(text, &self.options.ending, self.sampler, say)?;
        if turn.generation.stop == StopReason::Interrupted {
            self.cancel.withdraw();
        }
        if !json {
            show("\n")?;
        }
        if turn.forgot && !self.told_full {
            note(
                "the context is full (-c): the oldest part of the conversation is forgotten, now and from here on",
            );
            self.told_full = true;
        }
        if self.options.verbose {
            report(&turn)?;
        }
        self.said.extend([Message::new("user", text), Message::new("assistant", &*turn.text)]);
        self.turns.push(turn_json(text, &turn));
        Ok(())
    }
}

fn show(text: &str) -> Result<()> {
    print(text).map_err(|e| RuntimeError::io(Path::new("stdout"), "write", e))
}

fn report(turn: &Turn) -> Result<()> {
    let generation = &turn.generation;
    let line = format!(
        "prompt {} tokens, {} of them new, {:.2} s; answer {} tokens, {:.2} s\n",
        turn.prompt_tokens,
        turn.prompt_run,
        generation.prefill.as_secs_f64(),
        generation.tokens.len(),
        generation.decode.as_secs_f64()
    );
    let written = io::stderr().write_all(line.as_bytes());
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
