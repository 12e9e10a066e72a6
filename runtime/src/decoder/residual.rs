//! The residual stream: where it begins, what is added to it, and the norms around that. Each token's row goes through all
//! of it at once, on some thread.

use super::{Decoder, DecoderState, InputObserver, LinearInput};
use crate::error::Result;
use crate::weights::{Embedding, FeedForward, LayerWeights, Mixer, Norm};
use qsf_cpu::{add_assign, layer_norm, layer_norm_in_place, rms_norm, rms_norm_in_place, scale};
use qsf_format::{NormKind, Residual};

/// What adding and normalizing a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

impl Decoder {
    /// Embeds `tokens` into `state.hidden`, and leaves that normalized by `next` in `state.normed`.
    ///
    /// # Errors
    /// When rows of the embedding cannot be read from disk.
    pub(super) fn embed(&self, state: &mut DecoderState, tokens: &[u32], next: Option<&Norm>) -> Result<()> {
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let DecoderState { hidden, normed, caches, .. } = state;
        let places = caches.positions();
        let resident = match &self.model.embedding {
            Embedding::Resident(tensor) => Some(tensor),
            Embedding::OnDisk(rows) => {
                rows.decode(isa, tokens, hidden)?;
                None
            }
        };
        self.cpu.for_each_rows(
            [(hidden, width), (normed, width)],
            WORK * width,
            |first, [hidden, normed]| {
                let rows = hidden.chunks_exact_mut(width).zip(normed.chunks_exact_mut(width));
                for (t, (row, normed)) in (first..).zip(rows) {
                    if let Some(embedding) = resident {
                        embedding.decode_row(isa, tokens[t] as usize, row);
                    }
                    if let Some(factor) = self.model.config.embedding_scale {
                        scale(isa, row, factor);
                    }
                    if let Some(positions) = &self.model.positions {
                        positions.decode_row(isa, places[t], normed);
                        add_assign(isa, row, normed);
                    }
                    if let Some(norm) = &self.model.embedding_norm {
                        self.norm_in_place(norm, row);
                    }
                    self.norm_or_copy(next, row, normed);
                }
            },
        );
        self.per_layer_inputs(state, tokens)?;
        self.begin_streams(state)
    }

    /// Leaves `state.hidden`, normalized by `norm`, in `state.normed`.
    pub(super) fn normalize(&self, state: &mut DecoderState, norm: Option<&Norm>) {
        let width = self.model.config.hidden as usize;
        let matrices = [(&mut *state.hidden, width), (&mut state.normed, width)];
        self.cpu.for_each_rows(matrices, WORK * width, |_, [hidden, normed]| {
            for (row, normed) in hidden.chunks_exact(width).zip(normed.chunks_exact_mut(width)) {
                self.norm_or_copy(norm, row, normed);
            }
        });
    }

    /// `out` becomes `rows` of the residual stream normalized by `norm`.
    pub(super) fn norm_of(&self, norm: &Norm, rows: &mut [f32], out: &mut [f32]) {
        let width = self.model.config.hidden as usize;
        self.cpu.for_each_rows([(rows, width), (out, width)], WORK * width, |_, [rows, out]| {
            for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                self.norm_or_copy(Some(norm), row, out);
            }
        });
    }

    /// The norm before the layer that is run in place `at`; behind the last, that of the head.
    pub(super) fn norm_of_next(&self, at: usize) -> Option<&Norm> {
        match self.schedule.get(at) {
            Some(&layer) => self.model.layers[layer].first_norm(),
            None => Some(&self.model.final_norm),
        }
    }

    /// Adds `state.projected`, normalized by `added` where that is there, to `state.hidden`, and leaves what the next part
    /// of the model reads in `state.normed`: by `residual`, the new stream or the old one normalized by `next`, or what the
    /// last part has read. The new stream is multiplied with `factor`, where given.
    pub(super) fn add_residual(
        &self,
        state: &mut DecoderState,
        added: Option<&Norm>,
        residual: Residual,
        factor: Option<f32>,
        next: Option<&Norm>,
    ) {
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let DecoderState { hidden, projected, normed, .. } = state;
        let matrices = [(&mut **hidden, width), (projected, width), (normed, width)];
        self.cpu.for_each_rows(matrices, 2 * WORK * width, |_, [hidden, projected, normed]| {
            let rows = hidden.chunks_exact_mut(width).zip(projected.chunks_exact_mut(width));
            for ((hidden, projected), normed) in rows.zip(normed.chunks_exact_mut(width)) {
                if let Some(norm) = added {
                    self.norm_in_place(norm, projected);
                }
                if let Some(factor) = self.model.config.residual_scale {
                    scale(isa, projected, factor);
                }
                if residual == Residual::Parallel {
                    self.norm_or_copy(next, hidden, normed);
                }
                add_assign(isa, hidden, projected);
                if let Some(factor) = factor {
                    scale(isa, hidden, factor);
                }
                if residual == Residual::Sequential {
                    self.norm_or_copy(next, hidden, normed);
                }
            }
        });
    }

    /// Tells `observer` what the mixer of a layer is added to, where that is one product of a matrix with nothing behind it.
    pub(super) fn tell_mixer_adds(
        &self,
        state: &DecoderState,
        layer: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) {
        let (input, factor) = match &layer.mixer {
            Some(Mixer::Attention(_)) => (LinearInput::AttnOutput, self.multipliers().attention),
            Some(Mixer::Recurrent(_)) => (LinearInput::MixerOutput, self.multipliers().mixer),
            Some(Mixer::Both(..)) | None => return,
        };
        if layer.post_attn_norm.is_none() && layer.laurel.is_none() && layer.streams.is_none() {
            observer.adds_to(input, &state.hidden, factor * self.model.config.residual_scale.unwrap_or(1.0));
        }
    }

    /// [`Decoder::tell_mixer_adds`] for the feed-forward. Experts are several products.
    pub(super) fn tell_feed_forward_adds(
        &self,
        state: &DecoderState,
        layer: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) {
        let dense = matches!(layer.ffn, Some(FeedForward::Dense(_)));
        if dense && layer.post_ffn_norm.is_none() && layer.streams.is_none() {
            let factor = self.multipliers().ffn * self.model.config.residual_scale.unwrap_or(1.0);
            observer.adds_to(LinearInput::FfnDown, &state.hidden, factor);
        }
    }

    pub(super) fn norm_or_copy(&self, norm: Option<&Norm>, row: &[f32], out: &mut [f32]) {
        let Some(Norm { gain, bias }) = norm else { return out.copy_from_slice(row) };
        let (isa, config) = (self.cpu.isa(), &self.model.config.norm);
        match config.kind {
            NormKind::RmsNorm => rms_norm(isa, row, gain, config.epsilon, out),
            NormKind::LayerNorm => layer_norm(isa, row, gain, bias.as_deref(), config.epsilon, out),
        }
    }

    fn norm_in_place(&self, norm: &Norm, row: &mut [f32]) {
        let (isa, config) = (self.cpu.isa(), &self.model.config.norm);
        match config.kind {
            NormKind::RmsNorm => rms_norm_in_place(isa, row, &norm.gain, config.epsilon),
            NormKind::LayerNorm => {
                layer_norm_in_place(isa, row, &norm.gain, norm.bias.as_deref(), config.epsilon);
            }
        }
    }
}
