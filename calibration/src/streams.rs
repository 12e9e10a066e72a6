//! Two streams in lock step: the model as it is, and the model as it is quantized, layer by layer. A matrix is fitted to the
//! inputs that what is quantized before it leaves (as GPTQ does), and can be corrected for what they differ by from those at
//! full precision (GPTAQ, arXiv 2504.02692).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use qsf_runtime::cpu::{ColumnPanels, Cpu};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{InputObserver, LayerWeights, LinearInput, Result, RuntimeError};

use crate::collect::check_finite;
use crate::layer_stats::LayerStats;
use crate::moments::{CrossMoment, Detail};
use crate::stream::{Blind, Collector, Stream};

/// The inputs of a layer in the order in which they are made. Each depends on the matrices that read those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// What query, key and value read.
    Attention,
    /// What the attention output reads, and of attention by way of latents what is made before that.
    AttnOutput,
    /// What gate and up, and router, read.
    Ffn,
    /// What down reads.
    FfnDown,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Stage; 4] = [Stage::Attention, Stage::AttnOutput, Stage::Ffn, Stage::FfnDown];

    /// The stage of an input of a layer; `None` for the head.
    pub const fn of(input: LinearInput) -> Option<Stage> {
        match input {
            LinearInput::Attention => Some(Stage::Attention),
            LinearInput::AttnOutput
            | LinearInput::MixerOutput
            | LinearInput::MixerSelect
            | LinearInput::MixerStep
            | LinearInput::MixerGate
            | LinearInput::QueryLatent
            | LinearInput::KeyUp
            | LinearInput::ValueUp
            | LinearInput::LaurelUp => Some(Stage::AttnOutput),
            LinearInput::Ffn | LinearInput::Experts | LinearInput::ExpertFfn(_) => Some(Stage::Ffn),
            LinearInput::FfnDown
            | LinearInput::ExpertDown(_)
            | LinearInput::PerLayerGate
            | LinearInput::PerLayerUp => Some(Stage::FfnDown),
            LinearInput::Head => None,
        }
    }
}

/// What [`run_streams`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether a layer is quantized in four steps, one for each [`Stage`], so that every matrix sees what those before it in
    /// the same layer leave; else in one, with what the original matrices of the layer make of the quantized stream. Four
    /// steps take about twice the time of the forward passes, and memory for moments of one stage rather than of four.
    pub by_stage: bool,
    /// Whether the stream at full precision runs along, for [`Step::cross`].
    pub cross: bool,
}

/// A step of quantizing: what the matrices that come next read.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The stages that it is about; of the head, none.
    pub stages: &'static [Stage],
    /// Moments of the quantized stream.
    pub stats: LayerStats,
    /// Means of `f q^T` of the same tokens, f at full precision; on request. Inputs of single experts have none, since the
    /// two streams choose different experts; [`LinearInput::Ffn`] of their layer has.
    pub cross: BTreeMap<LinearInput, CrossMoment>,
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
#[expect(clippy::too_many_arguments, reason = "two models, a text, and how to work; all are needed")]
pub fn run_streams<Q: LayerQuantizer>(
    original: &dyn WeightSource,
    quantized: &dyn WeightSource,
    cpu: &Cpu,
    tokens: &[u32],
    options: StreamOptions,
    quantizer: &mut Q,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Step, Q::Error> {
    let full = if options.cross { Some(Stream::new(original, cpu, tokens)?) } else { None };
    let mut streams = Streams {
        full,
        quantized: Stream::new(quantized, cpu, tokens)?,
        collector: Collector::new(cpu, Detail::Full),
        panels: ColumnPanels::new(),
        cancel,
        progress,
    };
    let steps: &[&'static [Stage]] = if options.by_stage {
        &[&[Stage::Attention], &[Stage::AttnOutput], &[Stage::Ffn], &[Stage::FfnDown]]
    } else {
        &[&Stage::ALL]
    };
    let layers = original.config().layers;
    progress.begin("quantizing", tokens.len() as u64 * u64::from(layers) * (steps.len() as u64 + 1));
    let first = if streams.quantized.can_begin_late() { streams.restore(quantizer)? } else { 0 };
    for layer in 0..first {
        if quantizer.finished(layer)?.is_none() {
            let (expected, found) = ("a finished layer, since the streams are behind it", "none");
            return Err(
                RuntimeError::bad_input(original.path(), format!("layer {layer}"), expected, found).into()
            );
        }
        progress.advance(tokens.len() as u64 * (steps.len() as u64 + 1));
    }
    for layer in first..layers {
        let weights = LayerWeights::load(original, layer)?;
        let experts = original.config().experts(layer).is_some();
        let finished = match quantizer.finished(layer)? {
            Some(finished) => {
                streams.advance_full(layer, &weights)?;
                progress.advance(tokens.len() as u64 * steps.len() as u64);
                finished
            }
            None => {
                let mut so_far: Option<LayerWeights> = None;
                for stages in steps {
                    let current = so_far.as_ref().unwrap_or(&weights);
                    let step = streams.measure(layer, [&weights, current], experts, stages)?;
                    so_far = Some(quantizer.quantize(layer, step)?);
                }
                so_far.unwrap_or(weights)
            }
        };
        streams.advance_quantized(layer, &finished)?;
        quantizer.keep(layer + 1, streams.all())?;
        original.release(Some(layer));
    }
    let step = streams.head()?;
    progress.end();
    Ok(step)
}

/// The streams, at the same layer.
struct Streams<'a> {
    full: Option<Stream>,
    quantized: Stream,
    collector: Collector,
    /// Rows at full precision, in panels.
    panels: ColumnPanels,
    cancel: &'a Cancel,
    progress: &'a dyn Progress,
}

