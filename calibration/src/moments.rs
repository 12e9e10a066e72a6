//! Moments of one input of matrices: sums over tokens, in one order.
//!
//! Sums of values and squares are taken token by token in f64; sums of products in f32 within a chunk of at most 512 tokens,
//! and of chunks in f32 as well. The forward pass has the same bits on every machine: so have these.

use qsf_runtime::Result;
use qsf_runtime::cpu::zeros;
use qsf_runtime::cpu::{ColumnPanels, Cpu, Vectorized};

/// How much is kept of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Mean and mean square of each column.
    Diagonal,
    /// Mean and mean square of each column, and the mean of `x x^T`, n x n.
    Full,
}

/// A column whose mean square is more than so many times the median is an outlier.
const OUTLIER: f64 = 100.0;

/// Columns that stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Channels {
    /// Always 0.
    pub dead: usize,
    /// Of a mean square more than 100 times the median of those that live.
    pub outliers: usize,
}

/// Moments of an input of n columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    tokens: u64,
    sums: Vec<f64>,
    squares: Vec<f64>,
    /// Sums of products, n x n, of which only those on and above the diagonal are kept up.
    products: Option<Vec<f32>>,
}

impl Moments {
    /// Of no token, for `cols` columns.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(cols: usize, detail: Detail) -> Result<Moments> {
        let products = match detail {
            Detail::Diagonal => None,
            Detail::Full => Some(zeros(cols.saturating_mul(cols), "second moments")?),
        };
        Ok(Moments { tokens: 0, sums: vec![0.0; cols], squares: vec![0.0; cols], products })
    }

    /// Of so many tokens whose values squared have these means; the values themselves are taken to have a mean of 0.
    pub fn of_mean_squares(tokens: u64, mean_squares: Vec<f64>) -> Moments {
        let squares = mean_squares.into_iter().map(|mean| mean * tokens as f64).collect::<Vec<_>>();
        Moments { tokens, sums: vec![0.0; squares.len()], squares, products: None }
    }

    /// Columns, n.
    pub fn cols(&self) -> usize {
        self.sums.len()
    }

    /// Tokens seen.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// What is kept.
    pub fn detail(&self) -> Detail {
        if self.products.is_some() { Detail::Full } else { Detail::Diagonal }
    }

    /// Adds the rows of a chunk; `panels` holds the same rows.
    pub(crate) fn add(&mut self, cpu: &Cpu, rows: &[f32], panels: &ColumnPanels) {
        self.tokens += (rows.len() / self.cols()) as u64;
        cpu.isa().vectorize(AddSquares { rows, sums: &mut self.sums, squares: &mut self.squares });
        if let Some(products) = &mut self.products {
            cpu.add_second_moment(panels, products);
        }
    }

    /// Adds the sums of `other`; without products where one of the two has none.
    ///
    /// # Panics
    /// When it has other columns.
    pub fn merge(&mut self, other: &Moments) {
        assert_eq!(self.cols(), other.cols(), "moments of other columns");
        self.tokens = self.tokens.saturating_add(other.tokens);
        let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.sums, &other.sums);
        add(&mut self.squares, &other.squares);
        match (&mut self.products, &other.products) {
            (Some(to), Some(from)) => to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
            (products, _) => *products = None,
        }
    }

    /// Mean of each column.
    pub fn mean(&self) -> Vec<f64> {
        self.per_token(&self.sums)
    }

    /// Mean square of each column.
    pub fn mean_square(&self) -> Vec<f64> {
        self.per_token(&self.squares)
    }

    fn per_token(&self, sums: &[f64]) -> Vec<f64> {
        let tokens = self.tokens.max(1) as f64;
        sums.iter().map(|sum| sum / tokens).collect()
    }

    /// The mean of `x x^T`, n x n, both triangles; `None` for [`Detail::Diagonal`]. In the memory that the sums had.
    pub fn into_second_moment(self) -> Option<Vec<f32>> {
        let (n, tokens) = (self.cols(), self.tokens.max(1) as f64);
        let mut products = self.products?;
        for i in 0..n {
            for j in i..n {
                let mean = (f64::from(products[i * n + j]) / tokens) as f32;
                products[i * n + j] = mean;
                products[j * n + i] = mean;
            }
        }
        Some(products)
    }

    /// A copy of the mean of `x x^T`, where it was kept; the sums stay.
    pub fn second_moment(&self) -> Option<Vec<f32>> {
        self.products.as_ref()?;
        self.clone().into_second_moment()
    }

    /// Columns that stand out.
    pub fn channels(&self) -> Channels {
        let mut alive: Vec<f64> = self.squares.iter().copied().filter(|square| *square != 0.0).collect();
        let dead = self.squares.len() - alive.len();
        alive.sort_by(f64::total_cmp);
        let median = alive.get(alive.len() / 2).copied().unwrap_or(0.0);
        Channels { dead, outliers: alive.iter().filter(|square| **square > OUTLIER * median).count() }
    }

    /// Keeps mean and mean square only.
    pub fn forget_products(&mut self) {
        self.products = None;
    }

    /// Sums of values, of squares, and of products (n x n, on and above the diagonal).
    pub(crate) fn parts(&self) -> (&[f64], &[f64], Option<&[f32]>) {
        (&self.sums, &self.squares, self.products.as_deref())
    }

    /// Moments of these sums.
    ///
    /// # Panics
    /// When they have different columns.
    pub(crate) fn from_parts(
        tokens: u64,
        sums: Vec<f64>,
        squares: Vec<f64>,
        products: Option<Vec<f32>>,
    ) -> Moments {
        let n = sums.len();
        assert!(squares.len() == n && products.as_ref().is_none_or(|products| products.len() == n * n));
        Moments { tokens, sums, squares, products }
    }

    /// Whether all sums, products included, could be those of a text: finite, and no square below 0.
    pub(crate) fn is_plausible(&self) -> bool {
        let mut products = self.products.iter().flatten();
        self.is_finite()
            && self.squares.iter().all(|square| *square >= 0.0)
            && products.all(|sum| sum.is_finite())
    }

    /// Whether all sums are numbers: what is made of others would be worthless.
    pub fn is_finite(&self) -> bool {
        let n = self.cols();
        // A product that overflows does so on the diagonal.
        let diagonal = || self.products.iter().flat_map(|products| products.iter().step_by(n + 1));
        self.sums.iter().chain(&self.squares).all(|sum| sum.is_finite())
            && diagonal().all(|sum| sum.is_finite())
    }
}

