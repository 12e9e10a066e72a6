//! Logits of what a step leaves.

use super::activations::CodedRows;
use super::clustered_head::{HeadArithmetic, ProbeBuffers};
use super::profile::Section;
use super::state::DecoderState;
use super::step::Decoder;
use crate::error::Result;
use qsf_cpu::{scale, softcap};

/// What capping a logit costs, in multiply-adds of matrices.
const SOFTCAP_WORK: usize = 32;

impl Decoder {
    /// Takes `hidden` (tokens x `hidden`, at most a batch) for what left the last layer in the last step: logits and the input of
    /// the head are those of it. Keys and values stay as they are.
    ///
    /// # Errors
    /// When memory runs out.
    ///
    /// # Panics
    /// When these are not whole rows.
    pub fn take_hidden(&self, state: &mut DecoderState, hidden: &[f32]) -> Result<()> {
        let width = self.model.config.hidden as usize;
        assert!(hidden.len().is_multiple_of(width), "{} values of rows of {width}", hidden.len());
        state.begin(hidden.len() / width)?;
        state.hidden.copy_from_slice(hidden);
        self.normalize(state, Some(&self.model.final_norm));
        Ok(())
    }

    /// What the head is multiplied with for rows `rows` of the last step, `rows.len()` x `hidden`.
    ///
    /// # Panics
    /// When the last step had fewer rows.
    pub fn head_input<'a>(&self, state: &'a DecoderState, rows: std::ops::Range<usize>) -> &'a [f32] {
        let hidden = self.model.config.hidden as usize;
        &state.normed[rows.start * hidden..rows.end * hidden]
    }

    /// Logits of rows `rows` of the last step, `rows.len()` x `vocab` into `out`.
    ///
    /// # Errors
    /// When weights cannot be read from disk, or the file is damaged.
    ///
    /// # Panics
    /// When the last step had fewer rows or `out` has another size.
    pub fn logits(
        &self,
        state: &mut DecoderState,
        rows: std::ops::Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let hidden = self.model.config.hidden as usize;
        let DecoderState { normed, coded, probes, profile, .. } = state;
        profile.begin();
        self.head_logits(&normed[rows.start * hidden..rows.end * hidden], coded, probes, out)?;
        profile.lap(Section::Head);
        Ok(())
    }

    /// [`Decoder::logits`] of some rows of the last step, which need not follow each other.
    ///
    /// # Errors
    /// When weights cannot be read from disk, or the file is damaged.
    ///
    /// # Panics
    /// When the last step had fewer rows or `out` has another size.
    pub fn logits_at(&self, state: &mut DecoderState, rows: &[usize], out: &mut [f32]) -> Result<()> {
        let hidden = self.model.config.hidden as usize;
        // Between steps nothing is in this buffer.
        let DecoderState { normed, projected, coded, probes, profile, .. } = state;
        profile.begin();
        for (to, row) in projected.chunks_exact_mut(hidden).zip(rows) {
            to.copy_from_slice(&normed[row * hidden..][..hidden]);
        }
        self.head_logits(&projected[..rows.len() * hidden], coded, probes, out)?;
        profile.lap(Section::Head);
        Ok(())
    }

    fn head_logits(
        &self,
        input: &[f32],
        coded: &mut CodedRows,
        probes: &mut ProbeBuffers,
        out: &mut [f32],
    ) -> Result<()> {
        let hidden = self.model.config.hidden as usize;
        match &self.clustered {
            None => {
                let activations = self.activations.of_head();
                self.linears_with(activations, &[&self.model.head], input, coded, &mut [&mut *out])?;
            }
            Some(head) => {
                let vocab = self.model.config.vocab as usize;
                assert_eq!(out.len(), input.len() / hidden * vocab, "logits of another size");
                let bias = self.model.head.bias.as_deref();
                let arithmetic = HeadArithmetic { cpu: &self.cpu, activations: self.activations, bias };
                for (x, out) in input.chunks_exact(hidden).zip(out.chunks_exact_mut(vocab)) {
                    head.logits(arithmetic, x, coded, probes, out);
                }
            }
        }
        self.model.settle(&self.cpu)?;
        let (isa, vocab) = (self.cpu.isa(), self.model.config.vocab as usize);
        if let Some(factor) = self.model.config.logit_scale {
            self.cpu.for_each_rows([(&mut *out, vocab)], vocab, |_, [rows]| scale(isa, rows, factor));
        }
        if let Some(cap) = self.model.config.logit_softcap {
            self.cpu.for_each_rows([(out, vocab)], SOFTCAP_WORK * vocab, |_, [rows]| {
                softcap(isa, rows, cap);
            });
        }
        Ok(())
    }
}
