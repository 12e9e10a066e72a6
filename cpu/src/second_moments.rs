//! Sums of outer products over rows: second moments of activations, which calibration takes of every input of a matrix.
//!
//! An element of a product is one chain of fused multiply-adds over the rows, in their order, from 0; then the chain is added
//! to the element's total. So sums have the same bits whatever tile or thread computes them, as long as the rows come in the
//! same groups.

use super::aligned::AlignedFloats;
use super::backend::Cpu;
use super::lanes::{LANES, Lanes};
use super::vector::{self, Vector, VectorWork};

/// Columns of a panel: two vectors.
const PANEL: usize = 2 * LANES;

/// Rows of two panels that take three quarters of a small first-level cache.
const BLOCK: usize = 96;

/// Rows of activations in panels of 32 columns, each row by row, so that products of two panels read memory in order.
/// Missing columns of the last panel are zeros.
#[derive(Debug, Default)]
pub struct ColumnPanels {
    values: AlignedFloats,
    rows: usize,
    cols: usize,
}

impl ColumnPanels {
    /// Empty; memory is taken with the first rows.
    pub fn new() -> ColumnPanels {
        ColumnPanels::default()
    }

    /// Takes `x`, row major with `cols` columns, in place of what was there.
    ///
    /// # Panics
    /// When `cols` is 0 or does not divide the length of `x`.
    pub fn fill(&mut self, cpu: &Cpu, x: &[f32], cols: usize) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} values are not rows of {cols}", x.len());
        (self.rows, self.cols) = (x.len() / cols, cols);
        let panel = self.rows * PANEL;
        if panel == 0 {
            return;
        }
        let values = self.values.at_least(cols.div_ceil(PANEL) * panel);
        cpu.for_each_chunk(values, panel, x.len(), |i, panel| {
            let columns = i * PANEL..cols.min((i + 1) * PANEL);
            for (to, row) in panel.chunks_exact_mut(PANEL).zip(x.chunks_exact(cols)) {
                let (to, missing) = to.split_at_mut(columns.len());
                to.copy_from_slice(&row[columns.clone()]);
                missing.fill(0.0);
            }
        });
    }

    fn panel(&self, i: usize) -> &[[f32; PANEL]] {
        self.values[i * self.rows * PANEL..][..self.rows * PANEL].as_chunks().0
    }

    fn panels(&self) -> usize {
        self.cols.div_ceil(PANEL)
    }
}

impl Cpu {
    /// Adds the sum over the rows of `x[i] * x[j]` to `totals[i * n + j]` for i <= j, with n columns. What is below the
    /// diagonal stays as it is.
    ///
    /// # Panics
    /// When `totals` is not n x n.
    pub fn add_second_moment(&self, x: &ColumnPanels, totals: &mut [f32]) {
        self.add_products(x, x, true, totals);
    }

    /// Adds the sum over the rows of `x[i] * y[j]` to `totals[i * n + j]` for all i and j, with n columns of `y`.
    ///
    /// # Panics
    /// When `x` and `y` have different numbers of rows, or `totals` is not the columns of the one by those of the other.
    pub fn add_cross_moment(&self, x: &ColumnPanels, y: &ColumnPanels, totals: &mut [f32]) {
        self.add_products(x, y, false, totals);
    }

    fn add_products(&self, x: &ColumnPanels, y: &ColumnPanels, upper: bool, totals: &mut [f32]) {
        assert_eq!(x.rows, y.rows, "outer products of different numbers of rows");
        assert_eq!(totals.len(), x.cols * y.cols, "totals of another size than {} x {}", x.cols, y.cols);
        if x.rows == 0 || totals.is_empty() {
            return;
        }
        let work = totals.len().saturating_mul(x.rows);
        // Of a triangle the first rows are the longest: started first, they end with the rest.
        self.for_each_chunk(totals, PANEL * y.cols, work, |i, totals| {
            let first = if upper { i } else { 0 };
            vector::run(self.isa(), Band { x: x.panel(i), y, first, upper, totals });
        });
    }
}

/// The products of one panel with those of `y` from `first` on, into up to 32 rows of totals.
struct Band<'a> {
    x: &'a [[f32; PANEL]],
    y: &'a ColumnPanels,
    first: usize,
    upper: bool,
    totals: &'a mut [f32],
}

impl VectorWork for Band<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        for j in self.first..self.y.panels() {
            // As many sums as there are registers for, beside one or two vectors of y and one value of x.
            if V::MANY { self.tiles::<V, 8, 2>(j) } else { self.tiles::<V, 4, 1>(j) }
        }
    }
}