impl Streams<'_> {
    fn all(&self) -> [&[f32]; 2] {
        [self.full.as_ref().map_or(&[], Stream::all), self.quantized.all()]
    }

    fn restore<Q: LayerQuantizer>(&mut self, quantizer: &mut Q) -> Result<u32, Q::Error> {
        let full = self.full.as_mut().map_or(&mut [][..], Stream::all_mut);
        quantizer.restore([full, self.quantized.all_mut()])
    }

    /// The moments of `stages` of a layer, which is one of the original weights for the stream at full precision, and another
    /// for the quantized one. With the last stage, the stream at full precision goes on to the next layer.
    fn measure(
        &mut self,
        layer: u32,
        [original, current]: [&LayerWeights; 2],
        experts: bool,
        stages: &'static [Stage],
    ) -> Result<Step> {
        let until = stages.last().copied().unwrap_or(Stage::FfnDown);
        let watch = Watch { stages, until, experts, laurel: original.laurel.is_some() };
        let mut cross = BTreeMap::new();
        for i in 0..self.quantized.chunks() {
            self.cancel.check()?;
            let mut rows = Kept { watch, goes_on: until == Stage::FfnDown, rows: BTreeMap::new() };
            match &mut self.full {
                Some(full) if rows.goes_on => full.advance(i, layer, original, &mut rows)?,
                Some(full) => full.look(i, layer, original, &mut rows)?,
                None => {}
            }
            let cpu = self.quantized.cpu().clone();
            let (collector, panels, cross) = (&mut self.collector, &mut self.panels, &mut cross);
            let mut both = Both { watch, cpu, full: rows.rows, collector, panels, cross, failed: None };
            self.quantized.look(i, layer, current, &mut both)?;
            both.failed.map_or(Ok(()), Err)?;
            self.progress.advance(self.quantized.tokens(i) as u64);
        }
        let stats = LayerStats { layer: Some(layer), influence: None, inputs: self.collector.take()? };
        check_finite(&stats)?;
        Ok(Step { stages, stats, cross })
    }

    fn advance_full(&mut self, layer: u32, weights: &LayerWeights) -> Result<()> {
        let Some(full) = &mut self.full else { return Ok(()) };
        for i in 0..full.chunks() {
            self.cancel.check()?;
            full.advance(i, layer, weights, &mut Blind)?;
        }
        Ok(())
    }

    fn advance_quantized(&mut self, layer: u32, weights: &LayerWeights) -> Result<()> {
        for i in 0..self.quantized.chunks() {
            self.cancel.check()?;
            self.quantized.advance(i, layer, weights, &mut Blind)?;
            self.progress.advance(self.quantized.tokens(i) as u64);
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
            let Some(full) = &mut self.full else { continue };
            self.panels.fill(&cpu, full.head_input(i)?, cols);
            add_cross(
                &mut cross,
                input,
                cols,
                &cpu,
                self.quantized.tokens(i),
                &self.panels,
                &self.collector,
            )?;
        }
        let stats = LayerStats { layer: None, influence: None, inputs: self.collector.take()? };
        check_finite(&stats)?;
        Ok(Step { stages: &[], stats, cross })
    }
}

