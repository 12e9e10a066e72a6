use super::*;
use crate::isa::Isa;

const KEY_HEADS: usize = 2;
const VALUE_HEADS: usize = 4;
/// More than pass over some rows before the next rows have their turn.
const TOKENS: usize = 37;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 29 + seed * 7) % 23) as f32 * 0.05 - 0.5).collect()
}

struct Case {
    key_dim: usize,
    value_dim: usize,
    inputs: Vec<f32>,
    by_channel: bool,
    decay: Vec<f32>,
    beta: Vec<f32>,
}

impl Case {
    fn new(key_dim: usize, value_dim: usize, by_channel: bool) -> Case {
        let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
        let gates = |seed| numbers(TOKENS * VALUE_HEADS, seed).into_iter().map(|v| v + 0.55).collect();
        let decays = TOKENS * VALUE_HEADS * if by_channel { key_dim } else { 1 };
        let decay = numbers(decays, 2).into_iter().map(|v| v * 0.9 + 0.5).collect();
        let mut inputs = numbers(TOKENS * width, 1);
        // Longer keys could make a state grow without end.
        for row in inputs.chunks_mut(width) {
            for key in row[KEY_HEADS * key_dim..][..KEY_HEADS * key_dim].chunks_mut(key_dim) {
                let length = key.iter().map(|v| v * v).sum::<f32>().sqrt();
                key.iter_mut().for_each(|v| *v /= length.max(0.1));
            }
        }
        Case { key_dim, value_dim, inputs, by_channel, decay, beta: gates(3) }
    }

    fn run(&self, cpu: &Cpu, steps: &[usize]) -> (Vec<f32>, Vec<f32>) {
        let Case { key_dim, value_dim, .. } = *self;
        let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
        let mut state = vec![0.0; GatedDelta::state_len(VALUE_HEADS, value_dim, key_dim)];
        let (mut first, mut all) = (0, Vec::new());
        for tokens in steps {
            let of = |values: &'_ [f32], width: usize| values[first * width..][..tokens * width].to_vec();
            let (inputs, decay, beta) =
                (of(&self.inputs, width), of(&self.decay, self.decays()), of(&self.beta, VALUE_HEADS));
            let step = GatedDelta {
                key_heads: KEY_HEADS,
                key_dim,
                value_heads: VALUE_HEADS,
                value_dim,
                inputs: &inputs,
                decay: &decay,
                by_channel: self.by_channel,
                beta: &beta,
            };
            let mut out = vec![f32::NAN; tokens * VALUE_HEADS * value_dim];
            let mut next = vec![f32::NAN; state.len()];
            cpu.gated_delta(&step, &state, &mut next, &mut out);
            all.extend(out);
            state = next;
            first += tokens;
        }
        (all, state)
    }

    /// Of a token.
    fn decays(&self) -> usize {
        VALUE_HEADS * if self.by_channel { self.key_dim } else { 1 }
    }

    /// By the formulas, in f64.
    fn expected(&self) -> Vec<f64> {
        let Case { key_dim, value_dim, .. } = *self;
        let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
        let mut states = vec![vec![vec![0.0f64; key_dim]; value_dim]; VALUE_HEADS];
        let mut out = Vec::new();
        for t in 0..TOKENS {
            let x: Vec<f64> = self.inputs[t * width..][..width].iter().map(|v| f64::from(*v)).collect();
            for (h, state) in states.iter_mut().enumerate() {
                let key_head = h / (VALUE_HEADS / KEY_HEADS);
                let (q, k) = (&x[key_head * key_dim..], &x[(KEY_HEADS + key_head) * key_dim..]);
                let v = &x[2 * KEY_HEADS * key_dim + h * value_dim..];
                let gate = |all: &[f32]| f64::from(all[t * VALUE_HEADS + h]);
                for (row, v) in state.iter_mut().zip(v) {
                    for (c, s) in row.iter_mut().enumerate() {
                        let run = self.decays() / VALUE_HEADS;
                        *s *= f64::from(self.decay[t * self.decays() + h * run + c % run]);
                    }
                    let held: f64 = row.iter().zip(k).map(|(s, k)| s * k).sum();
                    let change = (v - held) * gate(&self.beta);
                    row.iter_mut().zip(k).for_each(|(s, k)| *s += change * k);
                    out.push(row.iter().zip(q).map(|(s, q)| s * q).sum());
                }
            }
        }
        out
    }
}

#[test]
fn states_follow_the_formulas_in_any_steps_with_the_same_bits_everywhere() {
    // Rows of whole vectors and others, more of them than a task has, and keys that are too wide for tiles.
    let shapes = [(1, 1), (12, 20), (16, 33), (40, 64), (48, 130), (128, 48), (256, 17), (272, 16)]
        .map(|(key_dim, value_dim)| [false, true].map(|by_channel| (key_dim, value_dim, by_channel)));
    for (key_dim, value_dim, by_channel) in shapes.into_iter().flatten() {
        let case = Case::new(key_dim, value_dim, by_channel);
        let whole = case.run(&Cpu::with_threads(Isa::SCALAR, 1).unwrap(), &[TOKENS]);
        for (i, (found, expected)) in whole.0.iter().zip(case.expected()).enumerate() {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{i}: {found} {expected}");
        }
        for isa in Isa::available() {
            let cpu = Cpu::with_threads(isa, 3).unwrap();
            for steps in [&[TOKENS][..], &[1; TOKENS], &[4, 33], &[17, 20]] {
                assert_eq!(case.run(&cpu, steps), whole, "{isa:?} {steps:?} {key_dim} {value_dim}");
            }
        }
    }
}
