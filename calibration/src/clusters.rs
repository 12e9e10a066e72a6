//! The rows of a head in clusters of like direction, by spherical k-means (Dhillon and Modha, Machine Learning 42, 2001).
//!
//! Directions rather than distances: what puts a token on top is the angle of its row with the hidden state, and lengths
//! of rows differ more between common and rare tokens than within a meaning. Of the ways that were measured
//! (docs/measurements/vocabulary-clusters.md) it needs the fewest tokens looked at for the same containment without
//! knowing any text.

use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::{Cpu, Vectorized};
use qsf_runtime::linear::{Input, Products};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::Tensor;
use qsf_runtime::{Result, RuntimeError};

/// Passes over the rows at most; few tokens still move then.
const PASSES: usize = 20;
/// Rows that are in memory as floats.
const BATCH: usize = 1024;

/// Rows of a head in clusters, none of which is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct RowClusters {
    /// Clusters x columns: the mean of the rows of each.
    pub centroids: Vec<f32>,
    /// The cluster of each row.
    pub cluster_of: Vec<u16>,
}

/// At most `count` clusters of the rows of `head`, the same for every instruction set and number of threads.
///
/// In memory are some rows, the centroids, and sums of as many values.
///
/// # Errors
/// When there are more clusters than rows or ids for them, a row is not finite, or the user interrupts.
pub fn cluster_rows(
    cpu: &Cpu,
    head: &Tensor,
    count: usize,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<RowClusters> {
    let most = head.rows().min(1 << 16);
    if !(1..=most).contains(&count) {
        let problem = format!("{count} vocabulary clusters: expected 1 to {most} for {} tokens", head.rows());
        return Err(RuntimeError::Request(problem));
    }
    let mut rows = Rows { cpu, head, values: Vec::new() };
    let mut directions = Vec::with_capacity(count * head.cols());
    // Tokens of all ages of the vocabulary, from common to rare.
    for cluster in 0..count {
        rows.read(cluster * head.rows() / count, 1);
        rows.normalize();
        directions.extend_from_slice(&rows.values);
    }
    let mut cluster_of = vec![u16::MAX; head.rows()];
    progress.begin("clustering", (PASSES * head.rows()) as u64);
    for _ in 0..PASSES {
        let moved = rows.assign(&directions, &mut cluster_of, progress, cancel)?;
        if moved == 0 {
            break;
        }
        let sums = rows.sums(count, &cluster_of, true, cancel)?;
        for (direction, sum) in
            directions.chunks_exact_mut(head.cols()).zip(sums.values.chunks_exact(head.cols()))
        {
            let length = sum.iter().map(|v| v * v).sum::<f64>().sqrt();
            // A cluster that has lost its rows, or whose rows cancel out, stays where it was.
            if length > 0.0 {
                direction.iter_mut().zip(sum).for_each(|(value, sum)| *value = (sum / length) as f32);
            }
        }
    }
    progress.end();
    let sums = rows.sums(count, &cluster_of, false, cancel)?;
    Ok(without_empty(&sums, &cluster_of, head.cols()))
}

/// Means of the clusters that have rows, under new numbers.
fn without_empty(sums: &Sums, cluster_of: &[u16], cols: usize) -> RowClusters {
    let mut numbers = vec![0; sums.counts.len()];
    let (mut centroids, mut next) = (Vec::new(), 0u16);
    for ((number, &count), sum) in numbers.iter_mut().zip(&sums.counts).zip(sums.values.chunks_exact(cols)) {
        if count > 0 {
            *number = next;
            // At most 2^16 clusters, so the last has number 2^16 - 1, and what follows is not used.
            next = next.wrapping_add(1);
            centroids.extend(sum.iter().map(|sum| (sum / f64::from(count)) as f32));
        }
    }
    let cluster_of = cluster_of.iter().map(|cluster| numbers[usize::from(*cluster)]).collect();
    RowClusters { centroids, cluster_of }
}

/// A run of rows as floats.
struct Rows<'a> {
    cpu: &'a Cpu,
    head: &'a Tensor,
    values: Vec<f32>,
}

/// Sums of the rows of each cluster.
struct Sums {
    values: Vec<f64>,
    counts: Vec<u32>,
}

impl Rows<'_> {
    /// Reads `count` rows.
    fn read(&mut self, first: usize, count: usize) {
        let (cols, isa) = (self.head.cols(), self.cpu.isa());
        self.values.resize(count * cols, 0.0);
        self.cpu.for_each_chunk(&mut self.values, cols, 2 * count * cols, |i, row| {
            self.head.decode_row(isa, first + i, row);
        });
    }

    /// Gives every row that is not zero the length 1.
    fn normalize(&mut self) {
        let (cols, isa) = (self.head.cols(), self.cpu.isa());
        let work = self.values.len();
        self.cpu.for_each_chunk(&mut self.values, cols, work, |_, row| isa.vectorize(Normalize(row)));
    }

    /// Puts every row into the cluster whose direction is nearest; gives how many rows were elsewhere before.
    fn assign(
        &mut self,
        directions: &[f32],
        cluster_of: &mut [u16],
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<usize> {
        let cols = self.head.cols();
        let count = directions.len() / cols;
        let directions = Tensor::from_f32(count, cols, directions);
        let mut scores = Vec::new();
        let mut moved = 0;
        for (i, clusters) in cluster_of.chunks_mut(BATCH).enumerate() {
            cancel.check()?;
            self.read(i * BATCH, clusters.len());
            scores.resize(clusters.len() * count, 0.0);
            self.cpu.linear(&directions, None, &Input::float(&self.values, cols), &mut scores);
            for ((row, cluster), scores) in (i * BATCH..).zip(&mut *clusters).zip(scores.chunks_exact(count))
            {
                let mut best = 0;
                for (k, score) in scores.iter().enumerate() {
                    if *score > scores[best] {
                        best = k;
                    }
                }
                if !scores[best].is_finite() {
                    let what = format!("row {row} of the head, which is not finite");
                    return Err(RuntimeError::NotANumber { what });
                }
                moved += usize::from(*cluster != best as u16);
                *cluster = best as u16;
            }
            progress.advance(clusters.len() as u64);
        }
        Ok(moved)
    }

    /// Adds up the rows of each cluster, in the order of the rows; `directions`: each with the length 1.
    fn sums(&mut self, count: usize, cluster_of: &[u16], directions: bool, cancel: &Cancel) -> Result<Sums> {
        let cols = self.head.cols();
        let mut sums = Sums { values: vec![0.0; count * cols], counts: vec![0; count] };
        for (i, clusters) in cluster_of.chunks(BATCH).enumerate() {
            cancel.check()?;
            self.read(i * BATCH, clusters.len());
            if directions {
                self.normalize();
            }
            for (row, &cluster) in self.values.chunks_exact(cols).zip(clusters) {
                let cluster = usize::from(cluster);
                sums.counts[cluster] += 1;
                let sum = &mut sums.values[cluster * cols..][..cols];
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            }
        }
        Ok(sums)
    }
}

struct Normalize<'a>(&'a mut [f32]);

impl Vectorized for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let length = dot(self.0, self.0).sqrt();
        if length > 0.0 {
            for value in self.0 {
                *value /= length;
            }
        }
    }
}
