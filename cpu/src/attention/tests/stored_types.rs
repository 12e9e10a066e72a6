//! Types that keys and values are stored in, and layers that keep the last positions only.

use super::super::QueryOfOne;
use super::*;

fn all_types() -> Vec<KvTypes> {
    let pairs = ["8bit,4bit", "2bit,f16", "f32,4bit"].map(|pair| pair.parse().unwrap());
    KvType::ALL.into_iter().map(KvTypes::from).chain(pairs).collect()
}

#[test]
fn every_type_has_the_same_bits_on_every_instruction_set_in_every_batch_and_stored_one_at_a_time() {
    for types in all_types() {
        for (heads, dim, positions, window) in [
            (heads(4, 2), 64, positions(0, 5), usize::MAX),
            (heads(2, 2), 33, positions(61, 10), usize::MAX),
            (heads(3, 1), 80, positions(250, 13), 70),
            (heads(1, 1), 300, positions(30, 4), usize::MAX),
            (heads(2, 1), 1, positions(500, 17), 9),
            (heads(8, 1), 16, positions(255, 2), usize::MAX),
            (heads(8, 1), 16, positions(4095, 3), usize::MAX),
        ] {
            let mut case = Case::new(heads, dim, positions);
            (case.types, case.window) = (types, window);
            let name = format!("{types} {heads:?} {dim} {positions:?}");
            let expected = case.run(Isa::SCALAR, &[case.tokens]);
            case.check_bits(&name, &expected);
            for isa in Isa::available() {
                let mut layer = case.empty_layer(0);
                for position in 0..case.past + case.tokens {
                    case.store(isa, &mut layer, position..position + 1);
                }
                assert_eq!(case.run_on(isa, &layer, &[case.tokens]), expected, "{name} {isa:?}");
            }
        }
    }
}

#[test]
fn few_bits_stay_near_what_floats_give() {
    // Root of the mean squared difference, as a part of that of the values.
    let bounds = [0.0, 3e-4, 8e-3, 0.1, 0.4];
    for dim in [64, 96, 33] {
        let mut case = Case::new(heads(4, 2), dim, positions(300, 20));
        let exact = case.run(Isa::best(), &[20]);
        let mut last = -1.0;
        for (kv_type, bound) in KvType::ALL.into_iter().zip(bounds) {
            case.types = kv_type.into();
            let found = case.run(Isa::best(), &[20]);
            let square = |values: &mut dyn Iterator<Item = f32>, len: usize| {
                (values.map(|v| f64::from(v).powi(2)).sum::<f64>() / len as f64).sqrt()
            };
            let error = square(&mut found.iter().zip(&exact).map(|(a, b)| a - b), exact.len());
            let error = error / square(&mut case.values.iter().copied(), case.values.len());
            assert!(error <= bound && error > last, "{kv_type:?} {dim}: {error}");
            last = error;
        }
    }
}

#[test]
fn every_type_has_the_same_bits_on_every_number_of_threads() {
    let long = [KvType::F16, KvType::Q8].map(|kv_type| (kv_type.into(), 5200));
    for (types, past) in all_types().into_iter().map(|types| (types, 600)).chain(long) {
        let mut case = Case::new(heads(8, 2), 64, positions(past, 37));
        case.types = types;
        let (width, isa) = (case.heads * case.dim, Isa::best());
        let run = |threads| {
            let cpu = Cpu::with_threads(isa, threads).unwrap();
            let mut layer = case.empty_layer(0);
            layer.store(&cpu, 0, &case.keys, &case.values);
            let mut buffer = AttentionBuffer::new(case.heads, case.dim, past + 37).unwrap();
            let mut out = vec![0.0; case.q.len()];
            let (one, many) = (&case.q[..width], &case.q[width..]);
            let (out_one, out_many) = out.split_at_mut(width);
            cpu.attend(&case.attention(), &layer, past, one, &mut buffer, out_one);
            cpu.attend(&case.attention(), &layer, past + 1, many, &mut buffer, out_many);
            out
        };
        let expected = run(1);
        assert!([2, 3].into_iter().all(|threads| run(threads) == expected), "{types} {past}");
    }
}

/// A text must not change because others are written beside it.
#[test]
fn sequences_at_once_have_the_bits_of_each_alone() {
    for (types, (query, kv)) in all_types().into_iter().flat_map(|ty| [(ty, (8, 2)), (ty, (70, 2))]) {
        let of_length = |past| {
            let mut case = Case::new(heads(query, kv), 64, positions(past, 1));
            (case.types, case.sinks) = (types, floats(9, query));
            let layer = case.layer(0);
            (case, layer)
        };
        let cases = [700, 0, 255, 37].map(of_length);
        let alone = cases.each_ref().map(|(case, layer)| case.run_on(Isa::best(), layer, &[1]));
        for threads in [1, 3] {
            let cpu = Cpu::with_threads(Isa::best(), threads).unwrap();
            let mut outs = cases.each_ref().map(|(case, _)| vec![f32::NAN; case.q.len()]);
            let of_one = |((case, kv), out)| {
                let case: &Case = case;
                let out: &mut Vec<f32> = out;
                QueryOfOne { kv, position: case.past, q: &case.q, out }
            };
            let queries = cases.iter().map(|(case, kv)| (case, kv)).zip(&mut outs).map(of_one);
            cpu.attend_each(&cases[0].0.attention(), queries.collect());
            assert!(outs == alone, "{types}, {query} heads, {threads} threads");
        }
    }
}

