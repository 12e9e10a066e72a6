//! Texts that continue many prompts, packed into the steps of the model.

use qsf_runtime::generate::{Flow, Generation, StopReason, check_lengths};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::sample::Sampler;
use qsf_runtime::session::{TextAsked, TextListener, TogetherOptions, generate_together};
use qsf_runtime::stop_text::StopTexts;
use qsf_runtime::{Result, RuntimeError, TokenStream};

use super::KeptModel;
use super::text::{DEFAULT_TOKENS, TextRequest};

/// Texts that grow at once, where nothing else is asked for.
pub const DEFAULT_SEQUENCES: usize = 64;

/// A text to generate among others.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// The tokens to continue, such as [`KeptModel::prompt_tokens`] gives.
    pub prompt: Vec<u32>,
    /// How; the prompt that stands there is not read.
    pub options: TextRequest,
}

/// A text that came of a prompt.
#[derive(Debug, Clone)]
pub struct BatchText {
    /// Without the prompt.
    pub text: String,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Generated tokens, the stop token not among them.
    pub tokens: usize,
    /// Why it ended.
    pub stop: StopReason,
}

impl KeptModel {
    /// The texts that continue the prompts of `requests`, at most `sequences` of them at once, each as [`KeptModel::generate`]
    /// makes it alone. `done` hears of each text when it has ended, with its number. Within a budget, with early exits, and on a graphics processor one is made
    /// after another.
    ///
    /// # Errors
    /// When a request cannot be carried out, which is known of all before the first begins, or `done` fails.
    pub fn generate_batch(
        &self,
        requests: &[BatchRequest],
        sequences: usize,
        cancel: &Cancel,
        progress: &dyn Progress,
        done: &mut dyn FnMut(usize, BatchText) -> Result<()>,
    ) -> Result<()> {
        let mut asked = Vec::with_capacity(requests.len());
        for (number, request) in requests.iter().enumerate() {
            asked.push(self.asked(request).map_err(|error| of_prompt(number, error))?);
        }
        progress.begin("texts", requests.len() as u64);
        if self.budget.is_some() || self.decoder.exits_early() || self.is_on_gpu() {
            self.generate_each(requests, cancel, progress, done)?;
            progress.end();
            return Ok(());
        }
        let decoder = self.decoder.clone().stop_on(cancel);
        let mut texts = Vec::with_capacity(requests.len());
        for (request, asked) in requests.iter().zip(&asked) {
            texts.push(Text {
                stream: Some(self.tokenizer.stream_after(&asked.prompt)?),
                stop: StopTexts::new(request.options.stop.iter().cloned()),
                text: String::new(),
                prompt_tokens: asked.prompt.len(),
                tokens: 0,
            });
        }
        let options = TogetherOptions { sequences: sequences.max(1), step: self.batch, kv: self.kv };
        let mut listener = Listener { texts, progress, done };
        generate_together(&decoder, &mut asked, options, &mut listener)?;
        progress.end();
        Ok(())
    }

    /// One text after another: a budget has room for one, and only a single token leaves the model early.
    fn generate_each(
        &self,
        requests: &[BatchRequest],
        cancel: &Cancel,
        progress: &dyn Progress,
        done: &mut dyn FnMut(usize, BatchText) -> Result<()>,
    ) -> Result<()> {
        for (number, BatchRequest { prompt, options }) in requests.iter().enumerate() {
            let mut text = String::new();
            let found = self.continue_tokens(prompt, options, cancel, &mut |piece| {
                text += &piece;
                Ok(())
            })?;
            let Generation { tokens, stop, .. } = found.generation;
            if stop == StopReason::Interrupted {
                return Err(RuntimeError::Interrupted);
            }
            done(number, BatchText { text, prompt_tokens: prompt.len(), tokens: tokens.len(), stop })?;
            progress.advance(1);
        }
        Ok(())
    }

    fn asked(&self, request: &BatchRequest) -> Result<TextAsked> {
        let BatchRequest { prompt, options: request } = request;
        request.check()?;
        let prompt = prompt.clone();
        check_lengths(prompt.len(), request.max_tokens.unwrap_or(0), self.context)?;
        let max_tokens =
            request.max_tokens.unwrap_or_else(|| DEFAULT_TOKENS.min(self.context - prompt.len()));
        let stop_tokens = &self.decoder.model().config.stop_tokens;
        let sampler = Sampler::new(request.sampling);
        let (sampler, stop_tokens) = if request.ignore_eos {
            (sampler.never(stop_tokens), Vec::new())
        } else {
            (sampler, stop_tokens.clone())
        };
        Ok(TextAsked { prompt, max_tokens, stop_tokens, sampler })
    }
}

fn of_prompt(number: usize, error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Request(problem) => RuntimeError::Request(format!("prompt {number}: {problem}")),
        error => error,
    }
}

/// A text under way.
struct Text<'a> {
    /// `None` once it has ended.
    stream: Option<TokenStream<'a>>,
    stop: StopTexts,
    text: String,
    prompt_tokens: usize,
    tokens: usize,
}

struct Listener<'a> {
    texts: Vec<Text<'a>>,
    progress: &'a dyn Progress,
    done: &'a mut dyn FnMut(usize, BatchText) -> Result<()>,
}

impl TextListener for Listener<'_> {
    fn token(&mut self, text: usize, token: u32) -> Result<Flow> {
        let text = &mut self.texts[text];
        text.tokens += 1;
        if let Some(piece) = text.stream.as_mut().map_or(Ok(None), |stream| stream.push(token))? {
            text.text += &text.stop.push(&piece);
        }
        Ok(if text.stop.found() { Flow::Stop } else { Flow::Continue })
    }

    fn end(&mut self, number: usize, stop: StopReason) -> Result<()> {
        let text = &mut self.texts[number];
        if let Some(rest) = text.stream.take().map_or(Ok(None), |mut stream| stream.finish())? {
            text.text += &text.stop.push(&rest);
        }
        text.text += &text.stop.finish();
        let Text { prompt_tokens, tokens, .. } = *text;
        let text = BatchText { text: std::mem::take(&mut text.text), prompt_tokens, tokens, stop };
        (self.done)(number, text)?;
        self.progress.advance(1);
        Ok(())
    }
}
