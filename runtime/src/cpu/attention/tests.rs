use std::ops::Range;

use super::super::bf16_unit::EmulatedBf16;
use super::super::shared::Shared;
use super::super::{Cpu, Isa};
use super::spread::Layer;
use super::*;

fn floats(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
}

/// Tokens behind `past` others, and everything that they see.
struct Case {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    past: usize,
    tokens: usize,
    window: usize,
    softcap: Option<f32>,
    slopes: Vec<f32>,
    by_unit: bool,
    types: KvTypes,
    q: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Case {
    fn new((heads, kv_heads): (usize, usize), dim: usize, (past, tokens): (usize, usize)) -> Case {
        let stored = (past + tokens) * kv_heads * dim;
        Case {
            heads,
            kv_heads,
            dim,
            past,
            tokens,
            window: usize::MAX,
            softcap: None,
            slopes: Vec::new(),
            by_unit: false,
            types: KvTypes::default(),
            q: floats(1, tokens * heads * dim),
            keys: floats(2, stored),
            values: floats(3, stored),
        }
    }

    fn attention(&self) -> Attention<'_> {
        Attention {
            heads: self.heads,
            window: self.window,
            scale: 1.0 / (self.dim as f32).sqrt(),
            softcap: self.softcap,
            slopes: &self.slopes,
            by_unit: self.by_unit,
        }
    }

    /// A layer with room for `more` positions.
    fn layer(&self, more: usize) -> KvLayer {
        let mut layer = self.empty_layer(more);
        layer.store(&Cpu::new(Isa::SCALAR), 0, &self.keys, &self.values);
        layer
    }

    fn shape(&self) -> KvShape {
        KvShape { kv_heads: self.kv_heads, head_dim: self.dim, types: self.types }
    }

    fn empty_layer(&self, more: usize) -> KvLayer {
        let mut layer = KvLayer::new(self.shape(), self.past + self.tokens + more);
        layer.reserve(usize::MAX).unwrap();
        layer
    }

    /// Stores what belongs to some positions.
    fn store(&self, isa: Isa, layer: &mut KvLayer, positions: Range<usize>) {
        let width = self.kv_heads * self.dim;
        let values = positions.start * width..positions.end * width;
        layer.store(&Cpu::new(isa), positions.start, &self.keys[values.clone()], &self.values[values]);
    }

    /// Results with the tokens in steps of these sizes.
    fn run_on(&self, isa: Isa, layer: &KvLayer, steps: &[usize]) -> Vec<f32> {
        let width = self.heads * self.dim;
        let mut buffer = AttentionBuffer::new(self.heads, self.dim, self.past + self.tokens).unwrap();
        let mut out = vec![f32::NAN; self.q.len()];
        let mut first = 0;
        for &step in steps {
            let range = first * width..(first + step) * width;
            let (q, out) = (&self.q[range.clone()], &mut out[range]);
            Cpu::new(isa).attend(&self.attention(), layer, self.past + first, q, &mut buffer, out);
            first += step;
        }
        assert_eq!(first, self.tokens);
        out
    }

    fn run(&self, isa: Isa, steps: &[usize]) -> Vec<f32> {
        self.run_on(isa, &self.layer(0), steps)
    }

    /// By the matrix unit: by that of the processor, else by an emulated one.
    fn run_by_unit(&mut self, layer: &KvLayer) -> Vec<f32> {
        self.by_unit = true;
        let cpu = Cpu::new(Isa::best());
        if cpu.kernels().has_matrix_unit() {
            return self.run_on(Isa::best(), layer, &[self.tokens]);
        }
        let mut out = vec![f32::NAN; self.q.len()];
        let attention = &self.attention();
        let group = self.heads / self.kv_heads;
        let layer = Layer { attention, kv: layer, position: self.past, q: &self.q, group };
        // SAFETY: every processor emulates.
        unsafe { cpu.attend_by_unit::<EmulatedBf16>(layer, self.tokens, usize::MAX, &Shared::new(&mut out)) };
        out
    }

    /// That a matrix unit gives the naive formula, with all that goes into its products exact in bfloat16 but for the weights.
    fn check_by_unit(mut self, name: &str) {
        let exact = |v: f32| half::bf16::from_f32(v).to_f32();
        let scale = self.attention().scale;
        self.q.iter_mut().for_each(|q| *q = exact(*q * scale) / scale);
        self.keys.iter_mut().chain(&mut self.values).for_each(|v| *v = exact(*v));
        let out = self.run_by_unit(&self.layer(0));
        for (i, (out, exact)) in out.iter().zip(self.naive()).enumerate() {
            // Values are at most 2, and weights off by 2^-9 of themselves.
            assert!((f64::from(*out) - exact).abs() < 4e-3, "{name}, {i}: {out}, expected {exact}");
        }
    }

