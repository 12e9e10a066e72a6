//! A step as a whole: embedding, layers, head, and the choice of a token.

use std::sync::Arc;

use qsf_format::{NormKind, Residual};
use wgpu::Buffer;

use super::command::{Command, padded};
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::likeliest::{Round, rounds};
use crate::gpu::model::GpuLayer;
use crate::gpu::wgsl::choose::{self, Choose};
use crate::gpu::wgsl::embed::Embed;
use crate::gpu::wgsl::likeliest::Likeliest;
use crate::gpu::wgsl::mat_vec::MAX_GROUPS;
use crate::gpu::wgsl::norm::{AddAndNorm, Added, NormInPlace, threads};
use crate::gpu::wgsl::pointwise;

impl Recorder<'_> {
    /// The layers over `tokens` tokens behind `state.position`, and the norm before the head.
    pub fn layers(&mut self, tokens: usize) {
        let (model, buffers) = (self.model, &self.state.buffers);
        let config = &model.config;
        let embed = Embed { codes: model.embedding.codes, positions: model.has_positions };
        let scale = config.embedding_scale.unwrap_or(1.0);
        self.push(
            Kernel::Embed(embed),
            &[&model.embedding.buffer, &buffers.tokens, &buffers.hidden, &model.positions],
            &[
                model.embedding.at,
                model.embedding.superblocks(),
                config.hidden,
                self.state.position as u32,
                scale.to_bits(),
                // Where nothing could be chosen, the next step begins with a token that does not exist.
                config.vocab,
            ],
            (tokens as u32, 1, 1),
        );
        if let Some(norm) = model.embedding_norm {
            let width = config.hidden as usize;
            let part = RowPart { width, stride: width, first: 0 };
            self.norm_in_place(tokens, config.norm.kind, &buffers.hidden, part, norm);
        }
        let next = |at: usize| match model.layers.get(at) {
            Some(layer) => layer.first_norm(),
            None => Some(model.final_norm),
        };
        self.add_and_norm(tokens, Added::Nothing, 0, Residual::Sequential, next(0));
        for (index, layer) in model.layers.iter().enumerate() {
            if layer.has_mixer() {
                self.mixer(tokens, index, layer);
                let (added, norm) =
                    layer.post_attn_norm.map_or((Added::Plain, 0), |norm| (Added::Normalized, norm));
                let then = if layer.ffn.is_some() { layer.ffn_norm } else { next(index + 1) };
                self.add_and_norm(tokens, added, norm, model.config.residual, then);
            }
            let Some(ffn) = &layer.ffn else { continue };
            self.feed_forward(tokens, ffn);
            self.scale_projected(tokens, self.multipliers().ffn);
            let (added, norm) =
                layer.post_ffn_norm.map_or((Added::Plain, 0), |norm| (Added::Normalized, norm));
            self.add_and_norm(tokens, added, norm, Residual::Sequential, next(index + 1));
        }
    }

    /// What attention, or a recurrent mixer, or both beside each other add.
    fn mixer(&mut self, tokens: usize, index: usize, layer: &GpuLayer) {
        let factors = self.multipliers();
        if let Some(recurrent) = &layer.recurrent {
            self.recurrent(tokens, index, recurrent);
        }
        match &layer.attention {
            Some(attention) if layer.recurrent.is_some() => {
                self.put_beside(tokens);
                self.attention(tokens, index, attention);
                self.add_beside(tokens, factors.attention, factors.mixer);
            }
            Some(attention) => {
                self.attention(tokens, index, attention);
                self.scale_projected(tokens, factors.attention);
            }
            None => self.scale_projected(tokens, factors.mixer),
        }
    }

    /// Logits of some rows of the last step.
    pub fn head(&mut self, rows: std::ops::Range<usize>) {
        let (model, buffers) = (self.model, &self.state.buffers);
        let (hidden, vocab) = (model.config.hidden as usize, model.config.vocab as usize);
        let stride = padded(hidden);
        let way = Way {
            input: &buffers.normed,
            input_stride: stride,
            output: &buffers.logits,
            output_stride: vocab,
            first: 0,
        };
        self.linear_from(&model.head, rows.start, rows.len(), &way);
        if let Some(cap) = model.config.logit_softcap {
            let count = rows.len() * vocab;
            let groups = count.div_ceil(pointwise::THREADS);
            let groups = (groups.min(MAX_GROUPS) as u32, groups.div_ceil(MAX_GROUPS) as u32, 1);
            self.push(Kernel::Softcap, &[&buffers.logits], &[count as u32, cap.to_bits()], groups);
        }
    }

    /// The likeliest token of the first row of logits, to where the next step reads it.
    pub fn choose(&mut self) {
        let buffers = &self.state.buffers;
        let job = [0, self.model.config.vocab];
        self.push(
            Kernel::Choose(Choose::Parts),
            &[&buffers.logits, &buffers.candidates],
            &job,
            (choose::PARTS as u32, 1, 1),
        );
        self.push(Kernel::Choose(Choose::Token), &[&buffers.candidates, &buffers.tokens], &[0, 0], (1, 1, 1));
    }

    /// The likeliest tokens of the first row of logits, to where they can be read back.
    pub fn likeliest(&mut self) {
        let buffers = &self.state.buffers;
        self.commands.extend(likeliest(
            self.model.config.vocab as usize,
            &buffers.logits,
            &buffers.likeliest,
        ));
    }

    /// Adds what is `added`, normalized with the gains at `norm` where it is so, and normalizes with those at `next`.
    pub(super) fn add_and_norm(
        &mut self,
        tokens: usize,
        added: Added,
        norm: u32,
        residual: Residual,
        next: Option<u32>,
    ) {
        let normed = &self.state.buffers.normed;
        self.add_and_norm_to(tokens, added, norm, residual, next, normed);
    }

    /// The same, to `normed`.
    pub(super) fn add_and_norm_to(
        &mut self,
        tokens: usize,
        added: Added,
        norm: u32,
        residual: Residual,
        next: Option<u32>,
        normed: &Arc<Buffer>,
    ) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let bias = config.norm.kind == NormKind::LayerNorm;
        let width = config.hidden as usize;
        let kernel = AddAndNorm {
            kind: config.norm.kind,
            added,
            residual,
            next: next.is_some(),
            bias,
            width,
            threads: threads(width, self.abilities.max_threads),
        };
        let job =
            [next.unwrap_or(0), norm, config.norm.epsilon.to_bits(), padded(config.hidden as usize) as u32];
        self.push(
            Kernel::AddAndNorm(kernel),
            &[&buffers.hidden, &buffers.projected, normed, &self.model.vectors],
            &job,
            (tokens as u32, 1, 1),
        );
    }

    /// A norm of a part of each row of `buffer`.
    pub(super) fn norm_in_place(
        &mut self,
        tokens: usize,
        kind: NormKind,
        buffer: &Arc<Buffer>,
        part: RowPart,
        gains: u32,
    ) {
        self.norm_in_place_by(tokens, kind, buffer, part, gains, self.model.config.norm.epsilon);
    }

    /// A norm with an epsilon of its own.
    pub(super) fn norm_in_place_by(
        &mut self,
        tokens: usize,
        kind: NormKind,
        buffer: &Arc<Buffer>,
        part: RowPart,
        gains: u32,
        epsilon: f32,
    ) {
        let RowPart { width, stride, first } = part;
        let bias = kind == NormKind::LayerNorm;
        let kernel = NormInPlace { kind, bias, width, threads: threads(width, self.abilities.max_threads) };
        let job = [stride as u32, first as u32, gains, epsilon.to_bits()];
        self.push(Kernel::NormInPlace(kernel), &[buffer, &self.model.vectors], &job, (tokens as u32, 1, 1));
    }
}

/// The likeliest of `count` logits.
pub fn likeliest(count: usize, logits: &Arc<Buffer>, entries: &Arc<Buffer>) -> Vec<Command> {
    let mut kernel = Kernel::Likeliest(Likeliest::Logits);
    let command = |round: Round| {
        let job = [round.count, round.begin, round.to].map(|number| number as u32);
        let this = Command::new(kernel, &[logits, entries], &job, (round.slices() as u32, 1, 1));
        kernel = Kernel::Likeliest(Likeliest::Kept);
        this
    };
    rounds(count).into_iter().map(command).collect()
}