/// Adds the products of `full` and of what `collector` has seen last.
fn add_cross(
    cross: &mut BTreeMap<LinearInput, CrossMoment>,
    input: LinearInput,
    cols: usize,
    cpu: &Cpu,
    tokens: usize,
    full: &ColumnPanels,
    collector: &Collector,
) -> Result<()> {
    let moment = match cross.entry(input) {
        Entry::Vacant(entry) => entry.insert(CrossMoment::new(cols)?),
        Entry::Occupied(entry) => entry.into_mut(),
    };
    moment.add(cpu, tokens, full, collector.panels());
    Ok(())
}

/// Which inputs of a layer are looked at.
#[derive(Clone, Copy)]
struct Watch {
    stages: &'static [Stage],
    /// Behind the inputs of this stage nothing is wanted.
    until: Stage,
    experts: bool,
    /// Whether something is added beside attention.
    laurel: bool,
}

impl Watch {
    fn wants(&self, input: LinearInput) -> bool {
        Stage::of(input).is_some_and(|stage| self.stages.contains(&stage))
    }

    /// What is computed from `input`. That of the router decides which experts see what.
    fn flow(&self, input: LinearInput) -> ControlFlow<()> {
        let routes = self.experts && matches!(input, LinearInput::Ffn | LinearInput::Experts);
        // Others of the same stage are made of it, or behind it.
        let others_follow = matches!(
            input,
            LinearInput::QueryLatent
                | LinearInput::KeyUp
                | LinearInput::ValueUp
                | LinearInput::MixerSelect
                | LinearInput::MixerStep
                | LinearInput::MixerGate
                | LinearInput::MixerOutput
        ) || self.laurel && input == LinearInput::AttnOutput;
        let last = Stage::of(input).is_some_and(|stage| stage >= self.until);
        if last && !routes && !(others_follow && self.until == Stage::AttnOutput) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Keeps the rows of a chunk at full precision, of inputs that all tokens have.
struct Kept {
    watch: Watch,
    goes_on: bool,
    rows: BTreeMap<LinearInput, Vec<f32>>,
}

impl InputObserver for Kept {
    fn observe(&mut self, input: LinearInput, _cols: usize, rows: &[f32]) -> ControlFlow<()> {
        let of_expert = matches!(input, LinearInput::ExpertFfn(_) | LinearInput::ExpertDown(_));
        if self.watch.wants(input) && !of_expert {
            self.rows.insert(input, rows.to_vec());
        }
        if self.goes_on { ControlFlow::Continue(()) } else { self.watch.flow(input) }
    }
}

/// Sums moments of the quantized stream, and of it with the rows at full precision.
struct Both<'a> {
    watch: Watch,
    cpu: Cpu,
    full: BTreeMap<LinearInput, Vec<f32>>,
    collector: &'a mut Collector,
    panels: &'a mut ColumnPanels,
    cross: &'a mut BTreeMap<LinearInput, CrossMoment>,
    failed: Option<RuntimeError>,
}

impl InputObserver for Both<'_> {
    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        if self.watch.wants(input) {
            self.collector.add(input, cols, rows);
            if let Some(full) = self.full.get(&input) {
                self.panels.fill(&self.cpu, full, cols);
                let (tokens, panels) = (rows.len() / cols, &*self.panels);
                let added = add_cross(self.cross, input, cols, &self.cpu, tokens, panels, self.collector);
                self.failed = self.failed.take().or(added.err());
            }
        }
        self.watch.flow(input)
    }
}
