//! Vocabulary clusters of a model (SPEC.md section 7.9), and how often the likeliest token is in those that the hidden state
//! points to, counted on a text.

use qsf_format::{Containment, VocabClusters};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::cpu::zeros;
use qsf_runtime::progress::Progress;
use qsf_runtime::{ClusterRanking, Decoder, Result, RuntimeError};

use crate::clusters::{RowClusters, cluster_rows};

/// Tokens of a chunk, which starts from an empty context.
const CHUNK: usize = 512;
/// Most logits in memory at a time, 64 MiB.
const MAX_LOGITS: usize = 1 << 24;
/// Bytes of an f16.
const F16_BYTES: usize = 2;

/// At most `count` clusters of the vocabulary of the model that `decoder` runs. Of the chunks of the text `tokens`, every other
/// one shows how far the likeliest token of a cluster is above its centroid, and the others how often clusters contain the
/// likeliest token of all.
///
/// # Errors
/// When there cannot be so many clusters, the text has fewer than two tokens or one beyond the vocabulary, the model computes
/// something that is not finite, memory runs out, or the decoder is stopped.
pub fn vocab_clusters(
    decoder: &Decoder,
    count: usize,
    tokens: &[u32],
    progress: &dyn Progress,
) -> Result<VocabClusters> {
    if tokens.len() < 2 {
        let problem = format!(
            "vocabulary clusters are measured on a text of at least 2 tokens, this has {}",
            tokens.len()
        );
        return Err(RuntimeError::Request(problem));
    }
    let head = &decoder.model().head;
    let weight = head.weight.resident().ok_or_else(|| {
        RuntimeError::Request("clusters are made of a head in memory, and this one is streamed".into())
    })?;
    let found = cluster_rows(decoder.cpu(), weight, count, progress, decoder.cancel())?;
    let mut clusters = unmeasured(found, head.weight.cols());
    let mut measurement = Measurement::new(decoder, &clusters)?;
    let config = &decoder.model().config;
    let chunk = CHUNK.min(config.max_positions as usize).min(tokens.len().div_ceil(2)).max(1);
    let mut state = decoder.state(chunk, chunk)?;
    let chunk = state.batch();
    progress.begin("measuring clusters", tokens.len() as u64);
    for learning in [true, false] {
        for (i, tokens) in tokens.chunks(chunk).enumerate() {
            if i.is_multiple_of(2) != learning {
                continue;
            }
            state.rewind(0)?;
            decoder.forward(&mut state, tokens)?;
            let step = measurement.rows;
            for first in (0..tokens.len()).step_by(step) {
                decoder.cancel().check()?;
                let rows = first..tokens.len().min(first + step);
                measurement.logits.resize(rows.len() * config.vocab as usize, 0.0);
                decoder.logits(&mut state, rows.clone(), &mut measurement.logits)?;
                let inputs = decoder.head_input(&state, rows);
                measurement.look(decoder.cpu(), &clusters, inputs, learning)?;
            }
            progress.advance(tokens.len() as u64);
        }
        if learning {
            clusters.leads = measurement.leads();
            measurement.ranking = ClusterRanking::new(head, &clusters)?;
        }
    }
    progress.end();
    clusters.positions = measurement.ranks.len() as u32;
    clusters.containments = containments(clusters.count(), &measurement.ranks);
    Ok(clusters)
}

/// Numbers of clusters that are measured, of `count`: powers of two, what is halfway between two of them, and all.
pub fn measured_probes(count: u32) -> Vec<u32> {
    let powers = (0..u32::BITS).map(|bit| 1u32 << bit);
    let mut probes: Vec<u32> = powers.flat_map(|power| [power, power.saturating_add(power / 2)]).collect();
    probes.retain(|probed| *probed < count);
    probes.push(count);
    probes.dedup();
    probes
}

fn containments(count: usize, ranks: &[usize]) -> Vec<Containment> {
    let contained = |probed: u32| ranks.iter().filter(|rank| **rank < probed as usize).count() as u32;
    let of = |probed: u32| Containment { probed, positions: contained(probed) };
    measured_probes(count as u32).into_iter().map(of).collect()
}