    /// The formula in f64, position by position.
    fn naive(&self) -> Vec<f64> {
        let (dim, width) = (self.dim, self.kv_heads * self.dim);
        let scale = f64::from(self.attention().scale);
        let mut out = Vec::new();
        for (row, q) in self.q.chunks(dim).enumerate() {
            let (own, head) = (self.past + row / self.heads, row % self.heads);
            let column = head / (self.heads / self.kv_heads) * dim;
            let seen = (own + 1).saturating_sub(self.window)..own + 1;
            let weight = |position: usize| {
                let key = &self.keys[position * width + column..][..dim];
                let dot: f64 = key.iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                let capped = match self.softcap.map(f64::from) {
                    Some(cap) => cap * (dot * scale / cap).tanh(),
                    None => dot * scale,
                };
                let slope = self.slopes.get(head).map_or(0.0, |slope| f64::from(*slope));
                (capped - slope * (own - position) as f64).exp()
            };
            let weights: Vec<f64> = seen.clone().map(weight).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..dim).map(|i| {
                let value = |position| f64::from(self.values[position * width + column + i]);
                seen.clone().zip(&weights).map(|(position, w)| w / total * value(position)).sum::<f64>()
            }));
        }
        out
    }

    fn check(&self, name: &str) {
        let expected = self.run(Isa::SCALAR, &[self.tokens]);
        for (i, (out, exact)) in expected.iter().zip(self.naive()).enumerate() {
            assert!((f64::from(*out) - exact).abs() < 2e-5, "{name}, {i}: {out}, expected {exact}");
        }
        self.check_bits(name, &expected);
    }

    /// That every instruction set and every batch gives this.
    fn check_bits(&self, name: &str, expected: &[f32]) {
        let (some, rest) = (self.tokens / 3, self.tokens - self.tokens / 3);
        for isa in Isa::available() {
            for steps in [&[self.tokens][..], &vec![1; self.tokens], &[some, rest], &[rest, some]] {
                let out = self.run(isa, steps);
                assert!(out.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}, {isa:?}");
            }
        }
    }
}

#[test]
fn attention_is_the_naive_formula_for_all_groups_and_sizes_of_heads_on_every_instruction_set() {
    let heads = [(1, 1), (4, 2), (3, 1), (8, 1), (16, 2), (7, 7), (41, 1)];
    let dims = [64, 1, 33, 80, 65, 16, 15];
    for (i, heads) in heads.into_iter().enumerate() {
        for (j, positions) in [(0, 1), (0, 5), (30, 4), (61, 10)].into_iter().enumerate() {
            let dim = dims[(i + j) % dims.len()];
            Case::new(heads, dim, positions).check(&format!("{heads:?} {dim} {positions:?}"));
        }
    }
    Case::new((2, 1), 300, (3, 2)).check("wide heads");
}

#[test]
fn attention_over_several_chunks_is_the_naive_formula_and_the_same_in_every_batch() {
    for (heads, dim, positions) in [
        ((2, 2), 33, (255, 1)),
        ((2, 2), 16, (256, 1)),
        ((1, 1), 24, (250, 13)),
        ((3, 1), 24, (500, 17)),
        ((4, 1), 16, (600, 3)),
        ((1, 1), 8, (0, 270)),
    ] {
        Case::new(heads, dim, positions).check(&format!("{heads:?} {dim} {positions:?}"));
    }
}