/// Adds values and squares of rows to sums of each column.
struct AddSquares<'a> {
    rows: &'a [f32],
    sums: &'a mut [f64],
    squares: &'a mut [f64],
}

impl Vectorized for AddSquares<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in self.rows.chunks_exact(self.sums.len()) {
            for ((sum, square), &x) in self.sums.iter_mut().zip(self.squares.iter_mut()).zip(row) {
                let x = f64::from(x);
                *sum += x;
                *square += x * x;
            }
        }
    }
}

/// Sums of products of something (rows, f) with what an input is in the quantized model (columns, q), of the same tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossMoment {
    tokens: u64,
    rows: usize,
    cols: usize,
    products: Vec<f32>,
}

impl CrossMoment {
    /// Of no token.
    pub(crate) fn new(rows: usize, cols: usize) -> Result<CrossMoment> {
        let products = zeros(rows.saturating_mul(cols), "cross moments")?;
        Ok(CrossMoment { tokens: 0, rows, cols, products })
    }

    pub(crate) fn add(&mut self, cpu: &Cpu, tokens: usize, full: &ColumnPanels, quantized: &ColumnPanels) {
        self.tokens += tokens as u64;
        cpu.add_cross_moment(full, quantized, &mut self.products);
    }

    /// Values of f.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, n.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Tokens seen.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether all sums are numbers.
    pub(crate) fn is_finite(&self) -> bool {
        self.products.iter().all(|sum| sum.is_finite())
    }

    /// The mean of `f q^T`, rows x n, in the memory that the sums had.
    pub fn into_mean(mut self) -> Vec<f32> {
        let tokens = self.tokens.max(1) as f64;
        self.products.iter_mut().for_each(|sum| *sum = (f64::from(*sum) / tokens) as f32);
        self.products
    }
}

#[cfg(test)]
mod tests {
    use qsf_runtime::cpu::Isa;

    use super::*;

    fn of(rows: &[f32], cols: usize, detail: Detail) -> Moments {
        let cpu = Cpu::new(Isa::best());
        let mut moments = Moments::new(cols, detail).unwrap();
        let mut panels = ColumnPanels::new();
        panels.fill(&cpu, rows, cols);
        moments.add(&cpu, rows, &panels);
        moments
    }

    #[test]
    fn means_are_those_of_the_rows() {
        let moments = of(&[1.0, 2.0, 3.0, -4.0], 2, Detail::Full);
        assert_eq!((moments.tokens(), moments.cols()), (2, 2));
        assert_eq!(moments.mean(), [2.0, -1.0]);
        assert_eq!(moments.mean_square(), [5.0, 10.0]);
        assert_eq!(moments.second_moment(), Some(vec![5.0, -5.0, -5.0, 10.0]));
        assert_eq!(of(&[1.0, 2.0], 2, Detail::Diagonal).second_moment(), None);
    }

    #[test]
    fn merging_adds_and_keeps_products_only_where_both_have_them() {
        let (a, b) = ([1.0, 2.0, 3.0, -4.0], [0.5, 7.0]);
        let mut merged = of(&a, 2, Detail::Full);
        merged.merge(&of(&b, 2, Detail::Full));
        assert_eq!(merged, of(&[1.0, 2.0, 3.0, -4.0, 0.5, 7.0], 2, Detail::Full));
        merged.merge(&of(&b, 2, Detail::Diagonal));
        assert_eq!((merged.tokens(), merged.detail()), (4, Detail::Diagonal));
    }

    #[test]
    fn dead_and_outlying_columns_are_counted() {
        let moments = of(&[0.0, 1.0, 1.0, 11.0, 0.0, 9.0, 1.0, 1.0], 8, Detail::Diagonal);
        assert_eq!(moments.channels(), Channels { dead: 2, outliers: 1 });
        assert_eq!(of(&[0.0; 4], 4, Detail::Diagonal).channels(), Channels { dead: 4, outliers: 0 });
    }

    #[test]
    fn sums_that_overflow_are_noticed() {
        assert!(of(&[1.0, 2.0], 2, Detail::Full).is_finite());
        assert!(!of(&[1.0, f32::NAN], 2, Detail::Diagonal).is_finite());
        assert!(of(&[1e20, 1.0], 2, Detail::Diagonal).is_finite());
        assert!(!of(&[1.0, 1e20], 2, Detail::Full).is_finite());
    }
}
