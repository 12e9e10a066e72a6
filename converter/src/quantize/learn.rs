//! Grids learned from weights: what the levels of types with a table should be for the least error.
//!
//! Weighted Lloyd iteration (IEEE Trans. Inf. Theory 28(2), 1982): blocks choose their scales, grid and codes under the
//! present grid, then every level moves to the weighted mean of the weights that chose it, in units of their block's
//! scale. The second grid is the first plus one number, so levels and shift are a small problem of least squares.

use qsf_format::{CodeTables, Grid as StoredGrid, QuantType};
use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::LANES;
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use rayon::prelude::*;

use super::by_type::{TypeWork, by_type};
use super::grid_rows::GridRows;
use super::learned::Grid;
use super::levels::{Levels, Table};
use super::rows::BlockType;
use super::strips::STRIP;
use super::weights::ColumnWeights;

/// Iterations at most; ten have always been enough to come to rest.
const ROUNDS: usize = 16;

/// Turns between levels and shift, whose least squares hang on each other.
const TURNS: usize = 30;

/// Largest magnitude of a level: the finer the unit, the less rounding costs.
const LARGEST_LEVEL: f64 = 127.0;

/// Most levels of a table.
const MOST_LEVELS: usize = 32;

/// Rows of a matrix to learn from.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// Values of a row.
    pub cols: usize,
    /// Whole rows.
    pub values: &'a [f32],
    /// What an error in each column counts; `None` for all alike.
    pub importance: Option<&'a [f32]>,
}

/// What the weights under one code say, by grid and code.
#[derive(Debug, Clone, Copy)]
struct Votes {
    weight: [[f64; MOST_LEVELS]; 2],
    sum: [[f64; MOST_LEVELS]; 2],
    error: f64,
}

/// `start` with the grids of types that have a table fitted to these weights, each matrix counting by its size. The same result for any
/// number of threads and every instruction set.
///
/// # Panics
/// When lengths do not fit `cols`.
pub fn learn_tables(isa: Isa, samples: &[Sample<'_>], start: &CodeTables) -> CodeTables {
    let mut tables = *start;
    for quant in QuantType::ALL {
        if let Some(grid) = tables.grid_mut(quant) {
            let bits = quant.encoding().code_bits();
            by_type(quant, LearnGrid { isa, samples, bits, grid });
        }
    }
    tables
}

/// A grid that is to be learned.
struct LearnGrid<'a> {
    isa: Isa,
    samples: &'a [Sample<'a>],
    /// Bits of its codes.
    bits: usize,
    /// Where learning begins, and then what was learned.
    grid: &'a mut StoredGrid,
}

impl TypeWork for LearnGrid<'_> {
    type Output = ();

    fn floats(self) {}

    fn blocks<T: BlockType>(self, _block_type: T) {}

    fn table<const GAPS: usize>(self, clipped: f32) {
        let mut best = (f64::INFINITY, *self.grid);
        let mut present = *self.grid;
        for _ in 0..ROUNDS {
            let levels = Table::<GAPS>::new(present.levels());
            let grid = Grid { levels, shift: f32::from(present.shift), clipped };
            let mut votes = Votes::NONE;
            for sample in self.samples {
                votes.add(&of_sample(self.isa, sample, &grid, self.bits));
            }
            if votes.error < best.0 {
                best = (votes.error, present);
            }
            let next = votes.fit(&present);
            if next == present {
                break;
            }
            present = next;
        }
        *self.grid = best.1;
    }

    fn even(self, _clipped: f32) {}

    fn trellis<const BITS: usize>(self, _scale: f32) {}
}

/// The votes of one matrix, in units of its mean square and mean importance.
fn of_sample<L: Levels + Copy>(isa: Isa, sample: &Sample<'_>, grid: &Grid<L>, bits: usize) -> Votes {
    let Sample { cols, values, importance } = *sample;
    assert!(values.len().is_multiple_of(cols), "{} values in rows of {cols}", values.len());
    let weights = ColumnWeights::new(qsf_format::BlockSize::B32, cols, importance);
    let mut counts = vec![1.0f64; cols];
    if let Some(importance) = importance {
        let mean = importance.iter().map(|v| f64::from(*v)).sum::<f64>() / cols as f64;
        if mean > 0.0 {
            (counts.iter_mut().zip(importance)).for_each(|(count, v)| *count = f64::from(*v) / mean);
        }
    }
    let square: f64 = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / values.len().max(1) as f64;
    let unit = if square > 0.0 { 1.0 / square } else { 0.0 };
    counts.iter_mut().for_each(|count| *count *= unit);
    let rows =
        GridRows { isa, grid: *grid, bits, cols, feedback: None, importance: weights.flat(), descents: 0 };
    let parts: Vec<Votes> = values
        .par_chunks(LANES * cols)
        .map(|values| {
            let mut votes = Votes::NONE;
            vector::run(isa, Vote { rows: &rows, values, counts: &counts, votes: &mut votes });
            votes
        })
        .collect();
    parts.iter().fold(Votes::NONE, |mut sum, votes| {
        sum.add(votes);
        sum
    })
}

