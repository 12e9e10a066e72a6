//! Several turns with one model: what it has read stays in the key/value cache, and only what is new is run.
//!
//! With a chat template the whole conversation is rendered at every turn, as templates demand, and its tokens are compared
//! with those in the cache: what they begin with alike is kept. Without one the turns are one text that goes on.

use crate::chat_template::{ChatTemplate, Message};
use crate::error::{Result, RuntimeError};
use crate::generate::{Flow, GenerateRequest, Generation, StopReason, generate};
use crate::runner::{Runner, Sequence};
use crate::sample::Sampler;
use crate::stop_text::StopTexts;
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
    /// Messages that it begins with, which are never forgotten.
    first: usize,
    /// What was as the last turn began: the messages, and the number of tokens.
    before: Option<(Vec<Message>, usize)>,
}

/// How answers end.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// After so many tokens at most.
    pub max_tokens: usize,
    /// Before one of these texts.
    pub stop_texts: StopTexts,
    /// Not at the model's own stop tokens.
    pub ignore_eos: bool,
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
        let messages: Vec<Message> = system.into_iter().map(|text| Message::new("system", text)).collect();
        let first = messages.len();
        Ok(Conversation {
            runner,
            tokenizer,
            template,
            messages,
            state,
            tokens: Vec::new(),
            first,
            before: None,
        })
    }

    /// What was said, the system prompt first; without a template there are no roles, and the text is one piece.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Forgets everything but the system prompt.
    pub fn clear(&mut self) {
        self.messages.truncate(self.first);
        self.tokens.clear();
        self.before = None;
    }

    /// Takes the last turn back, as if it had not been said; gives what the user said in it.
    pub fn take_back(&mut self) -> Option<String> {
        let (messages, tokens) = self.before.take()?;
        let said = self.messages.iter().rev().find(|message| message.role == "user")?.content.clone();
        self.messages = messages;
        self.tokens.truncate(tokens);
        Some(said)
    }

    /// Whether the turns go through a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Answers what the user says. `show` sees the text as soon as it is certain.
    ///
    /// # Errors
    /// When the text alone fills the context, the template refuses it, or generating or `show` fails.
    pub fn answer(
        &mut self,
        text: &str,
        ending: &Ending,
        sampler: &mut Sampler,
        mut show: impl FnMut(&str) -> Result<()>,
    ) -> Result<Turn> {
        let before = (self.messages.clone(), self.tokens.len());
        let (prompt, forgot) = self.prompt(text)?;
        // Where the oldest part is gone, so is the way back.
        self.before = (!forgot).then_some(before);
        let cached = &self.tokens[..self.state.position().min(self.tokens.len())];
        let same = prompt.iter().zip(cached).take_while(|(new, old)| new == old).count();
        // The last token's logits are wanted, so it is run in any case.
        let mut same = same.min(prompt.len() - 1);
        // Layers with a sliding window may have forgotten what the next token sees: then all of it is run again.
        if self.state.rewind(same).is_err() {
            self.state.rewind(0)?;
            same = 0;
        }
        sampler.restart(&prompt[..same]);
        let (generation, said) = self.generate(&prompt, same, ending, sampler, &mut show)?;
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

    /// Runs what is new of `prompt`, of which `same` tokens are known, and generates; gives the text, too.
    fn generate(
        &mut self,
        prompt: &[u32],
        same: usize,
        ending: &Ending,
        sampler: &mut Sampler,
        show: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<(Generation, String)> {
        let stop_tokens: &[u32] = if ending.ignore_eos { &[] } else { &self.runner.config().stop_tokens };
        let max_tokens = ending.max_tokens.min(self.state.context() - prompt.len());
        let request = GenerateRequest { prompt: &prompt[same..], max_tokens, stop_tokens };
        let mut stream = self.tokenizer.stream_after(prompt)?;
        let (mut stop, mut said) = (ending.stop_texts.again(), String::new());
        let mut say = |piece: String| -> Result<()> {
            if !piece.is_empty() {
                show(&piece)?;
                said += &piece;
            }
            Ok(())
        };
        let push = |token| {
            if let Some(piece) = stream.push(token)? {
                say(stop.push(&piece))?;
            }
            Ok(if stop.found() { Flow::Stop } else { Flow::Continue })
        };
        let generation = generate(self.runner, &mut self.state, request, sampler, push)?;
        if let Some(rest) = stream.finish()? {
            say(stop.push(&rest))?;
        }
        say(stop.finish())?;
        Ok((generation, said))
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
                if prompt.len() <= most || self.messages.len() <= self.first + 2 {
                    break prompt;
                }
                self.messages.drain(self.first..self.first + 2);
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
