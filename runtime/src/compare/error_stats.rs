//! How far decoded values are from the original: what reports show per tensor.

use qsf_cpu::{Isa, Vectorized};

/// Lanes of the `f64` sums.
const LANES: usize = 8;

/// Sums over the rows of one tensor. They are kept per row and only combined, in row order, when a figure is asked for:
/// so the figures are the same bits however the rows were shared out among threads, as long as parts are merged in row
/// order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorStats {
    rows: Vec<Sums>,
}

/// Sums over one row, or over rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    original: f64,
    decoded: f64,
    product: f64,
    difference: f64,
    largest: f64,
}

impl ErrorStats {
    /// Statistics of no rows.
    pub fn new() -> ErrorStats {
        ErrorStats::default()
    }

    /// Appends a row: its values and what a decoder makes of their stored form.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn add_row(&mut self, isa: Isa, original: &[f32], decoded: &[f32]) {
        assert_eq!(original.len(), decoded.len(), "a row and its decoded form");
        self.rows.push(isa.vectorize(RowSums { original, decoded }));
    }

    /// Appends the rows of `next`, which follow the rows here.
    pub fn merge(&mut self, next: &ErrorStats) {
        self.rows.extend_from_slice(&next.rows);
    }

    /// The sums as bytes, little-endian, row after row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let of_row = |row: &Sums| [row.original, row.decoded, row.product, row.difference, row.largest];
        self.rows.iter().flat_map(of_row).flat_map(f64::to_le_bytes).collect()
    }

    /// Those of so many rows that [`ErrorStats::to_bytes`] made bytes of; `None` if these are not as many.
    pub fn from_bytes(bytes: &[u8], rows: usize) -> Option<ErrorStats> {
        let (values, rest) = bytes.as_chunks::<8>();
        let values: Vec<f64> = values.iter().map(|value| f64::from_le_bytes(*value)).collect();
        let (sums, left) = values.as_chunks::<5>();
        let of_row = |&[original, decoded, product, difference, largest]: &[f64; 5]| Sums {
            original,
            decoded,
            product,
            difference,
            largest,
        };
        let whole = rest.is_empty() && left.is_empty() && sums.len() == rows;
        whole.then(|| ErrorStats { rows: sums.iter().map(of_row).collect() })
    }

    /// Cosine of the angle between original and decoded values; 1 where both are all zero, 0 where only one is.
    pub fn cosine(&self) -> f64 {
        let sums = self.sums();
        if sums.original == 0.0 && sums.decoded == 0.0 {
            1.0
        } else if sums.original == 0.0 || sums.decoded == 0.0 {
            0.0
        } else {
            (sums.product / (sums.original.sqrt() * sums.decoded.sqrt())).clamp(-1.0, 1.0)
        }
    }

    /// Norm of the difference over norm of the original; 0 where there is no difference, infinite where only the
    /// original is all zero.
    pub fn relative_error(&self) -> f64 {
        let sums = self.sums();
        if sums.difference == 0.0 { 0.0 } else { (sums.difference / sums.original).sqrt() }
    }

    /// Largest magnitude of a difference.
    pub fn max_abs_error(&self) -> f64 {
        self.sums().largest
    }

    fn sums(&self) -> Sums {
        self.rows.iter().fold(Sums::default(), |a, b| Sums {
            original: a.original + b.original,
            decoded: a.decoded + b.decoded,
            product: a.product + b.product,
            difference: a.difference + b.difference,
            largest: a.largest.max(b.largest),
        })
    }
}

struct RowSums<'a> {
    original: &'a [f32],
    decoded: &'a [f32],
}

impl Vectorized for RowSums<'_> {
    type Output = Sums;

    /// Value i goes to lane i % 8. Products of two `f32` are exact in `f64`, so these sums need no fused operation.
    #[inline(always)]
    fn run(self) -> Sums {
        let mut original = [0.0f64; LANES];
        let mut decoded = [0.0f64; LANES];
        let mut product = [0.0f64; LANES];
        let mut difference = [0.0f64; LANES];
        let mut largest = [0.0f64; LANES];
        let mut add = |xs: &[f32; LANES], ys: &[f32; LANES]| {
            for i in 0..LANES {
                let (x, y) = (f64::from(xs[i]), f64::from(ys[i]));
                let error = (x - y).abs();
                original[i] += x * x;
                decoded[i] += y * y;
                product[i] += x * y;
                difference[i] += error * error;
                largest[i] = if error > largest[i] { error } else { largest[i] };
            }
        };
        let (xs, x_rest) = self.original.as_chunks::<LANES>();
        let (ys, y_rest) = self.decoded.as_chunks::<LANES>();
        for (x, y) in xs.iter().zip(ys) {
            add(x, y);
        }
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        x[..x_rest.len()].copy_from_slice(x_rest);
        y[..y_rest.len()].copy_from_slice(y_rest);
        add(&x, &y);
        Sums {
            original: sum(original),
            decoded: sum(decoded),
            product: sum(product),
            difference: sum(difference),
            largest: largest.into_iter().fold(0.0, f64::max),
        }
    }
}

/// Sum of all lanes: halves are added until one is left.
#[inline(always)]
fn sum(lanes: [f64; LANES]) -> f64 {
    let four = [lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6], lanes[3] + lanes[7]];
    (four[0] + four[2]) + (four[1] + four[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<(Vec<f32>, Vec<f32>)> {
        (0..37)
            .map(|row| {
                let value = |i: usize| ((row * 131 + i * 17) % 1009) as f32 * 0.37 - 150.0;
                let original: Vec<f32> = (0..101).map(value).collect();
                let decoded = original.iter().map(|v| v.round() * 1.01).collect();
                (original, decoded)
            })
            .collect()
    }

    fn stats(isa: Isa, rows: &[(Vec<f32>, Vec<f32>)]) -> ErrorStats {
        let mut stats = ErrorStats::new();
        rows.iter().for_each(|(original, decoded)| stats.add_row(isa, original, decoded));
        stats
    }

    #[test]
    fn figures_are_the_same_bits_on_every_processor_and_for_every_split_among_threads() {
        let rows = rows();
        let whole = stats(Isa::SCALAR, &rows);
        for isa in Isa::available() {
            for split in [1, 5, 36] {
                let mut parts = stats(isa, &rows[..split]);
                parts.merge(&stats(isa, &rows[split..]));
                assert_eq!(parts.cosine().to_bits(), whole.cosine().to_bits());
                assert_eq!(parts.relative_error().to_bits(), whole.relative_error().to_bits());
                assert_eq!(parts, whole);
            }
        }
    }

    #[test]
    fn figures_are_what_their_names_say() {
        let mut stats = ErrorStats::new();
        stats.add_row(Isa::SCALAR, &[3.0, 0.0], &[3.0, 1.0]);
        stats.add_row(Isa::SCALAR, &[0.0, 4.0], &[0.0, 2.0]);
        assert_eq!(stats.relative_error(), (5.0f64 / 25.0).sqrt());
        assert_eq!(stats.max_abs_error(), 2.0);
        assert!((stats.cosine() - 17.0 / (5.0 * 14f64.sqrt())).abs() < 1e-15);
    }

    #[test]
    fn a_tensor_of_zeros_that_stays_zero_has_no_error() {
        let mut stats = ErrorStats::new();
        stats.add_row(Isa::SCALAR, &[0.0; 9], &[0.0; 9]);
        assert_eq!((stats.cosine(), stats.relative_error(), stats.max_abs_error()), (1.0, 0.0, 0.0));
    }
}
