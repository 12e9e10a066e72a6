//! Stages of a layer, and what of one is looked at in two streams in lock step.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use qsf_runtime::cpu::{ColumnPanels, Cpu};
use qsf_runtime::{InputObserver, LinearInput, Result, RuntimeError};

use crate::moments::CrossMoment;
use crate::stream::Collector;

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

/// Outputs that are multiplied with less than this can make up for nothing: their weights would have to be huge.
const LEAST_FACTOR: f32 = 1e-3;

/// Products with what a collector has seen last.
pub(crate) struct Products<'a> {
    pub cpu: &'a Cpu,
    pub tokens: usize,
    pub panels: &'a mut ColumnPanels,
    pub collector: &'a Collector,
}

impl Products<'_> {
    /// Adds those of `left`, tokens rows, with the `cols` columns of `input`.
    pub fn add(
        self,
        to: &mut BTreeMap<LinearInput, CrossMoment>,
        input: LinearInput,
        left: &[f32],
        cols: usize,
    ) -> Result<()> {
        let width = left.len() / self.tokens;
        let moment = match to.entry(input) {
            Entry::Vacant(entry) => entry.insert(CrossMoment::new(width, cols)?),
            Entry::Occupied(entry) => entry.into_mut(),
        };
        self.panels.fill(self.cpu, left, width);
        moment.add(self.cpu, self.tokens, self.panels, self.collector.panels());
        Ok(())
    }
}

/// Which inputs of a layer are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    /// Behind the inputs of this stage nothing is wanted of the quantized stream.
    pub stage: Stage,
    /// Whether the stream at full precision goes on.
    pub goes_on: bool,
    pub experts: bool,
    /// Whether something is added beside attention.
    pub laurel: bool,
}

impl Watch {
    fn wants(&self, input: LinearInput) -> bool {
        Stage::of(input) == Some(self.stage)
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
        let last = Stage::of(input).is_some_and(|stage| stage >= self.stage);
        if last && !routes && !(others_follow && self.stage == Stage::AttnOutput) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Keeps the rows of a chunk at full precision, of inputs that all tokens have, and of the residual stream.
pub(crate) struct Kept {
    watch: Watch,
    rows: BTreeMap<LinearInput, Vec<f32>>,
    streams: BTreeMap<LinearInput, Vec<f32>>,
}

impl Kept {
    pub fn new(watch: Watch) -> Kept {
        Kept { watch, rows: BTreeMap::new(), streams: BTreeMap::new() }
    }
}

impl InputObserver for Kept {
    fn adds_to(&mut self, input: LinearInput, stream: &[f32], _factor: f32) {
        if self.watch.wants(input) {
            self.streams.insert(input, stream.to_vec());
        }
    }

    fn observe(&mut self, input: LinearInput, _cols: usize, rows: &[f32]) -> ControlFlow<()> {
        let of_expert = matches!(input, LinearInput::ExpertFfn(_) | LinearInput::ExpertDown(_));
        if self.watch.wants(input) && !of_expert {
            self.rows.insert(input, rows.to_vec());
        }
        if self.watch.goes_on { ControlFlow::Continue(()) } else { self.watch.flow(input) }
    }
}

/// Sums moments of the quantized stream, and of it with what is kept of the one at full precision.
pub(crate) struct Both<'a> {
    pub watch: Watch,
    pub cpu: Cpu,
    pub full: Kept,
    /// What the quantized residual stream lacks that the products of an input are added to, in their unit.
    pub lacking: Option<(LinearInput, Vec<f32>)>,
    pub collector: &'a mut Collector,
    pub panels: &'a mut ColumnPanels,
    pub cross: &'a mut BTreeMap<LinearInput, CrossMoment>,
    pub residual: &'a mut BTreeMap<LinearInput, CrossMoment>,
    pub failed: Option<RuntimeError>,
}

impl Both<'_> {
    fn add_products(&mut self, input: LinearInput, cols: usize, tokens: usize) -> Result<()> {
        let Both { cpu, collector, panels, .. } = self;
        if let Some(full) = self.full.rows.get(&input) {
            Products { cpu, tokens, panels, collector }.add(self.cross, input, full, cols)?;
        }
        match self.lacking.take_if(|(of, _)| *of == input) {
            Some((_, rows)) => {
                Products { cpu, tokens, panels, collector }.add(self.residual, input, &rows, cols)
            }
            None => Ok(()),
        }
    }
}

impl InputObserver for Both<'_> {
    fn adds_to(&mut self, input: LinearInput, stream: &[f32], factor: f32) {
        if let Some(full) = self.full.streams.get(&input).filter(|_| factor.abs() >= LEAST_FACTOR) {
            let lacking = full.iter().zip(stream).map(|(full, stream)| (full - stream) / factor).collect();
            self.lacking = Some((input, lacking));
        }
    }

    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        if self.watch.wants(input) {
            self.collector.add(input, cols, rows);
            let added = self.add_products(input, cols, rows.len() / cols);
            self.failed = self.failed.take().or(added.err());
        }
        self.watch.flow(input)
    }
}
