//! Attention is its formula, on every instruction set and in every batch.

use super::*;

#[test]
fn values_may_be_of_another_width_than_keys() {
    for (dim, value_dim) in [(6, 40), (40, 6), (72, 64), (300, 17)] {
        for (past, tokens) in [(0, 1), (300, 1), (250, 9)] {
            let case = Case::new(heads(6, 2), dim, positions(past, tokens)).with_values_of(value_dim);
            case.check(&format!("keys of {dim}, values of {value_dim}, {past}"));
            case.check_by_units(&format!("keys of {dim}, values of {value_dim}, {past}, by a unit"));
        }
    }
}

#[test]
fn attention_is_the_naive_formula_for_all_groups_and_sizes_of_heads_on_every_instruction_set() {
    let all_heads =
        [heads(1, 1), heads(4, 2), heads(3, 1), heads(8, 1), heads(16, 2), heads(7, 7), heads(41, 1)];
    let dims = [64, 1, 33, 80, 65, 16, 15];
    for (i, heads) in all_heads.into_iter().enumerate() {
        for (j, positions) in
            [positions(0, 1), positions(0, 5), positions(30, 4), positions(61, 10)].into_iter().enumerate()
        {
            let dim = dims[(i + j) % dims.len()];
            Case::new(heads, dim, positions).check(&format!("{heads:?} {dim} {positions:?}"));
        }
    }
    Case::new(heads(2, 1), 300, positions(3, 2)).check("wide heads");
}

#[test]
fn attention_over_several_chunks_is_the_naive_formula_and_the_same_in_every_batch() {
    for (heads, dim, positions) in [
        (heads(2, 2), 33, positions(255, 1)),
        (heads(2, 2), 16, positions(256, 1)),
        (heads(1, 1), 24, positions(250, 13)),
        (heads(3, 1), 24, positions(500, 17)),
        (heads(4, 1), 16, positions(600, 3)),
        (heads(1, 1), 8, positions(0, 270)),
    ] {
        Case::new(heads, dim, positions).check(&format!("{heads:?} {dim} {positions:?}"));
    }
}

/// From 4096 positions on, four chunks are one span.
#[test]
fn long_texts_are_the_naive_formula_and_the_same_in_every_batch() {
    for (positions, window) in [
        (positions(4090, 12), usize::MAX),
        (positions(5119, 2), usize::MAX),
        (positions(5700, 9), 4100),
        (positions(5700, 9), 4097),
        (positions(5700, 9), 4096),
    ] {
        let mut case = Case::new(heads(3, 1), 8, positions);
        case.window = window;
        case.check(&format!("window {window} {positions:?}"));
        case.sinks = vec![9.0, 0.5, -90.0];
        case.check(&format!("sinks and window {window} {positions:?}"));
    }
}

#[test]
fn windows_caps_and_slopes_are_those_of_the_naive_formula() {
    for positions in [positions(0, 40), positions(240, 40), positions(530, 1)] {
        for window in [1, 4, 16, 33, 200, 256, 257, 1000] {
            let mut case = Case::new(heads(2, 1), 16, positions);
            case.window = window;
            case.check(&format!("window {window} {positions:?}"));
            // Nothing before this position, which is that of the first query at most.
            case.first = case.past - case.past.min(window / 2);
            case.check(&format!("from {} on, window {window} {positions:?}", case.first));
        }
        let mut capped = Case::new(heads(3, 3), 24, positions);
        capped.softcap = Some(1.5);
        capped.check(&format!("cap {positions:?}"));
        let mut sloped = Case::new(heads(4, 2), 24, positions);
        sloped.slopes = vec![0.25, 0.0625, 0.5, 0.001];
        sloped.check(&format!("slopes {positions:?}"));
        sloped.window = 20;
        sloped.softcap = Some(3.0);
        sloped.check(&format!("all {positions:?}"));
    }
}

