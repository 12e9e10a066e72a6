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
use crate::gpu::parts::GpuParts;
use crate::gpu::wgsl::choose::{self, Choose};
use crate::gpu::wgsl::embed::Embed;
use crate::gpu::wgsl::likeliest::Likeliest;
use crate::gpu::wgsl::mat_vec::MAX_GROUPS;
use crate::gpu::wgsl::norm::{AddAndNorm, Added, NormInPlace, threads};
use crate::gpu::wgsl::pointwise;

/// What is added to the residual stream, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adding {
    pub added: Added,
    /// Where the gains of its norm are.
    pub norm: u32,
    pub residual: Residual,
    /// What it is multiplied with before its norm.
    pub given: f32,
    /// What the stream is multiplied with afterwards.
    pub scale: f32,
}

impl Adding {
    /// Nothing.
    pub const NOTHING: Adding =
        Adding { added: Added::Nothing, norm: 0, residual: Residual::Sequential, given: 1.0, scale: 1.0 };

    /// What a part of a layer gives, normalized where there are gains.
    pub fn of(norm: Option<u32>) -> Adding {
        let added = if norm.is_some() { Added::Normalized } else { Added::Plain };
        Adding { added, norm: norm.unwrap_or(0), ..Adding::NOTHING }
    }
}

