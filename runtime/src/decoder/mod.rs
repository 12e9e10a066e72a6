//! The one decoder: every architecture is a configuration of it.
//!
//! A step takes one or more tokens, extends the key/value cache, and leaves the normed hidden state of each of its tokens;
//! logits are made of those on request, for as many positions as are needed.

mod attention;
mod feed_forward;
mod kv_cache;
mod observe;
mod profile;
mod rotation;
mod routing;
mod state;

use std::sync::Arc;

use crate::cpu::{Cpu, Input, Int8Rows, add_assign, layer_norm, rms_norm, scale, softcap};
use crate::error::{Result, RuntimeError};
use crate::progress::Cancel;
use crate::weights::{LayerWeights, Linear, Model, Norm};
use qsf_format::{NormKind, PositionConfig, Residual};

pub use kv_cache::KvCache;
pub use observe::{InputObserver, LinearInput};
pub use profile::{Profile, Section};
pub use state::DecoderState;

/// Type of the activations that quantized matrices are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// Quantized to 8 bits, a scale per 32 values: what runs by default where weights are in blocks.
    Int8,
    /// 32-bit floats: the reference.
    F32,
}

impl Activations {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Activations::Int8 => "int8",
            Activations::F32 => "f32",
        }
    }
}

/// Runs a model.
pub struct Decoder {
    model: Arc<Model>,
    cpu: Cpu,
    activations: Activations,
    /// Of ALiBi, one per head; empty without.
    slopes: Vec<f32>,
    cancel: Cancel,
}

impl Decoder {
    /// A decoder of `model`. Activations default to int8 for quantized models and to f32 for others.
    pub fn new(model: Arc<Model>, cpu: Cpu, activations: Option<Activations>) -> Decoder {
        let default = if model.has_blocks() { Activations::Int8 } else { Activations::F32 };
        let alibi = model.config.position == PositionConfig::Alibi {};
        let heads = if alibi { model.config.heads as usize } else { 0 };
        Decoder {
            activations: activations.unwrap_or(default),
            slopes: rotation::alibi_slopes(heads),
            cpu,
            model,
            cancel: Cancel::default(),
        }
    }

    /// Makes every step stop between layers, with [`RuntimeError::Interrupted`], once `cancel` is requested.
    pub fn stop_on(mut self, cancel: &Cancel) -> Decoder {
        self.cancel = cancel.clone();
        self
    }

    /// The flag that stops this decoder.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The kernels that run it.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// The activation type in use.
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// An empty state with room for `context` positions, of which at most `batch` come in one step.
    ///
    /// # Errors
    /// When the model was not made for so many positions, or memory runs out.
    pub fn state(&self, context: usize, batch: usize) -> Result<DecoderState> {
        let limit = self.model.config.max_positions as usize;
        if context > limit {
            return Err(RuntimeError::Request(format!(
                "a context of {context} tokens was asked for, and the model was made for {limit}"
            )));
        }
        DecoderState::new(&self.model.config, context, batch.clamp(1, context.max(1)))
    }

