//! Leaving the model before its last layer, where a classifier says that the token is decided (CALM, arXiv 2207.07061;
//! SPEC.md section 7.10).
//!
//! Only generated tokens leave early ([`Decoder::decode`]): prompts run whole, whatever steps they come in. Tokens that follow
//! attend to keys and values of every layer, so the layers that are left out still make those of this position, from the
//! hidden state that was left with, as CALM does. What is saved is the rest of each layer: query, attention itself, output
//! and feed-forward. Where attention decides which positions are kept, a layer that was left out has paid none.

use std::sync::Arc;

use qsf_format::EarlyExits;

use super::exit_rule::{ExitRule, confidence};
use super::profile::Section;
use super::state::DecoderState;
use super::step::Decoder;
use crate::error::{Result, RuntimeError};

impl Decoder {
    /// Makes every decoded token leave the model behind the first layer of `exits` whose classifier is at least as sure as
    /// `threshold`, 0 to 1; at 1 none does.
    ///
    /// # Errors
    /// When the classifiers are for a model of another shape, or the model cannot be left early.
    pub fn with_early_exit(mut self, exits: Arc<EarlyExits>, threshold: f32) -> Result<Decoder> {
        let config = &self.model.config;
        if let Some(why) = config.never_left_early() {
            let problem = format!("early exits of a model with {why}, which cannot be left early");
            return Err(RuntimeError::Request(problem));
        }
        let mut of_layer = vec![None; config.layers as usize];
        let fits =
            exits.cols == config.hidden && exits.exits.iter().all(|e| e.weights.len() == exits.cols as usize);
        for (number, exit) in exits.exits.iter().enumerate() {
            match of_layer.get_mut(exit.layer as usize).filter(|_| fits) {
                Some(slot) => *slot = Some(number),
                None => {
                    let problem = "early exits of a model of another shape: convert the model again";
                    return Err(RuntimeError::Request(problem.into()));
                }
            }
        }
        self.exit_rule = Some(ExitRule { of_layer, exits, threshold });
        Ok(self)
    }

    /// Whether decoded tokens may leave the model early.
    pub fn exits_early(&self) -> bool {
        self.exit_rule.is_some()
    }

    /// Whether the one token of this step is decided behind `layer`.
    pub(super) fn is_decided(&self, state: &mut DecoderState, layer: usize) -> bool {
        let Some(rule) = self.exit_rule.as_ref().filter(|rule| rule.threshold < 1.0) else { return false };
        let Some(number) = rule.of_layer[layer] else { return false };
        let exit = &rule.exits.exits[number];
        // Between layers nothing is in this buffer.
        let DecoderState { hidden, projected, .. } = state;
        self.norm_or_copy(Some(&self.model.final_norm), hidden, projected);
        confidence(self.cpu.isa(), &exit.weights, exit.bias, projected) >= rule.threshold
    }

    /// Gives the layers in the places from `from` on their keys and values of this position, and leaves what the head reads
    /// in `state.normed`.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn leave(&self, state: &mut DecoderState, from: usize) -> Result<()> {
        for &index in &self.schedule[from..] {
            let layer = &self.model.layers[index];
            self.normalize(state, layer.attn_norm.as_ref());
            state.profile.lap(Section::Elementwise);
            // `with_early_exit` takes no others.
            let Some(weights) = layer.attention() else { continue };
            if let (Some(latent), Some(of_latents)) = (self.model.config.latent, &weights.latent) {
                self.keep_latent(state, index, weights, (latent, of_latents))?;
                state.profile.lap(Section::Attention);
                continue;
            }
            let DecoderState { normed, q, k, v, coded, caches, rotation, profile, .. } = state;
            let tokens = normed.len() / self.model.config.hidden as usize;
            let shape = self.model.config.attention_shape(index as u32);
            let q = &mut q[..tokens * weights.q.weight.rows()];
            let k = &mut k[..tokens * shape.kv_heads * shape.key_dim];
            let v = &mut v[..tokens * shape.kv_heads * shape.value_dim];
            match (&weights.k, &weights.v) {
                (Some(key), Some(value)) => self.linears(&[key, value], normed, coded, &mut [k, v])?,
                (Some(key), None) => {
                    self.linears(&[key], normed, coded, &mut [k])?;
                    v.copy_from_slice(k);
                }
                (None, _) => continue,
            }
            profile.lap(Section::Matmul);
            // The query is that of a layer before: it goes along and is not used.
            let rope = rotation.of_layer(&self.model.config, index as u32);
            self.place(weights, rope, caches.positions(), q, k);
            self.finish_values(weights, v);
            caches.first_mut().store(&self.cpu, index, k, v);
            profile.lap(Section::Attention);
        }
        self.normalize(state, Some(&self.model.final_norm));
        state.profile.lap(Section::Elementwise);
        Ok(())
    }
}