impl Recorder<'_> {
    /// The layers over `tokens` tokens behind `state.position`, and the norm before the head.
    pub fn layers(&mut self, tokens: usize) {
        let (model, buffers) = (self.model, &self.state.buffers);
        let config = &model.config;
        // Rows that the processor decodes are there.
        if let Some(embedding) = model.embedding.on_device() {
            self.embed(tokens, embedding);
        }
        if let Some(norm) = model.embedding_norm {
            let width = config.hidden as usize;
            let part = RowPart { width, stride: width, first: 0 };
            self.norm_in_place(tokens, config.norm.kind, &buffers.hidden, part, norm);
        }
        let next = |at: usize| match model.layers.get(at) {
            Some(layer) => layer.first_norm(),
            None => Some(model.final_norm),
        };
        if let Some(inputs) = &model.per_layer {
            self.per_layer_inputs(tokens, inputs);
        }
        if let Some(ends) = &model.streams {
            self.begin_streams(tokens, ends);
        } else {
            self.add_and_norm(tokens, Adding::NOTHING, next(0));
        }
        for (index, layer) in model.layers.iter().enumerate() {
            if let Some(streams) = &layer.streams {
                self.predict_streams(tokens, streams, layer.attn_norm);
            }
            if layer.has_mixer() {
                self.mixer(tokens, index, layer, next(index + 1));
            }
            let Some(ffn) = &layer.ffn else { continue };
            self.feed_forward(tokens, ffn);
            let adding = Adding { given: self.multipliers().ffn, ..Adding::of(layer.post_ffn_norm) };
            let then = next(index + 1);
            let Some(of_layer) = &layer.per_layer else {
                let adding = Adding { scale: layer.scale.unwrap_or(1.0), ..adding };
                self.add_and_norm(tokens, adding, then);
                continue;
            };
            // It reads the stream as it is.
            self.add_and_norm(tokens, adding, None);
            if let Some(streams) = &layer.streams {
                self.correct_streams(tokens, streams);
            }
            self.per_layer(tokens, index, of_layer);
            match &layer.streams {
                Some(_) => self.add_to_other_streams(tokens, of_layer.norm),
                None => self.add_per_layer(tokens, of_layer, layer.scale, then),
            }
        }
        if let Some(ends) = &model.streams {
            self.end_streams(tokens, ends);
            self.add_and_norm(tokens, Adding::NOTHING, Some(model.final_norm));
        }
    }

    /// The residual stream begins with rows of the embedding.
    fn embed(&mut self, tokens: usize, embedding: &GpuParts) {
        let (model, buffers) = (self.model, &self.state.buffers);
        let (config, places) = (&model.config, embedding.places.as_ref());
        // Each piece does its own tokens.
        for (matrix, first) in embedding.pieces() {
            let kernel =
                Embed { codes: matrix.codes, positions: model.has_positions, listed: places.is_some() };
            let job = [
                matrix.at,
                matrix.superblocks(),
                config.hidden,
                self.state.position as u32,
                config.embedding_scale.unwrap_or(1.0).to_bits(),
                // Where nothing could be chosen, the next step begins with a token that does not exist.
                config.vocab,
                first,
                matrix.rows,
            ];
            let mut bound = vec![&matrix.buffer, &buffers.tokens, &buffers.hidden, &model.positions];
            bound.extend(places);
            self.push(Kernel::Embed(kernel), &bound, &job, (tokens as u32, 1, 1));
        }
    }

    /// Attention, or a recurrent mixer, or both beside each other, and what is read behind the norm of what follows.
    fn mixer(&mut self, tokens: usize, index: usize, layer: &GpuLayer, next: Option<u32>) {
        let (factors, buffers) = (self.multipliers(), &self.state.buffers);
        let given = match (&layer.attention, &layer.recurrent) {
            (Some(attention), Some(recurrent)) => {
                self.recurrent(tokens, index, recurrent, &buffers.mixer.beside);
                self.attention(tokens, index, attention);
                self.add_beside(tokens, factors.attention, factors.mixer);
                1.0
            }
            (None, Some(recurrent)) => {
                self.recurrent(tokens, index, recurrent, &buffers.projected);
                factors.mixer
            }
            (Some(attention), None) => {
                self.attention(tokens, index, attention);
                factors.attention
            }
            (None, None) => return,
        };
        if let Some(laurel) = &layer.laurel {
            self.laurel(tokens, laurel);
        }
        let then = if layer.ffn.is_some() { layer.ffn_norm } else { next };
        let residual = self.model.config.residual;
        self.add_and_norm(tokens, Adding { residual, given, ..Adding::of(layer.post_attn_norm) }, then);
        if layer.laurel.is_some() {
            self.add_laurel(tokens, then);
        }
    }

    /// Adds what a mixer gives to what attention beside it does, each with a factor.
    fn add_beside(&mut self, tokens: usize, factor: f32, of_mixer: f32) {
        let (width, buffers) = (self.model.config.hidden, &self.state.buffers);
        let job = [width, 0, factor.to_bits(), of_mixer.to_bits()];
        let groups = ((width as usize).div_ceil(pointwise::THREADS) as u32, tokens as u32, 1);
        self.push(Kernel::AddBeside, &[&buffers.projected, &buffers.mixer.beside], &job, groups);
    }

    /// Logits of some rows of the last step.
    pub fn head(&mut self, rows: std::ops::Range<usize>) {
        let (model, buffers) = (self.model, &self.state.buffers);
        let (hidden, vocab) = (model.config.hidden as usize, model.config.vocab as usize);
        let stride = padded(hidden);
        let places = model.head.places.as_ref();
        let output = if places.is_some() { &buffers.unordered } else { &buffers.logits };
        let way =
            Way { input: &buffers.normed, input_stride: stride, output, output_stride: vocab, first: 0 };
        self.linear_from(&model.head.linear, rows.start, rows.len(), &way);
        let count = rows.len() * vocab;
        let groups = count.div_ceil(pointwise::THREADS);
        let groups = (groups.min(MAX_GROUPS) as u32, groups.div_ceil(MAX_GROUPS) as u32, 1);
        if let Some(places) = places {
            let job = [count as u32, vocab as u32];
            self.push(Kernel::Reorder, &[output, places, &buffers.logits], &job, groups);
        }
        let of_config =
            [(Kernel::Scale, model.config.logit_scale), (Kernel::Softcap, model.config.logit_softcap)];
        for (kernel, value) in of_config {
            if let Some(value) = value {
                self.push(kernel, &[&buffers.logits], &[count as u32, value.to_bits()], groups);
            }
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

    /// Adds what is in `projected`, and normalizes with the gains at `next`; without, `normed` is the stream as it is.
    pub(super) fn add_and_norm(&mut self, tokens: usize, adding: Adding, next: Option<u32>) {
        let share = self.model.config.residual_scale.unwrap_or(1.0);
        let normed = &self.state.buffers.normed;
        self.add_rows_and_norm(tokens, adding, (&self.state.buffers.projected, share), next, normed);
    }

    /// The same of other rows, behind whose norm stands another factor, and to `normed`.
    pub(super) fn add_rows_and_norm(
        &mut self,
        tokens: usize,
        adding: Adding,
        (rows, share): (&Arc<Buffer>, f32),
        next: Option<u32>,
        normed: &Arc<Buffer>,
    ) {
        let Adding { added, norm, residual, given, scale } = adding;
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let bias = config.norm.kind == NormKind::LayerNorm;
        let width = config.hidden as usize;
        let kernel = AddAndNorm {
            kind: config.norm.kind,
            added,
            residual,
            next: next.is_some(),
            bias,
            scaled: added != Added::Nothing && [given, share, scale] != [1.0; 3],
            width,
            threads: threads(width, self.abilities.max_threads),
        };
        let job = [
            next.unwrap_or(0),
            norm,
            config.norm.epsilon.to_bits(),
            padded(width) as u32,
            given.to_bits(),
            share.to_bits(),
            scale.to_bits(),
        ];
        self.push(
            Kernel::AddAndNorm(kernel),
            &[&buffers.hidden, rows, normed, &self.model.vectors],
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
        let epsilon = self.model.config.norm.epsilon;
        self.norm_parts(tokens, 1, kind, buffer, part, (gains, epsilon));
    }

    /// Norms of as many `parts` of each row of `buffer`, which follow each other, with these gains and epsilon.
    pub(super) fn norm_parts(
        &mut self,
        tokens: usize,
        parts: usize,
        kind: NormKind,
        buffer: &Arc<Buffer>,
        part: RowPart,
        (gains, epsilon): (u32, f32),
    ) {
        let RowPart { width, stride, first } = part;
        let bias = kind == NormKind::LayerNorm;
        let kernel = NormInPlace { kind, bias, width, threads: threads(width, self.abilities.max_threads) };
        let job = [stride as u32, first as u32, gains, epsilon.to_bits()];
        let groups = (tokens as u32, parts as u32, 1);
        self.push(Kernel::NormInPlace(kernel), &[buffer, &self.model.vectors], &job, groups);
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
