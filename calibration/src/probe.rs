//! What a change of some weights does to a model's predictions, measured: the divergence of its logits from those of the
//! unchanged model. Where one layer is changed, only that layer and those behind it run again.

use std::collections::BTreeSet;

use qsf_format::ModelConfig;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::eval::divergence;
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerRunner, LayerWeights, Result, RuntimeError};

use crate::stream::Blind;

/// Most bytes of the unchanged model's logits: of models with a large vocabulary fewer positions are compared.
const MAX_LOGIT_BYTES: usize = 64 << 20;

/// Text to compare predictions on.
#[derive(Debug, Clone, Copy)]
pub struct ProbeText<'a> {
    /// Token ids.
    pub tokens: &'a [u32],
    /// Tokens of a chunk, which starts from an empty context.
    pub ctx: usize,
    /// Most chunks.
    pub chunks: usize,
}

impl ProbeText<'_> {
    /// The tokens of each chunk, one at least.
    pub(crate) fn chunks(&self, runner: &LayerRunner) -> Result<Vec<Vec<u32>>> {
        let ctx = self.ctx.min(runner.chunk());
        let chunks: Vec<Vec<u32>> =
            self.tokens.chunks_exact(ctx).take(self.chunks).map(<[u32]>::to_vec).collect();
        if chunks.is_empty() {
            return Err(RuntimeError::Request(format!(
                "the calibration text has {} tokens, and {ctx} are the least to measure with",
                self.tokens.len()
            )));
        }
        Ok(chunks)
    }
}

/// Positions of a chunk of `ctx` tokens that are compared: of the second half, which have some context to go by, as many as the
/// logits of all chunks have room for.
pub(crate) fn compared(config: &ModelConfig, ctx: usize, chunks: usize) -> Vec<usize> {
    let most = (MAX_LOGIT_BYTES / (size_of::<f32>() * config.vocab as usize * chunks)).max(1);
    (ctx / 2..ctx).step_by((ctx - ctx / 2).div_ceil(most)).collect()
}

/// A model at the entry of one of its layers.
pub struct Probe<'a> {
    /// The unchanged model.
    source: &'a dyn WeightSource,
    runner: LayerRunner,
    layers: Vec<LayerWeights>,
    cancel: Cancel,
    /// The layer that changes are tried on.
    at: usize,
    /// Token ids of each chunk.
    chunks: Vec<Vec<u32>>,
    /// Hidden states of each chunk at the entry of that layer.
    hidden: Vec<Vec<f32>>,
    /// Positions of a chunk that are compared.
    positions: Vec<usize>,
    /// Logits of the unchanged model there, chunk by chunk.
    base: Vec<f32>,
    /// Logits of a changed one.
    logits: Vec<f32>,
}

