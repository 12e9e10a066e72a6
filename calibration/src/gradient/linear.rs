//! A matrix with its bias, forwards and backwards. Sums have the order of the kernels that the decoder and the moments have: the
//! same bits for every number of threads and instruction set.

use qsf_format::TensorKind;
use qsf_runtime::Result;
use qsf_runtime::cpu::{ColumnPanels, Cpu, zeros};
use qsf_runtime::linear::{Input, Products as _};
use qsf_runtime::source::Tensor;

use super::sink::{MatrixPart, Sink};

/// Outputs whose products are one chain of sums on the way back: longer chains of f32 would round more.
const CHAIN: usize = 512;

/// A matrix of a layer.
pub(super) struct Linear {
    pub part: MatrixPart,
    tensor: Tensor,
    pub bias: Option<(TensorKind, Vec<f32>)>,
    /// The values, in runs of rows, once they are needed.
    runs: Vec<ColumnPanels>,
}

impl Linear {
    pub fn new(part: MatrixPart, tensor: Tensor, bias: Option<(TensorKind, Vec<f32>)>) -> Linear {
        Linear { part, tensor, bias, runs: Vec::new() }
    }

    pub fn rows(&self) -> usize {
        self.tensor.rows()
    }

    pub fn cols(&self) -> usize {
        self.tensor.cols()
    }

    /// What it gives for rows of `x`.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Result<Vec<f32>> {
        let tokens = x.len() / self.cols();
        let mut out = zeros(tokens.saturating_mul(self.rows()), "activations of a layer")?;
        if tokens > 0 {
            let bias = self.bias.as_ref().map(|(_, bias)| &bias[..]);
            cpu.linear(&self.tensor, bias, &Input::float(x, self.cols()), &mut out);
        }
        Ok(out)
    }

    /// Takes what it read and the gradient at what it gave, and adds the gradient at what it read to `into`.
    pub fn backward(
        &mut self,
        sink: &mut Sink<'_>,
        x: &[f32],
        given: &[f32],
        into: &mut [f32],
    ) -> Result<()> {
        let (rows, cpu) = (self.rows(), sink.cpu);
        sink.add_products(self.part, x, given)?;
        if let Some((kind, _)) = &self.bias {
            sink.add_rows(*kind, self.part.first_row, self.part.all_rows, given, rows)?;
        }
        if x.is_empty() {
            return Ok(());
        }
        self.decode(cpu)?;
        let tokens = given.len() / rows;
        let (mut turned, mut panels) = (Vec::new(), ColumnPanels::new());
        for (run, weights) in self.runs.iter().enumerate() {
            let outputs = run * CHAIN..rows.min((run + 1) * CHAIN);
            turned.clear();
            turned.resize(outputs.len() * tokens, 0.0);
            for (t, given) in given.chunks_exact(rows).enumerate() {
                for (o, value) in given[outputs.clone()].iter().enumerate() {
                    turned[o * tokens + t] = *value;
                }
            }
            panels.fill(cpu, &turned, tokens);
            cpu.add_cross_moment(&panels, weights, into);
        }
        Ok(())
    }

    /// The values as floats, in the form that products take.
    fn decode(&mut self, cpu: &Cpu) -> Result<()> {
        if !self.runs.is_empty() {
            return Ok(());
        }
        let (rows, cols) = (self.rows(), self.cols());
        let mut values: Vec<f32> = zeros(CHAIN.min(rows).saturating_mul(cols), "weights of a matrix")?;
        for first in (0..rows).step_by(CHAIN) {
            let values = &mut values[..CHAIN.min(rows - first) * cols];
            let (tensor, isa) = (&self.tensor, cpu.isa());
            cpu.for_each_chunk(values, cols, CHAIN * cols, |row, out| {
                tensor.decode_row(isa, first + row, out);
            });
            let mut run = ColumnPanels::new();
            run.fill(cpu, values, cols);
            self.runs.push(run);
        }
        Ok(())
    }
}
