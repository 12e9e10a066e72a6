//! The session itself: what its sequences have seen, and steps of them.

use super::saved::{Belongs, read, write};
use super::seen::Seen;
use crate::decoder::{Decoder, DecoderState, KvOptions, PROMPT_BATCH};
use crate::error::{Result, RuntimeError};
use crate::fingerprint::Hash;
use qsf_cpu::zeros;

/// Most rows whose logits are made at once.
const LOGIT_ROWS: usize = 32;

/// What a session has room for.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions {
    /// Sequences, numbered from 0.
    pub sequences: usize,
    /// Positions of each.
    pub context: usize,
    /// Tokens that go through the model at once, of all sequences.
    pub step: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
    /// The model's [fingerprint](crate::fingerprint::model_fingerprint), which saved sequences have: another model cannot go on with
    /// them.
    pub model: Hash,
}

impl SessionOptions {
    /// One sequence of `context` positions, steps as for prompts, and keys and values in f32.
    pub fn new(context: usize, model: Hash) -> SessionOptions {
        let step = PROMPT_BATCH.min(context).max(1);
        SessionOptions { sequences: 1, context, step, kv: KvOptions::default(), model }
    }
}

/// Sequences of one model.
pub struct Session {
    decoder: Decoder,
    state: DecoderState,
    options: SessionOptions,
    seen: Vec<Seen>,
}

impl Session {
    /// A session of empty sequences.
    ///
    /// # Errors
    /// When the model was not made for so many positions, it cannot keep them so, or memory runs out.
    pub fn new(decoder: Decoder, options: SessionOptions) -> Result<Session> {
        let state = decoder.states(options.sequences, options.context, options.step, options.kv)?;
        let seen = state.sequences().iter().map(|_| Seen::default()).collect();
        Ok(Session { decoder, state, options, seen })
    }

    /// What runs it.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// How many sequences there are.
    pub fn sequences(&self) -> usize {
        self.seen.len()
    }

    /// The tokens that a sequence has seen; none of one that is not there.
    pub fn tokens(&self, sequence: usize) -> &[u32] {
        self.seen.get(sequence).map_or(&[], |seen| &seen.tokens)
    }

    /// Logits of the token that comes next in a sequence. There are none before the first token, nor behind tokens that were taken
    /// back, until another one is run.
    pub fn logits(&self, sequence: usize) -> Option<&[f32]> {
        self.seen.get(sequence).map(|seen| &*seen.logits).filter(|logits| !logits.is_empty())
    }

    /// Runs the tokens of each of these sequences behind those that it has seen, all in as few steps as have room for them. A
    /// sequence gets the same bits whatever runs beside it, but for [`Activations::Int8Wide`](crate::Activations::Int8Wide), and where
    /// positions are let go ([`KvOptions::keep`]), as that happens between steps.
    ///
    /// # Errors
    /// When a sequence comes twice or is not there, a token is beyond the vocabulary, tokens do not fit, or the model cannot be
    /// run any longer. Before the first step nothing changes; sequences keep what steps that were done have run.
    pub fn run(&mut self, parts: &[(usize, &[u32])]) -> Result<()> {
        self.check(parts)?;
        let mut left: Vec<(usize, &[u32])> = parts.to_vec();
        while !left.is_empty() {
            let mut room = self.state.batch();
            let mut step = Vec::with_capacity(left.len());
            for (sequence, tokens) in &mut left {
                let (now, later) = tokens.split_at(tokens.len().min(room));
                room -= now.len();
                *tokens = later;
                if !now.is_empty() {
                    step.push((*sequence, now));
                }
            }
            self.step(&step)?;
            left.retain(|(_, tokens)| !tokens.is_empty());
        }
        Ok(())
    }

    fn check(&self, parts: &[(usize, &[u32])]) -> Result<()> {
        for (at, (sequence, tokens)) in parts.iter().enumerate() {
            let seen = self.seen(*sequence)?;
            let twice = parts[..at].iter().any(|(other, _)| other == sequence);
            if tokens.is_empty() || twice {
                let problem = if twice { "comes twice" } else { "gets no token" };
                return Err(RuntimeError::Request(format!("sequence {sequence} {problem} in a step")));
            }
            if seen.tokens.len() + tokens.len() > self.options.context {
                return Err(RuntimeError::Request(format!(
                    "{} tokens behind {} do not fit the context of {} tokens",
                    tokens.len(),
                    seen.tokens.len(),
                    self.options.context
                )));
            }
            let vocab = self.decoder.model().config.vocab;
            crate::eval::check_tokens(tokens, vocab)?;
        }
        Ok(())
    }

