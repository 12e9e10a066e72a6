//! Experts are chosen and weighed on the device as on the processor.

use qsf_cpu::Isa;
use qsf_format::{ExpertGroups, Experts, ModelConfig, RouterScore};

use super::{Bench, Numbers};
use crate::decoder::Routing;
use crate::gpu::kernels::Kernel;
use crate::gpu::step::Command;
use crate::gpu::wgsl::experts::{NONE, most_tiles};
use crate::gpu::wgsl::route::Route;

const TOKENS: usize = 9;

/// What each token goes through on the device: experts with their weights.
fn routed(
    bench: &Bench,
    experts: &Experts,
    logits: &[f32],
    bias: &[f32],
    factors: &[f32],
) -> Vec<(u32, f32)> {
    let vectors = bench.floats(&[&[7.0], bias, factors].concat());
    let bias = experts.choice_bias.then_some(1);
    let factors = experts.beside_ffn.then_some(1 + experts.count);
    let (kernel, job) = Route::of(experts, bias, factors);
    let chosen = bench.room(2 * TOKENS * experts.used as usize);
    let groups = (TOKENS as u32, 1, 1);
    let command =
        Command::new(Kernel::Route(kernel), &[&bench.floats(logits), &chosen, &vectors], &job, groups);
    let words = bench.run(&[command], &chosen);
    words.chunks_exact(2).map(|pair| (pair[0], f32::from_bits(pair[1]))).collect()
}

fn assert_as_on_the_processor(bench: &Bench, experts: &Experts, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut values = |count: usize| (0..count).map(|_| 2.0 * numbers.normal()).collect::<Vec<f32>>();
    let (count, used) = (experts.count as usize, experts.used as usize);
    let mut logits = values(TOKENS * count);
    // The first of equal ones is chosen.
    logits[..count].fill(1.0);
    let (bias, factors) = (values(count), values(count));
    let config = ModelConfig { hidden: 1, experts: Some(experts.clone()), ..ModelConfig::default() };
    let mut routing = Routing::new(&config, TOKENS).unwrap();
    routing.logits.copy_from_slice(&logits);
    let of_cpu = |wanted: bool, values: &[f32]| wanted.then(|| values.to_vec());
    let (own_bias, own_factors) = (of_cpu(experts.choice_bias, &bias), of_cpu(experts.beside_ffn, &factors));
    routing.choose(Isa::best(), TOKENS, experts, own_bias.as_deref(), own_factors.as_deref());
    let found = routed(bench, experts, &logits, &bias, &factors);
    for (t, found) in found.chunks_exact(used).enumerate() {
        let mut seen = Vec::new();
        for (expert, weight) in found {
            let expected = routing.weight(t, *expert as usize, used);
            let expected = expected.unwrap_or_else(|| panic!("{experts:?}: token {t} chose {expert}"));
            let error = (weight - expected).abs();
            assert!(error <= 1e-5 * expected.abs().max(1e-3), "{experts:?}: {weight} instead of {expected}");
            assert!(!seen.contains(expert), "{experts:?}: {expert} twice");
            seen.push(*expert);
        }
    }
}

#[test]
fn every_kind_of_router_chooses_as_on_the_processor() {
    let bench = Bench::new();
    let mut seed = 0;
    for (count, used) in [(6, 2), (64, 6), (8, 8), (300, 11), (1, 1)] {
        let plain = Experts { count, used, ffn: 1, ..Experts::default() };
        for flags in 0..32u32 {
            let is = |bit: u32| flags >> bit & 1 > 0;
            let groups = [6, 64, 300].contains(&count).then_some(ExpertGroups {
                count: 2,
                used: if is(1) { 1 } else { 2 },
                best: if is(3) { 2 } else { 1 },
            });
            let experts = Experts {
                score: if is(0) { RouterScore::Sigmoid } else { RouterScore::Softmax },
                groups: groups.filter(|_| is(1)),
                choice_bias: is(2),
                normalize_weights: is(3),
                weight_scale: is(1).then_some(2.5),
                beside_ffn: is(4),
                ..plain.clone()
            };
            seed += 1;
            assert_as_on_the_processor(&bench, &experts, seed);
        }
        if count > used {
            let score = RouterScore::SparseMixer;
            let mixer = Experts { score, margin: Some(0.4), used: used.min(2), ..plain.clone() };
            assert_as_on_the_processor(&bench, &mixer, seed);
        }
    }
    let many = Some(ExpertGroups { count: 100, used: 70, best: 3 });
    let experts = Experts { count: 600, used: 30, ffn: 1, groups: many, ..Experts::default() };
    assert_as_on_the_processor(&bench, &experts, 99);
}

#[test]
fn a_tile_has_choices_of_one_expert_and_each_choice_is_in_one() {
    let bench = Bench::new();
    for (experts, choices, size) in [(5, 100, 4), (256, 64, 4), (128, 2048, 8), (700, 1, 4), (1, 33, 4)] {
        let mut numbers = Numbers(choices as u64);
        let of_choice: Vec<u32> = (0..choices).map(|_| numbers.next() % experts as u32).collect();
        let chosen = bench.buffer(&of_choice.iter().flat_map(|e| [*e, 1]).collect::<Vec<u32>>());
        let most = most_tiles(choices, experts, size);
        let tiles = bench.buffer(&vec![12_345; most * (size + 1)]);
        let job = [choices as u32, most as u32];
        let command = Command::new(Kernel::Tiles(experts, size), &[&chosen, &tiles], &job, (1, 1, 1));
        let mut seen = vec![0; choices];
        for tile in bench.run(&[command], &tiles).chunks_exact(size + 1) {
            if tile[0] == NONE {
                continue;
            }
            assert_ne!(tile[1], NONE, "a tile has at least one choice");
            for choice in tile[1..].iter().filter(|choice| **choice != NONE) {
                assert_eq!(of_choice[*choice as usize], tile[0]);
                seen[*choice as usize] += 1;
            }
        }
        assert_eq!(seen, vec![1; choices], "{experts} experts, {choices} choices");
    }
}
