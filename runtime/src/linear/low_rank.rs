//! What adapters add to a matrix: the product of two narrow ones, `up * (down * x)` (LoRA, arXiv 2106.09685). It is never
//! multiplied out, so the matrix itself may be of any type, and may come from disk.

use std::borrow::Cow;

use qsf_cpu::{Cpu, Isa, Vectorized, add_scaled, float_dot};

/// Outputs that stay in registers while all columns are added to them.
const BLOCK: usize = 64;

/// An update of low rank.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank {
    /// `rank` x inputs.
    down: Vec<f32>,
    /// `rank` x outputs: columns of the second matrix, so that each is added to a whole output.
    up: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl LowRank {
    /// `scale * up * down`: `down` is rank x `inputs`, `up` is `outputs` x rank, both row major.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    pub fn new(down: Vec<f32>, up: &[f32], [outputs, inputs]: [usize; 2], scale: f32) -> LowRank {
        let rank = down.len() / inputs.max(1);
        assert_eq!((down.len(), up.len()), (rank * inputs, outputs * rank), "matrices of another rank");
        let mut columns = vec![0.0; up.len()];
        for (output, row) in up.chunks_exact(rank.max(1)).enumerate() {
            for (r, value) in row.iter().enumerate() {
                columns[r * outputs + output] = scale * value;
            }
        }
        LowRank { down, up: columns, inputs, outputs }
    }

    /// Inputs that it is summed over.
    pub fn rank(&self) -> usize {
        self.down.len() / self.inputs.max(1)
    }

    /// Outputs and inputs.
    pub fn shape(&self) -> [usize; 2] {
        [self.outputs, self.inputs]
    }

    /// The first matrix: `rank` x inputs.
    pub fn down_rows(&self) -> Cow<'_, [f32]> {
        Cow::Borrowed(&self.down)
    }

    /// The columns of the second: `rank` x outputs, with the scale of the adapter in them.
    pub fn up_columns(&self) -> Cow<'_, [f32]> {
        Cow::Borrowed(&self.up)
    }

    /// Adds another update of the same matrix: the rank is the sum of both.
    ///
    /// # Panics
    /// When it is of another shape.
    pub fn join(&mut self, other: &LowRank) {
        assert_eq!(self.shape(), other.shape(), "updates of different matrices");
        self.down.extend_from_slice(&other.down);
        self.up.extend_from_slice(&other.up);
    }

    /// Adds to `row`, which is row `output` of the matrix, what the update has there.
    ///
    /// # Panics
    /// When there is no such row, or it has another length.
    pub fn add_to_row(&self, isa: Isa, output: usize, row: &mut [f32]) {
        for (down, up) in self.down.chunks_exact(self.inputs).zip(self.up.chunks_exact(self.outputs)) {
            add_scaled(isa, row, up[output], down);
        }
    }

    /// `out += up * (down * x)` for each row of `x`, on the threads of `cpu`. `latent` is a buffer.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    pub fn add(&self, cpu: &Cpu, x: &[f32], latent: &mut Vec<f32>, out: &mut [f32]) {
        let (rank, tokens) = (self.rank(), x.len() / self.inputs);
        assert_eq!((x.len(), out.len()), (tokens * self.inputs, tokens * self.outputs), "rows of others");
        if rank == 0 || tokens == 0 {
            return;
        }
        latent.clear();
        latent.resize(tokens * rank, 0.0);
        let work = rank * (self.inputs + self.outputs);
        cpu.for_each_rows([(latent, rank), (out, self.outputs)], work, |first, [latent, out]| {
            let tokens = out.len() / self.outputs;
            let x = &x[first * self.inputs..][..tokens * self.inputs];
            float_dot::matmul(cpu.isa(), &self.down, x, self.inputs, latent);
            cpu.isa().vectorize(AddColumns { columns: &self.up, latent, tokens, width: self.outputs, out });
        });
    }
}

/// Adds to each of `tokens` rows of `out` the columns, each as often as `latent` says: rank x `tokens`.
struct AddColumns<'a> {
    columns: &'a [f32],
    latent: &'a [f32],
    tokens: usize,
    width: usize,
    out: &'a mut [f32],
}

impl Vectorized for AddColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let AddColumns { columns, latent, tokens, width, out } = self;
        for (token, row) in out.chunks_exact_mut(width).enumerate() {
            let pairs = || latent.iter().skip(token).step_by(tokens).zip(columns.chunks_exact(width));
            let (blocks, rest) = row.as_chunks_mut::<BLOCK>();
            for (at, out) in blocks.iter_mut().enumerate() {
                for (factor, column) in pairs() {
                    let column: &[f32; BLOCK] = &column.as_chunks().0[at];
                    for (out, value) in out.iter_mut().zip(column) {
                        *out = factor.mul_add(*value, *out);
                    }
                }
            }
            let first = width - rest.len();
            for (factor, column) in pairs() {
                for (out, value) in rest.iter_mut().zip(&column[first..]) {
                    *out = factor.mul_add(*value, *out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as f32 / 32_768.0 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn it_adds_what_the_product_of_both_matrices_gives_and_the_same_bits_everywhere() {
        for (outputs, inputs, rank, tokens) in [(37, 19, 3, 1), (16, 64, 8, 5), (5, 7, 1, 33)] {
            let (down, up) = (numbers(rank * inputs, 1), numbers(outputs * rank, 2));
            let (x, before) = (numbers(tokens * inputs, 3), numbers(tokens * outputs, 4));
            let update = LowRank::new(down.clone(), &up, [outputs, inputs], 0.5);
            let run = |cpu: &Cpu| {
                let mut out = before.clone();
                update.add(cpu, &x, &mut Vec::new(), &mut out);
                out
            };
            let out = run(&Cpu::new(Isa::best()));
            assert_eq!(out, run(&Cpu::new(Isa::SCALAR)));
            for (at, out) in out.iter().enumerate() {
                let (t, o) = (at / outputs, at % outputs);
                let mut expected = f64::from(before[at]);
                for r in 0..rank {
                    let dot = (0..inputs).map(|i| f64::from(down[r * inputs + i] * x[t * inputs + i]));
                    expected += 0.5 * f64::from(up[o * rank + r]) * dot.sum::<f64>();
                }
                assert!((f64::from(*out) - expected).abs() < 1e-5, "{out} {expected}");
            }
        }
    }

    #[test]
    fn updates_of_one_matrix_are_added_up_and_a_row_is_that_of_the_product() {
        let shape = [4, 3];
        let mut both = LowRank::new(numbers(6, 1), &numbers(8, 2), shape, 2.0);
        let other = LowRank::new(numbers(3, 5), &numbers(4, 6), shape, -1.0);
        let (mut apart, mut together) = (vec![0.0; 3], vec![0.0; 3]);
        both.add_to_row(Isa::best(), 2, &mut apart);
        other.add_to_row(Isa::best(), 2, &mut apart);
        both.join(&other);
        both.add_to_row(Isa::best(), 2, &mut together);
        assert_eq!((both.rank(), apart), (3, together));
    }
}