#[test]
fn windows_caps_and_slopes_are_those_of_the_naive_formula() {
    for positions in [(0, 40), (240, 40), (530, 1)] {
        for window in [1, 4, 16, 33, 200, 256, 257, 1000] {
            let mut case = Case::new((2, 1), 16, positions);
            case.window = window;
            case.check(&format!("window {window} {positions:?}"));
        }
        let mut capped = Case::new((3, 3), 24, positions);
        capped.softcap = Some(1.5);
        capped.check(&format!("cap {positions:?}"));
        let mut sloped = Case::new((4, 2), 24, positions);
        sloped.slopes = vec![0.25, 0.0625, 0.5, 0.001];
        sloped.check(&format!("slopes {positions:?}"));
        sloped.window = 20;
        sloped.softcap = Some(3.0);
        sloped.check(&format!("all {positions:?}"));
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    // Large enough to be spread over threads.
    let case = Case::new((8, 2), 64, (600, 37));
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
    let mut case = Case::new((2, 1), 24, (20, 12));
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
    let all = [(1, 1), (4, 2), (3, 1), (8, 1), (16, 2), (7, 7), (41, 1)];
    for (i, heads) in all.into_iter().enumerate() {
        for (j, positions) in [(0, 2), (0, 70), (30, 45), (210, 90), (500, 19)].into_iter().enumerate() {
            let dim = [64, 1, 33, 80, 65, 16, 15][(i + j) % 7];
            Case::new(heads, dim, positions).check_by_unit(&format!("{heads:?} {dim} {positions:?}"));
        }
    }
    Case::new((2, 1), 300, (3, 40)).check_by_unit("wide heads");
    for window in [1, 16, 33, 200, 257, 1000] {
        let mut case = Case::new((2, 1), 16, (240, 300));
        case.window = window;
        case.check_by_unit(&format!("window {window}"));
    }
    let mut all = Case::new((4, 2), 24, (240, 40));
    (all.slopes, all.softcap) = (vec![0.25, 0.0625, 0.5, 0.001], Some(1.5));
    all.check_by_unit("slopes and a cap");
}

#[test]
fn a_matrix_unit_takes_keys_and_values_of_all_types() {
    for kv_type in KvType::ALL {
        let mut case = Case::new((4, 2), 64, (100, 70));
        case.types = kv_type.into();
        let layer = case.layer(0);
        let expected = case.run_on(Isa::best(), &layer, &[70]);
        let out = case.run_by_unit(&layer);
        let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut out.iter().zip(&expected).map(|(a, b)| a - b));
        let relative = error / norm(&mut expected.iter().copied());
        // Bfloat16 has steps of 2^-8.
        assert!(relative > 1e-6 && relative < 1e-2, "{kv_type:?}: off by {relative}");
    }
}

#[test]
fn damage_does_not_reach_who_does_not_see_it_through_a_matrix_unit() {
    for (bad, what) in [f32::NAN, f32::INFINITY].into_iter().flat_map(|bad| (0..3).map(move |i| (bad, i))) {
        let mut case = Case::new((2, 1), 24, (20, 12));
        let (damaged, width) = (5, case.kv_heads * case.dim);
        let floats = [&mut case.q, &mut case.keys, &mut case.values].into_iter().nth(what).unwrap();
        let at = if what == 0 { damaged * 2 * 24 } else { (case.past + damaged) * width };
        floats[at] = bad;
        let layer = case.layer(0);
        let expected = case.run_on(Isa::best(), &layer, &[12]);
        let out = case.run_by_unit(&layer);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(out.iter().zip(&expected).all(same), "{bad} in {what}");
        assert!(out[..damaged * 48].iter().all(|v| v.is_finite()));
    }
}

#[test]
fn what_no_query_sees_does_not_matter_to_a_matrix_unit() {
    for kv_type in KvType::ALL {
        let mut case = Case::new((2, 1), 24, (20, 12));
        (case.window, case.types) = (7, kv_type.into());
        let expected = case.run_by_unit(&case.layer(10));
        let mut layer = case.layer(10);
        // Before any window, and behind the last token, as after tokens were taken back.
        let garbage = vec![f32::NAN; 14 * case.kv_heads * case.dim];
        layer.store(&Cpu::new(Isa::SCALAR), 0, &garbage, &garbage);
        let garbage = &garbage[..10 * case.kv_heads * case.dim];
        layer.store(&Cpu::new(Isa::SCALAR), 32, garbage, garbage);
        assert_eq!(case.run_by_unit(&layer), expected, "{kv_type:?}");
    }
}

#[test]
fn keys_infinitely_far_away_have_no_weight_unless_all_are() {
    let dim = 2;
    let mut case = Case::new((1, 1), dim, (299, 1));
    case.q = vec![1.0, 0.0];
    for position in 0..280 {
        case.keys[position * dim] = f32::NEG_INFINITY;
    }
    for isa in Isa::available() {
        let out = case.run(isa, &[1]);
        assert!(out.iter().zip(case.naive()).all(|(out, exact)| (f64::from(*out) - exact).abs() < 1e-5));
        let mut none = Case::new((1, 1), dim, (299, 1));
        (none.q, none.keys) = (vec![1.0, 1.0], vec![f32::NEG_INFINITY; 600]);
        assert!(none.run(isa, &[1]).iter().all(|v| v.is_nan()));
    }
}

#[test]
fn one_position_is_its_value() {
    let case = Case::new((3, 1), 5, (0, 1));
    assert_eq!(case.run(Isa::best(), &[1]), case.values.repeat(3));
}

#[test]
#[should_panic(expected = "more keys than fit")]
fn a_full_layer_takes_no_more() {
    let shape = KvShape { kv_heads: 1, head_dim: 4, types: KvTypes::default() };
    KvLayer::new(shape, 64).store(&Cpu::new(Isa::SCALAR), 63, &[0.0; 8], &[0.0; 8]);
}