impl Band<'_> {
    /// The products with panel `j` of `y`, in tiles of `I` columns of x by `J` vectors of columns of y. A block of rows of both panels
    /// stays in the nearest cache while all tiles pass by.
    #[inline(always)]
    fn tiles<V: Vector, const I: usize, const J: usize>(&mut self, j: usize) {
        let (y, n) = (self.y.panel(j), self.y.cols);
        let rows = self.totals.len() / n;
        let mut sums = [[0.0; LANES]; PANEL * PANEL / LANES];
        for (x, y) in self.x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
            for i in (0..rows).step_by(I) {
                for part in 0..PANEL / (J * LANES) {
                    let place = i * (PANEL / LANES) + part * I * J;
                    tile::<V, I, J>(x, y, i / I, part, &mut sums[place..place + I * J]);
                }
            }
        }
        for row in 0..rows {
            // The band starts at the diagonal.
            let skip = if self.upper { self.first * PANEL + row } else { 0 };
            let totals = &mut self.totals[row * n..][..n];
            for vector in 0..PANEL / LANES {
                let (part, k) = (vector / J, vector % J);
                let place = row / I * I * (PANEL / LANES) + part * I * J + row % I * J + k;
                for (c, sum) in (j * PANEL + vector * LANES..n).zip(sums[place]) {
                    if c >= skip {
                        totals[c] += sum;
                    }
                }
            }
        }
    }
}

/// Adds columns `I * i ..` of x times vectors `J * j ..` of y, row by row, to `sums`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see the first comment inside")]
fn tile<V: Vector, const I: usize, const J: usize>(
    x: &[[f32; PANEL]],
    y: &[[f32; PANEL]],
    i: usize,
    j: usize,
    sums: &mut [Lanes],
) {
    // Loops over indices: iterators over arrays are calls where the compiler inlines little, which keep the sums in memory.
    let rows = x.len().min(y.len());
    let (x, y) = (x.as_flattened().as_chunks::<I>().0, y.as_flattened().as_chunks::<LANES>().0);
    let mut acc = [[V::splat(0.0); J]; I];
    for c in 0..I {
        for k in 0..J {
            acc[c][k] = V::from_lanes(&sums[c * J + k]);
        }
    }
    for row in 0..rows {
        let x = &x[row * (PANEL / I) + i];
        let mut vectors = [V::splat(0.0); J];
        for k in 0..J {
            vectors[k] = V::from_lanes(&y[row * (PANEL / LANES) + j * J + k]);
        }
        for c in 0..I {
            let x = V::splat(x[c]);
            for k in 0..J {
                acc[c][k] = acc[c][k].fma(x, vectors[k]);
            }
        }
    }
    for c in 0..I {
        for k in 0..J {
            sums[c * J + k] = acc[c][k].to_lanes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    fn values(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7_919 + seed * 31) % 2_003) as f32 / 1_000.0 - 1.0).collect()
    }

    fn packed(cpu: &Cpu, x: &[f32], cols: usize) -> ColumnPanels {
        let mut panels = ColumnPanels::new();
        panels.fill(cpu, x, cols);
        panels
    }

    /// Shapes around panels and tiles, also of no row.
    const SHAPES: [(usize, usize); 7] = [(1, 1), (5, 31), (7, 32), (64, 33), (0, 8), (100, 100), (512, 77)];

    #[test]
    fn moments_are_the_sums_of_products_in_the_order_of_the_rows() {
        let cpu = Cpu::new(Isa::best());
        for (rows, cols) in SHAPES {
            let (x, y) = (values(rows * cols, 1), values(rows * (cols + 3), 2));
            let (px, py) = (packed(&cpu, &x, cols), packed(&cpu, &y, cols + 3));
            let mut second = vec![0.5; cols * cols];
            cpu.add_second_moment(&px, &mut second);
            let mut cross = vec![0.5; cols * (cols + 3)];
            cpu.add_cross_moment(&px, &py, &mut cross);
            let chain = |a: &[f32], n: usize, i: usize, b: &[f32], m: usize, j: usize| {
                0.5 + (0..rows).fold(0f32, |sum, t| a[t * n + i].mul_add(b[t * m + j], sum))
            };
            for i in 0..cols {
                for j in 0..cols {
                    let expected = if i <= j { chain(&x, cols, i, &x, cols, j) } else { 0.5 };
                    assert_eq!(second[i * cols + j], expected, "{rows} x {cols}: {i}, {j}");
                }
                for j in 0..cols + 3 {
                    let found = cross[i * (cols + 3) + j];
                    assert_eq!(found, chain(&x, cols, i, &y, cols + 3, j), "{rows} x {cols}: {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_and_thread_count_gives_the_same_bits() {
        let (rows, cols) = (300, 205);
        let (x, y) = (values(rows * cols, 3), values(rows * cols, 4));
        let all = |cpu: Cpu| {
            let (px, py) = (packed(&cpu, &x, cols), packed(&cpu, &y, cols));
            let (mut second, mut cross) = (vec![0.0; cols * cols], vec![0.0; cols * cols]);
            for _ in 0..2 {
                cpu.add_second_moment(&px, &mut second);
                cpu.add_cross_moment(&px, &py, &mut cross);
            }
            (second, cross)
        };
        let oracle = all(Cpu::with_threads(Isa::SCALAR, 1).unwrap());
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let cpu = Cpu::with_threads(isa, threads).unwrap();
                assert!(all(cpu) == oracle, "{isa:?}, {threads} threads");
            }
        }
    }
}
