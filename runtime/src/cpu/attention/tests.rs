use super::super::{Cpu, Isa};
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
        }
    }

    /// A layer with room for `more` positions.
    fn layer(&self, more: usize) -> KvLayer {
        let mut layer = KvLayer::new(self.kv_heads, self.dim, self.past + self.tokens + more).unwrap();
        layer.store(0, &self.keys, &self.values);
        layer
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
        let (some, rest) = (self.tokens / 3, self.tokens - self.tokens / 3);
        for isa in Isa::available() {
            for steps in [&[self.tokens][..], &vec![1; self.tokens], &[some, rest], &[rest, some]] {
                let out = self.run(isa, steps);
                assert!(
                    out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "{name}, {isa:?}"
                );
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
    let expected = case.run(Isa::SCALAR, &[12]);
    let damaged = 5;
    for bad in [f32::NAN, f32::INFINITY] {
        let mut layer = case.layer(10);
        let width = case.kv_heads * case.dim;
        let garbage = vec![bad; 17 * width];
        layer.store(case.past + damaged, &garbage, &garbage);
        // Before any window.
        layer.store(0, &garbage[..14 * width], &garbage[..14 * width]);
        for isa in Isa::available() {
            let out = case.run_on(isa, &layer, &[12]);
            let (good, rest) = out.split_at(damaged * case.heads * case.dim);
            assert_eq!(good, &expected[..good.len()], "{isa:?} {bad}");
            assert!(rest.iter().all(|v| v.is_nan()), "{isa:?} {bad}: damage must show");
        }
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
    KvLayer::new(1, 4, 32).unwrap().store(31, &[0.0; 8], &[0.0; 8]);
}
