//! The triangular factor of a symmetric positive definite matrix: what error feedback is computed with.
//!
//! `H = U D U'` with U unit upper triangular: the Cholesky factorization of the matrix with rows and columns in reverse
//! order. It is what feedback needs without an inverse (LDLQ, QuIP, arXiv 2307.13304): if columns are quantized from the
//! first to the last and `e_i` is the error of column i, the best target of column j is `w_j + sum_{i<j} e_i U_ij`, and
//! the loss `e H e'` is `sum D_j (target_j - value_j)^2`.
//!
//! Everything runs in `f64`, tile by tile, every tile in one fixed order of fused operations: the bits do not depend on
//! the instruction set or the number of threads.

use qsf_runtime::cpu::{Isa, Vectorized};
use rayon::prelude::*;

/// Rows and columns of a tile.
const TILE: usize = 64;

/// Rows of a tile that one step of the product holds in registers.
const STRIP: usize = 16;

/// Columns of the same.
const WIDTH: usize = 4;

/// Columns of a tile, each with its rows.
type Tile = [[f64; TILE]; TILE];

/// A pivot is not positive: the matrix is not positive definite to working precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotPositive;

/// `H = U D U'`: the Cholesky factor of the matrix in reverse order, column by column, the tiles of each from the
/// diagonal down.
pub(super) struct Factor {
    n: usize,
    columns: Vec<Vec<Box<Tile>>>,
}

impl Factor {
    /// `U_ij` for `i <= j < n`; 1 where they are equal.
    pub(super) fn upper(&self, i: usize, j: usize) -> f64 {
        let (r, c) = (self.n - 1 - i, self.n - 1 - j);
        let tiles = &self.columns[c / TILE];
        tiles[r / TILE - c / TILE][c % TILE][r % TILE] / tiles[0][c % TILE][c % TILE]
    }

    /// `D_jj` for `j < n`.
    pub(super) fn pivot(&self, j: usize) -> f64 {
        let c = self.n - 1 - j;
        let root = self.columns[c / TILE][0][c % TILE][c % TILE];
        root * root
    }
}

/// Smallest pivot taken for positive, as a part of the diagonal's entry: below it the digits of `f64` are spent.
const SMALLEST_PIVOT: f64 = 1e-13;

/// Factors the symmetric matrix that `entry(row, col)` gives for `row <= col < n`.
///
/// # Errors
/// When it is not positive definite.
pub(super) fn factor(
    isa: Isa,
    n: usize,
    entry: impl Fn(usize, usize) -> f64 + Sync,
) -> Result<Factor, NotPositive> {
    let tiles = n.div_ceil(TILE);
    // Column by column of the reversed matrix, its tiles from the diagonal down.
    let mut columns: Vec<Vec<Box<Tile>>> = (0..tiles)
        .into_par_iter()
        .map(|k| (k..tiles).map(|i| reversed_tile(n, i, k, &entry)).collect())
        .collect();
    for k in 0..tiles {
        let (done, rest) = columns.split_at_mut(k);
        let column = &mut rest[0];
        column.par_iter_mut().enumerate().for_each(|(i, tile)| {
            for (j, earlier) in done.iter().enumerate() {
                isa.vectorize(Subtract { tile, left: &earlier[k + i - j], right: &earlier[k - j] });
            }
        });
        let (diagonal, below) = column.split_at_mut(1);
        isa.vectorize(FactorTile(&mut diagonal[0]))?;
        below.par_iter_mut().for_each(|tile| isa.vectorize(SolveTile { tile, triangle: &diagonal[0] }));
    }
    Ok(Factor { n, columns })
}

/// Tile (i, k) of the matrix in reverse order; the identity past its end.
fn reversed_tile(n: usize, i: usize, k: usize, entry: &impl Fn(usize, usize) -> f64) -> Box<Tile> {
    let mut tile = Box::new([[0.0; TILE]; TILE]);
    for (c, column) in tile.iter_mut().enumerate() {
        for (r, out) in column.iter_mut().enumerate() {
            let (row, col) = (i * TILE + r, k * TILE + c);
            *out = if row >= n || col >= n {
                f64::from(u8::from(row == col))
            } else if row >= col {
                entry(n - 1 - row, n - 1 - col)
            } else {
                0.0
            };
        }
    }
    tile
}

/// `tile -= left right'`.
struct Subtract<'a> {
    tile: &'a mut Tile,
    left: &'a Tile,
    right: &'a Tile,
}

