//! Where gradients go: summed over the sequences of a text for one layer, then to who asked for them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::{ColumnPanels, Cpu, zeros};

/// A matrix, and which rows of it: those of an expert, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixPart {
    /// The tensor.
    pub id: TensorId,
    /// Its first row that is meant.
    pub first_row: usize,
    /// How many rows are meant.
    pub rows: usize,
    /// Rows of the tensor.
    pub all_rows: usize,
}

/// Receives gradients, layer by layer, from the last to the first.
pub trait GradientVisitor {
    /// Whether the gradient of this tensor is wanted: others are not computed.
    fn wants(&self, _id: TensorId) -> bool {
        true
    }

    /// What a matrix was multiplied with for the tokens of a sequence (one row each), and the gradient at what it gave. It is called
    /// for all matrices, wanted or not.
    ///
    /// # Errors
    /// Those of the visitor, which end the run.
    fn products(&mut self, _part: MatrixPart, _inputs: &[f32], _outputs: &[f32]) -> Result<()> {
        Ok(())
    }

    /// The gradients at the rows of the token embedding that the tokens of a sequence take, `width` values each. It is called
    /// for every sequence, wanted or not, behind all layers.
    ///
    /// # Errors
    /// Those of the visitor, which end the run.
    fn embedded(&mut self, _gradients: &[f32], _width: usize) -> Result<()> {
        Ok(())
    }

    /// The gradient of a tensor over the whole text, as many values as it has. Norms that store w and multiply with 1 + w have the
    /// same gradient for both.
    ///
    /// # Errors
    /// Those of the visitor, which end the run.
    fn gradient(&mut self, id: TensorId, gradient: &[f32]) -> Result<()>;
}

/// Sums by tensor.
pub(super) type Sums = BTreeMap<TensorKind, Vec<f32>>;

/// Sums of the gradients of one layer, or of what is outside of layers.
pub(super) struct Sink<'a> {
    pub cpu: &'a Cpu,
    pub visitor: &'a mut dyn GradientVisitor,
    pub layer: Option<u32>,
    sums: Sums,
}

impl<'a> Sink<'a> {
    pub fn new(cpu: &'a Cpu, visitor: &'a mut dyn GradientVisitor, layer: Option<u32>) -> Sink<'a> {
        Sink { cpu, visitor, layer, sums: BTreeMap::new() }
    }

    /// Lets go of the visitor; the sums so far go on by [`Sink::resume`].
    pub fn pause(self) -> Sums {
        self.sums
    }

    pub fn resume(
        cpu: &'a Cpu,
        visitor: &'a mut dyn GradientVisitor,
        layer: Option<u32>,
        sums: Sums,
    ) -> Sink<'a> {
        Sink { cpu, visitor, layer, sums }
    }

    fn id(&self, kind: TensorKind) -> TensorId {
        TensorId { layer: self.layer, kind }
    }

    pub fn wants(&self, kind: TensorKind) -> bool {
        self.visitor.wants(self.id(kind))
    }

    /// The sums of a tensor of so many values, at first all 0.
    pub fn sums(&mut self, kind: TensorKind, values: usize) -> Result<&mut [f32]> {
        Ok(match self.sums.entry(kind) {
            Entry::Occupied(sums) => sums.into_mut(),
            Entry::Vacant(place) => place.insert(zeros(values, "gradient of a matrix")?),
        })
    }

    /// Adds the products of a matrix: rows of what it read, and of the gradient at what it gave.
    pub fn add_products(&mut self, part: MatrixPart, inputs: &[f32], outputs: &[f32]) -> Result<()> {
        self.visitor.products(part, inputs, outputs)?;
        if inputs.is_empty() || !self.wants(part.id.kind) {
            return Ok(());
        }
        let cols = inputs.len() / (outputs.len() / part.rows);
        let cpu = self.cpu;
        let (mut read, mut given) = (ColumnPanels::new(), ColumnPanels::new());
        read.fill(cpu, inputs, cols);
        given.fill(cpu, outputs, part.rows);
        let sums = self.sums(part.id.kind, part.all_rows.saturating_mul(cols))?;
        let sums = &mut sums[part.first_row * cols..(part.first_row + part.rows) * cols];
        cpu.add_cross_moment(&given, &read, sums);
        Ok(())
    }

    /// Adds to the values of a vector from `first` on; it has `all` of them.
    pub fn add_vector(&mut self, kind: TensorKind, first: usize, all: usize, values: &[f64]) -> Result<()> {
        if !self.wants(kind) {
            return Ok(());
        }
        let sums = self.sums(kind, all)?;
        for (sum, value) in sums[first..].iter_mut().zip(values) {
            *sum += *value as f32;
        }
        Ok(())
    }

    /// Adds the sum of rows, each `width` wide, to a vector.
    pub fn add_rows(
        &mut self,
        kind: TensorKind,
        first: usize,
        all: usize,
        rows: &[f32],
        width: usize,
    ) -> Result<()> {
        let mut sums = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        self.add_vector(kind, first, all, &sums)
    }

    /// Hands all sums out, by kind.
    pub fn finish(self) -> Result<()> {
        let Sink { visitor, layer, sums, .. } = self;
        sums.into_iter().try_for_each(|(kind, sums)| visitor.gradient(TensorId { layer, kind }, &sums))
    }
}
