//! Logits of the tokens that matter: the vocabulary is in clusters of rows of like direction, and only of the clusters that the
//! hidden state points to are logits computed; every other token gets that of its cluster's centroid. What is computed has
//! the bits of the whole head.
//!
//! Rows of a cluster are scattered over the head. Kernels read whole panels of 16 rows, of which a few clusters touch nearly
//! all, so the rows are copied once, cluster after cluster: then a cluster is a few panels in a row.

use std::cmp::Ordering;
use std::ops::Range;

use qsf_format::VocabClusters;
use qsf_format::panels::PANEL_ROWS;

use super::activations::{Activations, CodedRows};
use crate::error::{Result, RuntimeError};
use crate::linear::{Input, Products};
use crate::tensor::Tensor;
use crate::weights::{Linear, Model};
use qsf_cpu::{Cpu, f16_to_f32};

/// Tokens of one task that spreads the logits of centroids.
const TOKENS_PER_TASK: usize = 1 << 13;
/// What looking a logit up costs, in multiply-adds of matrices.
const LOOK_UP_WORK: usize = 16;

/// What tells which clusters a hidden state points to.
pub struct ClusterRanking {
    /// Clusters x hidden.
    centroids: Tensor,
    /// Mean bias of the tokens of each cluster.
    biases: Vec<f32>,
    leads: Vec<f32>,
}

impl ClusterRanking {
    /// For the clusters of the rows of `head`.
    ///
    /// # Errors
    /// When they are clusters of another number of tokens, or of rows of another width.
    pub fn new(head: &Linear, clusters: &VocabClusters) -> Result<ClusterRanking> {
        let (rows, cols) = (head.weight.rows(), head.weight.cols());
        let (count, tokens) = (clusters.count(), clusters.cluster_of.len());
        let centroids = clusters.centroids.as_chunks::<2>().0;
        if tokens != rows
            || clusters.cols as usize != cols
            || Some(centroids.len()) != count.checked_mul(cols)
        {
            return Err(RuntimeError::Request(format!(
                "clusters of {tokens} tokens and {} columns are not those of a head of {rows} x {cols}",
                clusters.cols
            )));
        }
        let values: Vec<f32> = centroids.iter().map(|value| f16_to_f32(u16::from_le_bytes(*value))).collect();
        let mut sums = vec![(0f64, 0u32); count];
        for (token, &cluster) in clusters.cluster_of.iter().enumerate() {
            let bias = head.bias.as_ref().map_or(0.0, |bias| bias[token]);
            let (sum, tokens) = &mut sums[usize::from(cluster)];
            *sum += f64::from(bias);
            *tokens += 1;
        }
        let biases = sums.into_iter().map(|(sum, tokens)| (sum / f64::from(tokens.max(1))) as f32).collect();
        let centroids = Tensor::from_f32(count, cols, &values);
        Ok(ClusterRanking { centroids, biases, leads: clusters.leads.clone() })
    }

    /// Number of clusters.
    pub fn count(&self) -> usize {
        self.leads.len()
    }

    /// The centroids' logits for rows of inputs of the head, rows x clusters into `out`.
    ///
    /// # Panics
    /// When `inputs` are not rows of that width, or `out` has another size.
    pub fn logits(&self, cpu: &Cpu, inputs: &[f32], out: &mut [f32]) {
        cpu.linear(&self.centroids, Some(&self.biases), &Input::float(inputs, self.centroids.cols()), out);
    }

    /// Which of two clusters is looked at first, by the centroids' logits of one input.
    fn order(&self, logits: &[f32], a: u32, b: u32) -> Ordering {
        let key = |cluster: u32| logits[cluster as usize] + self.leads[cluster as usize];
        key(b).total_cmp(&key(a)).then(a.cmp(&b))
    }

    /// How many clusters are looked at before `cluster`.
    pub fn rank(&self, logits: &[f32], cluster: u16) -> usize {
        let cluster = u32::from(cluster);
        (0..self.count() as u32).filter(|other| self.order(logits, *other, cluster) == Ordering::Less).count()
    }

    /// The `probed` clusters that are looked at first, in order of their numbers.
    fn first(&self, logits: &[f32], probed: usize, out: &mut Vec<u32>) {
        out.clear();
        out.extend(0..self.count() as u32);
        if probed < out.len() {
            out.select_nth_unstable_by(probed, |a, b| self.order(logits, *a, *b));
            out.truncate(probed);
        }
        out.sort_unstable();
    }
}

/// The head of a model, its rows by clusters.
pub struct ClusteredHead {
    ranking: ClusterRanking,
    cluster_of: Vec<u16>,
    /// The head's rows, cluster by cluster; the last is repeated up to the end of its panel.
    rows: Tensor,
    /// The token of each row.
    tokens: Vec<u32>,
    /// The first row of each cluster, and the end.
    starts: Vec<u32>,
    probed: usize,
}

