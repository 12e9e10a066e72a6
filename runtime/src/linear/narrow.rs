//! Adapters while a model runs: the narrow matrices of [`LowRank`], stored as they are read.

use std::ops::Range;

use qsf_cpu::vector::{self, Vector, VectorWork};
use qsf_cpu::{Isa, decode_row, float_dot, float_matvec, lanes::LANES};
use qsf_format::{BUILT_IN, BlockSize, QuantType};

use super::low_rank::LowRank;
use super::output::Output;
use zerocopy::IntoBytes as _;

/// From so many tokens on, halves are decoded before they are multiplied.
const FEW: usize = 4;
/// Vectors of outputs that stay in registers while all columns are added to them.
const VECTORS: usize = 4;

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

    /// Adds another update of the same matrix: the rank is the sum of both.
    ///
    /// # Panics
    /// When it is of another shape, or stored otherwise.
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
    /// # Safety
    /// No other thread may use these columns at the same time.
    pub(super) unsafe fn add(
        &self,
        isa: Isa,
        latents: &[f32],
        rows: Range<usize>,
        decoded: &mut Vec<f32>,
        out: &Output<'_>,
    ) {
        let (width, stride) = (self.up.len() / self.rank(), rows.len());
        let bytes = width / self.outputs;
        let stored = Columns { quant: self.quant, bytes: &self.up[rows.start * bytes..], stride: width };
        if latents.len() < FEW * self.rank() || self.quant != QuantType::F16 {
            return vector::run(isa, AddColumns { columns: stored, latents, rank: self.rank(), rows, out });
        }
        // Many tokens: each value is decoded once.
        let decoded = first(decoded, self.rank() * stride);
        for (column, decoded) in stored.bytes.chunks(width).zip(decoded.chunks_exact_mut(stride)) {
            decode_row(isa, self.quant, BlockSize::B64, &BUILT_IN, &column[..stride * bytes], decoded);
        }
        let columns = Columns { quant: QuantType::F32, bytes: decoded.as_bytes(), stride: stride * size_of::<f32>() };
        vector::run(isa, AddColumns { columns, latents, rank: self.rank(), rows, out });
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

/// Appends `values` as `quant` says, divided by a power of two, which it gives: the largest is then from 1 to 2, so that halves have
/// all their bits.
fn append(values: &[f32], quant: QuantType, bytes: &mut Vec<u8>) -> f32 {
    if quant != QuantType::F16 {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        return 1.0;
    }
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let factor = f32::from_bits(largest.max(f32::MIN_POSITIVE).to_bits() & 0x7F80_0000);
    bytes.extend(values.iter().flat_map(|value| half::f16::from_f32(value / factor).to_le_bytes()));
    factor
}

/// Memory of a thread.
#[derive(Default)]
pub(super) struct NarrowScratch {
    decoded: Vec<f32>,
    dots: Vec<f32>,
    pub latents: Vec<f32>,
    pub columns: Vec<f32>,
}

/// The first `len` values of a buffer, which grows.
pub(super) fn first(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// Columns of some outputs, each `stride` bytes behind the one before.
struct Columns<'a> {
    /// F16 or F32.
    quant: QuantType,
    bytes: &'a [u8],
    stride: usize,
}

struct AddColumns<'a> {
    columns: Columns<'a>,
    latents: &'a [f32],
    rank: usize,
    rows: Range<usize>,
    out: &'a Output<'a>,
}

impl VectorWork for AddColumns<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        if self.columns.quant == QuantType::F16 {
            self.add::<V, { 2 * LANES }>(|bytes| {
                V::from_halves(&std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])))
            });
        } else {
            self.add::<V, { 4 * LANES }>(|bytes| {
                let float = |i| f32::from_le_bytes(std::array::from_fn(|b| bytes[4 * i + b]));
                V::from_lanes(&std::array::from_fn(float))
            });
        }
    }
}

impl AddColumns<'_> {
    /// With `read`, which makes 16 numbers of so many bytes. Their number is known to the compiler, or each would be checked.
    #[inline(always)]
    fn add<V: Vector, const BYTES: usize>(self, read: impl Fn(&[u8; BYTES]) -> V + Copy) {
        let AddColumns { columns, latents, rank, rows, out } = self;
        let width = BYTES / LANES;
        for (token, latents) in latents.chunks_exact(rank).enumerate() {
            // SAFETY: these columns are the caller's, by the contract of `Narrow::add`.
            let out = unsafe { out.part_of_row(token, rows.clone()) };
            let from = |row: usize| latents.iter().zip(columns.bytes[row * width..].chunks(columns.stride));
            let (blocks, rest) = out.as_chunks_mut::<{ VECTORS * LANES }>();
            let in_blocks = blocks.len() * VECTORS * LANES;
            for (at, block) in blocks.iter_mut().enumerate() {
                let (vectors, _) = block.as_chunks_mut::<LANES>();
                let mut sums: [V; VECTORS] = std::array::from_fn(|i| V::from_lanes(&vectors[i]));
                for (factor, column) in from(at * VECTORS * LANES) {
                    let factor = V::splat(*factor);
                    let vectors = column.as_chunks::<BYTES>().0;
                    for (sum, bytes) in sums.iter_mut().zip(&vectors[..VECTORS]) {
                        *sum = sum.fma(factor, read(bytes));
                    }
                }
                for (vector, sum) in vectors.iter_mut().zip(sums) {
                    *vector = sum.to_lanes();
                }
            }
            for (at, values) in rest.chunks_mut(LANES).enumerate() {
                let mut sum = V::load(values);
                for (factor, column) in from(in_blocks + at * LANES) {
                    let mut bytes = [0; BYTES];
                    bytes[..values.len() * width].copy_from_slice(&column[..values.len() * width]);
                    sum = sum.fma(V::splat(*factor), read(&bytes));
                }
                values.copy_from_slice(&sum.to_lanes()[..values.len()]);
            }
        }
    }
}