impl<'a> Probe<'a> {
    /// Runs the unchanged model over the text; the probe then stands at the first layer. Of every chunk positions of the
    /// second half are compared, which have some context to go by.
    ///
    /// # Errors
    /// When the text is shorter than a chunk, the model is damaged, or memory runs out.
    pub fn new(
        source: &'a dyn WeightSource,
        cpu: &Cpu,
        text: ProbeText<'_>,
        cancel: &Cancel,
    ) -> Result<Probe<'a>> {
        let runner = LayerRunner::new(source, cpu.clone())?;
        let chunks = text.chunks(&runner)?;
        let layers = (0..source.config().layers)
            .map(|layer| LayerWeights::load(source, layer))
            .collect::<Result<Vec<_>>>()?;
        let vocab = source.config().vocab as usize;
        let positions = compared(source.config(), chunks[0].len(), chunks.len());
        let mut probe = Probe {
            source,
            runner,
            layers,
            cancel: cancel.clone(),
            at: 0,
            hidden: Vec::new(),
            base: Vec::new(),
            logits: vec![0.0; positions.len() * vocab],
            positions,
            chunks,
        };
        for chunk in &probe.chunks {
            probe.hidden.push(probe.runner.embed(chunk)?.to_vec());
        }
        let mut hidden = probe.hidden.clone();
        probe.rest_of_layers(0, &mut hidden)?;
        for hidden in &hidden {
            probe.logits_of(hidden)?;
            probe.base.extend_from_slice(&probe.logits);
        }
        Ok(probe)
    }

    /// Takes another model, that of `ends` with these layers, in the place of the one that changes are tried on, and stands
    /// at its first layer. Divergence is still that from the model of the beginning.
    ///
    /// # Errors
    /// When a tensor of `ends` is missing, or the user interrupts.
    pub fn restart(&mut self, ends: &dyn WeightSource, layers: Vec<LayerWeights>) -> Result<()> {
        self.cancel.check()?;
        self.runner = LayerRunner::new(ends, self.runner.cpu().clone())?;
        (self.layers, self.at) = (layers, 0);
        for (hidden, chunk) in self.hidden.iter_mut().zip(&self.chunks) {
            *hidden = self.runner.embed(chunk)?.to_vec();
        }
        Ok(())
    }

    /// Mean divergence in nats of the model that changes are tried on.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn divergence_as_it_is(&mut self) -> Result<f64> {
        self.measure(|probe, hidden| probe.rest_of_layers(probe.at, hidden))
    }

    /// Tokens that a measurement runs through the layers.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Every token of them.
    pub fn tokens_read(&self) -> BTreeSet<u32> {
        self.chunks.iter().flatten().copied().collect()
    }

    /// Goes on to the next layer.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn advance(&mut self) -> Result<()> {
        self.cancel.check()?;
        run(&mut self.runner, self.at, &self.layers[self.at], &self.chunks, &mut self.hidden)?;
        self.source.release(Some(self.at as u32));
        self.at += 1;
        Ok(())
    }

    /// Mean divergence in nats from the unchanged model with `changed` in the place of the layer at which the probe stands.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn divergence(&mut self, changed: &LayerWeights) -> Result<f64> {
        self.measure(|probe, hidden| {
            run(&mut probe.runner, probe.at, changed, &probe.chunks, hidden)?;
            probe.rest_of_layers(probe.at + 1, hidden)
        })
    }

    /// The divergence of the predictions when the layer is left out.
    ///
    /// # Errors
    /// When the user interrupts.
    pub fn divergence_without(&mut self) -> Result<f64> {
        self.measure(|probe, hidden| probe.rest_of_layers(probe.at + 1, hidden))
    }

    /// The divergence of the predictions with embedding, norms outside of layers and head of `source`, and the unchanged layers.
    ///
    /// # Errors
    /// When a tensor of the source is missing, or the user interrupts.
    pub fn divergence_of_ends(&mut self, source: &dyn WeightSource) -> Result<f64> {
        let changed = LayerRunner::new(source, self.runner.cpu().clone())?;
        let unchanged = std::mem::replace(&mut self.runner, changed);
        let result = self.measure_from(|probe| {
            let embed = |chunk: &Vec<u32>| Ok(probe.runner.embed(chunk)?.to_vec());
            let mut hidden = probe.chunks.iter().map(embed).collect::<Result<Vec<_>>>()?;
            probe.rest_of_layers(0, &mut hidden)?;
            Ok(hidden)
        });
        self.runner = unchanged;
        result
    }

    /// The divergence of the predictions with norm and head of `source`, where the probe stands behind the last layer.
    ///
    /// # Errors
    /// When a tensor of the source is missing, or the user interrupts.
    pub fn divergence_of_head(&mut self, source: &dyn WeightSource) -> Result<f64> {
        let changed = LayerRunner::new(source, self.runner.cpu().clone())?;
        let unchanged = std::mem::replace(&mut self.runner, changed);
        let result = self.divergence_as_it_is();
        self.runner = unchanged;
        result
    }

    fn measure(&mut self, go_on: impl Fn(&mut Probe<'a>, &mut [Vec<f32>]) -> Result<()>) -> Result<f64> {
        self.measure_from(|probe| {
            let mut hidden = probe.hidden.clone();
            go_on(probe, &mut hidden)?;
            Ok(hidden)
        })
    }

    /// Mean divergence where `leave` gives what of each chunk leaves the last layer.
    fn measure_from(&mut self, leave: impl Fn(&mut Probe<'a>) -> Result<Vec<Vec<f32>>>) -> Result<f64> {
        let vocab = self.runner.config().vocab as usize;
        let (isa, mut sum) = (self.runner.cpu().isa(), 0.0);
        for (chunk, hidden) in leave(self)?.iter().enumerate() {
            self.logits_of(hidden)?;
            let base = &self.base[chunk * self.logits.len()..][..self.logits.len()];
            for (base, changed) in base.chunks_exact(vocab).zip(self.logits.chunks_exact(vocab)) {
                sum += divergence(isa, base, changed);
            }
        }
        Ok(sum / (self.chunks.len() * self.positions.len()) as f64)
    }

    fn rest_of_layers(&mut self, from: usize, hidden: &mut [Vec<f32>]) -> Result<()> {
        for (i, layer) in self.layers.iter().enumerate().skip(from) {
            self.cancel.check()?;
            run(&mut self.runner, i, layer, &self.chunks, hidden)?;
            // The whole model runs again and again: what of it is mapped goes back to the system, whose cache has it for the
            // next time, so that this process never holds more than a layer.
            self.source.release(Some(i as u32));
        }
        Ok(())
    }

    /// Logits at the compared positions.
    fn logits_of(&mut self, hidden: &[f32]) -> Result<()> {
        let width = self.runner.width();
        let rows: Vec<f32> =
            self.positions.iter().flat_map(|p| &hidden[p * width..][..width]).copied().collect();
        self.runner.logits(&rows, &mut self.logits)
    }
}

/// Takes all chunks through a layer before the next one is needed.
fn run(
    runner: &mut LayerRunner,
    index: usize,
    layer: &LayerWeights,
    chunks: &[Vec<u32>],
    hidden: &mut [Vec<f32>],
) -> Result<()> {
    for (chunk, (tokens, hidden)) in chunks.iter().zip(hidden).enumerate() {
        runner.choose(chunk, tokens);
        let _ = runner.run(index, layer, hidden, &mut Blind)?;
    }
    Ok(())
}
