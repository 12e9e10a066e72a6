//! How small the errors are.

use super::*;

/// Weights as transformers have them: Gaussian; heavier tails; and shifted, as embeddings and biases can be.
fn samples(n: usize) -> [(&'static str, Vec<f32>); 3] {
    let mut random = Random(7);
    let gaussian = random.gaussian(n, 0.02);
    let tailed = (0..n).map(|_| (random.normal() * random.normal().abs() * 0.02) as f32).collect();
    let shifted = (0..n).map(|_| (random.normal() * 0.02 + 0.3) as f32).collect();
    [("gaussian", gaussian), ("heavy tails", tailed), ("shifted", shifted)]
}

#[test]
fn no_row_is_worse_than_the_one_shot_quantizer() {
    for (name, values) in samples(16 * 1000 + 5) {
        for quant in block_types() {
            for block in BlockSize::ALL {
                for row in values.chunks(1000) {
                    let ours = squares(row, &round_trip(quant, block, row, None), |_| 1.0);
                    let plain = squares(row, &plain(quant, block, row), |_| 1.0);
                    assert!(ours <= plain * (1.0 + 1e-6), "{name} {quant} {block}: {ours} > {plain}");
                }
            }
        }
    }
}

#[test]
fn four_bits_beat_minimum_and_maximum_by_a_twentieth_on_gaussian_weights() {
    let values = Random(1).gaussian(1 << 16, 0.02);
    let gain = |quant, block| {
        relative_error(&values, &round_trip(quant, block, &values, None))
            / relative_error(&values, &plain(quant, block, &values))
    };
    assert!(gain(QuantType::Q4, BlockSize::B64) < 0.95);
    assert!(gain(QuantType::Q3, BlockSize::B64) < 0.90);
    assert!(gain(QuantType::Q2, BlockSize::B64) < 0.80);
    assert!(gain(QuantType::Q2Sym, BlockSize::B64) < 0.70);
}

#[test]
fn relative_errors_on_gaussian_weights_stay_what_the_documentation_says() {
    let values = Random(2).gaussian(1 << 16, 0.02);
    let limit = |quant: QuantType| match quant {
        QuantType::Q2Sym => 0.341,
        QuantType::Q2 => 0.323,
        QuantType::Q3 => 0.167,
        QuantType::Q4 => 0.0825,
        QuantType::Ternary => 0.433,
        QuantType::Q8 => 0.0057,
        without_own_blocks!() => unreachable!("no blocks of its own"),
    };
    for quant in block_types() {
        let error = relative_error(&values, &round_trip(quant, BlockSize::B64, &values, None));
        assert!(error < limit(quant), "{quant}: {error}");
    }
}

/// The bound that llama.cpp sets its types in tests/test-quantize-fns.cpp: sqrt(sum error^2) / n on a cosine.
#[test]
fn the_cosine_of_llama_cpp_stays_inside_its_limits() {
    for offset in 0..8 {
        let n = 4096;
        let values: Vec<f32> = (0..n).map(|i| 0.1 + 2.0 * ((i + offset) as f32).cos()).collect();
        let limit = |quant: QuantType| match quant {
            QuantType::Q2Sym => 0.0075,
            QuantType::Q2 => 0.0075,
            QuantType::Q3 => 0.0040,
            QuantType::Q4 => 0.002,
            QuantType::Ternary => 0.01,
            QuantType::Q8 => 0.002,
            without_own_blocks!() => unreachable!("no blocks of its own"),
        };
        for quant in block_types() {
            let decoded = round_trip(quant, BlockSize::B64, &values, None);
            let error = squares(&values, &decoded, |_| 1.0).sqrt() / n as f64;
            assert!(error < limit(quant), "{quant}: {error}");
        }
    }
}

#[test]
fn importance_lowers_the_error_where_it_says_that_errors_count() {
    let mut random = Random(3);
    let values = random.gaussian(1 << 13, 0.02);
    // Activations of transformers differ by orders of magnitude between columns.
    let importance: Vec<f32> = (0..values.len()).map(|_| (random.normal() * 1.5).exp() as f32).collect();
    for quant in block_types() {
        let with = round_trip(quant, BlockSize::B64, &values, Some(&importance));
        let without = round_trip(quant, BlockSize::B64, &values, None);
        let error = |decoded: &[f32]| squares(&values, decoded, |i| importance[i]);
        assert!(error(&with) < error(&without) * 0.99, "{quant}: {} {}", error(&with), error(&without));
    }
}

#[test]
fn two_level_types_reach_the_optimum_of_an_exhaustive_search() {
    let mut random = Random(4);
    for _ in 0..50 {
        let values = random.gaussian(32, 1.0);
        let importance: Vec<f32> = (0..32).map(|_| random.uniform() as f32).collect();
        for (quant, levels) in [(QuantType::Ternary, [0.0, 1.0]), (QuantType::Q2Sym, [1.0, 3.0])] {
            let block = BlockSize::new(32).unwrap();
            let ours = round_trip(quant, block, &values, Some(&importance));
            let ours = squares(&values, &ours, |i| importance[i]);
            let best = (1..40_000).map(|step| {
                let scale = step as f32 * 1e-4;
                let nearest = |v: &f32| {
                    let [a, b] = levels.map(|l| scale * l);
                    (if (v.abs() - a).abs() < (v.abs() - b).abs() { a } else { b }).copysign(*v)
                };
                let decoded: Vec<f32> = values.iter().map(nearest).collect();
                squares(&values, &decoded, |i| importance[i])
            });
            let best = best.fold(f64::MAX, f64::min);
            assert!(ours <= best * 1.0001, "{quant}: {ours} > {best}");
        }
    }
}

/// Prints the table that docs/measurements/quality.md quotes.
#[test]
fn the_search_beats_plain_scales_for_every_type_and_block_size() {
    for (name, values) in samples(1 << 16) {
        println!("{name:12} {:>8} {:>5} {:>9} {:>9} {:>6}", "type", "block", "plain", "ours", "ratio");
        for quant in block_types() {
            for block in BlockSize::ALL {
                let plain = relative_error(&values, &plain(quant, block, &values));
                let ours = relative_error(&values, &round_trip(quant, block, &values, None));
                let ratio = ours / plain;
                // Shifted weights all have one sign: their mean is the best ternary scale already.
                let limit = if name == "shifted" { 1.0 + 1e-6 } else { 1.0 };
                assert!(ratio < limit, "{name}, {quant}, blocks of {block}: {ours} for {plain}");
                println!("{:12} {quant:>8} {block:>5} {plain:9.5} {ours:9.5} {ratio:6.3}", "");
            }
        }
    }
}

/// Theory allows 0.0625, 0.0156 and 0.0039 (rate-distortion bounds of 2, 3 and 4 bits); the best scalar quantizers have 0.1175, 0.0345 and
/// 0.0095 (Max, IRE Trans. Inf. Theory 6, 1960). `-- --nocapture` prints the figures.
#[test]
fn what_a_trellis_loses_on_gaussian_weights_is_near_what_a_search_of_all_states_would() {
    let (rows, cols) = (16, 1024);
    let values = Random(2).gaussian(rows * cols, 1.0);
    let error = |quant: QuantType, survivors: usize| {
        let matrix = Matrix { isa: Isa::best(), quant, block: BlockSize::B32, tables: &BUILT_IN, cols };
        let effort = Effort { survivors, ..Effort::FULL };
        let bytes = quantize_matrix(&matrix, &values, None, None, effort).unwrap();
        let size = quant.row_bytes(BlockSize::B32, cols as u64).unwrap() as usize;
        let mut decoded = vec![0.0; rows * cols];
        for (row, out) in bytes.chunks_exact(size).zip(decoded.chunks_exact_mut(cols)) {
            decode_row(quant, BlockSize::B32, &BUILT_IN, row, out);
        }
        relative_error(&values, &decoded).powi(2)
    };
    for (quant, few, all) in [
        (QuantType::T2, 0.0840, 0.0840),
        (QuantType::X2, 0.0790, 0.0770),
        (QuantType::T3, 0.0225, 0.0225),
        (QuantType::X3, 0.0203, 0.0198),
        (QuantType::X4, 0.0054, 0.0053),
    ] {
        let found = [Effort::FULL, Effort::THOROUGH].map(|effort| error(quant, effort.survivors));
        println!("{quant}: {found:.5?}");
        assert!(found[0] < few && found[1] < all, "{quant}: {found:?}");
    }
}
