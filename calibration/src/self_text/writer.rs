//! A model that writes text, in rounds.

use std::sync::Arc;

use qsf_format::ModelConfig;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::generate::{Flow, StopReason};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::session::{TextAsked, TextListener, TogetherOptions, generate_together};
use qsf_runtime::source::{WeightSource, tokenizer_of};
use qsf_runtime::{
    Activations, ChatTemplate, Decoder, KvOptions, LayerRunner, Model, Result, RuntimeError, StateBytes,
};

use super::turns::Turns;

/// What all draws begin from.
pub const SELF_SEED: u64 = 1;

/// Texts of a round: most that grow together.
const TEXTS: usize = 16;
/// Fewest: one alone would take as many steps.
const LEAST_TEXTS: usize = 4;
/// Most tokens of a step: a prompt of all of them would take a step of its own.
const STEP: usize = 256;
/// Most bytes of keys and values at once: of a larger model fewer texts grow together, to the same tokens.
const MOST_KV: u64 = 1 << 30;
/// Of models with a chat template, one round of so many is free text.
const FREE_EVERY: usize = 4;
/// Tokens that a free text has at least: models for conversations would rather end a text than begin one.
const LEAST_FREE: usize = 32;
/// Most tokens of what the user says, and of an answer that another question follows.
const QUESTION: usize = 128;
const ANSWER: usize = 256;
/// Tokens of what follows a turn that tell that it has ended, where no stop token does.
const MARK: usize = 3;
/// More phases than a text has: the seeds of texts lie so far apart.
const SEEDS_OF_A_TEXT: u64 = 8;

/// What came of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfRound {
    /// The texts, one behind the other.
    pub tokens: Vec<u32>,
    /// Whether they are conversations.
    pub conversations: bool,
    /// How many.
    pub texts: usize,
}

/// A model that writes text.
pub struct SelfWriter {
    decoder: Decoder,
    /// What a free text begins with.
    begin: u32,
    turns: Option<Turns>,
    /// Tokens of a text at most: those of a sequence that a calibration takes.
    length: usize,
}

/// A stretch of all texts of a round.
struct Phase<'a> {
    /// Put behind what there is.
    push: &'a [u32],
    /// Tokens to write at most.
    most: usize,
    /// What to do at a stop token.
    stop: Stop,
    /// What follows the turn.
    mark: &'a [u32],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It is never drawn.
    Never,
    /// It ends the text, and belongs to it.
    Keep,
    /// It ends the turn, and what is pushed next has it.
    Drop,
}

