//! The decoder itself: what a step is.

use std::ops::ControlFlow;
use std::sync::Arc;

use qsf_format::{ModelConfig, PositionConfig, Residual};

use super::activations::{Activations, CodedRows};
use super::clustered_head::ClusteredHead;
use super::exit_rule::ExitRule;
use super::kv_cache::{CacheLayers, KvOptions};
use super::observe::{InputObserver, Unobserved};
use super::profile::Section;
use super::rotation::alibi_slopes;
use super::state::DecoderState;
use crate::error::{Result, RuntimeError};
use crate::linear::{Adapted, Input, Latents, Products as _};
use crate::progress::Cancel;
use crate::weights::{LayerWeights, Linear, Mixer, Model, Norm, Weight};
use qsf_cpu::Cpu;

/// Tokens of one prompt step: large enough to use a weight many times, small enough for the caches.
pub const PROMPT_BATCH: usize = 512;

/// Most matrices over one input: query, key, value and gate of attention.
const MAX_LINEARS: usize = 4;

/// Runs a model. A clone shares the model and the threads.
#[derive(Clone)]
pub struct Decoder {
    pub(super) model: Arc<Model>,
    pub(super) cpu: Cpu,
    pub(super) activations: Activations,
    /// Of ALiBi, one per head; empty without.
    pub(super) slopes: Vec<f32>,
    /// The layers that are run, in their order.
    pub(super) schedule: Vec<usize>,
    /// When the rest of these is left out.
    pub(super) exit_rule: Option<ExitRule>,
    /// What logits are made by in place of the whole head.
    pub(super) clustered: Option<Arc<ClusteredHead>>,
    cancel: Cancel,
}

