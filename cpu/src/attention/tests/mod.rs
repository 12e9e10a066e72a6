mod formula;
mod in_bytes;
mod stored_types;

use std::ops::Range;

use super::super::bf16_unit::EmulatedBf16;
use super::super::byte_products::EmulatedProducts;
use super::super::byte_unit::{AnyByteUnit, EmulatedBytes};
use super::super::shared::Shared;
use super::super::slabs::Slabs;
use super::super::{Cpu, Isa};
use super::by_unit::Unit;
use super::byte_tiles::InBytes;
use super::spread::{Block, Layer};
use super::tiles::InBf16;
use super::*;

fn floats(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
}

/// Heads of queries, and those of keys and values that they share.
#[derive(Debug, Clone, Copy)]
struct Heads {
    query: usize,
    kv: usize,
}

/// Tokens, and those before them.
#[derive(Debug, Clone, Copy)]
struct Positions {
    past: usize,
    tokens: usize,
}

const fn heads(query: usize, kv: usize) -> Heads {
    Heads { query, kv }
}

const fn positions(past: usize, tokens: usize) -> Positions {
    Positions { past, tokens }
}

/// Tokens behind `past` others, and everything that they see.
struct Case {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    value_dim: usize,
    past: usize,
    tokens: usize,
    window: usize,
    first: usize,
    softcap: Option<f32>,
    slopes: Vec<f32>,
    sinks: Vec<f32>,
    by_unit: bool,
    types: KvTypes,
    q: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Case {
    fn new(heads: Heads, dim: usize, positions: Positions) -> Case {
        let Heads { query: heads, kv: kv_heads } = heads;
        let Positions { past, tokens } = positions;
        let stored = (past + tokens) * kv_heads * dim;
        Case {
            heads,
            kv_heads,
            dim,
            value_dim: dim,
            past,
            tokens,
            window: usize::MAX,
            first: 0,
            softcap: None,
            slopes: Vec::new(),
            sinks: Vec::new(),
            by_unit: false,
            types: KvTypes::default(),
            q: floats(1, tokens * heads * dim),
            keys: floats(2, stored),
            values: floats(3, stored),
        }
    }

    /// Values of so many dimensions.
    fn with_values_of(self, value_dim: usize) -> Case {
        let stored = (self.past + self.tokens) * self.kv_heads * value_dim;
        Case { value_dim, values: floats(3, stored), ..self }
    }

    fn attention(&self) -> Attention<'_> {
        Attention {
            heads: self.heads,
            window: self.window,
            first: self.first,
            scale: 1.0 / (self.dim as f32).sqrt(),
            softcap: self.softcap,
            slopes: &self.slopes,
            sinks: &self.sinks,
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
        KvShape { kv_heads: self.kv_heads, head_dim: self.dim, value_dim: self.value_dim, types: self.types }
    }

    fn empty_layer(&self, more: usize) -> KvLayer {
        let mut layer = KvLayer::new(self.shape(), self.past + self.tokens + more);
        layer.reserve(&mut Slabs::default(), usize::MAX).unwrap();
        layer
    }

    /// Stores what belongs to some positions.
    fn store(&self, isa: Isa, layer: &mut KvLayer, positions: Range<usize>) {
        let rows = |width: usize| positions.start * width..positions.end * width;
        let (keys, values) = (rows(self.kv_heads * self.dim), rows(self.kv_heads * self.value_dim));
        layer.store(&Cpu::new(isa), positions.start, &self.keys[keys], &self.values[values]);
    }

    /// Results with the tokens in steps of these sizes.
    fn run_on(&self, isa: Isa, layer: &KvLayer, steps: &[usize]) -> Vec<f32> {
        let mut buffer = AttentionBuffer::new(self.heads, self.value_dim, self.past + self.tokens).unwrap();
        let mut out = vec![f32::NAN; self.tokens * self.heads * self.value_dim];
        let mut first = 0;
        for &step in steps {
            let rows = |width: usize| first * width..(first + step) * width;
            let q = &self.q[rows(self.heads * self.dim)];
            let out = &mut out[rows(self.heads * self.value_dim)];
            Cpu::new(isa).attend(&self.attention(), layer, self.past + first, q, &mut buffer, out);
            first += step;
        }
        assert_eq!(first, self.tokens);
        out
    }

    fn run(&self, isa: Isa, steps: &[usize]) -> Vec<f32> {
        self.run_on(isa, &self.layer(0), steps)
    }

    /// By emulated instructions for many rows, in bfloat16 and in bytes. Where the processor has the latter, it gives the same
    /// bits; where it has the former, its results are the first.
    fn run_by_units(&mut self, layer: &KvLayer) -> [Vec<f32>; 2] {
        self.by_unit = true;
        let mut results =
            [self.run_by::<InBf16<EmulatedBf16>>(layer), self.run_by::<InBytes<EmulatedProducts>>(layer)];
        // A single token is another matter.
        for isa in Isa::available().into_iter().filter(|_| self.tokens > 1) {
            let own = self.run_on(isa, layer, &[self.tokens]);
            match isa.name() {
                "avx512" => {
                    let same =
                        |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                    assert!(own.iter().zip(&results[1]).all(same), "vectors give other bits");
                }
                // Sums are in an order of its own.
                "amx" => results[0] = own,
                _ => {}
            }
        }
        results
    }

    fn run_by<U: Unit>(&self, layer: &KvLayer) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.tokens * self.heads * self.value_dim];
        let attention = &self.attention();
        let group = self.heads / self.kv_heads;
        let layer = Layer { attention, kv: layer, position: self.past, q: &self.q, group };
        // SAFETY: every processor emulates.
        unsafe {
            Cpu::new(Isa::SCALAR).attend_by::<U>(layer, self.tokens, usize::MAX, &Shared::new(&mut out));
        };
        out
    }

    /// By an emulated matrix unit for bytes, all tokens at once.
    fn run_by_bytes(&self, layer: &KvLayer) -> Vec<f32> {
        let (attention, group) = (&self.attention(), self.heads / self.kv_heads);
        let layer = Layer { attention, kv: layer, position: self.past, q: &self.q, group };
        let mut out = vec![f32::NAN; self.tokens * self.heads * self.value_dim];
        for head in (0..self.heads).step_by(group) {
            let block = Block { layer, head, token: 0, tokens: self.tokens };
            let unit = Some(&mut EmulatedBytes as &mut AnyByteUnit);
            Cpu::new(Isa::best()).attend_block_with(unit, block, &Shared::new(&mut out));
        }
        out
    }

    /// That units give the naive formula, with all that goes into products exact in bfloat16 but for the weights.
    fn check_by_units(mut self, name: &str) {
        let exact = |v: f32| half::bf16::from_f32(v).to_f32();
        let scale = self.attention().scale;
        self.q.iter_mut().for_each(|q| *q = exact(*q * scale) / scale);
        self.keys.iter_mut().chain(&mut self.values).for_each(|v| *v = exact(*v));
        let [in_bf16, in_bytes] = self.run_by_units(&self.layer(0));
        let mut squares = 0.0;
        for (i, ((bf16, bytes), exact)) in in_bf16.iter().zip(&in_bytes).zip(self.naive()).enumerate() {
            // Values are at most 2, and weights off by up to 2^-8 of themselves.
            assert!((f64::from(*bf16) - exact).abs() < 5e-3, "{name}, {i}: {bf16}, expected {exact}");
            // Queries, keys and values are off by up to 2^-8 of their largest, and so scores by a few hundredths.
            let error = f64::from(*bytes) - exact;
            assert!(error.abs() < 0.1, "{name}, {i} in bytes: {bytes}, expected {exact}");
            squares += error * error;
        }
        let error = (squares / in_bytes.len() as f64).sqrt();
        assert!(error < 1e-2, "{name} in bytes: off by {error}");
    }

    /// The formula in f64, position by position: what each query gives to all that are stored.
    fn naive_weights(&self) -> Vec<Vec<f64>> {
        let (dim, width) = (self.dim, self.kv_heads * self.dim);
        let scale = f64::from(self.attention().scale);
        let weights_of = |(row, q): (usize, &[f32])| {
            let (own, head) = (self.past + row / self.heads, row % self.heads);
            let column = head / (self.heads / self.kv_heads) * dim;
            let seen = (own + 1).saturating_sub(self.window).max(self.first)..own + 1;
            let weight = |position: usize| {
                if !seen.contains(&position) {
                    return 0.0;
                }
                let key = &self.keys[position * width + column..][..dim];
                let dot: f64 = key.iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                let capped = match self.softcap.map(f64::from) {
                    Some(cap) => cap * (dot * scale / cap).tanh(),
                    None => dot * scale,
                };
                let slope = self.slopes.get(head).map_or(0.0, |slope| f64::from(*slope));
                (capped - slope * (own - position) as f64).exp()
            };
            let weights: Vec<f64> = (0..self.past + self.tokens).map(weight).collect();
            let sink = self.sinks.get(head).map_or(0.0, |sink| f64::from(*sink).exp());
            let total: f64 = weights.iter().sum::<f64>() + sink;
            weights.into_iter().map(|weight| weight / total).collect()
        };
        self.q.chunks(dim).enumerate().map(weights_of).collect()
    }

    /// What comes of these weights.
    fn naive(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for (row, weights) in self.naive_weights().iter().enumerate() {
            let kv_head = row % self.heads / (self.heads / self.kv_heads);
            out.extend((0..self.value_dim).map(|i| {
                let place = |position| (position * self.kv_heads + kv_head) * self.value_dim + i;
                let value = |position| f64::from(self.values[place(position)]);
                weights.iter().enumerate().map(|(position, weight)| weight * value(position)).sum::<f64>()
            }));
        }
        out
    }

    /// That weights are those of the formula, and the same on every instruction set.
    fn check_weights(&self, name: &str) {
        let (layer, positions) = (self.layer(0), self.past + self.tokens);
        let run = |isa| {
            let mut out = vec![f32::NAN; self.heads * self.tokens * positions];
            Cpu::new(isa).attention_weights(
                &self.attention(),
                &layer,
                self.past,
                &self.q,
                positions,
                &mut out,
            );
            out
        };
        let out = run(Isa::SCALAR);
        for (row, expected) in self.naive_weights().iter().enumerate() {
            let at = (row % self.heads * self.tokens + row / self.heads) * positions;
            for (position, (out, exact)) in out[at..][..positions].iter().zip(expected).enumerate() {
                assert!(
                    (f64::from(*out) - exact).abs() < 2e-5 && (*exact > 0.0 || *out == 0.0),
                    "{name}, row {row}, position {position}: {out}, expected {exact}"
                );
            }
        }
        for isa in Isa::available() {
            assert_eq!(run(isa), out, "{name} {isa:?}");
        }
    }

    fn check(&self, name: &str) {
        let expected = self.run(Isa::SCALAR, &[self.tokens]);
        for (i, (out, exact)) in expected.iter().zip(self.naive()).enumerate() {
            assert!((f64::from(*out) - exact).abs() < 2e-5, "{name}, {i}: {out}, expected {exact}");
        }
        self.check_bits(name, &expected);
        self.check_weights(name);
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