/// The work on at most 16 rows.
struct Vote<'a, L> {
    rows: &'a GridRows<'a, L>,
    values: &'a [f32],
    counts: &'a [f64],
    votes: &'a mut Votes,
}

impl<L: Levels> VectorWork for Vote<'_, L> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // Rows whose scale leaves binary16 have no vote.
        let Some(coded) = self.rows.code::<V>(self.values) else { return };
        for lane in 0..self.values.len() / self.rows.cols {
            for (j, count) in self.counts.iter().enumerate() {
                let block = &coded.blocks[j / STRIP];
                let step = f64::from(coded.coder.step(block, lane));
                if step == 0.0 {
                    continue;
                }
                let (original, value) = (coded.group.originals[j][lane], coded.group.values[j][lane]);
                let code = usize::from(coded.coder.code(block, lane, value));
                let second = block.second[lane] as usize;
                let weight = count * step * step;
                self.votes.weight[second][code] += weight;
                self.votes.sum[second][code] += weight * (f64::from(original) / step);
                self.votes.error += count * (f64::from(original) - f64::from(value)).powi(2);
            }
        }
    }
}

impl Votes {
    const NONE: Votes = Votes { weight: [[0.0; MOST_LEVELS]; 2], sum: [[0.0; MOST_LEVELS]; 2], error: 0.0 };

    fn add(&mut self, other: &Votes) {
        for second in 0..2 {
            for code in 0..MOST_LEVELS {
                self.weight[second][code] += other.weight[second][code];
                self.sum[second][code] += other.sum[second][code];
            }
        }
        self.error += other.error;
    }

    /// The grid that suits these votes best, where `present` is as good a guess as any for codes without votes.
    fn fit(&self, present: &StoredGrid) -> StoredGrid {
        let mut levels: Vec<f64> = present.levels().iter().map(|level| f64::from(*level)).collect();
        let mut shift = f64::from(present.shift);
        for _ in 0..TURNS {
            for (code, level) in levels.iter_mut().enumerate() {
                let weight = self.weight[0][code] + self.weight[1][code];
                if weight > 0.0 {
                    *level = (self.sum[0][code] + self.sum[1][code] - shift * self.weight[1][code]) / weight;
                }
            }
            let (mut sum, mut weight) = (0.0, 0.0);
            for (code, level) in levels.iter().enumerate() {
                sum += self.sum[1][code] - level * self.weight[1][code];
                weight += self.weight[1][code];
            }
            if weight > 0.0 {
                shift = sum / weight;
            }
        }
        levels.sort_by(f64::total_cmp);
        let largest =
            levels.iter().flat_map(|level| [level.abs(), (level + shift).abs()]).fold(1.0, f64::max);
        let rounded = |v: f64| (v * LARGEST_LEVEL / largest).round() as i8;
        let levels: Vec<i8> = levels.into_iter().map(rounded).collect();
        StoredGrid::new(&levels, rounded(shift))
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::BUILT_IN;

    use super::*;

    #[test]
    fn learned_grids_suit_the_weights_that_they_were_learned_from_better() {
        // Four clusters of its own per block, unlike weights of models.
        let values: Vec<f32> = (0..64 * 96)
            .map(|i| {
                let (block, j) = (i / 32, i % 32);
                let cluster = [-1.0, -0.9, 0.5, 1.0][(j * 7 + block) % 4];
                cluster * (1.0 + (block % 5) as f32) + 0.01 * ((i * i) as f32 * 0.37).sin()
            })
            .collect();
        let samples = [Sample { cols: 96, values: &values, importance: None }];
        let error = |isa, tables: &CodeTables| {
            let (levels, shift) = tables.grid(QuantType::N2).unwrap();
            let grid = Grid { levels: Table::<3>::new(levels), shift: f32::from(shift), clipped: 0.4 };
            of_sample(isa, &samples[0], &grid, 2).error
        };
        let learned = learn_tables(Isa::best(), &samples, &BUILT_IN);
        let (before, after) = (error(Isa::best(), &BUILT_IN), error(Isa::best(), &learned));
        assert!(after < 0.2 * before, "{after} after {before}");
        assert_eq!(learned.sums(QuantType::T2), BUILT_IN.sums(QuantType::T2));
        for isa in Isa::available() {
            assert_eq!(learn_tables(isa, &samples, &BUILT_IN), learned, "{isa:?}");
        }
    }
}
