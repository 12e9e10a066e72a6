//! Adapters while a model runs: the narrow matrices of [`LowRank`], stored as they are read.

use std::ops::Range;

use qsf_cpu::{FloatColumns, Isa, decode_row, float_dot, float_matvec};
use qsf_format::{BUILT_IN, BlockSize, QuantType, StoredUpdate, TensorId};

use super::low_rank::LowRank;
use super::output::Output;

/// An update of low rank, `up * factors * down`.
#[derive(Debug, Clone, PartialEq)]
pub struct Narrow {
    /// F16 or F32.
    quant: QuantType,
    /// `rank` x inputs.
    down: Vec<u8>,
    /// `rank` x outputs: columns of the second matrix, so that each is added to a whole output.
    up: Vec<u8>,
    /// Powers of two, by which both matrices are divided.
    factors: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Narrow {
    /// The values of `update` in halves, which is exact enough beside weights of a few bits; or as they are.
    pub fn new(update: &LowRank, halves: bool) -> Narrow {
        let [outputs, inputs] = update.shape();
        let quant = if halves { QuantType::F16 } else { QuantType::F32 };
        let mut narrow =
            Narrow { quant, down: Vec::new(), up: Vec::new(), factors: Vec::new(), inputs, outputs };
        for (down, up) in update.pairs() {
            let factors = [append(down, quant, &mut narrow.down), append(up, quant, &mut narrow.up)];
            narrow.factors.push(factors[0] * factors[1]);
        }
        narrow
    }

    /// Inputs that it is summed over.
    pub fn rank(&self) -> usize {
        self.factors.len()
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> [usize; 2] {
        [self.outputs, self.inputs]
    }

    /// Adds another update of the same matrix, kept in the same type: the rank is the sum of both.
    ///
    /// # Panics
    /// When it is of another shape, or kept otherwise.
    pub fn join(&mut self, other: &Narrow) {
        assert_eq!((self.shape(), self.quant), (other.shape(), other.quant), "updates of different matrices");
        self.down.extend_from_slice(&other.down);
        self.up.extend_from_slice(&other.up);
        self.factors.extend_from_slice(&other.factors);
    }

    /// What the first matrix gives of some rows of inputs: calls `give` with each token, the number in the rank, and the value.
    pub(super) fn latent(
        &self,
        isa: Isa,
        x: &[f32],
        scratch: &mut NarrowScratch,
        mut give: impl FnMut(usize, usize, f32),
    ) {
        let (rank, tokens) = (self.rank(), x.len() / self.inputs);
        let dots = first(&mut scratch.dots, rank * tokens);
        if tokens == 1 {
            float_matvec::matvec(isa, self.quant, &self.down, x, dots);
        } else {
            let decoded = first(&mut scratch.decoded, rank * self.inputs);
            let row_bytes = self.down.len() / rank;
            for (bytes, row) in self.down.chunks_exact(row_bytes).zip(decoded.chunks_exact_mut(self.inputs)) {
                decode_row(isa, self.quant, BlockSize::B64, &BUILT_IN, bytes, row);
            }
            float_dot::matmul(isa, decoded, x, self.inputs, dots);
        }
        for (r, (dots, factor)) in dots.chunks_exact(tokens).zip(&self.factors).enumerate() {
            for (token, dot) in dots.iter().enumerate() {
                give(token, r, dot * factor);
            }
        }
    }

    /// Adds to the columns `rows` of `out` the second matrix times `latents`, tokens x rank.
    ///
    /// # Panics
    /// When the output has fewer columns, or other tokens.
    ///
    /// # Safety
    /// No other thread may use these columns at the same time.
    pub(super) unsafe fn add(&self, isa: Isa, latents: &[f32], rows: Range<usize>, out: &Output<'_>) {
        assert_eq!(latents.len(), out.rows() * self.rank(), "latents of other tokens");
        let (stride, width) = (self.up.len() / self.rank(), self.up.len() / self.rank() / self.outputs);
        let bytes = &self.up[rows.start * width..];
        let columns = FloatColumns { quant: self.quant, bytes, stride, columns: self.rank() };
        // SAFETY: the output has a row for each token and these columns, and they are the caller's own.
        unsafe { columns.add(isa, latents, rows.len(), out.columns(rows)) };
    }

    /// What a file says of it.
    ///
    /// # Panics
    /// When a side has more than 2^32 values.
    pub fn stored(self, id: TensorId, expert: Option<u32>) -> StoredUpdate {
        let [outputs, inputs] =
            [self.outputs, self.inputs].map(|n| u32::try_from(n).expect("sides of a matrix of a file"));
        let Narrow { quant, factors, down, up, .. } = self;
        StoredUpdate { id, expert, outputs, inputs, quant, factors, down, up }
    }

    /// The first matrix: `rank` x inputs.
    pub fn down_rows(&self) -> Vec<f32> {
        decoded(self.quant, &self.down)
    }

    /// The columns of the second: `rank` x outputs, with the scale of the adapter in them.
    pub fn up_columns(&self) -> Vec<f32> {
        let mut columns = decoded(self.quant, &self.up);
        for (column, factor) in columns.chunks_exact_mut(self.outputs.max(1)).zip(&self.factors) {
            column.iter_mut().for_each(|value| *value *= factor);
        }
        columns
    }
}

fn decoded(quant: QuantType, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / if quant == QuantType::F16 { 2 } else { 4 }];
    decode_row(Isa::best(), quant, BlockSize::B64, &BUILT_IN, bytes, &mut values);
    values
}

/// Appends `values` as `quant` says, divided by a power of two, which it gives: the largest is then at least 1 and below 2, so that
/// halves have all their bits. Values that went through this once come out as they are.
fn append(values: &[f32], quant: QuantType, bytes: &mut Vec<u8>) -> f32 {
    if quant != QuantType::F16 {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        return 1.0;
    }
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let power = |value: f32| f32::from_bits(value.max(f32::MIN_POSITIVE).to_bits() & 0x7F80_0000);
    let factor = power(largest);
    // The largest half may round up to 2.
    let factor = power(half::f16::from_f32(largest / factor).to_f32()) * factor;
    bytes.extend(values.iter().flat_map(|value| half::f16::from_f32(value / factor).to_le_bytes()));
    factor
}

/// Memory of a thread.
#[derive(Default)]
pub(super) struct NarrowScratch {
    decoded: Vec<f32>,
    dots: Vec<f32>,
}

/// The first `len` values of a buffer, which grows.
fn first(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