impl Decoder {
    /// A decoder of `model`. Activations default to int8 for quantized models and to f32 for others.
    pub fn new(model: Arc<Model>, cpu: Cpu, activations: Option<Activations>) -> Decoder {
        let default = if model.has_blocks() { Activations::Int8 } else { Activations::F32 };
        // Everything that a decoder computes by, and which file does it: whoever adds a field says here where it is obeyed.
        let ModelConfig {
            position,
            heads,
            // The widths of buffers and matrices: `state`, `kv_cache`, `attention`.
            layers: _,
            hidden: _,
            kv_heads: _,
            head_dim: _,
            ffn: _,
            // Bounds of a request: `state_with`, `check_request`.
            vocab: _,
            max_positions: _,
            // `residual`.
            norm: _,
            residual: _,
            embedding_scale: _,
            residual_scale: _,
            // Whether there are weights for these: `Model::load`; `residual` and `attention` use what is there.
            embedding_norm: _,
            attention_sinks: _,
            window_sinks: _,
            sub_norms: _,
            window_chunks: _,
            tied_head: _,
            gated_ffn: _,
            // Of which functions are made that the weights have: `Model::load`.
            activation: _,
            gate_clip: _,
            // `experts`, `routing`.
            experts: _,
            // `attention`, `kv_cache`, `rotation`.
            qk_norm: _,
            qkv_clip: _,
            query_growth: _,
            attention_scale: _,
            value_heads: _,
            attention_softcap: _,
            attention_gate: _,
            sliding_window: _,
            // `latent`.
            latent: _,
            // `recurrent`, `recurrent_state`, `both`.
            recurrent: _,
            // `both`, `recurrent`, `feed_forward`.
            multipliers: _,
            // Which parts a layer has: `Model::load`; `layer` runs those.
            half_layers: _,
            full_attention: _,
            shared_kv: _,
            value_norm: _,
            // `streams`, `feed_forward`.
            streams: _,
            laurel: _,
            gate_sparsity: _,
            // `per_layer`, `residual`.
            per_layer_embedding: _,
            layer_scale: _,
            // `logits`.
            logit_scale: _,
            logit_softcap: _,
            // A name for messages.
            architecture: _,
            // What a caller begins, ends and pads a text with.
            bos: _,
            stop_tokens: _,
            pad: _,
        } = &model.config;
        let slopes = match position {
            PositionConfig::Alibi { slope_scale } => {
                alibi_slopes(*heads as usize, slope_scale.unwrap_or(1.0))
            }
            // Added to the embedding in `residual`, or turned by `rotation`.
            PositionConfig::Learned {} | PositionConfig::Rope { .. } => Vec::new(),
        };
        Decoder {
            activations: activations.unwrap_or(default),
            slopes,
            schedule: (0..model.layers.len()).collect(),
            exit_rule: None,
            clustered: None,
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

    /// Makes [`Decoder::logits`] compute those of the likeliest clusters of tokens only.
    #[must_use]
    pub fn with_clusters(mut self, head: ClusteredHead) -> Decoder {
        self.clustered = Some(Arc::new(head));
        self
    }

    /// The clusters that logits are made by; `None` where they are made by the whole head.
    pub fn clustered_head(&self) -> Option<&ClusteredHead> {
        self.clustered.as_deref()
    }

    /// The flag that stops this decoder.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Slopes of ALiBi, one per head; none without.
    #[cfg(feature = "gpu")]
    pub(crate) fn slopes(&self) -> &[f32] {
        &self.slopes
    }

    /// The kernels that run it.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// The activation type in use.
    pub fn activations(&self) -> Activations {
        self.activations
    }

    /// An empty state with room for `context` positions, of which at most `batch` come in one step, with keys and values in
    /// f32.
    ///
    /// # Errors
    /// When the model was not made for so many positions, or memory runs out.
    pub fn state(&self, context: usize, batch: usize) -> Result<DecoderState> {
        self.state_with(context, batch, KvOptions::default())
    }

    /// [`Decoder::state`] with keys and values kept as `kv` says.
    ///
    /// # Errors
    /// When the model was not made for so many positions, or memory runs out.
    pub fn state_with(&self, context: usize, batch: usize, kv: KvOptions) -> Result<DecoderState> {
        self.check_context(context)?;
        let config = &self.model.config;
        DecoderState::new(config, CacheLayers::All, 1, context, batch.clamp(1, context.max(1)), kv)
    }

    /// An empty state of `sequences` sequences with room for `context` positions each, of which at most `batch` come in one step,
    /// all sequences together. [`Decoder::forward_together`] runs them.
    ///
    /// # Errors
    /// When the model was not made for so many positions, or memory runs out.
    pub fn states(
        &self,
        sequences: usize,
        context: usize,
        batch: usize,
        kv: KvOptions,
    ) -> Result<DecoderState> {
        self.check_context(context)?;
        let most = context.max(1).saturating_mul(sequences.max(1));
        DecoderState::new(&self.model.config, CacheLayers::All, sequences, context, batch.clamp(1, most), kv)
    }

    fn check_context(&self, context: usize) -> Result<()> {
        let limit = self.model.config.max_positions as usize;
        if context > limit {
            return Err(RuntimeError::Request(format!(
                "a context of {context} tokens was asked for, and the model was made for {limit}"
            )));
        }
        Ok(())
    }

    /// Runs `tokens` through the model, behind what `state` has seen; then [`Decoder::logits`] of them can be had.
    ///
    /// # Errors
    /// When a token is beyond the vocabulary, the tokens exceed the state's batch or context, or weights cannot be read from
    /// disk. Then the state is as before.
    pub fn forward(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<()> {
        self.step(state, tokens, false, &mut |_, _| (), &mut Unobserved)
    }

    /// Runs tokens of several sequences through the model in one step: of each its number in `state`, and the tokens behind what it
    /// has seen. The rows of the step are these tokens in this order. But for [`Activations::Int8Wide`], which looks at how many
    /// there are, a sequence gets the bits that it would get alone in such a step.
    ///
    /// # Errors
    /// When a sequence comes twice or is not there, and as [`Decoder::forward`]. Then all sequences are as before.
    pub fn forward_together(&self, state: &mut DecoderState, parts: &[(usize, &[u32])]) -> Result<()> {
        self.check_parts(state, parts)?;
        state.begin_parts(parts.iter().map(|(sequence, tokens)| (*sequence, tokens.len())))?;
        let tokens: Vec<u32> = parts.iter().flat_map(|(_, tokens)| *tokens).copied().collect();
        self.run(state, &tokens, false, &mut |_, _| (), &mut Unobserved)
    }

    /// [`Decoder::forward`] of one token that was generated, which may leave the model early ([`Decoder::with_early_exit`]).
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    pub fn decode(&self, state: &mut DecoderState, token: u32) -> Result<()> {
        self.step(state, &[token], true, &mut |_, _| (), &mut Unobserved)
    }

    /// [`Decoder::forward`], in which `watch` sees what leaves each layer, tokens x `hidden`.
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    pub fn forward_watched(
        &self,
        state: &mut DecoderState,
        tokens: &[u32],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        self.model.settle(&self.cpu)?;
        self.step(state, tokens, false, watch, &mut Unobserved)
    }

    /// [`Decoder::forward`], in which `observer` sees what matrices are multiplied with, and attention.
    ///
    /// # Errors
    /// As [`Decoder::forward`], and [`RuntimeError::Interrupted`] where the observer breaks off.
    pub fn forward_observed(
        &self,
        state: &mut DecoderState,
        tokens: &[u32],
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        self.model.settle(&self.cpu)?;
        self.step(state, tokens, false, &mut |_, _| (), observer)
    }

    fn step(
        &self,
        state: &mut DecoderState,
        tokens: &[u32],
        decoded: bool,
        watch: &mut dyn FnMut(usize, &[f32]),
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        self.check_request(state, tokens)?;
        state.begin(tokens.len())?;
        self.run(state, tokens, decoded, watch, observer)
    }

    /// The layers, for a step that has begun.
    fn run(
        &self,
        state: &mut DecoderState,
        tokens: &[u32],
        decoded: bool,
        watch: &mut dyn FnMut(usize, &[f32]),
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        let began = self.model.huge_pages.before_step(tokens.len());
        state.profile.begin();
        self.embed(state, tokens, self.norm_of_next(0))?;
        state.profile.lap(Section::Elementwise);
        let mut layers_run = 0;
        for (at, &i) in self.schedule.iter().enumerate() {
            self.cancel.check()?;
            let (layer, next) = (&self.model.layers[i], self.norm_of_next(at + 1));
            if self.layer(state, i, layer, next, observer)?.is_break() {
                return Err(RuntimeError::Interrupted);
            }
            watch(i, &state.hidden);
            layers_run = at + 1;
            if decoded && layers_run < self.schedule.len() && self.is_decided(state, i) {
                self.leave(state, layers_run)?;
                break;
            }
        }
        self.end_streams(state)?;
        if decoded {
            state.decoded.add(layers_run);
        }
        state.caches.advance();
        self.model.huge_pages.after_step(began, &self.cpu);
        Ok(())
    }

    pub(super) fn check_request(&self, state: &DecoderState, tokens: &[u32]) -> Result<()> {
        self.check_parts(state, &[(0, tokens)])
    }

    fn check_parts(&self, state: &DecoderState, parts: &[(usize, &[u32])]) -> Result<()> {
        let config = &self.model.config;
        let mut all = 0_usize;
        for (at, (sequence, tokens)) in parts.iter().enumerate() {
            let of = state.caches.all();
            let Some(cache) = of.get(*sequence).filter(|_| parts[..at].iter().all(|(s, _)| s != sequence))
            else {
                return Err(RuntimeError::Request(format!(
                    "sequence {sequence} comes twice in a step, or is none of the {}",
                    of.len()
                )));
            };
            if let Some(&token) = tokens.iter().find(|&&t| t >= config.vocab) {
                return Err(RuntimeError::Request(format!(
                    "token id {token} is beyond the model's vocabulary of {}",
                    config.vocab
                )));
            }
            all += tokens.len();
            if tokens.is_empty() || all > state.batch() || cache.len() + tokens.len() > cache.capacity() {
                return Err(RuntimeError::Request(format!(
                    "{} tokens behind {} do not fit: at most {} in one step, {} in all",
                    tokens.len(),
                    cache.len(),
                    state.batch(),
                    cache.capacity()
                )));
            }
        }
        if parts.is_empty() {
            return Err(RuntimeError::Request("a step of no sequence".into()));
        }
        Ok(())
    }

    /// One layer: mixer and feed-forward, each added to the residual stream. `state.normed` holds what the mixer reads,
    /// and afterwards what is read behind the norm `next`. It breaks off where the observer does.
    pub(super) fn layer(
        &self,
        state: &mut DecoderState,
        index: usize,
        layer: &LayerWeights,
        next: Option<&Norm>,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        if let Some(streams) = &layer.streams {
            self.predict_streams(state, streams, layer.first_norm());
        }
        self.tell_mixer_adds(state, layer, observer);
        let flow = match &layer.mixer {
            Some(Mixer::Attention(weights)) => {
                let flow = self.attention(state, index, weights, observer)?;
                self.multiply_projected(state, self.multipliers().attention);
                flow
            }
            Some(Mixer::Recurrent(weights)) => {
                let flow = self.recurrent(state, index, weights, observer)?;
                self.multiply_projected(state, self.multipliers().mixer);
                flow
            }
            Some(Mixer::Both(attention, recurrent)) => {
                self.both(state, index, attention, recurrent, observer)?
            }
            None => ControlFlow::Continue(()),
        };
        if flow.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if layer.mixer.is_some() {
            state.profile.lap(Section::Matmul);
            let then = if layer.ffn.is_some() { layer.ffn_norm.as_ref() } else { next };
            if let Some(laurel) = &layer.laurel
                && self.laurel(state, laurel, observer)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            let residual = self.model.config.residual;
            self.add_residual(state, layer.post_attn_norm.as_ref(), residual, None, then);
            if layer.laurel.is_some() {
                self.add_laurel(state, then);
            }
            state.profile.lap(Section::Elementwise);
        }
        let Some(ffn) = &layer.ffn else { return Ok(ControlFlow::Continue(())) };
        self.tell_feed_forward_adds(state, layer, observer);
        if self.feed_forward(state, ffn, observer)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.multiply_projected(state, self.multipliers().ffn);
        state.profile.lap(Section::Matmul);
        // With an input of its own, the layer goes on with the stream as it is.
        let (factor, then) = if layer.per_layer.is_some() { (None, None) } else { (layer.scale, next) };
        self.add_residual(state, layer.post_ffn_norm.as_ref(), Residual::Sequential, factor, then);
        if let Some(streams) = &layer.streams {
            self.correct_streams(state, streams);
        }
        state.profile.lap(Section::Elementwise);
        self.add_per_layer(state, index, layer, next, observer)
    }

    /// Several matrices over the same input, which is quantized once.
    pub(super) fn linears(
        &self,
        linears: &[&Linear],
        input: &[f32],
        coded: &mut CodedRows,
        outs: &mut [&mut [f32]],
    ) -> Result<()> {
        self.linears_with(self.activations, linears, input, coded, outs)
    }

    /// [`Decoder::linears`] with these activations.
    pub(super) fn linears_with(
        &self,
        activations: Activations,
        linears: &[&Linear],
        input: &[f32],
        coded: &mut CodedRows,
        outs: &mut [&mut [f32]],
    ) -> Result<()> {
        let mut latents = std::mem::take(&mut coded.latents);
        let began = coded.times.begin();
        let cols = linears[0].weight.cols();
        let quantized = linears.iter().any(|l| l.weight.has_blocks());
        let input_rows = coded.input(&self.cpu, activations, input, cols, quantized);
        let done = self.adapted_linears(linears, &input_rows, &mut latents, outs);
        let weights = linears.iter().map(|linear| &linear.weight);
        coded.times.end(began, weights, input.len() / cols);
        coded.latents = latents;
        done
    }

    fn adapted_linears(
        &self,
        linears: &[&Linear],
        input: &Input<'_>,
        latents: &mut Latents,
        outs: &mut [&mut [f32]],
    ) -> Result<()> {
        let adapted = Adapted::new(linears.iter().map(|linear| linear.low_rank.as_deref()), input, latents);
        let mut resident = [None; MAX_LINEARS];
        for (slot, linear) in resident.iter_mut().zip(linears) {
            *slot = linear.resident();
        }
        if let Some(first) = resident[0]
            && resident[..linears.len()].iter().all(Option::is_some)
        {
            let all = resident.map(|linear| linear.unwrap_or(first));
            self.cpu.adapted_linears(&all[..linears.len()], &adapted, input, outs);
            return Ok(());
        }
        for (linear, out) in linears.iter().zip(&mut *outs) {
            let bias = linear.bias.as_deref();
            match &linear.weight {
                Weight::Resident(tensor) => self.cpu.linear(tensor, bias, input, out),
                Weight::Streamed(matrix) => matrix.linear(&self.cpu, bias, input, out)?,
            }
        }
        adapted.add_alone(&self.cpu, outs);
        Ok(())
    }
}