    fn step(&mut self, parts: &[(usize, &[u32])]) -> Result<()> {
        self.decoder.forward_together(&mut self.state, parts)?;
        for (sequence, tokens) in parts {
            let seen = &mut self.seen[*sequence];
            seen.tokens.extend(*tokens);
            seen.logits.clear();
        }
        let vocab = self.decoder.model().config.vocab as usize;
        let mut behind = 0;
        let rows = parts.iter().map(|(_, tokens)| {
            behind += tokens.len();
            behind - 1
        });
        let rows: Vec<usize> = rows.collect();
        for (parts, rows) in parts.chunks(LOGIT_ROWS).zip(rows.chunks(LOGIT_ROWS)) {
            let mut logits = zeros(rows.len() * vocab, "logits")?;
            self.decoder.logits_at(&mut self.state, rows, &mut logits)?;
            for ((sequence, _), logits) in parts.iter().zip(logits.chunks_exact(vocab)) {
                self.seen[*sequence].logits.extend(logits);
            }
        }
        Ok(())
    }

    /// Takes the last `tokens` of a sequence back.
    ///
    /// # Errors
    /// When it has fewer, or its layers have let go what would be seen from there. It is as before then.
    pub fn rewind(&mut self, sequence: usize, tokens: usize) -> Result<()> {
        let have = self.seen(sequence)?.tokens.len();
        let Some(position) = have.checked_sub(tokens) else {
            return Err(RuntimeError::Request(format!(
                "{tokens} tokens cannot be taken back of a sequence of {have}"
            )));
        };
        self.state.sequences_mut()[sequence].truncate(position)?;
        let seen = &mut self.seen[sequence];
        seen.tokens.truncate(position);
        if tokens > 0 {
            seen.logits.clear();
        }
        Ok(())
    }

    /// The bytes of a sequence: its tokens, its logits, and what the layers keep. A position that layers could go back to only
    /// because it was marked is not among them.
    ///
    /// # Errors
    /// When there is no such sequence.
    pub fn save(&self, sequence: usize) -> Result<Vec<u8>> {
        let seen = self.seen(sequence)?;
        Ok(write(&self.belongs(), seen, &self.state.sequences()[sequence]))
    }

    /// Takes up what [`Session::save`] gave of a sequence, in place of what `sequence` has seen. Behind it come the same bits as
    /// behind the original.
    ///
    /// # Errors
    /// When the bytes are damaged, or of another model, context, step, or way of keeping keys and values. Then the sequence is empty,
    /// unless it was refused for what it belongs to.
    pub fn restore(&mut self, sequence: usize, bytes: &[u8]) -> Result<()> {
        self.seen(sequence)?;
        let config = &self.decoder.model().config;
        let (seen, kept) = read(&self.belongs(), config.vocab, self.options.context, bytes)?;
        let cache = &mut self.state.sequences_mut()[sequence];
        let restored = cache.restore(kept).and_then(|()| {
            if cache.len() == seen.tokens.len() {
                return Ok(());
            }
            let problem = format!("{} tokens, and layers that have seen {}", seen.tokens.len(), cache.len());
            cache.clear();
            Err(RuntimeError::Request(format!("a saved sequence contradicts itself: {problem}")))
        });
        self.seen[sequence] = if restored.is_ok() { seen } else { Seen::default() };
        restored
    }

    /// Whether no token fits behind a sequence.
    pub(super) fn has_no_room(&self, sequence: usize) -> bool {
        self.tokens(sequence).len() >= self.options.context
    }

    fn seen(&self, sequence: usize) -> Result<&Seen> {
        let missing =
            || RuntimeError::Request(format!("sequence {sequence} is none of the {}", self.seen.len()));
        self.seen.get(sequence).ok_or_else(missing)
    }

    /// What saved bytes are for.
    fn belongs(&self) -> Belongs {
        let KvOptions { types, whole, keep } = self.options.kv;
        let keep = keep.map_or("all".into(), |keep| format!("{} {}", keep.positions, keep.policy.name()));
        let model: String = self.options.model.iter().map(|byte| format!("{byte:02x}")).collect();
        Belongs(vec![
            ("model", model),
            ("activations", self.decoder.activations().name().into()),
            ("layers", format!("{:?}", self.decoder.layers_run())),
            ("context", self.options.context.to_string()),
            ("step", self.state.batch().to_string()),
            ("key and value types", types.to_string()),
            ("positions that are kept", if whole { format!("{keep}, windows whole") } else { keep }),
        ])
    }
}
