//! The tokens that a sampler can choose are found on the device, and it chooses of them what it chooses of all logits.

use super::{Bench, Numbers};
use crate::gpu::likeliest::{entries, parse, words_back};
use crate::gpu::step::layers::likeliest;
use crate::gpu::wgsl::likeliest::KEPT;
use crate::sample::{Likeliest, ROUNDED, Sampler, SamplerOptions};

fn of_device(bench: &Bench, logits: &[f32]) -> Likeliest {
    let (buffer, room) = (bench.floats(logits), bench.room(2 * entries(logits.len())));
    let words = bench.run(&likeliest(logits.len(), &buffer, &room), &room);
    parse(&words[..words_back(logits.len())], logits.len())
}

/// Logits of every shape: a peak, many that are equal, few that can be chosen, none at all.
fn all_logits() -> Vec<Vec<f32>> {
    let mut numbers = Numbers(3);
    let mut all = Vec::new();
    for count in [5, 255, 256, 257, 2048, 2049, 5000, 40_000] {
        let peak: Vec<f32> = (0..count).map(|_| 4.0 * numbers.normal()).collect();
        // Rarely chosen tokens that are not numbers, and zeros of both signs.
        let odd = [f32::NAN, f32::NEG_INFINITY, -f32::NAN, -0.0, 0.0, f32::MIN];
        let broken = |(i, logit): (usize, &f32)| if i % 7 < 3 { odd[i % odd.len()] } else { -logit.abs() };
        all.push(peak.iter().enumerate().map(broken).collect());
        all.push(peak.iter().map(|logit| logit.round()).collect());
        all.push(vec![0.25; count]);
        let mut few = vec![f32::NAN; count];
        few[count / 2] = 1.0;
        few[count - 1] = 1.0;
        few[0] = -3.0;
        all.push(few);
        all.push(vec![f32::NEG_INFINITY; count]);
        let mut infinite = peak.clone();
        infinite[count / 3] = f32::INFINITY;
        infinite[count - 2] = f32::MAX;
        infinite[count / 2] = f32::INFINITY;
        all.push(infinite);
        all.push(peak);
    }
    all
}

#[test]
fn what_comes_back_are_the_likeliest_by_rank_and_the_sum_of_all() {
    let bench = Bench::new();
    for logits in all_logits() {
        let usable = logits.iter().enumerate().filter(|(_, logit)| **logit > f32::NEG_INFINITY);
        let mut ranked: Vec<(u32, f32)> =
            usable.map(|(id, logit)| (id as u32, logit.min(f32::MAX))).collect();
        ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        let best = ranked.first().map_or(0.0, |(_, logit)| f64::from(*logit));
        let total: f64 = ranked.iter().map(|(_, logit)| (f64::from(*logit) - best).exp()).sum();
        let found = of_device(&bench, &logits);
        assert_eq!(found.is_all, ranked.len() < KEPT, "{} logits", logits.len());
        ranked.truncate(KEPT);
        assert_eq!(found.tokens, ranked, "{} logits", logits.len());
        let error = (found.total - total).abs();
        assert!(error <= ROUNDED * total, "{} logits: {} instead of {total}", logits.len(), found.total);
    }
}

#[test]
fn a_seed_gives_the_same_tokens_as_with_all_logits() {
    let bench = Bench::new();
    // Temperature, top-k, top-p, min-p. The first are the default of qsf-run.
    let settings = [
        (0.7, 40, 0.9, 0.0),
        (1.0, 40, 1.0, 0.0),
        (1.5, 255, 0.99, 0.01),
        (1.0, 2, 0.5, 0.0),
        (1.0, 0, 0.9, 0.0),
        (0.6, 0, 0.5, 0.1),
        (1.0, 0, 1.0, 0.05),
        (2.0, 0, 1.0, 1.0),
        (1.0, 0, 1.0, 0.0),
        (1.0, 300, 0.9, 0.0),
    ];
    for logits in all_logits() {
        let likeliest = of_device(&bench, &logits);
        for (temperature, top_k, top_p, min_p) in settings {
            for seed in 0..20 {
                let options = SamplerOptions::new(temperature, top_k, top_p, min_p, seed).unwrap();
                let (mut of_all, mut of_some) = (Sampler::new(options), Sampler::new(options));
                for _ in 0..2 {
                    let some = of_some.sample_of_likeliest(&likeliest);
                    let all = of_all.sample(&logits);
                    let what = format!("{options:?}, {} logits", logits.len());
                    let some = match some {
                        Ok(None) => {
                            let may_fail = top_k == 0 || top_k >= KEPT;
                            assert!(may_fail, "{what}: the likeliest tokens are enough");
                            of_some.sample(&logits)
                        }
                        Ok(Some(token)) => Ok(token),
                        Err(error) => Err(error),
                    };
                    assert_eq!(some.ok(), all.ok(), "{what}");
                }
            }
        }
    }
}
