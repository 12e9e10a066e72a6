//! The state space of Mamba-2 (arXiv 2405.21060). For each head, with the state S of `head_dim` rows and `state` columns, input x,
//! inputs B and C of its group, step d and decay g of a token, and a factor D of the head:
//!
//! 1. `S = g S + d x B^T`
//! 2. `out = S C + D x`
//!
//! Products of a row with C are sums in 16 lanes ([`lanes`](crate::lanes)). A few tokens read rows as they are stored, as here; more
//! of them turn rows into lanes first (`state_tile`), with the same bits.

use super::state_block::{Block, StateSpace, Token};
use super::{state_tile, tile};
use crate::backend::Cpu;
use crate::lanes::LANES;
use crate::shared::Shared;
use crate::vector::{Vector, VectorWork, run};

/// Rows of a state that a task works on.
const ROWS: usize = 32;

/// From so many tokens on it is worth turning rows into lanes, with 32 registers of vectors and with fewer.
const TILED: [usize; 2] = [16, 64];

/// Rows that are computed side by side.
const PAIR: usize = 2;

impl Cpu {
    /// Runs the tokens of `step` from the state `from`; the state behind them goes to `to`, what they read to `out`, one row of
    /// `heads * head_dim` for each.
    ///
    /// # Panics
    /// When sizes do not fit each other.
    pub fn state_space(&self, step: &StateSpace<'_>, from: &[f32], to: &mut [f32], out: &mut [f32]) {
        let StateSpace { heads, head_dim, .. } = *step;
        let row = step.state.next_multiple_of(LANES);
        let state = StateSpace::state_len(heads, head_dim, step.state);
        assert!(from.len() == state && to.len() == state, "a state of another size");
        assert!(heads.is_multiple_of(step.groups) && step.skip.len() == heads, "heads that share no groups");
        let (tokens, out_width) = (step.inputs.len() / step.width(), heads * head_dim);
        assert!(
            out.len() == tokens * out_width
                && step.decay.len() == tokens * heads
                && step.step.len() == tokens * heads,
            "tokens of another number"
        );
        let blocks = head_dim.div_ceil(ROWS);
        let (to, out) = (Shared::new(to), Shared::new(out));
        self.for_each(heads * blocks, 2 * tokens * state, |task| {
            let (head, first) = (task / blocks, task % blocks * ROWS);
            let count = ROWS.min(head_dim - first);
            let start = head * head_dim + first;
            // SAFETY: each task has rows of its own.
            let state = unsafe { to.part(start * row..(start + count) * row) };
            state.copy_from_slice(&from[start * row..][..state.len()]);
            let block = Block { step, head, start, count, tokens, out: &out };
            run(self.isa(), Pass { block, state });
        });
    }
}

/// All tokens over the state of some rows.
struct Pass<'a> {
    block: Block<'a>,
    state: &'a mut [f32],
}

impl VectorWork for Pass<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Pass { block, state } = self;
        let columns = block.step.state;
        let row = columns.next_multiple_of(LANES);
        let turns = block.tokens >= TILED[usize::from(!V::MANY)] && tile::fits::<2>(columns);
        let vectors = if turns { block.count / LANES } else { 0 };
        if vectors > 0 {
            state_tile::run::<V>(&block, &mut state[..vectors * LANES * row], vectors);
        }
        let turned = vectors * LANES;
        if turned == block.count {
            return;
        }
        let paired = turned + (block.count - turned) / PAIR * PAIR;
        for token in 0..block.tokens {
            let now = block.token(token);
            // SAFETY: each token has its turn once, and the part lives for the turn.
            let out = unsafe { block.out(token) };
            for first in (turned..paired).step_by(PAIR) {
                rows::<V, PAIR>(&mut state[first * row..][..PAIR * row], now, first, out);
            }
            for first in paired..block.count {
                rows::<V, 1>(&mut state[first * row..][..row], now, first, out);
            }
        }
    }
}

