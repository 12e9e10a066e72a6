//! How much each layer matters: the divergence of the predictions when it is left out. All models that miss one layer go through the
//! layers side by side, so that a model which is larger than memory is read once.

use qsf_format::ModelConfig;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::eval::divergence;
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerRunner, LayerWeights, Result};

use crate::probe::{Probe, ProbeText, compared};
use crate::stream::Blind;

/// Most bytes of the hidden states of all models at once.
const MOST_BYTES: usize = 256 << 20;
/// Fewest tokens that say anything.
const LEAST_TOKENS: usize = 32;

/// Tokens of a text of `tokens` that the importance of layers may take, of at most `most`: within a tenth of the arithmetic of running
/// the text through the model three times, as a calibration does at least, and within memory. `weights` are those of each layer.
pub fn importance_tokens(config: &ModelConfig, weights: &[u64], tokens: usize, most: usize) -> usize {
    let of_model: u64 = weights.iter().sum();
    // Behind the first layer run two models, behind the second three, and so on; every other position of each gets logits.
    let behind: u64 = weights.iter().zip(1..).map(|(weights, models)| weights * models).sum();
    let head = u64::from(config.vocab) * u64::from(config.hidden);
    // The whole model's logits are made again for each, as they may be larger than all else.
    let each = behind + weights.len() as u64 * head;
    let may = (3 * tokens as u64).saturating_mul(of_model) / (10 * each.max(1));
    let fits = MOST_BYTES / (size_of::<f32>() * config.stream_width() * (weights.len() + 1)).max(1);
    (may as usize).min(fits).max(LEAST_TOKENS).min(most).min(tokens)
}

/// Mean divergence in nats of the model without each layer, first layer first, on the text: what [`Probe::divergence_without`] says at
/// each of them.
///
/// # Errors
/// When the text is shorter than a chunk, the model is damaged, memory runs out, or the user interrupts.
pub fn layer_importance(
    source: &dyn WeightSource,
    cpu: &Cpu,
    text: ProbeText<'_>,
    cancel: &Cancel,
) -> Result<Vec<f64>> {
    if source.config().shared_kv.is_some() {
        return by_probe(source, Probe::new(source, cpu, text, cancel)?);
    }
    let mut models = Models::new(source, cpu, text)?;
    for layer in 0..source.config().layers {
        cancel.check()?;
        models.run(source, layer)?;
    }
    let isa = cpu.isa();
    (1..models.hidden.len()).map(|model| models.divergence(model, isa, cancel)).collect()
}

/// Where layers use keys and values of earlier ones, one model after the other.
fn by_probe(source: &dyn WeightSource, mut probe: Probe<'_>) -> Result<Vec<f64>> {
    let mut found = Vec::new();
    for _ in 0..source.config().layers {
        found.push(probe.divergence_without()?);
        probe.advance()?;
    }
    Ok(found)
}

/// The model, and those without one of the layers behind which it stands.
struct Models {
    runner: LayerRunner,
    /// Token ids of each chunk.
    chunks: Vec<Vec<u32>>,
    /// Hidden states of each model, first the whole one, and of each chunk.
    hidden: Vec<Vec<Vec<f32>>>,
    positions: Vec<usize>,
}

impl Models {
    fn new(source: &dyn WeightSource, cpu: &Cpu, text: ProbeText<'_>) -> Result<Models> {
        let mut runner = LayerRunner::new(source, cpu.clone())?;
        let chunks = text.chunks(&runner)?;
        let positions = compared(source.config(), chunks[0].len(), chunks.len());
        let whole = chunks.iter().map(|chunk| Ok(runner.embed(chunk)?.to_vec())).collect::<Result<_>>()?;
        Ok(Models { runner, chunks, hidden: vec![whole], positions })
    }

    /// Goes on behind `layer`, which one model more misses from here on.
    fn run(&mut self, source: &dyn WeightSource, layer: u32) -> Result<()> {
        let weights = LayerWeights::load(source, layer)?;
        let without = self.hidden[0].clone();
        for model in &mut self.hidden {
            for (number, (hidden, chunk)) in model.iter_mut().zip(&self.chunks).enumerate() {
                self.runner.choose(number, chunk);
                self.runner.run(layer as usize, &weights, hidden, &mut Blind).map(|_| ())?;
            }
        }
        self.hidden.push(without);
        source.release(Some(layer));
        Ok(())
    }

    /// Mean divergence of a model from the whole one.
    fn divergence(&mut self, model: usize, isa: Isa, cancel: &Cancel) -> Result<f64> {
        let vocab = self.runner.config().vocab as usize;
        let (mut base, mut sum) = (vec![0.0; self.positions.len() * vocab], 0.0);
        let mut logits = base.clone();
        for chunk in 0..self.chunks.len() {
            cancel.check()?;
            self.logits(0, chunk, &mut base)?;
            self.logits(model, chunk, &mut logits)?;
            for (base, other) in base.chunks_exact(vocab).zip(logits.chunks_exact(vocab)) {
                sum += divergence(isa, base, other);
            }
        }
        Ok(sum / (self.chunks.len() * self.positions.len()) as f64)
    }

    fn logits(&mut self, model: usize, chunk: usize, out: &mut [f32]) -> Result<()> {
        let (width, hidden) = (self.runner.width(), &self.hidden[model][chunk]);
        let rows: Vec<f32> =
            self.positions.iter().flat_map(|p| &hidden[p * width..][..width]).copied().collect();
        self.runner.logits(&rows, out)
    }
}
