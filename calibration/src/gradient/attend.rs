//! Attention of one sequence, head by head, forwards and backwards. Weights of all pairs of tokens are kept between the two.

use qsf_runtime::Result;
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::math::{exp, tanh};
use qsf_runtime::cpu::{Cpu, Vectorized, zeros};

/// What attention computes.
pub(super) struct Attend<'a> {
    pub tokens: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub scale: f32,
    pub softcap: Option<f32>,
    /// Positions that a token sees, itself among them.
    pub window: usize,
    /// Whether windows stand side by side instead.
    pub chunks: bool,
    /// Of ALiBi, one per head, or none.
    pub slopes: &'a [f32],
    /// One per head, or none.
    pub sinks: &'a [f32],
}

/// Gradients at what attention read: queries, keys and values in rows of tokens, and one value for each sink.
pub(super) struct AttendGradients {
    pub q: Vec<f32>,
    pub k: Vec<f32>,
    pub v: Vec<f32>,
    pub sinks: Vec<f64>,
}

impl Attend<'_> {
    /// Positions that the token at `t` sees.
    fn seen(&self, t: usize) -> std::ops::Range<usize> {
        let start =
            if self.chunks { t / self.window * self.window } else { (t + 1).saturating_sub(self.window) };
        start..t + 1
    }

    /// Weights of a head: for each token those of all positions, and behind them that of the sink.
    fn row(&self) -> usize {
        self.tokens + 1
    }

    /// What attention gives, in rows of tokens, and the weights of each head.
    pub fn forward(&self, cpu: &Cpu, q: &[f32], k: &[f32], v: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        let (n, group) = (self.tokens, self.heads / self.kv_heads);
        let q = by_heads(q, self.heads, self.key_dim);
        let (k, v) = (by_heads(k, self.kv_heads, self.key_dim), by_heads(v, self.kv_heads, self.value_dim));
        let (in_weights, in_out) = (n * self.row(), n * self.value_dim);
        let mut weights = zeros(self.heads.saturating_mul(in_weights), "weights of attention")?;
        let mut out = zeros(self.heads.saturating_mul(in_out), "activations of a layer")?;
        let work = n * n * (self.key_dim + self.value_dim);
        cpu.for_each_rows([(&mut weights, in_weights), (&mut out, in_out)], work, |first, [weights, out]| {
            let heads = weights.chunks_exact_mut(in_weights).zip(out.chunks_exact_mut(in_out));
            for (head, (weights, out)) in (first..).zip(heads) {
                let kv = head / group;
                let (q, k) = (part(&q, head, n * self.key_dim), part(&k, kv, n * self.key_dim));
                let v = part(&v, kv, in_out);
                cpu.isa().vectorize(Forward { of: self, head, q, k, v, weights, out });
            }
        });
        Ok((by_tokens(&out, self.heads, self.value_dim), weights))
    }

    /// Gradients at what attention read, from `given` at what it gave.
    pub fn backward(
        &self,
        cpu: &Cpu,
        [q, k, v]: [&[f32]; 3],
        weights: &[f32],
        given: &[f32],
    ) -> Result<AttendGradients> {
        let (n, group) = (self.tokens, self.heads / self.kv_heads);
        let q = by_heads(q, self.heads, self.key_dim);
        let (k, v) = (by_heads(k, self.kv_heads, self.key_dim), by_heads(v, self.kv_heads, self.value_dim));
        let given = by_heads(given, self.heads, self.value_dim);
        let (in_keys, in_values) = (n * self.key_dim, n * self.value_dim);
        let what = "gradients of a layer";
        let (mut dq, mut dk) = (zeros(q.len(), what)?, zeros(k.len(), what)?);
        let (mut dv, mut sinks) = (zeros(v.len(), what)?, zeros(self.heads, what)?);
        let rows =
            [(&mut dq[..], group * in_keys), (&mut dk, in_keys), (&mut dv, in_values), (&mut sinks, group)];
        cpu.for_each_rows(rows, 2 * group * n * n * self.key_dim, |first, [dq, dk, dv, sinks]| {
            // Heads that read the same keys and values add to the same gradients, one after the other.
            for (at, head) in (first * group..).take(sinks.len()).enumerate() {
                let (kv, own) = (head / group, at / group);
                cpu.isa().vectorize(Backward {
                    of: self,
                    q: part(&q, head, in_keys),
                    k: part(&k, kv, in_keys),
                    v: part(&v, kv, in_values),
                    weights: part(weights, head, n * self.row()),
                    given: part(&given, head, in_values),
                    dq: &mut dq[at * in_keys..][..in_keys],
                    dk: &mut dk[own * in_keys..][..in_keys],
                    dv: &mut dv[own * in_values..][..in_values],
                    sink: &mut sinks[at],
                });
            }
        });
        Ok(AttendGradients {
            q: by_tokens(&dq, self.heads, self.key_dim),
            k: by_tokens(&dk, self.kv_heads, self.key_dim),
            v: by_tokens(&dv, self.kv_heads, self.value_dim),
            sinks: sinks.into_iter().map(f64::from).collect(),
        })
    }
}