/// The clusters as a file has them, before anything is known of them.
fn unmeasured(found: RowClusters, cols: usize) -> VocabClusters {
    let RowClusters { centroids, cluster_of } = found;
    let count = centroids.len() / cols;
    let mut bytes = Vec::with_capacity(centroids.len() * F16_BYTES);
    bytes.extend(centroids.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()));
    VocabClusters {
        cols: cols as u32,
        centroids: bytes,
        leads: vec![0.0; count],
        cluster_of,
        positions: 0,
        containments: Vec::new(),
    }
}

struct Measurement {
    ranking: ClusterRanking,
    /// Positions that are looked at together.
    rows: usize,
    logits: Vec<f32>,
    centroid_logits: Vec<f32>,
    /// Largest logit of each cluster.
    largest: Vec<f32>,
    /// Sum over positions of what that is above the centroid's.
    above: Vec<f64>,
    learned_from: usize,
    /// Of each measured position, how many clusters are looked at before that of the likeliest token.
    ranks: Vec<usize>,
}

impl Measurement {
    fn new(decoder: &Decoder, clusters: &VocabClusters) -> Result<Measurement> {
        let model = decoder.model();
        let vocab = model.config.vocab as usize;
        let rows = (MAX_LOGITS / vocab).clamp(1, CHUNK);
        let count = clusters.count();
        Ok(Measurement {
            ranking: ClusterRanking::new(&model.head, clusters)?,
            rows,
            logits: zeros(rows * vocab, "logits to measure clusters by")?,
            centroid_logits: zeros(rows * count, "logits of centroids")?,
            largest: vec![0.0; count],
            above: vec![0.0; count],
            learned_from: 0,
            ranks: Vec::new(),
        })
    }

    /// Looks at positions whose logits are there, by what their head is multiplied with.
    fn look(&mut self, cpu: &Cpu, clusters: &VocabClusters, inputs: &[f32], learning: bool) -> Result<()> {
        let (vocab, count) = (clusters.cluster_of.len(), clusters.count());
        let positions = self.logits.len() / vocab;
        self.centroid_logits.resize(positions * count, 0.0);
        self.ranking.logits(cpu, inputs, &mut self.centroid_logits);
        for (logits, centroids) in
            self.logits.chunks_exact(vocab).zip(self.centroid_logits.chunks_exact(count))
        {
            let likeliest = likeliest(logits)?;
            if !learning {
                self.ranks.push(self.ranking.rank(centroids, clusters.cluster_of[likeliest]));
                continue;
            }
            self.largest.fill(f32::NEG_INFINITY);
            for (&logit, &cluster) in logits.iter().zip(&clusters.cluster_of) {
                let largest = &mut self.largest[usize::from(cluster)];
                *largest = largest.max(logit);
            }
            // No cluster is empty.
            for ((above, largest), centroid) in self.above.iter_mut().zip(&self.largest).zip(centroids) {
                *above += f64::from(largest - centroid);
            }
            self.learned_from += 1;
        }
        Ok(())
    }

    fn leads(&self) -> Vec<f32> {
        self.above.iter().map(|above| (above / self.learned_from.max(1) as f64) as f32).collect()
    }
}

/// The first token with the largest logit.
fn likeliest(logits: &[f32]) -> Result<usize> {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if !logit.is_finite() {
            let what = format!("a logit of token {token} that is not finite");
            return Err(RuntimeError::NotANumber { what });
        }
        if *logit > logits[best] {
            best = token;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_numbers_of_clusters_ascend_and_end_with_all() {
        assert_eq!(measured_probes(1), [1]);
        assert_eq!(measured_probes(2), [1, 2]);
        assert_eq!(measured_probes(16), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(measured_probes(100)[10..], [48, 64, 96, 100]);
        for count in [3, 255, 256, 257, 65536] {
            let probes = measured_probes(count);
            assert!(probes.is_sorted_by(|a, b| a < b) && probes.last() == Some(&count), "{probes:?}");
        }
    }

    #[test]
    fn a_position_is_contained_once_its_cluster_is_looked_at() {
        let found = containments(4, &[0, 0, 1, 3, 2, 0]);
        let counts: Vec<(u32, u32)> = found.iter().map(|c| (c.probed, c.positions)).collect();
        assert_eq!(counts, [(1, 3), (2, 4), (3, 5), (4, 6)]);
    }
}
