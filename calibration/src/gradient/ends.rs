//! What is outside of layers: where tokens begin, and what makes logits of them.

use qsf_format::{PositionConfig, TensorKind};
use qsf_runtime::cpu::{Cpu, add_assign, scale, softcap};
use qsf_runtime::source::{Tensor, WeightSource};
use qsf_runtime::{Result, RuntimeError};

use super::linear::Linear;
use super::norm::Norm;
use super::parameters::Parameters;
use super::sink::Sink;

/// Embedding, norms outside of layers, and head of a model.
pub(super) struct Ends<'a> {
    parameters: Parameters<'a>,
    embedding: Tensor,
    positions: Option<Tensor>,
    embedding_norm: Option<Norm>,
    final_norm: Norm,
    head: Linear,
}

impl<'a> Ends<'a> {
    pub fn load(source: &'a dyn WeightSource) -> Result<Ends<'a>> {
        use TensorKind::*;
        let parameters = Parameters { source, layer: None };
        let config = source.config();
        let learned = config.position == PositionConfig::Learned {};
        let head = if config.tied_head { TokenEmbedding } else { Head };
        Ok(Ends {
            embedding: parameters.needed(TokenEmbedding)?,
            positions: learned.then(|| parameters.needed(Positions)).transpose()?,
            embedding_norm: config
                .embedding_norm
                .then(|| parameters.stream_norm(EmbeddingNorm, Some(EmbeddingNormBias)))
                .transpose()?,
            final_norm: parameters.stream_norm(FinalNorm, Some(FinalNormBias))?,
            head: parameters.linear(head, Some(HeadBias))?,
            parameters,
        })
    }

    /// Values of a row between layers.
    pub fn hidden(&self) -> usize {
        self.parameters.config().hidden as usize
    }

    /// Rows of tokens before the embedding norm.
    fn begin(&self, cpu: &Cpu, tokens: &[u32]) -> Result<Vec<f32>> {
        let (isa, config, width) = (cpu.isa(), self.parameters.config(), self.hidden());
        if let Some(token) = tokens.iter().find(|token| **token >= config.vocab) {
            let vocab = config.vocab;
            let message = format!("token id {token} is beyond the model's vocabulary of {vocab}");
            return Err(RuntimeError::Request(message));
        }
        let (mut rows, mut place) = (vec![0.0; tokens.len() * width], vec![0.0; width]);
        for (position, (token, row)) in tokens.iter().zip(rows.chunks_exact_mut(width)).enumerate() {
            self.embedding.decode_row(isa, *token as usize, row);
            if let Some(factor) = config.embedding_scale {
                scale(isa, row, factor);
            }
            if let Some(positions) = &self.positions {
                positions.decode_row(isa, position, &mut place);
                add_assign(isa, row, &place);
            }
        }
        Ok(rows)
    }

    /// Rows of tokens as they enter the first layer.
    pub fn embed(&self, cpu: &Cpu, tokens: &[u32]) -> Result<Vec<f32>> {
        let rows = self.begin(cpu, tokens)?;
        Ok(self.embedding_norm.as_ref().map_or_else(|| rows.clone(), |norm| norm.forward(cpu, &rows)))
    }

    /// Adds the gradients of embedding and positions, from that at what enters the first layer.
    pub fn embed_backward(&self, sink: &mut Sink<'_>, tokens: &[u32], mut given: Vec<f32>) -> Result<()> {
        let (config, width) = (self.parameters.config(), self.hidden());
        if let Some(norm) = &self.embedding_norm {
            let (rows, mut before) = (self.begin(sink.cpu, tokens)?, vec![0.0; given.len()]);
            norm.backward(sink, &rows, &given, &mut before)?;
            given = before;
        }
        if let Some(positions) = self.positions.as_ref().filter(|_| sink.wants(TensorKind::Positions)) {
            let sums = sink.sums(TensorKind::Positions, positions.rows() * width)?;
            sums.iter_mut().zip(&given).for_each(|(sum, given)| *sum += given);
        }
        if let Some(factor) = config.embedding_scale {
            scale(sink.cpu.isa(), &mut given, factor);
        }
        sink.visitor.embedded(&given, width)?;
        if sink.wants(TensorKind::TokenEmbedding) {
            let sums = sink.sums(TensorKind::TokenEmbedding, config.vocab as usize * width)?;
            for (token, given) in tokens.iter().zip(given.chunks_exact(width)) {
                let row = &mut sums[*token as usize * width..][..width];
                row.iter_mut().zip(given).for_each(|(sum, given)| *sum += given);
            }
        }
        Ok(())
    }

    /// What the head reads, for rows that leave the last layer.
    pub fn head_input(&self, cpu: &Cpu, hidden: &[f32]) -> Vec<f32> {
        self.final_norm.forward(cpu, hidden)
    }

    /// Logits, for rows that the head reads.
    pub fn logits(&self, cpu: &Cpu, rows: &[f32]) -> Result<Vec<f32>> {
        let mut logits = self.head.forward(cpu, rows)?;
        let (isa, config, vocab) = (cpu.isa(), self.parameters.config(), self.head.rows());
        cpu.for_each_rows([(&mut logits, vocab)], 32 * vocab, |_, [rows]| {
            if let Some(factor) = config.logit_scale {
                scale(isa, rows, factor);
            }
            if let Some(cap) = config.logit_softcap {
                softcap(isa, rows, cap);
            }
        });
        Ok(logits)
    }

    /// Adds the gradient at the rows that the head read to `into`; `given` is that at the logits.
    pub fn logits_backward(
        &mut self,
        sink: &mut Sink<'_>,
        rows: &[f32],
        logits: &[f32],
        given: &mut [f32],
        into: &mut [f32],
    ) -> Result<()> {
        let config = self.parameters.config();
        if let Some(cap) = config.logit_softcap {
            for (given, logit) in given.iter_mut().zip(logits) {
                *given *= 1.0 - (logit / cap) * (logit / cap);
            }
        }
        if let Some(factor) = config.logit_scale {
            scale(sink.cpu.isa(), given, factor);
        }
        self.head.backward(sink, rows, given, into)
    }

    /// From the gradient at what the head reads to that at what leaves the last layer.
    pub fn head_input_backward(
        &self,
        sink: &mut Sink<'_>,
        hidden: &[f32],
        given: &[f32],
    ) -> Result<Vec<f32>> {
        let mut into = vec![0.0; hidden.len()];
        self.final_norm.backward(sink, hidden, given, &mut into)?;
        Ok(into)
    }
}