/// What one position needs. Buffers that only grow.
#[derive(Default)]
pub(super) struct ProbeBuffers {
    centroid_logits: Vec<f32>,
    probed: Vec<u32>,
    panels: Vec<u32>,
    logits: Vec<f32>,
}

/// How a head is multiplied.
#[derive(Clone, Copy)]
pub(super) struct HeadArithmetic<'a> {
    /// The threads, and their instruction set.
    pub cpu: &'a Cpu,
    /// In which type it gets its input.
    pub activations: Activations,
    /// Added to the logits.
    pub bias: Option<&'a [f32]>,
}

impl ClusteredHead {
    /// The head of `model`, of whose clusters `probed` are looked at for every position.
    ///
    /// # Errors
    /// When the clusters are not those of the head, there are fewer than `probed` or none is asked for, or memory runs out.
    pub fn new(model: &Model, clusters: &VocabClusters, probed: u32) -> Result<ClusteredHead> {
        let ranking = ClusterRanking::new(&model.head, clusters)?;
        let count = ranking.count();
        if probed == 0 || probed as usize > count {
            let problem = format!("{probed} clusters to look at: expected 1 to {count}");
            return Err(RuntimeError::Request(problem));
        }
        let mut members = vec![Vec::new(); count];
        for (token, &cluster) in (0u32..).zip(&clusters.cluster_of) {
            members[usize::from(cluster)].push(token);
        }
        let (mut tokens, mut starts) = (Vec::new(), vec![0]);
        for members in members {
            tokens.extend(members);
            starts.push(tokens.len() as u32);
        }
        if let Some(&last) = tokens.last() {
            tokens.resize(tokens.len().next_multiple_of(PANEL_ROWS), last);
        }
        if model.head.low_rank.is_some() {
            let problem =
                "clusters are of the head as it is stored, and an adapter changes it: use --head exact";
            return Err(RuntimeError::Request(problem.into()));
        }
        let head = model.head.weight.resident().ok_or_else(|| {
            let problem =
                "clusters of the head need all of it in memory: use --head exact, or a larger RAM budget";
            RuntimeError::Request(problem.into())
        })?;
        let rows = head.gather_rows(&tokens)?.ok_or_else(|| {
            RuntimeError::Request("clusters need a head whose rows are in one type of QSF files, and this one's are not: use --head exact".into())
        })?;
        let cluster_of = clusters.cluster_of.clone();
        Ok(ClusteredHead { ranking, cluster_of, rows, tokens, starts, probed: probed as usize })
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.ranking.count()
    }

    /// How many of them are looked at for every position.
    pub fn probed(&self) -> usize {
        self.probed
    }

    /// The rows of a cluster.
    fn rows_of(&self, cluster: u32) -> Range<usize> {
        let cluster = cluster as usize;
        self.starts[cluster] as usize..self.starts[cluster + 1] as usize
    }

    /// The panels that hold rows of `clusters`, which ascend: each once, ascending.
    fn panels_of(&self, clusters: &[u32], panels: &mut Vec<u32>) {
        panels.clear();
        // For all that there are: later positions take no memory.
        panels.reserve(self.tokens.len() / PANEL_ROWS);
        let mut end = 0;
        for rows in clusters.iter().map(|&cluster| self.rows_of(cluster)).filter(|rows| !rows.is_empty()) {
            // Two clusters may share a panel.
            let first = (rows.start / PANEL_ROWS).max(end);
            end = rows.end.div_ceil(PANEL_ROWS);
            panels.extend(first as u32..end as u32);
        }
    }

    /// Logits of one position, one per token.
    pub(super) fn logits(
        &self,
        arithmetic: HeadArithmetic<'_>,
        x: &[f32],
        coded: &mut CodedRows,
        buffers: &mut ProbeBuffers,
        out: &mut [f32],
    ) {
        let HeadArithmetic { cpu, activations, bias } = arithmetic;
        let ProbeBuffers { centroid_logits, probed, panels, logits } = buffers;
        centroid_logits.resize(self.clusters(), 0.0);
        self.ranking.logits(cpu, x, centroid_logits);
        self.ranking.first(centroid_logits, self.probed, probed);
        self.panels_of(probed, panels);
        logits.resize(self.tokens.len(), 0.0);
        let input = coded.input(cpu, activations, x, x.len(), self.rows.has_blocks());
        cpu.linear_panels(&self.rows, panels, &input, logits);
        cpu.for_each_chunk(out, TOKENS_PER_TASK, LOOK_UP_WORK * self.cluster_of.len(), |i, out| {
            for (out, &cluster) in out.iter_mut().zip(&self.cluster_of[i * TOKENS_PER_TASK..]) {
                *out = centroid_logits[usize::from(cluster)];
            }
        });
        for rows in probed.iter().map(|&cluster| self.rows_of(cluster)) {
            for (&token, &logit) in self.tokens[rows.clone()].iter().zip(&logits[rows]) {
                out[token as usize] = logit + bias.map_or(0.0, |bias| bias[token as usize]);
            }
        }
    }
}
