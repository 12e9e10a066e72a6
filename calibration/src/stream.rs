//! The hidden states of all tokens of a text on their way through the layers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::zeros;
use qsf_runtime::cpu::{ColumnPanels, Cpu, Vectorized};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{InputObserver, LayerRunner, LayerWeights, LinearInput, Result, RuntimeError};

use crate::moments::{Detail, Moments};

/// Hidden states, tokens x [`LayerRunner::width`], in chunks of at most 512 tokens that know nothing of each other.
pub(crate) struct Stream {
    runner: LayerRunner,
    text: Vec<u32>,
    hidden: Vec<f32>,
}

impl Stream {
    /// `tokens` at the start of the first layer, with embedding and head of `source`.
    ///
    /// # Errors
    /// When there are no tokens, one is beyond the vocabulary, a tensor is damaged, or memory runs out.
    pub fn new(source: &dyn WeightSource, cpu: &Cpu, tokens: &[u32]) -> Result<Stream> {
        if tokens.is_empty() {
            return Err(RuntimeError::Request("the calibration text is empty".into()));
        }
        let mut runner = LayerRunner::new(source, cpu.clone())?;
        let width = runner.width();
        let mut hidden = zeros(tokens.len().saturating_mul(width), "hidden states of the calibration text")?;
        let chunk = runner.chunk();
        for (tokens, hidden) in tokens.chunks(chunk).zip(hidden.chunks_mut(chunk * width)) {
            hidden.copy_from_slice(runner.embed(tokens)?);
        }
        Ok(Stream { runner, text: tokens.to_vec(), hidden })
    }

    fn chunk_values(&self) -> usize {
        self.runner.chunk() * self.runner.width()
    }

    /// The hidden states of all tokens.
    pub fn all(&self) -> &[f32] {
        &self.hidden
    }

    /// The hidden states of all tokens, to be changed.
    pub fn all_mut(&mut self) -> &mut [f32] {
        &mut self.hidden
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.hidden.len().div_ceil(self.chunk_values())
    }

    /// The kernels that run it.
    pub fn cpu(&self) -> &Cpu {
        self.runner.cpu()
    }

    /// Where chunk `i` is.
    fn range(&self, i: usize) -> std::ops::Range<usize> {
        let values = self.chunk_values();
        i * values..self.hidden.len().min((i + 1) * values)
    }

    /// Tokens of chunk `i`.
    pub fn tokens(&self, i: usize) -> usize {
        self.range(i).len() / self.runner.width()
    }

    /// Whether a stream can begin at a layer behind the first: not where layers use keys and values of earlier ones.
    pub fn can_begin_late(&self) -> bool {
        self.runner.config().shared_kv.is_none()
    }

    fn choose(&mut self, i: usize) {
        let chunk = self.runner.chunk();
        let tokens = i * chunk..self.text.len().min((i + 1) * chunk);
        self.runner.choose(i, &self.text[tokens]);
    }

    /// Takes chunk `i` through a layer.
    ///
    /// # Errors
    /// When the model has no such layer.
    pub fn advance(
        &mut self,
        i: usize,
        layer: u32,
        weights: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        self.choose(i);
        let range = self.range(i);
        // Whatever the observer does not want, it has not broken off a chunk that goes on.
        self.runner.run(layer as usize, weights, &mut self.hidden[range], observer).map(|_| ())
    }

    /// Shows `observer` the inputs that chunk `i` makes in a layer, and leaves the chunk where it is.
    ///
    /// # Errors
    /// When the model has no such layer.
    pub fn look(
        &mut self,
        i: usize,
        layer: u32,
        weights: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        self.choose(i);
        let mut copy = self.hidden[self.range(i)].to_vec();
        self.runner.run(layer as usize, weights, &mut copy, observer).map(|_| ())
    }

    /// The input of the head that chunk `i`, behind the last layer, makes.
    ///
    /// # Errors
    /// None for a chunk there is.
    pub fn head_input(&mut self, i: usize) -> Result<&[f32]> {
        let range = self.range(i);
        self.runner.head_input(&self.hidden[range])
    }

    /// The logits that `tokens` of chunk `i`, behind the last layer, make.
    ///
    /// # Errors
    /// None for tokens there are.
    pub fn logits(&mut self, i: usize, tokens: std::ops::Range<usize>, logits: &mut [f32]) -> Result<()> {
        let (range, width) = (self.range(i), self.runner.width());
        let rows = &self.hidden[range][tokens.start * width..tokens.end * width];
        self.runner.logits(rows, logits)
    }

    /// The hidden states of chunk `i`.
    pub fn hidden(&self, i: usize) -> &[f32] {
        &self.hidden[self.range(i)]
    }

    /// Values of a row of the input of the head.
    pub fn head_width(&self) -> usize {
        self.runner.config().hidden as usize
    }

    /// Width of the hidden states.
    pub fn width(&self) -> usize {
        self.runner.width()
    }
}

/// Sums moments of what it sees.
pub(crate) struct Collector {
    cpu: Cpu,
    detail: Detail,
    panels: ColumnPanels,
    pub moments: BTreeMap<LinearInput, Moments>,
    /// The observer cannot fail: memory that could not be had ends the layer after it.
    failed: Option<RuntimeError>,
}

impl Collector {
    pub fn new(cpu: &Cpu, detail: Detail) -> Collector {
        let (panels, moments) = (ColumnPanels::new(), BTreeMap::new());
        Collector { cpu: cpu.clone(), detail, panels, moments, failed: None }
    }

    /// Adds rows of an input.
    pub fn add(&mut self, input: LinearInput, cols: usize, rows: &[f32]) {
        if let Err(error) = self.try_add(input, cols, rows) {
            self.failed.get_or_insert(error);
        }
    }

    fn try_add(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> Result<()> {
        if self.detail == Detail::Full {
            self.panels.fill(&self.cpu, rows, cols);
        }
        let moments = match self.moments.entry(input) {
            Entry::Vacant(entry) => entry.insert(Moments::new(cols, self.detail)?),
            Entry::Occupied(entry) => entry.into_mut(),
        };
        moments.add(&self.cpu, rows, &self.panels);
        Ok(())
    }

    /// The rows that were added last, for [`Detail::Full`].
    pub fn panels(&self) -> &ColumnPanels {
        &self.panels
    }

    /// What has been seen since the last time.
    ///
    /// # Errors
    /// When memory has run out.
    pub fn take(&mut self) -> Result<BTreeMap<LinearInput, Moments>> {
        let moments = std::mem::take(&mut self.moments);
        self.failed.take().map_or(Ok(moments), Err)
    }
}

impl InputObserver for Collector {
    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        self.add(input, cols, rows);
        ControlFlow::Continue(())
    }
}

/// Looks at nothing.
pub(crate) struct Blind;

impl InputObserver for Blind {
    fn observe(&mut self, _input: LinearInput, _cols: usize, _rows: &[f32]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Sum of the cosines between rows of `before` and of `after`, `width` wide.
pub(crate) struct Cosines<'a> {
    pub before: &'a [f32],
    pub after: &'a [f32],
    pub width: usize,
}

impl Vectorized for Cosines<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let mut sum = 0.0;
        for (a, b) in self.before.chunks_exact(self.width).zip(self.after.chunks_exact(self.width)) {
            let lengths = f64::from(dot(a, a)) * f64::from(dot(b, b));
            // Nothing that stays nothing has not changed.
            sum += if lengths > 0.0 { f64::from(dot(a, b)) / lengths.sqrt() } else { 1.0 };
        }
        sum
    }
}