/// A token, `N` rows from `first` on, whose sums do not wait for one another.
///
/// Loops over numbers: what closures and iterators call is not compiled for the instruction set.
#[expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]
#[inline(always)]
fn rows<V: Vector, const N: usize>(state: &mut [f32], now: Token<'_>, first: usize, out: &mut [f32]) {
    let (full, columns) = (now.b.len() / LANES, now.b.len().div_ceil(LANES));
    let state = &mut state.as_chunks_mut::<LANES>().0[..N * columns];
    let decay = V::splat(now.decay);
    let (mut added, mut read) = ([V::splat(0.0); N], [V::splat(0.0); N]);
    for i in 0..N {
        added[i] = V::splat(now.step * now.x[first + i]);
    }
    let b_full = &now.b.as_chunks::<LANES>().0[..full];
    let c_full = &now.c.as_chunks::<LANES>().0[..full];
    for at in 0..columns {
        let (b, c);
        if at < full {
            (b, c) = (V::from_lanes(&b_full[at]), V::from_lanes(&c_full[at]));
        } else {
            (b, c) = (V::load(&now.b[full * LANES..]), V::load(&now.c[full * LANES..]));
        }
        for i in 0..N {
            let s = V::from_lanes(&state[i * columns + at]).mul(decay).fma(b, added[i]);
            state[i * columns + at] = s.to_lanes();
            read[i] = read[i].fma(s, c);
        }
    }
    for i in 0..N {
        out[first + i] = now.skip.mul_add(now.x[first + i], read[i].sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    const HEADS: usize = 4;
    const GROUPS: usize = 2;
    /// As many as any instruction set turns rows for.
    const TOKENS: usize = 66;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 29 + seed * 7) % 23) as f32 * 0.05 - 0.5).collect()
    }

    #[test]
    fn states_follow_the_formulas_in_any_steps_with_the_same_bits_everywhere() {
        for (head_dim, columns) in [(1, 1), (10, 12), (40, 33), (33, 64), (50, 128)] {
            let width = HEADS * head_dim + 2 * GROUPS * columns;
            let inputs = numbers(TOKENS * width, 1);
            let gates = |seed| -> Vec<f32> {
                numbers(TOKENS * HEADS, seed).into_iter().map(|v| v * 0.9 + 0.5).collect()
            };
            let (decay, step, skip) = (gates(2), gates(3), numbers(HEADS, 4));
            let go = |cpu: &Cpu, steps: &[usize]| {
                let mut state = vec![0.0; StateSpace::state_len(HEADS, head_dim, columns)];
                let (mut first, mut all) = (0, Vec::new());
                for tokens in steps {
                    let now = StateSpace {
                        heads: HEADS,
                        head_dim,
                        groups: GROUPS,
                        state: columns,
                        inputs: &inputs[first * width..][..tokens * width],
                        decay: &decay[first * HEADS..][..tokens * HEADS],
                        step: &step[first * HEADS..][..tokens * HEADS],
                        skip: &skip,
                    };
                    let mut out = vec![f32::NAN; tokens * HEADS * head_dim];
                    let mut next = vec![f32::NAN; state.len()];
                    cpu.state_space(&now, &state, &mut next, &mut out);
                    all.extend(out);
                    state = next;
                    first += tokens;
                }
                (all, state)
            };
            let whole = go(&Cpu::with_threads(Isa::SCALAR, 1).unwrap(), &[TOKENS]);
            let mut states = vec![0.0f64; HEADS * head_dim * columns];
            for t in 0..TOKENS {
                let x = |i: usize| f64::from(inputs[t * width + i]);
                for (i, state) in states.chunks_mut(columns).enumerate() {
                    let (h, group) = (i / head_dim, i / head_dim / (HEADS / GROUPS));
                    let gate = |all: &[f32]| f64::from(all[t * HEADS + h]);
                    let mut read = f64::from(skip[h]) * x(i);
                    for (n, s) in state.iter_mut().enumerate() {
                        let b = x(HEADS * head_dim + group * columns + n);
                        *s = *s * gate(&decay) + gate(&step) * x(i) * b;
                        read += *s * x(HEADS * head_dim + (GROUPS + group) * columns + n);
                    }
                    let found = f64::from(whole.0[t * HEADS * head_dim + i]);
                    assert!((found - read).abs() < 1e-5, "{t} {i}: {found} {read}");
                }
            }
            for isa in Isa::available() {
                let cpu = Cpu::with_threads(isa, 3).unwrap();
                for steps in [&[TOKENS][..], &[1; TOKENS], &[2, 64], &[33, 33]] {
                    assert_eq!(go(&cpu, steps), whole, "{isa:?} {steps:?} {head_dim} {columns}");
                }
            }
        }
    }
}
