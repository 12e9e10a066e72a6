//! Two streams in lock step: the model as it is, and the model as it is quantized, layer by layer. A matrix is fitted to the
//! inputs that what is quantized before it leaves (as GPTQ does), and can be corrected for what they differ by from those at
//! full precision (GPTAQ, arXiv 2504.02692), and for what the residual stream that it adds to lacks by then (as LoaQ does, arXiv
//! 2509.06297).

use std::collections::BTreeMap;

use qsf_runtime::cpu::{ColumnPanels, Cpu};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{LayerWeights, LinearInput, Result, RuntimeError};

use crate::collect::check_finite;
use crate::layer_stats::LayerStats;
use crate::moments::{CrossMoment, Detail};
use crate::stage::{Both, Kept, Products, Stage, Watch};
use crate::stream::{Blind, Collector, Stream};

/// A step of quantizing: what the matrices that come next read.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it is about; of the head, nothing.
    pub stage: Option<Stage>,
    /// Moments of the quantized stream.
    pub stats: LayerStats,
    /// Means of `f q^T` of the same tokens, f at full precision. Inputs of single experts have none, since the two streams choose
    /// different experts; [`LinearInput::Ffn`] of their layer has.
    pub cross: BTreeMap<LinearInput, CrossMoment>,
    /// Means of `d q^T`: d is what the matrix that reads q would have to give besides, to make the quantized residual stream
    /// that it adds to the one at full precision. Of inputs that [`adds_to`](qsf_runtime::InputObserver::adds_to) tells of.
    pub residual: BTreeMap<LinearInput, CrossMoment>,
}

/// Makes the layers of the quantized stream.
pub trait LayerQuantizer {
    /// What goes wrong.
    type Error: From<RuntimeError>;

    /// Puts the streams, at full precision and quantized, where an interrupted run has [kept](Self::keep) them, and says at
    /// the entry of which layer that is; those before it are [finished](Self::finished). 0, and nothing changed, if it has not.
    ///
    /// # Errors
    /// The quantizer's own.
    fn restore(&mut self, streams: [&mut [f32]; 2]) -> Result<u32, Self::Error> {
        let _ = streams;
        Ok(0)
    }

    /// Sees the streams at the entry of a layer, all before which are finished.
    ///
    /// # Errors
    /// The quantizer's own.
    fn keep(&mut self, layer: u32, streams: [&[f32]; 2]) -> Result<(), Self::Error> {
        let _ = (layer, streams);
        Ok(())
    }

    /// The layer, if it was quantized before, in a run that was interrupted: it is run, and nothing is measured.
    ///
    /// # Errors
    /// The quantizer's own.
    fn finished(&mut self, layer: u32) -> Result<Option<LayerWeights>, Self::Error>;

    /// Quantizes the matrices of layer `layer` that read the inputs of `step`, and gives the layer with everything that is
    /// quantized so far (see [`Replaced`](qsf_runtime::source::Replaced)): what the quantized stream continues with.
    ///
    /// # Errors
    /// The quantizer's own.
    fn quantize(&mut self, layer: u32, step: Step) -> Result<LayerWeights, Self::Error>;
}

/// Runs `tokens` through `original`, and through the layers that `quantizer` makes of it, between embedding and final norm of
/// `quantized` (the original with a quantized embedding, or the original itself). Returns the step of the head.
///
/// In memory are the hidden states of all tokens, twice, and the moments of one step.
///
/// # Errors
/// As [`collect`](crate::collect()), and those of `quantizer`.
pub fn run_streams<Q: LayerQuantizer>(
    original: &dyn WeightSource,
    quantized: &dyn WeightSource,
    cpu: &Cpu,
    tokens: &[u32],
    quantizer: &mut Q,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Step, Q::Error> {
    let mut streams = Streams {
        full: Stream::new(original, cpu, tokens)?,
        quantized: Stream::new(quantized, cpu, tokens)?,
        collector: Collector::new(cpu, Detail::Full),
        panels: ColumnPanels::new(),
        cancel,
        progress,
    };
    let config = original.config();
    // Each stage counts once for a token, and going on does.
    let passes = Stage::ALL.len() as u64 + 1;
    progress.begin("quantizing", tokens.len() as u64 * u64::from(config.layers) * passes);
    let first = if streams.quantized.can_begin_late() { streams.restore(quantizer)? } else { 0 };
    for layer in 0..first {
        if quantizer.finished(layer)?.is_none() {
            let (expected, found) = ("a finished layer, since the streams are behind it", "none");
            return Err(
                RuntimeError::bad_input(original.path(), format!("layer {layer}"), expected, found).into()
            );
        }
        progress.advance(tokens.len() as u64 * passes);
    }
    for layer in first..config.layers {
        let halves = LayerWeights::load(original, layer)?.in_halves(config);
        match quantizer.finished(layer)? {
            Some(finished) => {
                for (half, finished) in halves.iter().zip(&finished.in_halves(config)) {
                    streams.advance_full(layer, half)?;
                    streams.advance_quantized(layer, finished)?;
                }
                progress.advance(tokens.len() as u64 * (passes - 1));
            }
            None => {
                let experts = config.experts(layer).is_some();
                let mut so_far: Option<Vec<LayerWeights>> = None;
                for (i, stages) in Stage::ALL.chunks(Stage::ALL.len() / halves.len()).enumerate() {
                    let half = &halves[i];
                    for (&stage, behind) in stages.iter().zip((0..stages.len()).rev()) {
                        let laurel = half.laurel.is_some();
                        let watch = Watch { stage, goes_on: behind == 0, experts, laurel };
                        let current = so_far.as_ref().map_or(half, |so_far| &so_far[i]);
                        let step = streams.measure(layer, [half, current], watch)?;
                        so_far = Some(quantizer.quantize(layer, step)?.in_halves(config));
                    }
                    let quantized = so_far.as_ref().map_or(half, |so_far| &so_far[i]);
                    streams.advance_quantized(layer, quantized)?;
                }
            }
        }
        progress.advance(tokens.len() as u64);
        quantizer.keep(layer + 1, streams.all())?;
        original.release(Some(layer));
    }
    let step = streams.head()?;
    progress.end();
    Ok(step)
}

/// The streams, at the same layer.
struct Streams<'a> {
    full: Stream,
    quantized: Stream,
    collector: Collector,
    /// Rows that the quantized stream is multiplied with.
    panels: ColumnPanels,
    cancel: &'a Cancel,
    progress: &'a dyn Progress,
}