#[test]
fn sinks_take_weight_and_give_nothing() {
    for positions in [positions(0, 40), positions(240, 40), positions(530, 1)] {
        // Far above, near and far below the scores.
        let mut case = Case::new(heads(4, 2), 24, positions);
        case.sinks = vec![9.0, 0.5, -1.0, -90.0];
        case.check(&format!("sinks {positions:?}"));
        case.window = 7;
        case.check(&format!("sinks and window {positions:?}"));
        if positions.tokens > 1 {
            case.check_by_units(&format!("sinks by unit {positions:?}"));
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    // Large enough to be spread over threads.
    let case = Case::new(heads(8, 2), 64, positions(600, 37));
    let isa = Isa::best();
    let results = [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| [case.run(isa, &[37]), case.run(isa, &[1; 37])])
    });
    assert!(results.as_flattened().iter().all(|result| *result == results[0][0]));
}

#[test]
fn what_a_query_does_not_see_does_not_reach_it() {
    // As after tokens were taken back: the cache holds what was there before. And the batch goes on with damage.
    let mut case = Case::new(heads(2, 1), 24, positions(20, 12));
    case.window = 7;
    let damaged = 5;
    let types = KvType::ALL.map(KvTypes::from);
    for (bad, types) in [f32::NAN, f32::INFINITY].into_iter().flat_map(|bad| types.map(|types| (bad, types)))
    {
        case.types = types;
        let expected = case.run(Isa::SCALAR, &[12]);
        let mut layer = case.layer(10);
        let width = case.kv_heads * case.dim;
        let garbage = vec![bad; 17 * width];
        layer.store(&Cpu::new(Isa::SCALAR), case.past + damaged, &garbage, &garbage);
        // Before any window.
        layer.store(&Cpu::new(Isa::SCALAR), 0, &garbage[..14 * width], &garbage[..14 * width]);
        for isa in Isa::available() {
            let out = case.run_on(isa, &layer, &[12]);
            let (good, rest) = out.split_at(damaged * case.heads * case.dim);
            assert_eq!(good, &expected[..good.len()], "{isa:?} {bad}");
            assert!(rest.iter().all(|v| v.is_nan()), "{isa:?} {bad}: damage must show");
        }
    }
}

#[test]
fn a_matrix_unit_gives_the_naive_formula() {
    let all = [heads(1, 1), heads(4, 2), heads(3, 1), heads(8, 1), heads(16, 2), heads(7, 7), heads(41, 1)];
    for (i, heads) in all.into_iter().enumerate() {
        for (j, positions) in
            [positions(0, 2), positions(0, 70), positions(30, 45), positions(210, 90), positions(500, 19)]
                .into_iter()
                .enumerate()
        {
            let dim = [64, 1, 33, 80, 65, 16, 15][(i + j) % 7];
            Case::new(heads, dim, positions).check_by_units(&format!("{heads:?} {dim} {positions:?}"));
        }
    }
    Case::new(heads(2, 1), 300, positions(3, 40)).check_by_units("wide heads");
    for window in [1, 16, 33, 200, 257, 1000] {
        let mut case = Case::new(heads(2, 1), 16, positions(240, 300));
        case.window = window;
        case.check_by_units(&format!("window {window}"));
    }
    let mut all = Case::new(heads(4, 2), 24, positions(240, 40));
    (all.slopes, all.softcap) = (vec![0.25, 0.0625, 0.5, 0.001], Some(1.5));
    all.check_by_units("slopes and a cap");
}

/// What weights are relative to is not looked for until they grow out of floats: results must not show when.
#[test]
fn scores_may_rise_by_any_amount_in_a_matrix_unit() {
    for (name, scores) in
        [("within a chunk", [0.0, 0.0, 39.0, 42.0]), ("by much", [-300.0, 0.0, 500.0, 499.0])]
    {
        let mut case = Case::new(heads(2, 1), 16, positions(500, 12));
        let scale = case.attention().scale;
        case.q.fill(0.0);
        case.q.iter_mut().step_by(16).for_each(|q| *q = 1.0 / scale);
        for (position, key) in case.keys.chunks_exact_mut(16).enumerate() {
            key[0] = scores[position / 128];
        }
        case.check_by_units(name);
    }
}