impl Vectorized for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for c in (0..TILE).step_by(WIDTH) {
            for r in (0..TILE).step_by(STRIP) {
                let mut sums = [[0.0f64; STRIP]; WIDTH];
                for (left, right) in self.left.iter().zip(self.right) {
                    let left: &[f64; STRIP] = left[r..].first_chunk().unwrap_or(&[0.0; STRIP]);
                    let right: &[f64; WIDTH] = right[c..].first_chunk().unwrap_or(&[0.0; WIDTH]);
                    for j in 0..WIDTH {
                        for l in 0..STRIP {
                            sums[j][l] = left[l].mul_add(right[j], sums[j][l]);
                        }
                    }
                }
                for (column, sums) in self.tile[c..].iter_mut().zip(&sums) {
                    for (out, sum) in column[r..].iter_mut().zip(sums) {
                        *out -= sum;
                    }
                }
            }
        }
    }
}

/// The Cholesky factor of a tile of the diagonal, in its place.
struct FactorTile<'a>(&'a mut Tile);

impl Vectorized for FactorTile<'_> {
    type Output = Result<(), NotPositive>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let before: [f64; TILE] = std::array::from_fn(|j| self.0[j][j]);
        for j in 0..TILE {
            let pivot = self.0[j][j];
            // Also where it is NaN.
            if !(pivot > SMALLEST_PIVOT * before[j] && pivot < f64::INFINITY) {
                return Err(NotPositive);
            }
            let (done, later) = self.0.split_at_mut(j + 1);
            let column = &mut done[j];
            let root = pivot.sqrt();
            column[..j].fill(0.0);
            column[j..].iter_mut().for_each(|v| *v /= root);
            for (c, out) in later.iter_mut().enumerate() {
                subtract_column(out, column, column[j + 1 + c]);
            }
        }
        Ok(())
    }
}

/// `tile triangle'^-1` in the place of `tile`.
struct SolveTile<'a> {
    tile: &'a mut Tile,
    triangle: &'a Tile,
}

impl Vectorized for SolveTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for j in 0..TILE {
            let (done, later) = self.tile.split_at_mut(j + 1);
            let column = &mut done[j];
            column.iter_mut().for_each(|v| *v /= self.triangle[j][j]);
            for (c, out) in later.iter_mut().enumerate() {
                subtract_column(out, column, self.triangle[j][j + 1 + c]);
            }
        }
    }
}

/// `out -= times * column`.
#[inline(always)]
fn subtract_column(out: &mut [f64; TILE], column: &[f64; TILE], times: f64) {
    for (out, v) in out.iter_mut().zip(column) {
        *out = (-times).mul_add(*v, *out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A positive definite matrix without structure.
    fn entry(row: usize, col: usize) -> f64 {
        let (low, high) = (row.min(col), row.max(col));
        let noise = ((low * 7919 + high * 104_729) % 1000) as f64 / 1000.0 - 0.5;
        if row == col { 120.0 + noise } else { noise }
    }

    #[test]
    fn the_factors_multiply_to_the_matrix() {
        for n in [1, 33, 64, 65, 200] {
            let factor = factor(Isa::best(), n, entry).unwrap();
            for i in 0..n {
                assert_eq!(factor.upper(i, i), 1.0);
                for j in i..n {
                    let product: f64 =
                        (j..n).map(|k| factor.upper(i, k) * factor.pivot(k) * factor.upper(j, k)).sum();
                    assert!((product - entry(i, j)).abs() < 1e-10, "{n}: {i} {j}");
                }
            }
        }
    }

    #[test]
    fn the_factor_has_the_same_bits_on_every_instruction_set() {
        let bits = |isa| {
            let factor = factor(isa, 150, entry).unwrap();
            (0..150).flat_map(|i| (i..150).map(move |j| (i, j))).fold(0u64, |hash, (i, j)| {
                hash.rotate_left(5) ^ factor.upper(i, j).to_bits() ^ factor.pivot(j).to_bits()
            })
        };
        for isa in Isa::available() {
            assert_eq!(bits(isa), bits(Isa::SCALAR), "{isa:?}");
        }
    }

    #[test]
    fn a_matrix_with_a_negative_direction_has_no_factor() {
        let indefinite = |row: usize, col: usize| if row == col { 1.0 } else { 2.0 };
        assert!(factor(Isa::best(), 70, indefinite).is_err());
        assert!(factor(Isa::best(), 3, |_, _| f64::NAN).is_err());
    }
}
