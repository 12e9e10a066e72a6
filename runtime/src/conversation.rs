//! Several turns with one model: what it has read stays in the key/value cache, and only what is new is run.
//!
//! With a chat template the whole conversation is rendered at every turn, as templates demand, and its tokens are compared
//! with those in the cache: what they begin with alike is kept. Without one the turns are one text that goes on.

use crate::chat_template::{ChatTemplate, Message};
use crate::error::{Result, RuntimeError};
use crate::generate::{GenerateRequest, Generation, StopReason, generate};
use crate::runner::{Runner, Sequence};
use crate::sample::Sampler;
use crate::tokenizer::Tokenizer;

/// Positions that an answer must have at least; before it has fewer, the oldest turns are forgotten.
const LEAST_ROOM: usize = 64;
/// Of a short context, an answer must have this part at least.
const LEAST_PART: usize = 4;
/// What stands between the turns of a text without a template.
const SEPARATOR: &str = "\n";

/// A conversation under way.
pub struct Conversation<'a, R: Runner> {
    runner: &'a R,
    tokenizer: &'a Tokenizer,
    template: Option<ChatTemplate>,
    messages: Vec<Message>,
    state: R::State,
    /// All of it so far. The cache holds as many of the first as the state has positions.
    tokens: Vec<u32>,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What was generated.
    pub generation: Generation,
    /// What was generated, as text.
    pub text: String,
    /// Tokens of the conversation before the answer.
    pub prompt_tokens: usize,
    /// Of these, what was not in the cache.
    pub prompt_run: usize,
    /// Whether the oldest part was left out, as the context is full.
    pub forgot: bool,
}

impl<'a, R: Runner> Conversation<'a, R> {
    /// A conversation by `runner` in an empty `state`, which has room for all of it. With a template the model is told `system` before; without one there is
    /// no place for that.
    ///
    /// # Errors
    /// When there is something that the model is to be told and no template.
    pub fn new(
        runner: &'a R,
        state: R::State,
        tokenizer: &'a Tokenizer,
        template: Option<ChatTemplate>,
        system: Option<&str>,
    ) -> Result<Conversation<'a, R>> {
        if system.is_some() && template.is_none() {
            let problem = "a system prompt needs a chat template, and this model has none";
            return Err(RuntimeError::Request(problem.into()));
        }
        let messages = system.into_iter().map(|text| Message::new("system", text)).collect();
        Ok(Conversation { runner, tokenizer, template, messages, state, tokens: Vec::new() })
    }

    /// Whether the turns go through a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Generates at most `max_tokens` behind what the user says. `show` sees the text as soon as it is certain.
    ///
    /// # Errors
    /// When the text alone fills the context, the template refuses it, or generating or `show` fails.
    pub fn answer(
        &mut self,
        text: &str,
        max_tokens: usize,
        sampler: &mut Sampler,
        mut show: impl FnMut(&str) -> Result<()>,
    ) -> Result<Turn> {
        let (prompt, forgot) = self.prompt(text)?;
        let cached = &self.tokens[..self.state.position()];
        let same = prompt.iter().zip(cached).take_while(|(new, old)| new == old).count();
        // The last token's logits are wanted, so it is run in any case.
        let mut same = same.min(prompt.len() - 1);
        // Layers with a sliding window may have forgotten what the next token sees: then all of it is run again.
        if self.state.rewind(same).is_err() {
            self.state.rewind(0)?;
            same = 0;
        }
        let stop_tokens = &self.runner.config().stop_tokens;
        let room = self.state.context() - prompt.len();
        let request =
            GenerateRequest { prompt: &prompt[same..], max_tokens: max_tokens.min(room), stop_tokens };
        let mut stream = self.tokenizer.stream_after(&prompt)?;
        let mut said = String::new();
        let mut say = |piece: Option<String>| -> Result<()> {
            let Some(piece) = piece else { return Ok(()) };
            show(&piece)?;
            said += &piece;
            Ok(())
        };
        let push = |token| say(stream.push(token)?);
        let generation = generate(self.runner, &mut self.state, request, sampler, push)?;
        say(stream.finish()?)?;
        let (prompt_tokens, prompt_run) = (prompt.len(), prompt.len() - same);
        self.tokens = prompt;
        self.tokens.extend_from_slice(&generation.tokens);
        if generation.stop == StopReason::Interrupted && generation.tokens.is_empty() {
            // As if it had not been said: no template takes two messages of the user in a row.
            self.messages.pop();
        } else {
            self.messages.push(Message::new("assistant", &*said));
        }
        Ok(Turn { generation, text: said, prompt_tokens, prompt_run, forgot })
    }

    /// The tokens up to where the answer begins, and whether the oldest turns had to go.
    fn prompt(&mut self, text: &str) -> Result<(Vec<u32>, bool)> {
        let context = self.state.context();
        let room = LEAST_ROOM.min(context / LEAST_PART).max(1);
        let most = context - room.min(context);
        let mut forgot = false;
        self.messages.push(Message::new("user", text));
        let prompt = match &self.template {
            Some(template) => loop {
                let prompt = self.tokenizer.encode_plain(&template.render(&self.messages, true)?)?;
                let first = usize::from(self.messages[0].role == "system");
                if prompt.len() <= most || self.messages.len() <= first + 2 {
                    break prompt;
                }
                self.messages.drain(first..first + 2);
                forgot = true;
            },
            None => {
                let new = match self.tokens.is_empty() {
                    true => self.tokenizer.encode(text)?,
                    // Nothing said: the text goes on as it is.
                    false if text.is_empty() => Vec::new(),
                    false => self.tokenizer.encode_plain(&format!("{SEPARATOR}{text}"))?,
                };
                let mut old = self.tokens.as_slice();
                if old.len() + new.len() > most {
                    old = &old[old.len() - old.len().min(most / 2)..];
                    forgot = true;
                }
                [old, &new].concat()
            }
        };
        if prompt.is_empty() || prompt.len() > most {
            self.messages.pop();
            return Err(RuntimeError::Request(format!(
                "{} tokens of input leave no room for an answer of {room} tokens in the context of {context} tokens",
                prompt.len()
            )));
        }
        Ok((prompt, forgot))
    }
}
