//! Text that continues a prompt, piece by piece.

use std::sync::PoisonError;

use qsf_runtime::generate::{Flow, GenerateRequest, Generation, check_lengths, generate};
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::stop_text::StopTexts;
use qsf_runtime::{ChatTemplate, Message, RawMessages, Result, Runner, RuntimeError};

use super::KeptModel;

/// Tokens generated when no number is given and the context has room: as qsf-run does.
pub(super) const DEFAULT_TOKENS: usize = 256;

/// What to generate, and how.
#[derive(Debug, Clone)]
pub struct TextRequest {
    /// Text; with `chat` what a user says.
    pub prompt: String,
    /// Tokens to generate at most; by default 256, or what the context leaves.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: SamplerOptions,
    /// Whether the prompt goes through the model's chat template.
    pub chat: bool,
    /// What stands before it there.
    pub system_prompt: Option<String>,
    /// Texts that end the output before them.
    pub stop: Vec<String>,
    /// Whether the model's stop tokens are never chosen.
    pub ignore_eos: bool,
}

impl KeptModel {
    /// The tokens of the prompt; of a chat up to where the answer begins.
    ///
    /// # Errors
    /// When the text cannot be encoded, or the model has no chat template.
    pub fn prompt_tokens(&self, request: &TextRequest) -> Result<Vec<u32>> {
        if !request.chat {
            // The tokenizer's own first token is no prompt.
            return if request.prompt.is_empty() {
                Ok(Vec::new())
            } else {
                self.tokenizer.encode(&request.prompt)
            };
        }
        let template = ChatTemplate::of_source(self.open.source(), &self.tokenizer)?;
        let system = request.system_prompt.as_ref().map(|text| Message::new("system", text));
        let messages: Vec<Message> =
            system.into_iter().chain([Message::new("user", &request.prompt)]).collect();
        self.tokenizer.encode_plain(&template.render(&messages, true)?)
    }

    /// The text of a conversation; with `prompt_reply` up to where the assistant's next message begins.
    ///
    /// # Errors
    /// When these are no messages, or the model has no chat template, or one that refuses them.
    pub fn chat_text(&self, raw: RawMessages<'_>, prompt_reply: bool) -> Result<String> {
        ChatTemplate::of_source(self.open.source(), &self.tokenizer)?.render_raw(raw, prompt_reply)
    }

    /// The tokens of a conversation, up to where the answer begins.
    ///
    /// # Errors
    /// As [`KeptModel::chat_text`].
    pub fn chat_tokens(&self, raw: RawMessages<'_>) -> Result<Vec<u32>> {
        // The text has its special tokens, a first one among them.
        self.tokenizer.encode_plain(&self.chat_text(raw, true)?)
    }

    /// Generates, and gives every piece of text as soon as later tokens cannot change it. `on_text` ends the generation with
    /// [`RuntimeError::Interrupted`].
    ///
    /// # Errors
    /// When the request cannot be carried out, or `on_text` fails otherwise.
    pub fn generate(
        &self,
        request: &TextRequest,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(String) -> Result<()>,
    ) -> Result<Generated> {
        request.check()?;
        self.continue_tokens(&self.prompt_tokens(request)?, request, cancel, on_text)
    }

    /// [`KeptModel::generate`] behind these tokens, in place of the prompt of the request.
    ///
    /// # Errors
    /// As [`KeptModel::generate`].
    pub fn continue_tokens(
        &self,
        prompt: &[u32],
        request: &TextRequest,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(String) -> Result<()>,
    ) -> Result<Generated> {
        let longest = self.context;
        check_lengths(prompt.len(), request.max_tokens.unwrap_or(0), longest)?;
        let max_tokens = request.max_tokens.unwrap_or_else(|| DEFAULT_TOKENS.min(longest - prompt.len()));
        // Whoever panicked has left no state behind.
        let _turn = self.budget.map(|_| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        #[cfg(feature = "gpu")]
        if let Some(gpu) = &self.gpu {
            return self.continue_by(&gpu.clone().stop_on(cancel), prompt, max_tokens, request, on_text);
        }
        self.continue_by(&self.decoder.clone().stop_on(cancel), prompt, max_tokens, request, on_text)
    }

    fn continue_by<R: Runner>(
        &self,
        runner: &R,
        prompt: &[u32],
        max_tokens: usize,
        request: &TextRequest,
        on_text: &mut dyn FnMut(String) -> Result<()>,
    ) -> Result<Generated> {
        let context = prompt.len() + max_tokens;
        let mut state = runner.state_with(context, prompt.len().min(self.batch), self.kv)?;
        let mut stream = self.tokenizer.stream_after(prompt)?;
        let stop_tokens = &runner.config().stop_tokens;
        let sampler = Sampler::new(request.sampling);
        let mut sampler = if request.ignore_eos { sampler.never(stop_tokens) } else { sampler };
        let stop_tokens = if request.ignore_eos { &[][..] } else { stop_tokens };
        let what = GenerateRequest { prompt, max_tokens, stop_tokens };
        let mut stop = StopTexts::new(request.stop.iter().cloned());
        let mut show = |piece: String| if piece.is_empty() { Ok(()) } else { on_text(piece) };
        let generation = generate(runner, &mut state, what, &mut sampler, |token| {
            if let Some(piece) = stream.push(token)? {
                show(stop.push(&piece))?;
            }
            Ok(if stop.found() { Flow::Stop } else { Flow::Continue })
        })?;
        if let Some(rest) = stream.finish()? {
            show(stop.push(&rest))?;
        }
        show(stop.finish())?;
        Ok(Generated { prompt_tokens: prompt.len(), generation })
    }
}

/// What came out of a request.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// The rest.
    pub generation: Generation,
}

impl TextRequest {
    /// Whether it can be carried out, as far as that is known before there are tokens.
    ///
    /// # Errors
    /// When not; the message names the arguments.
    pub fn check(&self) -> Result<()> {
        let problem = match self {
            TextRequest { max_tokens: Some(0), .. } => "max_tokens is 0, expected at least 1",
            TextRequest { chat: false, system_prompt: Some(_), .. } => "system_prompt goes with chat",
            _ => return Ok(()),
        };
        Err(RuntimeError::Request(problem.into()))
    }
}