impl SelfWriter {
    /// Loads the model. A chat template that cannot be used, as where models are not trusted, is as good as none: `progress`
    /// hears why.
    ///
    /// # Errors
    /// When the model is damaged, has no tokenizer, or memory runs out.
    pub fn new(
        source: &dyn WeightSource,
        cpu: &Cpu,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<SelfWriter> {
        let tokenizer = tokenizer_of(source, "text that the model writes")?;
        let config = source.config();
        let turns = source.chat_template().and_then(|_| {
            let turns = ChatTemplate::of_source(source, &tokenizer)
                .and_then(|template| Turns::of(&template, &tokenizer));
            let why = match turns {
                Ok(Some(turns)) => return Some(turns),
                Ok(None) => "it has nothing before what the user says, or changes it".to_owned(),
                Err(error) => error.to_string(),
            };
            progress.note(&format!(
                "the model writes no conversations, as its chat template cannot be used: {why}"
            ));
            None
        });
        // What ends a document stands before the next one, in the texts that models are trained on.
        let begin = config.bos.or(tokenizer.bos()).or(config.stop_tokens.first().copied()).unwrap_or(0);
        let model = Arc::new(Model::load(source)?);
        let decoder = Decoder::new(model, cpu.clone(), Some(Activations::F32)).stop_on(cancel);
        Ok(SelfWriter { decoder, begin, turns, length: LayerRunner::chunk_of(config) })
    }

    /// Bytes that writing takes beside the model itself.
    pub fn bytes(config: &ModelConfig) -> u64 {
        let (length, state) = (LayerRunner::chunk_of(config), state_bytes(config));
        let logits = 4 * TEXTS as u64 * u64::from(config.vocab);
        // Candidates of each text: an id, a logit and a weight of each token of the vocabulary.
        let candidates = TEXTS as u64 * 16 * u64::from(config.vocab);
        let kv = state.kv.saturating_mul(together(config) as u64);
        kv + state.activations + state.tables + logits + candidates + 4 * (TEXTS * length) as u64
    }

    /// Writes texts from number `first` on, all of one kind: as many as `tokens` tokens need at least, if every one is as long as it
    /// may be. `wrote` hears of each token. A text is the same whichever others are written with it.
    ///
    /// # Errors
    /// When the model computes something that is not finite, memory runs out, or a stop was requested.
    pub fn round(&self, first: usize, tokens: usize, wrote: &dyn Fn()) -> Result<SelfRound> {
        let (round, before) = (first / TEXTS, first % TEXTS);
        let count = tokens.div_ceil(self.length).clamp(LEAST_TEXTS, TEXTS).min(TEXTS - before);
        let turns = self.turns.as_ref().filter(|_| round % FREE_EVERY != FREE_EVERY - 1);
        let mut texts = vec![Text::default(); count];
        match turns {
            None => {
                let begin = Phase { push: &[self.begin], most: LEAST_FREE, stop: Stop::Never, mark: &[] };
                let rest = Phase { push: &[], most: self.length, stop: Stop::Keep, mark: &[] };
                self.phases(first, &mut texts, &[begin, rest], wrote)?;
            }
            Some(Turns { head, reply, next, end }) => {
                let turn = |push, most, mark| Phase { push, most, stop: Stop::Drop, mark };
                let question = turn(&head[..], QUESTION, &reply[..]);
                match next {
                    None => {
                        let answer = turn(reply, self.length, end);
                        self.phases(first, &mut texts, &[question, answer], wrote)?;
                    }
                    Some(next) => {
                        let answer = turn(reply, ANSWER, next);
                        let again = turn(next, QUESTION, reply);
                        let last = turn(reply, self.length, end);
                        self.phases(first, &mut texts, &[question, answer, again, last], wrote)?;
                    }
                }
                for text in texts.iter_mut().filter(|text| text.turn_ended) {
                    let room = self.length - text.tokens.len();
                    text.tokens.extend(&end[..end.len().min(room)]);
                }
            }
        }
        let tokens = texts.iter().flat_map(|text| &text.tokens).copied().collect();
        Ok(SelfRound { tokens, conversations: turns.is_some(), texts: count })
    }

    fn phases(&self, first: usize, texts: &mut [Text], phases: &[Phase<'_>], wrote: &dyn Fn()) -> Result<()> {
        for (i, phase) in phases.iter().enumerate() {
            let seed = |text: usize| SELF_SEED + ((first + text) as u64 * SEEDS_OF_A_TEXT + i as u64);
            self.phase(texts, phase, &seed, wrote)?;
        }
        Ok(())
    }

    /// Writes a stretch of every text that has room for it.
    fn phase(
        &self,
        texts: &mut [Text],
        phase: &Phase<'_>,
        seed: &dyn Fn(usize) -> u64,
        wrote: &dyn Fn(),
    ) -> Result<()> {
        let config = &self.decoder.model().config;
        let (mut asked, mut which) = (Vec::new(), Vec::new());
        for (number, text) in texts.iter_mut().enumerate().filter(|(_, text)| !text.ended) {
            let room = self.length.saturating_sub(text.tokens.len() + phase.push.len());
            text.turn_ended = false;
            if room == 0 {
                text.ended = true;
                continue;
            }
            text.tokens.extend(phase.push);
            let sampler = Sampler::new(SamplerOptions::new(1.0, 0, 1.0, 0.0, seed(number))?);
            let sampler =
                if phase.stop == Stop::Never { sampler.never(&config.stop_tokens) } else { sampler };
            let (prompt, max_tokens) = (text.tokens.clone(), phase.most.min(room));
            asked.push(TextAsked { prompt, max_tokens, stop_tokens: Vec::new(), sampler });
            which.push(number);
        }
        if asked.is_empty() {
            return Ok(());
        }
        let sequences = together(config);
        let options = TogetherOptions { sequences, step: STEP, kv: KvOptions::default() };
        let stops = &config.stop_tokens;
        let mut listener = Growing { texts, which, phase, stops, begun: Vec::new(), wrote };
        listener.begun = listener.which.iter().map(|text| listener.texts[*text].tokens.len()).collect();
        generate_together(&self.decoder, &mut asked, options, &mut listener)
    }
}

/// A text under way.
#[derive(Debug, Clone, Default)]
struct Text {
    tokens: Vec<u32>,
    /// There is no more to write.
    ended: bool,
    /// The turn that was written last has ended, and was not cut.
    turn_ended: bool,
}

/// Takes what the model writes.
struct Growing<'a> {
    texts: &'a mut [Text],
    /// The text that each of those asked for is.
    which: Vec<usize>,
    phase: &'a Phase<'a>,
    stops: &'a [u32],
    /// Tokens of each before the phase.
    begun: Vec<usize>,
    wrote: &'a dyn Fn(),
}

impl TextListener for Growing<'_> {
    fn token(&mut self, asked: usize, token: u32) -> std::result::Result<Flow, RuntimeError> {
        (self.wrote)();
        let text = &mut self.texts[self.which[asked]];
        text.tokens.push(token);
        let stopped = self.stops.contains(&token);
        match self.phase.stop {
            Stop::Keep if stopped => text.ended = true,
            Stop::Drop if stopped => {
                text.tokens.pop();
                text.turn_ended = true;
            }
            Stop::Drop => {
                let mark = &self.phase.mark[..self.phase.mark.len().min(MARK)];
                if mark.is_empty() || !text.tokens[self.begun[asked]..].ends_with(mark) {
                    return Ok(Flow::Continue);
                }
                text.tokens.truncate(text.tokens.len() - mark.len());
                text.turn_ended = true;
            }
            Stop::Never | Stop::Keep => return Ok(Flow::Continue),
        }
        Ok(Flow::Stop)
    }

    fn end(&mut self, _: usize, _: StopReason) -> std::result::Result<(), RuntimeError> {
        Ok(())
    }
}

/// What one text takes while it grows, and all of them.
fn state_bytes(config: &ModelConfig) -> StateBytes {
    StateBytes::of(config, LayerRunner::chunk_of(config), STEP, KvOptions::default())
}

/// Texts that grow at once.
fn together(config: &ModelConfig) -> usize {
    ((MOST_KV / state_bytes(config).kv.max(1)) as usize).clamp(1, TEXTS)
}