    /// Runs `tokens` through the model, behind what `state` has seen; then [`Decoder::logits`] of them can be had.
    ///
    /// # Errors
    /// When a token is beyond the vocabulary, or the tokens exceed the state's batch or context.
    pub fn forward(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<()> {
        self.step(state, tokens, &mut observe::Unobserved)
    }

    /// The same, and `observer` sees what every matrix is multiplied with.
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    pub fn forward_observed(
        &self,
        state: &mut DecoderState,
        tokens: &[u32],
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        self.step(state, tokens, observer)
    }

    fn step(&self, state: &mut DecoderState, tokens: &[u32], observer: &mut dyn InputObserver) -> Result<()> {
        self.check_request(state, tokens)?;
        state.begin(tokens.len());
        state.profile.begin();
        self.embed(state, tokens);
        state.profile.lap(Section::Elementwise);
        for (i, layer) in self.model.layers.iter().enumerate() {
            self.cancel.check()?;
            self.layer(state, i, layer, observer);
        }
        self.norm(&self.model.final_norm, &state.hidden, &mut state.normed);
        state.profile.lap(Section::Elementwise);
        observer.observe(None, LinearInput::Head, &state.normed);
        state.kv.advance(tokens.len());
        Ok(())
    }

    fn check_request(&self, state: &DecoderState, tokens: &[u32]) -> Result<()> {
        let config = &self.model.config;
        if let Some(&token) = tokens.iter().find(|&&t| t >= config.vocab) {
            return Err(RuntimeError::Request(format!(
                "token id {token} is beyond the model's vocabulary of {}",
                config.vocab
            )));
        }
        let end = state.kv.len() + tokens.len();
        if tokens.is_empty() || tokens.len() > state.batch() || end > state.kv.capacity() {
            return Err(RuntimeError::Request(format!(
                "{} tokens behind {} do not fit: at most {} in one step, {} in all",
                tokens.len(),
                state.kv.len(),
                state.batch(),
                state.kv.capacity()
            )));
        }
        Ok(())
    }

    /// Logits of rows `rows` of the last step, `rows.len()` x `vocab` into `out`.
    ///
    /// # Panics
    /// When the last step had fewer rows or `out` has another size.
    pub fn logits(&self, state: &mut DecoderState, rows: std::ops::Range<usize>, out: &mut [f32]) {
        let hidden = self.model.config.hidden as usize;
        let DecoderState { normed, int8, profile, .. } = state;
        profile.begin();
        let input = &normed[rows.start * hidden..rows.end * hidden];
        self.linears(&[&self.model.head], input, int8, &mut [&mut *out]);
        if let Some(cap) = self.model.config.logit_softcap {
            softcap(self.cpu.isa(), out, cap);
        }
        profile.lap(Section::Head);
    }

    fn embed(&self, state: &mut DecoderState, tokens: &[u32]) {
        let (isa, hidden) = (self.cpu.isa(), self.model.config.hidden as usize);
        for (t, (&token, row)) in tokens.iter().zip(state.hidden.chunks_exact_mut(hidden)).enumerate() {
            self.model.embedding.decode_row(isa, token as usize, row);
            if let Some(factor) = self.model.config.embedding_scale {
                scale(isa, row, factor);
            }
            if let Some(positions) = &self.model.positions {
                let position = &mut state.normed[..hidden];
                positions.decode_row(isa, state.kv.len() + t, position);
                add_assign(isa, row, position);
            }
        }
        if let Some(norm) = &self.model.embedding_norm {
            self.norm(norm, &state.hidden, &mut state.normed);
            std::mem::swap(&mut state.hidden, &mut state.normed);
        }
    }

    /// One layer: attention and feed-forward, each added to the residual stream.
    fn layer(
        &self,
        state: &mut DecoderState,
        index: usize,
        layer: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) {
        let isa = self.cpu.isa();
        self.attention(state, index, layer, observer);
        state.profile.lap(Section::Matmul);
        self.norm_added(layer.post_attn_norm.as_ref(), state);
        let DecoderState { hidden, normed, projected, .. } = state;
        match self.model.config.residual {
            Residual::Sequential => {
                add_assign(isa, hidden, projected);
                self.norm_or_copy(layer.ffn_norm.as_ref(), hidden, normed);
            }
            Residual::Parallel => {
                self.norm_or_copy(layer.ffn_norm.as_ref(), hidden, normed);
                add_assign(isa, hidden, projected);
            }
            // What attention has read is still there.
            Residual::ParallelOneNorm => add_assign(isa, hidden, projected),
        }
        state.profile.lap(Section::Elementwise);
        self.feed_forward(state, index, &layer.ffn, observer);
        state.profile.lap(Section::Matmul);
        self.norm_added(layer.post_ffn_norm.as_ref(), state);
        add_assign(isa, &mut state.hidden, &state.projected);
        state.profile.lap(Section::Elementwise);
    }

    /// Normalizes what is about to be added, where there is a norm for it.
    fn norm_added(&self, norm: Option<&Norm>, state: &mut DecoderState) {
        if let Some(norm) = norm {
            self.norm(norm, &state.projected, &mut state.normed);
            std::mem::swap(&mut state.projected, &mut state.normed);
        }
    }

    fn norm_or_copy(&self, norm: Option<&Norm>, input: &[f32], out: &mut [f32]) {
        match norm {
            Some(norm) => self.norm(norm, input, out),
            None => out.copy_from_slice(input),
        }
    }

    fn norm(&self, norm: &Norm, input: &[f32], out: &mut [f32]) {
        let isa = self.cpu.isa();
        let epsilon = self.model.config.norm.epsilon;
        let width = norm.gain.len();
        for (x, out) in input.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            match self.model.config.norm.kind {
                NormKind::RmsNorm => rms_norm(isa, x, &norm.gain, epsilon, out),
                NormKind::LayerNorm => {
                    layer_norm(isa, x, &norm.gain, norm.bias.as_deref(), epsilon, out);
                }
            }
        }
    }

    /// Several matrices over the same input, which is quantized once.
    fn linears(&self, linears: &[&Linear], input: &[f32], int8: &mut Int8Rows, outs: &mut [&mut [f32]]) {
        let cols = linears[0].weight.cols();
        let quantized = linears.iter().any(|l| l.weight.has_blocks());
        let input = if self.activations == Activations::Int8 && quantized {
            int8.quantize(&self.cpu, input, input.len() / cols, cols);
            Input::with_int8(input, cols, int8)
        } else {
            Input::float(input, cols)
        };
        match (linears, outs) {
            ([linear], [out]) => self.cpu.linear(&linear.weight, linear.bias.as_deref(), &input, out),
            (linears, outs) => {
                let mut weights = [(&linears[0].weight, None); 3];
                for (slot, linear) in weights.iter_mut().zip(linears) {
                    *slot = (&linear.weight, linear.bias.as_deref());
                }
                self.cpu.linears(&weights[..linears.len()], &input, outs);
            }
        }
    }
}
