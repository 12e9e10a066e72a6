//! The head by clusters: what it computes is what the whole head computes, bit for bit; the rest are the centroids' logits.

use std::sync::Arc;

use crate::random_model::RandomModel;
use half::f16;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, QuantType, VocabClusters};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::{Activations, ClusterRanking, ClusteredHead, Decoder, Model};

const HIDDEN: usize = 96;
const VOCAB: usize = 701;
const CLUSTERS: usize = 13;

fn model(quant: QuantType, bias: bool) -> Model {
    let config = ModelConfig {
        architecture: "llama".into(),
        layers: 1,
        hidden: HIDDEN as u32,
        heads: 3,
        kv_heads: 3,
        head_dim: 32,
        ffn: 64,
        vocab: VOCAB as u32,
        max_positions: 16,
        norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
        activation: Activation::Silu,
        gated_ffn: true,
        position: PositionConfig::rope(10_000.0, None),
        ..ModelConfig::default()
    };
    let mut model = Model::load(&RandomModel::new(config, quant)).unwrap();
    model.head.bias = bias.then(|| (0..VOCAB).map(|token| (token % 17) as f32 * 0.3).collect());
    model
}

/// Clusters of very different sizes, the last of them empty.
fn clusters(model: &Model) -> VocabClusters {
    let cluster_of: Vec<u16> =
        (0..VOCAB).map(|token| ((token * token / 3) % (CLUSTERS - 1)) as u16).collect();
    let values = model.head.weight.resident().unwrap().to_f32();
    let mut sums = vec![0f64; CLUSTERS * HIDDEN];
    let mut counts = [0f64; CLUSTERS];
    for (row, &cluster) in values.chunks_exact(HIDDEN).zip(&cluster_of) {
        counts[usize::from(cluster)] += 1.0;
        let sum = &mut sums[usize::from(cluster) * HIDDEN..][..HIDDEN];
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let centroids = sums
        .chunks_exact(HIDDEN)
        .zip(counts)
        .flat_map(|(sum, count)| sum.iter().map(move |v| f16::from_f64(v / count.max(1.0)).to_le_bytes()))
        .flatten()
        .collect();
    let leads = (0..CLUSTERS).map(|cluster| cluster as f32 * 0.1).collect();
    VocabClusters {
        cols: HIDDEN as u32,
        centroids,
        leads,
        cluster_of,
        positions: 0,
        containments: Vec::new(),
    }
}

fn logits(decoder: &Decoder) -> (Vec<f32>, Vec<f32>) {
    let mut state = decoder.state(8, 8).unwrap();
    decoder.forward(&mut state, &[3, 700, 41, 9]).unwrap();
    let mut out = vec![0.0; 3 * VOCAB];
    decoder.logits(&mut state, 1..4, &mut out).unwrap();
    (out, decoder.head_input(&state, 1..4).to_vec())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn with_all_clusters_the_logits_are_those_of_the_whole_head_bit_for_bit() {
    for (quant, bias) in [(QuantType::Q4, false), (QuantType::Q4, true), (QuantType::F32, true)] {
        for activations in [Activations::Int8, Activations::F32] {
            for threads in [1, 3] {
                let cpu = || Cpu::with_threads(Isa::best(), threads).unwrap();
                let exact = Decoder::new(Arc::new(model(quant, bias)), cpu(), Some(activations));
                let model = model(quant, bias);
                let head = ClusteredHead::new(&model, &clusters(&model), CLUSTERS as u32).unwrap();
                let clustered = Decoder::new(Arc::new(model), cpu(), Some(activations)).with_clusters(head);
                let (expected, found) = (logits(&exact).0, logits(&clustered).0);
                assert_eq!(bits(&found), bits(&expected), "{quant}, bias {bias}, {activations:?}");
            }
        }
    }
}

#[test]
fn of_a_few_clusters_tokens_have_their_own_logit_and_the_others_that_of_the_centroid() {
    let cpu = Cpu::new(Isa::best());
    let (expected, inputs) = logits(&Decoder::new(Arc::new(model(QuantType::Q4, true)), cpu.clone(), None));
    let model = model(QuantType::Q4, true);
    let clusters = clusters(&model);
    let ranking = ClusterRanking::new(&model.head, &clusters).unwrap();
    let mut centroids = vec![0.0; 3 * CLUSTERS];
    ranking.logits(&cpu, &inputs, &mut centroids);
    for probed in [1, 4, 12] {
        let head = ClusteredHead::new(&model, &clusters, probed).unwrap();
        let copy = Model::load(&RandomModel::new(model.config.clone(), QuantType::Q4)).unwrap();
        let copy =
            Model { head: qsf_runtime::Linear::new(copy.head.weight, model.head.bias.clone()), ..copy };
        let decoder = Decoder::new(Arc::new(copy), cpu.clone(), None).with_clusters(head);
        let found = logits(&decoder).0;
        for position in 0..3 {
            let centroids = &centroids[position * CLUSTERS..][..CLUSTERS];
            for token in 0..VOCAB {
                let cluster = clusters.cluster_of[token];
                let looked_at = ranking.rank(centroids, cluster) < probed as usize;
                let at = position * VOCAB + token;
                let expected = if looked_at { expected[at] } else { centroids[usize::from(cluster)] };
                assert_eq!(found[at], expected, "{probed} clusters, position {position}, token {token}");
            }
        }
    }
}

#[test]
fn clusters_of_another_head_and_impossible_numbers_are_refused() {
    let model = model(QuantType::Q4, false);
    let good = clusters(&model);
    for (clusters, probed, part) in [
        (good.clone(), 0, "1 to 13"),
        (good.clone(), 14, "1 to 13"),
        (VocabClusters { cluster_of: vec![0; VOCAB - 1], ..good.clone() }, 1, "700 tokens"),
        (VocabClusters { cols: 64, ..good }, 1, "64 columns"),
    ] {
        let error = ClusteredHead::new(&model, &clusters, probed).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}