#[test]
fn a_matrix_unit_takes_keys_and_values_of_all_types() {
    for kv_type in KvType::ALL {
        let mut case = Case::new(heads(4, 2), 64, positions(100, 70));
        case.types = kv_type.into();
        let layer = case.layer(0);
        let expected = case.run_on(Isa::best(), &layer, &[70]);
        let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
        // Bfloat16 has steps of 2^-8; the bytes of queries and keys have them relative to the largest.
        for (out, most) in case.run_by_units(&layer).into_iter().zip([1e-2, 3e-2]) {
            let error = norm(&mut out.iter().zip(&expected).map(|(a, b)| a - b));
            let relative = error / norm(&mut expected.iter().copied());
            assert!(relative > 1e-6 && relative < most, "{kv_type:?}: off by {relative}");
        }
    }
}

#[test]
fn damage_does_not_reach_who_does_not_see_it_through_a_matrix_unit() {
    for (bad, what) in [f32::NAN, f32::INFINITY].into_iter().flat_map(|bad| (0..3).map(move |i| (bad, i))) {
        let mut case = Case::new(heads(2, 1), 24, positions(20, 12));
        let (damaged, width) = (5, case.kv_heads * case.dim);
        let floats = [&mut case.q, &mut case.keys, &mut case.values].into_iter().nth(what).unwrap();
        let at = if what == 0 { damaged * 2 * 24 } else { (case.past + damaged) * width };
        floats[at] = bad;
        let layer = case.layer(0);
        let expected = case.run_on(Isa::best(), &layer, &[12]);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        for out in case.run_by_units(&layer) {
            assert!(out.iter().zip(&expected).all(same), "{bad} in {what}");
            assert!(out[..damaged * 48].iter().all(|v| v.is_finite()));
        }
    }
}

#[test]
fn what_no_query_sees_does_not_matter_to_a_matrix_unit() {
    for kv_type in KvType::ALL {
        let mut case = Case::new(heads(2, 1), 24, positions(20, 12));
        (case.window, case.types) = (7, kv_type.into());
        let expected = case.run_by_units(&case.layer(10));
        let mut layer = case.layer(10);
        // Before any window, and behind the last token, as after tokens were taken back.
        let garbage = vec![f32::NAN; 14 * case.kv_heads * case.dim];
        layer.store(&Cpu::new(Isa::SCALAR), 0, &garbage, &garbage);
        let garbage = &garbage[..10 * case.kv_heads * case.dim];
        layer.store(&Cpu::new(Isa::SCALAR), 32, garbage, garbage);
        assert_eq!(case.run_by_units(&layer), expected, "{kv_type:?}");
    }
}

#[test]
fn keys_infinitely_far_away_have_no_weight_unless_all_are() {
    let dim = 2;
    let mut case = Case::new(heads(1, 1), dim, positions(299, 1));
    case.q = vec![1.0, 0.0];
    for position in 0..280 {
        case.keys[position * dim] = f32::NEG_INFINITY;
    }
    for isa in Isa::available() {
        let out = case.run(isa, &[1]);
        assert!(out.iter().zip(case.naive()).all(|(out, exact)| (f64::from(*out) - exact).abs() < 1e-5));
        let mut none = Case::new(heads(1, 1), dim, positions(299, 1));
        (none.q, none.keys) = (vec![1.0, 1.0], vec![f32::NEG_INFINITY; 600]);
        assert!(none.run(isa, &[1]).iter().all(|v| v.is_nan()));
    }
}

#[test]
fn one_position_is_its_value() {
    let case = Case::new(heads(3, 1), 5, positions(0, 1));
    assert_eq!(case.run(Isa::best(), &[1]), case.values.repeat(3));
}

#[test]
#[should_panic(expected = "more keys than fit")]
fn a_full_layer_takes_no_more() {
    let shape = KvShape { kv_heads: 1, head_dim: 4, value_dim: 4, types: KvTypes::default() };
    KvLayer::new(shape, 64).store(&Cpu::new(Isa::SCALAR), 63, &[0.0; 8], &[0.0; 8]);
}
