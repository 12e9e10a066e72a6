//! Attention of one sequence, head by head, forwards and backwards. Weights of all pairs of tokens are kept between the two.
//!
//! A head is one task. Its products of matrices are those of all others here: what a token does not see has the weight 0.

use qsf_runtime::Result;
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::math::{softmax_in_place, tanh};
use qsf_runtime::cpu::{ColumnPanels, Cpu, Vectorized, zeros};
use qsf_runtime::linear::{Input, Products as _};
use qsf_runtime::source::Tensor;

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
                self.forward_head(cpu, head, [q, k, v], weights, out);
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
                let of = HeadInputs {
                    q: part(&q, head, in_keys),
                    k: part(&k, kv, in_keys),
                    v: part(&v, kv, in_values),
                    weights: part(weights, head, n * self.row()),
                    given: part(&given, head, in_values),
                };
                let into = [
                    &mut dq[at * in_keys..][..in_keys],
                    &mut dk[own * in_keys..][..in_keys],
                    &mut dv[own * in_values..][..in_values],
                ];
                sinks[at] = self.backward_head(cpu, &of, into);
            }
        });
        Ok(AttendGradients {
            q: by_tokens(&dq, self.heads, self.key_dim),
            k: by_tokens(&dk, self.kv_heads, self.key_dim),
            v: by_tokens(&dv, self.kv_heads, self.value_dim),
            sinks: sinks.into_iter().map(f64::from).collect(),
        })
    }

    /// Weights of a head, and what it gives.
    fn forward_head(
        &self,
        cpu: &Cpu,
        head: usize,
        [q, k, v]: [&[f32]; 3],
        weights: &mut [f32],
        out: &mut [f32],
    ) {
        let (n, isa) = (self.tokens, cpu.isa());
        let mut scores = products(cpu, k, q, self.key_dim);
        let slope = self.slopes.get(head).copied().unwrap_or(0.0);
        let mut turned = vec![0.0; n * n];
        let mut row = Vec::with_capacity(n + 1);
        for (t, scores) in scores.chunks_exact_mut(n).enumerate() {
            let seen = self.seen(t);
            let scores = &mut scores[seen.clone()];
            isa.vectorize(Score {
                scores,
                scale: self.scale,
                softcap: self.softcap,
                slope,
                first: seen.start,
                t,
            });
            row.clear();
            row.extend_from_slice(scores);
            row.extend(self.sinks.get(head));
            softmax_in_place(isa, &mut row);
            let to = &mut weights[t * self.row()..][..self.row()];
            to[seen.clone()].copy_from_slice(&row[..seen.len()]);
            to[n] = if self.sinks.is_empty() { 0.0 } else { row[seen.len()] };
            for (j, weight) in seen.zip(&row) {
                turned[j * n + t] = *weight;
            }
        }
        add_sums(cpu, (&turned, n), (v, self.value_dim), out);
    }

    /// Adds the gradients at queries, keys and values of a head; gives that at its sink.
    fn backward_head(&self, cpu: &Cpu, of: &HeadInputs<'_>, [dq, dk, dv]: [&mut [f32]; 3]) -> f32 {
        let (n, isa) = (self.tokens, cpu.isa());
        let HeadInputs { q, k, v, weights, given } = *of;
        let mut all = vec![0.0; n * n];
        for (row, weights) in all.chunks_exact_mut(n).zip(weights.chunks_exact(self.row())) {
            row.copy_from_slice(&weights[..n]);
        }
        add_sums(cpu, (&all, n), (given, self.value_dim), dv);
        // From gradients at weights to those at scores, in the place of the weights.
        let at_weights = products(cpu, v, given, self.value_dim);
        let raw = self.softcap.map(|_| products(cpu, k, q, self.key_dim)).unwrap_or_default();
        let mut turned = vec![0.0; n * n];
        let mut at_sink = 0.0;
        for (t, (row, at)) in all.chunks_exact_mut(n).zip(at_weights.chunks_exact(n)).enumerate() {
            let seen = self.seen(t);
            let raw = raw.get(t * n + seen.start..t * n + seen.end);
            let (weights, at) = (&mut row[seen.clone()], &at[seen.clone()]);
            let capped = self.softcap.zip(raw);
            let mean = isa.vectorize(AtScores { weights, at, scale: self.scale, capped });
            at_sink -= f64::from(of.weights[t * self.row() + n]) * f64::from(mean);
            for j in seen {
                turned[j * n + t] = row[j];
            }
        }
        add_sums(cpu, (&turned, n), (k, self.key_dim), dq);
        add_sums(cpu, (&all, n), (q, self.key_dim), dk);
        at_sink as f32
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

/// What the way back of a head reads.
struct HeadInputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    weights: &'a [f32],
    given: &'a [f32],
}

/// Products of each row of `right` with all rows of `left`, `width` wide.
fn products(cpu: &Cpu, left: &[f32], right: &[f32], width: usize) -> Vec<f32> {
    let rows = left.len() / width;
    let mut out = vec![0.0; rows * (right.len() / width)];
    cpu.linear(&Tensor::from_f32(rows, width, left), None, &Input::float(right, width), &mut out);
    out
}

/// Adds `left' right` to `out`: the sum over their rows, of which each is as wide as said.
fn add_sums(cpu: &Cpu, left: (&[f32], usize), right: (&[f32], usize), out: &mut [f32]) {
    let (mut a, mut b) = (ColumnPanels::new(), ColumnPanels::new());
    a.fill(cpu, left.0, left.1);
    b.fill(cpu, right.0, right.1);
    cpu.add_cross_moment(&a, &b, out);
}

/// From products of queries and keys to scores; `first` is the position of the first, `t` that of the query.
struct Score<'a> {
    scores: &'a mut [f32],
    scale: f32,
    softcap: Option<f32>,
    slope: f32,
    first: usize,
    t: usize,
}

impl Vectorized for Score<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.scores.iter_mut().for_each(|score| *score *= self.scale);
        if let Some(cap) = self.softcap {
            self.scores.iter_mut().for_each(|score| *score = cap * tanh(*score / cap));
        }
        if self.slope != 0.0 {
            for (j, score) in (self.first..).zip(self.scores) {
                *score -= self.slope * (self.t - j) as f32;
            }
        }
    }
}

/// From weights and gradients at them to gradients at products of queries and keys, in the place of the weights; gives the mean of
/// the gradients by the weights. `capped` is the cap of scores, and these products.
struct AtScores<'a> {
    weights: &'a mut [f32],
    at: &'a [f32],
    scale: f32,
    capped: Option<(f32, &'a [f32])>,
}

impl Vectorized for AtScores<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let mean = dot(self.weights, self.at);
        for (weight, at) in self.weights.iter_mut().zip(self.at) {
            *weight *= (at - mean) * self.scale;
        }
        if let Some((cap, raw)) = self.capped {
            for (value, raw) in self.weights.iter_mut().zip(raw) {
                let bent = tanh(raw * self.scale / cap);
                *value *= 1.0 - bent * bent;
            }
        }
        mean
    }
}