fn part(values: &[f32], i: usize, len: usize) -> &[f32] {
    &values[i * len..][..len]
}

/// Rows of tokens, each of `heads` heads, as rows of heads.
fn by_heads(rows: &[f32], heads: usize, dim: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len());
    for head in 0..heads {
        rows.chunks_exact(heads * dim).for_each(|row| out.extend_from_slice(part(row, head, dim)));
    }
    out
}

/// And back.
fn by_tokens(rows: &[f32], heads: usize, dim: usize) -> Vec<f32> {
    let tokens = rows.len() / (heads * dim);
    let mut out = Vec::with_capacity(rows.len());
    for t in 0..tokens {
        (0..heads).for_each(|head| out.extend_from_slice(part(rows, head * tokens + t, dim)));
    }
    out
}

struct Forward<'a> {
    of: &'a Attend<'a>,
    head: usize,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    weights: &'a mut [f32],
    out: &'a mut [f32],
}

impl Vectorized for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Attend { key_dim, value_dim, tokens, .. } = *self.of;
        let sink = self.of.sinks.get(self.head).copied();
        let slope = self.of.slopes.get(self.head).copied().unwrap_or(0.0);
        let rows = self.weights.chunks_exact_mut(self.of.row()).zip(self.out.chunks_exact_mut(value_dim));
        for (t, (weights, out)) in rows.enumerate() {
            let (q, seen) = (part(self.q, t, key_dim), self.of.seen(t));
            let mut top = sink.unwrap_or(f32::MIN);
            for j in seen.clone() {
                let mut score = dot(q, part(self.k, j, key_dim)) * self.of.scale;
                if let Some(cap) = self.of.softcap {
                    score = cap * tanh(score / cap);
                }
                score -= slope * (t - j) as f32;
                weights[j] = score;
                top = if score > top { score } else { top };
            }
            let mut total = sink.map_or(0.0, |sink| f64::from(exp(sink - top)));
            for weight in &mut weights[seen.clone()] {
                *weight = exp(*weight - top);
                total += f64::from(*weight);
            }
            let by = (1.0 / total) as f32;
            weights[tokens] = sink.map_or(0.0, |sink| exp(sink - top) * by);
            for j in seen {
                weights[j] *= by;
                add_scaled(out, weights[j], part(self.v, j, value_dim));
            }
        }
    }
}

struct Backward<'a> {
    of: &'a Attend<'a>,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    weights: &'a [f32],
    given: &'a [f32],
    dq: &'a mut [f32],
    dk: &'a mut [f32],
    dv: &'a mut [f32],
    sink: &'a mut f32,
}

impl Vectorized for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Attend { key_dim, value_dim, tokens, scale, .. } = *self.of;
        let mut at_weights = vec![0.0; tokens];
        let mut of_sink = 0.0;
        for (t, weights) in self.weights.chunks_exact(self.of.row()).enumerate() {
            let (q, given) = (part(self.q, t, key_dim), part(self.given, t, value_dim));
            let seen = self.of.seen(t);
            let mut mean = 0.0;
            for j in seen.clone() {
                let slope = dot(given, part(self.v, j, value_dim));
                at_weights[j] = slope;
                mean += f64::from(weights[j]) * f64::from(slope);
                add_scaled(&mut self.dv[j * value_dim..][..value_dim], weights[j], given);
            }
            of_sink -= f64::from(weights[tokens]) * mean;
            for j in seen {
                let k = part(self.k, j, key_dim);
                let mut slope = (f64::from(weights[j]) * (f64::from(at_weights[j]) - mean)) as f32;
                if let Some(cap) = self.of.softcap {
                    let bent = tanh(dot(q, k) * scale / cap);
                    slope *= 1.0 - bent * bent;
                }
                slope *= scale;
                add_scaled(&mut self.dq[t * key_dim..][..key_dim], slope, k);
                add_scaled(&mut self.dk[j * key_dim..][..key_dim], slope, q);
            }
        }
        *self.sink = of_sink as f32;
    }
}

/// `x += factor * y`. Not fused: the same bits with and without such an instruction, at the speed of either.
#[inline(always)]
fn add_scaled(x: &mut [f32], factor: f32, y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += factor * y;
    }
}
