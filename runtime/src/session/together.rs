//! Many prompts at once: each step has the next token of every text under way, and as many tokens of prompts as have room.
//!
//! A text that ends makes room for the next prompt. As a sequence gets the bits that it gets alone, so do texts get the tokens.

use crate::decoder::{Decoder, DecoderState, KvOptions};
use crate::error::Result;
use crate::generate::{Flow, StopReason, check_lengths};
use crate::sample::Sampler;
use qsf_cpu::zeros;

/// Most rows whose logits are held at once.
const LOGIT_ROWS: usize = 32;

/// A text to generate.
pub struct TextAsked {
    /// Tokens to continue.
    pub prompt: Vec<u32>,
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Tokens that end it.
    pub stop_tokens: Vec<u32>,
    /// What chooses its tokens.
    pub sampler: Sampler,
}

/// How much runs at once.
#[derive(Debug, Clone, Copy)]
pub struct TogetherOptions {
    /// Texts under way at most.
    pub sequences: usize,
    /// Tokens of a step at most.
    pub step: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
}

/// What is heard of the texts while they grow, by their number.
pub trait TextListener {
    /// A token came, which ends the text where this says so.
    ///
    /// # Errors
    /// What ends everything.
    fn token(&mut self, text: usize, token: u32) -> Result<Flow>;

    /// A text has ended, with a stop token that was not told, or for another reason.
    ///
    /// # Errors
    /// What ends everything.
    fn end(&mut self, text: usize, stop: StopReason) -> Result<()>;
}

/// A text under way.
struct Growing {
    text: usize,
    /// Tokens of the prompt that were run.
    prefilled: usize,
    generated: usize,
    /// The token that is still to be run.
    last: Option<u32>,
}

/// Generates all `texts`, which begin in their order. Tokens never leave the model early.
///
/// # Errors
/// When a prompt is empty or there is none so long, a token is beyond the vocabulary, logits are no numbers, memory runs out, a stop
/// was requested of the decoder, or the listener fails.
pub fn generate_together(
    decoder: &Decoder,
    texts: &mut [TextAsked],
    options: TogetherOptions,
    listener: &mut dyn TextListener,
) -> Result<()> {
    let longest = decoder.model().config.max_positions as usize;
    let mut context = 1;
    for text in &mut *texts {
        check_lengths(text.prompt.len(), text.max_tokens, longest)?;
        crate::eval::check_tokens(&text.prompt, decoder.model().config.vocab)?;
        context = context.max(text.prompt.len() + text.max_tokens);
        text.sampler.accept(&text.prompt);
    }
    let sequences = options.sequences.clamp(1, texts.len().max(1));
    // Every text under way has a token in each step.
    let state = decoder.states(sequences, context, options.step.max(sequences), options.kv)?;
    let rows = LOGIT_ROWS.min(state.batch());
    let vocab = decoder.model().config.vocab as usize;
    let logits = zeros(rows * vocab, "logits")?;
    let growing = (0..state.sequences().len().min(state.batch())).map(|_| None).collect();
    Together { decoder, state, growing, logits, next: 0 }.run(texts, listener)
}

struct Together<'a> {
    decoder: &'a Decoder,
    state: DecoderState,
    /// By sequence.
    growing: Vec<Option<Growing>>,
    logits: Vec<f32>,
    /// The text that begins next.
    next: usize,
}

impl Together<'_> {
    fn run(&mut self, texts: &mut [TextAsked], listener: &mut dyn TextListener) -> Result<()> {
        loop {
            self.begin_texts(texts.len());
            if self.growing.iter().all(Option::is_none) {
                return Ok(());
            }
            let ready = self.step(texts)?;
            let vocab = self.decoder.model().config.vocab as usize;
            for ready in ready.chunks(self.logits.len() / vocab) {
                let rows: Vec<usize> = ready.iter().map(|(_, row)| *row).collect();
                let logits = &mut self.logits[..rows.len() * vocab];
                self.decoder.logits_at(&mut self.state, &rows, logits)?;
                for (&(sequence, _), logits) in ready.iter().zip(logits.chunks_exact(vocab)) {
                    let Some(growing) = &mut self.growing[sequence] else { continue };
                    let text = growing.text;
                    if let Some(stop) = growing.choose(&mut texts[text], logits, listener)? {
                        self.growing[sequence] = None;
                        listener.end(text, stop)?;
                    }
                }
            }
        }
    }

    fn begin_texts(&mut self, texts: usize) {
        for (growing, cache) in self.growing.iter_mut().zip(self.state.sequences_mut()) {
            if growing.is_none() && self.next < texts {
                cache.clear();
                *growing = Some(Growing { text: self.next, prefilled: 0, generated: 0, last: None });
                self.next += 1;
            }
        }
    }

    /// Runs a step, and gives the sequences whose next token can be chosen, each with its row.
    fn step(&mut self, texts: &[TextAsked]) -> Result<Vec<(usize, usize)>> {
        let tokens_of_texts = self.growing.iter().flatten().filter(|growing| growing.last.is_some()).count();
        let mut room = self.state.batch() - tokens_of_texts;
        let (mut parts, mut ready, mut behind) = (Vec::new(), Vec::new(), 0);
        for (sequence, growing) in self.growing.iter_mut().enumerate() {
            let Some(growing) = growing else { continue };
            let prompt = &texts[growing.text].prompt;
            let tokens = match &growing.last {
                Some(last) => std::slice::from_ref(last),
                None => {
                    let left = &prompt[growing.prefilled..];
                    let now = &left[..left.len().min(room)];
                    room -= now.len();
                    growing.prefilled += now.len();
                    now
                }
            };
            if tokens.is_empty() {
                continue;
            }
            behind += tokens.len();
            if growing.prefilled == prompt.len() {
                ready.push((sequence, behind - 1));
            }
            parts.push((sequence, tokens));
        }
        self.decoder.forward_together(&mut self.state, &parts)?;
        Ok(ready)
    }
}

impl Growing {
    /// Chooses the next token by its logits; gives why the text ends, where it does.
    fn choose(
        &mut self,
        asked: &mut TextAsked,
        logits: &[f32],
        listener: &mut dyn TextListener,
    ) -> Result<Option<StopReason>> {
        if asked.max_tokens == 0 {
            return Ok(Some(StopReason::MaxTokens));
        }
        let token = asked.sampler.sample(logits)?;
        if asked.stop_tokens.contains(&token) {
            return Ok(Some(StopReason::StopToken));
        }
        asked.sampler.accept(&[token]);
        self.generated += 1;
        self.last = Some(token);
        if listener.token(self.text, token)? == Flow::Stop {
            return Ok(Some(StopReason::StopText));
        }
        Ok((self.generated == asked.max_tokens).then_some(StopReason::MaxTokens))
    }
}