/// Types whose keys and values take different ways, and those of both.
fn all_types() -> Vec<KvTypes> {
    let pairs = ["8bit,4bit", "2bit,f16", "f32,4bit"].map(|pair| pair.parse().unwrap());
    KvType::ALL.into_iter().map(KvTypes::from).chain(pairs).collect()
}

#[test]
fn every_type_has_the_same_bits_on_every_instruction_set_in_every_batch_and_stored_one_at_a_time() {
    for types in all_types() {
        for (heads, dim, positions, window) in [
            ((4, 2), 64, (0, 5), usize::MAX),
            ((2, 2), 33, (61, 10), usize::MAX),
            ((3, 1), 80, (250, 13), 70),
            ((1, 1), 300, (30, 4), usize::MAX),
            ((2, 1), 1, (500, 17), 9),
            ((8, 1), 16, (255, 2), usize::MAX),
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
        let mut case = Case::new((4, 2), dim, (300, 20));
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
    for types in all_types() {
        let mut case = Case::new((8, 2), 64, (600, 37));
        case.types = types;
        let (width, isa) = (case.heads * case.dim, Isa::best());
        let run = |threads| {
            let cpu = Cpu::with_threads(isa, threads).unwrap();
            let mut layer = case.empty_layer(0);
            layer.store(&cpu, 0, &case.keys, &case.values);
            let mut buffer = AttentionBuffer::new(case.heads, case.dim, 637).unwrap();
            let mut out = vec![0.0; case.q.len()];
            let (one, many) = (&case.q[..width], &case.q[width..]);
            let (out_one, out_many) = out.split_at_mut(width);
            cpu.attend(&case.attention(), &layer, 600, one, &mut buffer, out_one);
            cpu.attend(&case.attention(), &layer, 601, many, &mut buffer, out_many);
            out
        };
        let expected = run(1);
        assert!([2, 3].into_iter().all(|threads| run(threads) == expected), "{types}");
    }
}

#[test]
fn a_ring_gives_what_all_positions_give() {
    let isa = Isa::best();
    for types in all_types() {
        for (window, batch) in [(1, 1), (7, 5), (64, 64), (100, 3), (300, 30), (65, 1)] {
            let mut case = Case::new((2, 1), 24, (0, 900));
            (case.types, case.window) = (types, window);
            let steps = [vec![batch; 900 / batch], vec![900 % batch]].concat();
            let expected = case.run(isa, &steps);
            let mut ring = KvLayer::ring(case.shape(), window - 1 + batch, 900);
            assert!(ring.bytes() < KvLayer::new(case.shape(), 900).bytes());
            let (mut at, mut out) = (0, vec![f32::NAN; case.q.len()]);
            let mut buffer = AttentionBuffer::new(2, 24, 900).unwrap();
            for step in steps.into_iter().filter(|step| *step > 0) {
                ring.reserve(at + step).unwrap();
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
    let case = Case::new((1, 1), 4, (0, 200));
    let mut ring = KvLayer::ring(case.shape(), 10, 200);
    ring.reserve(200).unwrap();
    (0..200).for_each(|at| case.store(Isa::SCALAR, &mut ring, at..at + 1));
    let mut buffer = AttentionBuffer::new(1, 4, 200).unwrap();
    Cpu::new(Isa::SCALAR).attend(&case.attention(), &ring, 199, &[0.0; 4], &mut buffer, &mut [0.0; 4]);
}

#[test]
fn memory_is_taken_as_positions_come_and_refused_where_there_is_none() {
    let shape = KvShape { kv_heads: 2, head_dim: 24, types: KvTypes::F16 };
    let mut layer = KvLayer::new(shape, 1_000_000_000_000);
    layer.reserve(1).unwrap();
    layer.store(&Cpu::new(Isa::SCALAR), 0, &[1.0; 48 * 256], &[1.0; 48 * 256]);
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        layer.store(&Cpu::new(Isa::SCALAR), 256, &[1.0; 48], &[1.0; 48]);
    }));
    assert!(beyond.is_err(), "a page more than was reserved");
    for (kv_heads, head_dim, capacity) in [(1, 1 << 60, 64), (1, usize::MAX, usize::MAX), (1, 64, usize::MAX)]
    {
        for kv_type in KvType::ALL {
            let types = kv_type.into();
            let mut layer = KvLayer::new(KvShape { kv_heads, head_dim, types }, capacity);
            assert!(layer.bytes() > 1 << 50, "{kv_type:?}");
            if head_dim > 64 {
                let error = layer.reserve(64).unwrap_err().to_string();
                assert!(error.contains("key/value cache"), "{error}");
            }
        }
    }
}
