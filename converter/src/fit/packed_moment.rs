//! A second moment as it waits in the journal: its diagonal, and correlations in 16 bits, whose steps damping exceeds by far.

use qsf_runtime::cpu::Isa;

use crate::quantize::RowFeedback;

/// What stands for a correlation of 1.
const ONE: f64 = 32767.0;

/// The moment of n outputs.
#[derive(Debug, PartialEq)]
pub(super) struct PackedMoment {
    /// Mean of the diagonal.
    mean: f32,
    /// Roots of the diagonal, in units of that of its mean.
    roots: Vec<f32>,
    /// Of outputs i < j, one row i after the other.
    correlations: Vec<i16>,
}

impl PackedMoment {
    /// Of n x n values, of which the upper triangle is read.
    pub fn of(moment: &[f32]) -> PackedMoment {
        let n = moment.len().isqrt();
        let diagonal = |i: usize| f64::from(moment[i * n + i]);
        let mean = (0..n).map(diagonal).sum::<f64>() / n.max(1) as f64;
        let roots =
            (0..n).map(|i| if mean > 0.0 { (diagonal(i) / mean).sqrt() as f32 } else { 0.0 }).collect();
        let mut correlations = Vec::with_capacity(n * n.saturating_sub(1) / 2);
        for i in 0..n {
            for j in i + 1..n {
                let unit = (diagonal(i) * diagonal(j)).sqrt();
                let part = if unit > 0.0 { f64::from(moment[i * n + j]) / unit } else { 0.0 };
                correlations.push((part.clamp(-1.0, 1.0) * ONE).round() as i16);
            }
        }
        PackedMoment { mean: mean as f32, roots, correlations }
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.roots.len()
    }

    /// The diagonal.
    pub fn diagonal(&self) -> Vec<f32> {
        self.roots.iter().map(|root| self.mean * root * root).collect()
    }

    /// What quantizers need; nothing where no gradient ever came.
    pub fn feedback(&self, isa: Isa, damping: f64) -> Option<RowFeedback> {
        if self.roots.iter().all(|root| *root == 0.0) {
            return None;
        }
        RowFeedback::new(isa, self.rows(), damping, |i, j| self.entry(i, j))
    }

    /// In units of the mean of the diagonal, for i <= j.
    fn entry(&self, i: usize, j: usize) -> f64 {
        let unit = f64::from(self.roots[i]) * f64::from(self.roots[j]);
        if i == j {
            return unit;
        }
        // Rows before i have n - 1, n - 2, ... correlations.
        let before = i * self.rows() - i * (i + 1) / 2;
        unit * f64::from(self.correlations[before + j - i - 1]) / ONE
    }

    /// The moment of sums over so many tokens, for one of them: n x n values, both triangles.
    pub fn values(&self, tokens: usize) -> Vec<f32> {
        let (n, mean) = (self.rows(), f64::from(self.mean) / tokens.max(1) as f64);
        let entry = |at: usize| (mean * self.entry((at / n).min(at % n), (at / n).max(at % n))) as f32;
        (0..n * n).map(entry).collect()
    }

    /// Appends it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.rows() as u32).to_le_bytes());
        bytes.extend(self.mean.to_le_bytes());
        self.roots.iter().for_each(|root| bytes.extend(root.to_le_bytes()));
        self.correlations.iter().for_each(|part| bytes.extend(part.to_le_bytes()));
    }

    /// What [`write`](Self::write) has appended, and what follows.
    pub fn read(bytes: &[u8]) -> Option<(PackedMoment, &[u8])> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let n = u32::from_le_bytes(*count) as usize;
        let (mean, rest) = rest.split_first_chunk::<4>()?;
        let (roots, rest) = rest.split_at_checked(n.checked_mul(4)?)?;
        let (correlations, rest) = rest.split_at_checked(n.checked_mul(n.saturating_sub(1))?)?;
        let moment = PackedMoment {
            mean: f32::from_le_bytes(*mean),
            roots: roots.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            correlations: correlations.as_chunks().0.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect(),
        };
        Some((moment, rest))
    }
}

/// Bytes of the moment of so many outputs.
pub(crate) const fn packed_bytes(rows: u64) -> u64 {
    8 + 4 * rows + rows * rows.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_within_its_steps() {
        let n = 5;
        let values: Vec<f32> =
            (0..n * n).map(|at| if at / n == at % n { 4.0 + at as f32 } else { 1.5 }).collect();
        let moment = PackedMoment::of(&values);
        let mut bytes = Vec::new();
        moment.write(&mut bytes);
        assert_eq!(bytes.len() as u64, packed_bytes(n as u64));
        bytes.push(9);
        let (read, rest) = PackedMoment::read(&bytes).unwrap();
        assert_eq!((&read, rest), (&moment, &[9][..]));
        let mean = (0..n).map(|i| f64::from(values[i * n + i])).sum::<f64>() / n as f64;
        let of_four = read.values(4);
        for i in 0..n {
            for j in i..n {
                assert!((of_four[i * n + j] - values[i * n + j] / 4.0).abs() < 1e-3, "{i}, {j}");
                assert_eq!(of_four[i * n + j], of_four[j * n + i], "{i}, {j}");
                let (found, expected) = (read.entry(i, j) * mean, f64::from(values[i * n + j]));
                assert!((found - expected).abs() < 1e-3, "{i}, {j}: {found} for {expected}");
            }
        }
        assert!(PackedMoment::read(&bytes[..bytes.len() - 2]).is_none());
        assert!(PackedMoment::of(&[0.0; 9]).feedback(Isa::best(), 0.1).is_none());
    }
}