impl Streams<'_> {
    fn all(&self) -> [&[f32]; 2] {
        [self.full.all(), self.quantized.all()]
    }

    fn restore<Q: LayerQuantizer>(&mut self, quantizer: &mut Q) -> Result<u32, Q::Error> {
        quantizer.restore([self.full.all_mut(), self.quantized.all_mut()])
    }

    /// The moments of a stage of a layer, or of a half of one, which is one of the original weights for the stream at full
    /// precision, and another for the quantized one. With the last stage, the stream at full precision goes on.
    fn measure(&mut self, layer: u32, [original, current]: [&LayerWeights; 2], watch: Watch) -> Result<Step> {
        let (mut cross, mut residual) = (BTreeMap::new(), BTreeMap::new());
        for i in 0..self.quantized.chunks() {
            self.cancel.check()?;
            let mut full = Kept::new(watch);
            if watch.goes_on {
                self.full.advance(i, layer, original, &mut full)?;
            } else {
                self.full.look(i, layer, original, &mut full)?;
            }
            let mut both = Both {
                watch,
                cpu: self.quantized.cpu().clone(),
                full,
                lacking: None,
                collector: &mut self.collector,
                panels: &mut self.panels,
                cross: &mut cross,
                residual: &mut residual,
                failed: None,
            };
            self.quantized.look(i, layer, current, &mut both)?;
            both.failed.map_or(Ok(()), Err)?;
            self.progress.advance(self.quantized.tokens(i) as u64);
        }
        let stats = LayerStats { layer: Some(layer), influence: None, inputs: self.collector.take()? };
        check_finite(&stats)?;
        // Norms make inputs small of streams whose products overflow: such a layer makes up for nothing.
        residual.retain(|_, moment: &mut CrossMoment| moment.is_finite());
        Ok(Step { stage: Some(watch.stage), stats, cross, residual })
    }

    fn advance_full(&mut self, layer: u32, weights: &LayerWeights) -> Result<()> {
        for i in 0..self.full.chunks() {
            self.cancel.check()?;
            self.full.advance(i, layer, weights, &mut Blind)?;
        }
        Ok(())
    }

    fn advance_quantized(&mut self, layer: u32, weights: &LayerWeights) -> Result<()> {
        for i in 0..self.quantized.chunks() {
            self.cancel.check()?;
            self.quantized.advance(i, layer, weights, &mut Blind)?;
        }
        Ok(())
    }

    /// What the head reads.
    fn head(&mut self) -> Result<Step> {
        let (input, cols) = (LinearInput::Head, self.quantized.head_width());
        let mut cross = BTreeMap::new();
        for i in 0..self.quantized.chunks() {
            self.cancel.check()?;
            let cpu = self.quantized.cpu().clone();
            self.collector.add(input, cols, self.quantized.head_input(i)?);
            let full = self.full.head_input(i)?;
            let tokens = self.quantized.tokens(i);
            Products { cpu: &cpu, tokens, panels: &mut self.panels, collector: &self.collector }
                .add(&mut cross, input, full, cols)?;
        }
        let stats = LayerStats { layer: None, influence: None, inputs: self.collector.take()? };
        check_finite(&stats)?;
        Ok(Step { stage: None, stats, cross, residual: BTreeMap::new() })
    }
}