#[test]
fn a_ring_gives_what_all_positions_give() {
    let isa = Isa::best();
    for types in all_types() {
        for (window, batch) in [(1, 1), (7, 5), (64, 64), (100, 3), (300, 30), (65, 1)] {
            let mut case = Case::new(heads(2, 1), 24, positions(0, 900));
            (case.types, case.window) = (types, window);
            let steps = [vec![batch; 900 / batch], vec![900 % batch]].concat();
            let expected = case.run(isa, &steps);
            let mut ring = KvLayer::ring(case.shape(), window - 1 + batch, 900);
            assert!(ring.bytes() < KvLayer::new(case.shape(), 900).bytes());
            let (mut at, mut out) = (0, vec![f32::NAN; case.q.len()]);
            let mut buffer = AttentionBuffer::new(2, 24, 900).unwrap();
            for step in steps.into_iter().filter(|step| *step > 0) {
                ring.reserve(&mut Slabs::default(), at + step).unwrap();
                case.store(isa, &mut ring, at..at + step);
                let range = at * 48..(at + step) * 48;
                let (q, out) = (&case.q[range.clone()], &mut out[range]);
                Cpu::new(isa).attend(&case.attention(), &ring, at, q, &mut buffer, out);
                at += step;
                // All of the window, and no more than the ring has.
                assert!(ring.first_kept(at) <= (at + 1).saturating_sub(window));
                assert!(at - ring.first_kept(at) <= window + batch + 126);
            }
            assert!(out == expected, "{types} {window} {batch}");
        }
    }
}

#[test]
#[should_panic(expected = "positions that are not there")]
fn a_ring_that_is_too_small_is_not_read() {
    let case = Case::new(heads(1, 1), 4, positions(0, 200));
    let mut ring = KvLayer::ring(case.shape(), 10, 200);
    ring.reserve(&mut Slabs::default(), 200).unwrap();
    (0..200).for_each(|at| case.store(Isa::SCALAR, &mut ring, at..at + 1));
    let mut buffer = AttentionBuffer::new(1, 4, 200).unwrap();
    Cpu::new(Isa::SCALAR).attend(&case.attention(), &ring, 199, &[0.0; 4], &mut buffer, &mut [0.0; 4]);
}

// Sizes that 32 bits have not.
#[cfg(target_pointer_width = "64")]
#[test]
fn memory_is_taken_as_positions_come_and_refused_where_there_is_none() {
    let shape = KvShape { kv_heads: 2, head_dim: 24, value_dim: 24, types: KvTypes::F16 };
    let mut layer = KvLayer::new(shape, 1_000_000_000_000);
    layer.reserve(&mut Slabs::default(), 1).unwrap();
    layer.store(&Cpu::new(Isa::SCALAR), 0, &[1.0; 48 * 256], &[1.0; 48 * 256]);
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        layer.store(&Cpu::new(Isa::SCALAR), 256, &[1.0; 48], &[1.0; 48]);
    }));
    assert!(beyond.is_err(), "a page more than was reserved");
    for (kv_heads, head_dim, capacity) in [(1, 1 << 60, 64), (1, usize::MAX, usize::MAX), (1, 64, usize::MAX)]
    {
        for kv_type in KvType::ALL {
            let types = kv_type.into();
            let mut layer =
                KvLayer::new(KvShape { kv_heads, head_dim, value_dim: head_dim, types }, capacity);
            assert!(layer.bytes() > 1 << 50, "{kv_type:?}");
            if head_dim > 64 {
                let error = layer.reserve(&mut Slabs::default(), 64).unwrap_err().to_string();
                assert!(error.contains("key/value cache"), "{error}");
            }
        }
    }
}

#[test]
fn a_matrix_unit_for_bytes_gives_the_same_bits() {
    for (heads, dim, positions, window) in [
        (heads(8, 1), 64, positions(0, 4), usize::MAX),
        (heads(8, 1), 64, positions(700, 4), usize::MAX),
        (heads(6, 2), 128, positions(250, 10), 300),
        (heads(12, 1), 64, positions(509, 2), 70),
        (heads(4, 1), 192, positions(255, 2), usize::MAX),
        (heads(20, 1), 64, positions(320, 1), usize::MAX),
    ] {
        for values_of in [dim, 80, 16] {
            let mut case = Case::new(heads, dim, positions).with_values_of(values_of);
            (case.types, case.window) = (KvType::Q8.into(), window);
            case.sinks = floats(5, case.heads);
            let layer = case.layer(0);
            let expected = case.run_on(Isa::SCALAR, &layer, &[case.tokens]);
            let found = case.run_by_bytes(&layer);
            assert_eq!(found, expected, "{heads:?} {dim} {values_of} {positions:?}");
        }
    }
}

#[test]
fn a_query_that_is_no_number_gives_none_by_a_matrix_unit_for_bytes() {
    let mut case = Case::new(heads(8, 1), 64, positions(300, 1));
    case.types = KvType::Q8.into();
    // With all bits of a NaN, which must not reach what is computed of whole numbers.
    case.q[70] = f32::from_bits(u32::MAX >> 1);
    let layer = case.layer(0);
    for found in [case.run_by_bytes(&layer), case.run_on(Isa::best(), &layer, &[1])] {
        let (damaged, others) = (&found[64..128], found[..64].iter().chain(&found[128..]));
        assert!(damaged.iter().all(|v| v.is_nan()) && others.into_iter().all(|v| v.is_finite()));
    }
}
