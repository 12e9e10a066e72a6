//! Residual streams beside each other (MODEL.md section 3.2): `state.hidden` is the first, which goes through the layers. A layer
//! begins with what it predicts of all of them, and ends with what its own result corrects. Beside attention, a residual of low
//! rank may be added.

use std::ops::ControlFlow;

use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{Laurel, Norm, StreamWeights};
use qsf_cpu::math::tanh;
use qsf_cpu::{add_assign, add_scaled, magnitude, multiply, products, rescale, rms_norm, scale};

/// What a value of a stream costs, in multiply-adds of matrices.
const WORK: usize = 16;

/// Most streams (`ModelConfig::check`).
const MOST: usize = 64;

impl Decoder {
    /// Makes all streams of `state.hidden`, the first, where there are others.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn begin_streams(&self, state: &mut DecoderState) -> Result<()> {
        let Some(ends) = &self.model.streams else { return Ok(()) };
        let DecoderState { hidden, streams, coded, .. } = state;
        let others = &mut streams.others;
        self.linears(&[&ends.projection], hidden, coded, &mut [others])?;
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let all = self.model.config.stream_width() - width;
        self.cpu.for_each_rows([(&mut **hidden, width), (others, all)], WORK * all, |_, [hidden, others]| {
            for (first, others) in hidden.chunks_exact(width).zip(others.chunks_exact_mut(all)) {
                let wanted = magnitude(isa, first);
                others.chunks_exact_mut(width).for_each(|other| rescale(isa, other, wanted));
            }
        });
        Ok(())
    }

    /// Streams become what the layer predicts of them, and `state.normed` the first of these normalized by `next`.
    pub(super) fn predict_streams(
        &self,
        state: &mut DecoderState,
        weights: &StreamWeights,
        next: Option<&Norm>,
    ) {
        let (width, all) = (self.model.config.hidden as usize, self.model.config.stream_width());
        let (isa, count) = (self.cpu.isa(), all / width);
        let DecoderState { hidden, normed, streams, .. } = state;
        let matrices = [
            (&mut **hidden, width),
            (&mut *normed, width),
            (&mut streams.others, all - width),
            (&mut streams.predicted, all),
        ];
        self.cpu.for_each_rows(matrices, WORK * all, |_, [hidden, normed, others, predicted]| {
            let rows = hidden.chunks_exact_mut(width).zip(normed.chunks_exact_mut(width));
            let rows = rows.zip(others.chunks_exact_mut(all - width)).zip(predicted.chunks_exact_mut(all));
            for (((first, normed), others), predicted) in rows {
                let shares = &mut [0.0; MOST][..count];
                self.shares(weights, first, normed, shares);
                predicted[..width].copy_from_slice(first);
                predicted[width..].copy_from_slice(others);
                let factors = weights.prediction.chunks_exact(count * count);
                for (to, factors) in predicted.chunks_exact_mut(width).zip(factors) {
                    let of_stream = &mut [0.0; MOST][..count];
                    products(isa, factors, shares, of_stream);
                    let from = [&*first].into_iter().chain(others.chunks_exact(width));
                    for (from, factor) in from.zip(of_stream) {
                        add_scaled(isa, to, *factor, from);
                    }
                }
                first.copy_from_slice(&predicted[..width]);
                others.copy_from_slice(&predicted[width..]);
                self.norm_or_copy(next, first, normed);
            }
        });
    }

    /// Corrects what was predicted by what the layer has made of the first stream. `state.normed` becomes that, times a gain.
    pub(super) fn correct_streams(&self, state: &mut DecoderState, weights: &StreamWeights) {
        let (width, all) = (self.model.config.hidden as usize, self.model.config.stream_width());
        let (isa, count) = (self.cpu.isa(), all / width);
        let DecoderState { hidden, normed, streams, .. } = state;
        let matrices = [
            (&mut **hidden, width),
            (&mut *normed, width),
            (&mut streams.others, all - width),
            (&mut streams.predicted, all),
        ];
        self.cpu.for_each_rows(matrices, WORK * all, |_, [hidden, normed, others, predicted]| {
            let rows = hidden.chunks_exact_mut(width).zip(normed.chunks_exact_mut(width));
            let rows = rows.zip(others.chunks_exact_mut(all - width)).zip(predicted.chunks_exact_mut(all));
            for (((first, normed), others), predicted) in rows {
                let (shares, factors) = (&mut [0.0; MOST][..count], &mut [0.0; MOST][..count]);
                self.shares(weights, first, normed, shares);
                products(isa, &weights.correction, shares, factors);
                // What is new: the result less the prediction, which is the first of the streams.
                let was = &predicted[..width];
                for ((new, made), was) in normed.iter_mut().zip(&*first).zip(was) {
                    *new = made - was;
                }
                first.copy_from_slice(was);
                let to = [&mut *first].into_iter().chain(others.chunks_exact_mut(width));
                for (to, factor) in to.zip(factors) {
                    add_scaled(isa, to, *factor + 1.0, normed);
                }
                normed.copy_from_slice(first);
                multiply(isa, normed, &weights.scale);
            }
        });
    }

    /// Adds `state.projected`, normalized by `norm`, to all streams but the first.
    pub(super) fn add_to_other_streams(&self, state: &mut DecoderState, norm: &Norm) {
        let (width, all) = (self.model.config.hidden as usize, self.model.config.stream_width());
        self.norm_rows(norm, &mut state.projected);
        let (isa, others) = (self.cpu.isa(), all - width);
        let matrices = [(&mut *state.projected, width), (&mut state.streams.others, others)];
        self.cpu.for_each_rows(matrices, WORK * others, |_, [added, others_of_all]| {
            let rows = added.chunks_exact(width).zip(others_of_all.chunks_exact_mut(others));
            for (added, others) in rows {
                others.chunks_exact_mut(width).for_each(|other| add_assign(isa, other, added));
            }
        });
    }

    /// Leaves the mean of what comes back of all streams in `state.hidden`, and that normalized for the head in `state.normed`;
    /// nothing where there is one stream.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn end_streams(&self, state: &mut DecoderState) -> Result<()> {
        let Some(ends) = &self.model.streams else { return Ok(()) };
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let all = self.model.config.stream_width();
        let (others, count) = (all - width, all / width);
        let DecoderState { hidden, normed, projected, streams, coded, .. } = state;
        // The first stays as it is until all have come back: the others get its magnitude.
        let sums = &mut streams.predicted;
        for (i, back) in ends.returns.iter().enumerate() {
            for (to, from) in normed.chunks_exact_mut(width).zip(streams.others.chunks_exact(others)) {
                to.copy_from_slice(&from[i * width..][..width]);
            }
            self.linears(&[back], normed, coded, &mut [projected])?;
            let matrices = [(&mut **hidden, width), (&mut *projected, width), (&mut *sums, all)];
            self.cpu.for_each_rows(matrices, WORK * width, |_, [hidden, projected, sums]| {
                let rows = hidden.chunks_exact(width).zip(projected.chunks_exact_mut(width));
                for ((first, back), sums) in rows.zip(sums.chunks_exact_mut(all)) {
                    let sum = &mut sums[..width];
                    if i == 0 {
                        sum.copy_from_slice(first);
                    }
                    rescale(isa, back, magnitude(isa, first));
                    add_assign(isa, sum, back);
                }
            });
        }
        for (hidden, sums) in hidden.chunks_exact_mut(width).zip(sums.chunks_exact(all)) {
            hidden.copy_from_slice(&sums[..width]);
            scale(isa, hidden, 1.0 / count as f32);
        }
        self.normalize(state, Some(&self.model.final_norm));
        Ok(())
    }

    /// What is added beside attention, of what attention reads, which is in `state.normed`. Observers break off.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn laurel(
        &self,
        state: &mut DecoderState,
        weights: &Laurel,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let DecoderState { normed, streams, coded, .. } = state;
        self.linears(&[&weights.down], normed, coded, &mut [&mut streams.narrow])?;
        if observer.observe(LinearInput::LaurelUp, weights.up.weight.cols(), &streams.narrow).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.up], &streams.narrow, coded, &mut [&mut streams.laurel])?;
        state.profile.lap(Section::Matmul);
        self.norm_rows(&weights.norm, &mut state.streams.laurel);
        add_assign(self.cpu.isa(), &mut state.streams.laurel, &state.normed);
        Ok(ControlFlow::Continue(()))
    }

    /// Adds that to the residual stream, behind attention, and leaves what is read behind the norm `next` in `state.normed`.
    pub(super) fn add_laurel(&self, state: &mut DecoderState, next: Option<&Norm>) {
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let DecoderState { hidden, normed, streams, .. } = state;
        let matrices = [(&mut **hidden, width), (&mut *normed, width), (&mut streams.laurel, width)];
        self.cpu.for_each_rows(matrices, WORK * width, |_, [hidden, normed, laurel]| {
            let rows = hidden.chunks_exact_mut(width).zip(normed.chunks_exact_mut(width));
            for ((hidden, normed), laurel) in rows.zip(laurel.chunks_exact(width)) {
                add_assign(isa, hidden, laurel);
                scale(isa, hidden, std::f32::consts::FRAC_1_SQRT_2);
                self.norm_or_copy(next, hidden, normed);
            }
        });
    }

    /// How much each stream has to do with a token, by its row `x`; `normed` becomes what is read for that.
    fn shares(&self, weights: &StreamWeights, x: &[f32], normed: &mut [f32], shares: &mut [f32]) {
        let isa = self.cpu.isa();
        rms_norm(isa, x, &weights.router_norm.gain, self.model.config.norm.epsilon, normed);
        products(isa, &weights.router, normed, shares);
        shares.iter_mut().for_each(|share| *share = tanh(*share));
    }
}
