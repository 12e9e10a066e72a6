use qsf_cpu::{Cpu, Function, Isa, gated};

use super::{Adapted, Input, Latents, LowRank, Narrow, Products as _};
use crate::tensor::Tensor;

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 32_768.0 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Values of very different sizes.
fn update(outputs: usize, inputs: usize, rank: usize, seed: u32) -> LowRank {
    let down: Vec<f32> = numbers(rank * inputs, seed).iter().map(|value| value * 1e-6).collect();
    let up: Vec<f32> = numbers(outputs * rank, seed + 1).iter().map(|value| value * 3e5).collect();
    LowRank::new(down, &up, [outputs, inputs], 0.5)
}

fn matrix(outputs: usize, inputs: usize, seed: u32) -> Tensor {
    Tensor::from_f32(outputs, inputs, &numbers(outputs * inputs, seed))
}

fn backends() -> Vec<Cpu> {
    let threads = [1, 2, 5].map(|threads| Cpu::with_threads(Isa::best(), threads).unwrap());
    Isa::available().into_iter().map(Cpu::new).chain(threads).collect()
}

#[test]
fn adapters_add_the_product_of_both_matrices_and_the_same_bits_everywhere() {
    for halves in [false, true] {
        for (outputs, inputs, rank, tokens) in
            [(37, 19, 3, 1), (16, 64, 8, 5), (5, 7, 1, 33), (700, 300, 8, 70)]
        {
            let x = numbers(tokens * inputs, 3);
            let weights =
                [matrix(outputs, inputs, 5), matrix(outputs, inputs, 6), matrix(outputs, inputs, 7)];
            let updates = [update(outputs, inputs, rank, 8), update(outputs, inputs, rank + 1, 9)];
            let narrow = updates.each_ref().map(|update| Narrow::new(update, halves));
            let adapters = [Some(&narrow[0]), None, Some(&narrow[1])];
            let run = |cpu: &Cpu, alone: bool| {
                let (input, mut latents) = (Input::float(&x, inputs), Latents::default());
                let adapted = Adapted::new(adapters, &input, &mut latents);
                let mut outs = [(); 3].map(|()| vec![0.0; tokens * outputs]);
                let [a, b, c] = &mut outs;
                let outs_of_call = &mut [&mut a[..], b, c];
                let weights = weights.each_ref().map(|weight| (weight, None));
                if alone {
                    cpu.linears(&weights, &input, outs_of_call);
                    adapted.add_alone(cpu, outs_of_call);
                } else {
                    cpu.adapted_linears(&weights, &adapted, &input, outs_of_call);
                }
                outs
            };
            let expected = run(&Cpu::new(Isa::SCALAR), false);
            for cpu in backends() {
                assert_eq!(run(&cpu, false), expected);
                assert_eq!(run(&cpu, true), expected);
            }
            for (number, (found, weight)) in expected.iter().zip(&weights).enumerate() {
                let of = [Some(&updates[0]), None, Some(&updates[1])][number];
                for (at, found) in found.iter().enumerate() {
                    let (x, row) = (&x[at / outputs * inputs..][..inputs], at % outputs);
                    let mut whole = weight.to_f32()[row * inputs..][..inputs].to_vec();
                    if let Some(update) = of {
                        update.add_to_row(Isa::SCALAR, row, &mut whole);
                    }
                    let exact: f64 = whole.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let error = (f64::from(*found) - exact).abs();
                    // Halves are off by 2^-12 of themselves at most.
                    let most = if halves && of.is_some() { 5e-3 } else { 1e-4 };
                    assert!(error < most, "{halves} {outputs} x {inputs}, {number}, {at}: {found} {exact}");
                }
            }
        }
    }
}

#[test]
fn what_adapters_add_comes_before_the_function() {
    let (rows, cols, tokens) = (200, 96, 3);
    let (x, weights) = (numbers(tokens * cols, 1), [matrix(rows, cols, 2), matrix(rows, cols, 3)]);
    let narrow = [4, 5].map(|seed| Narrow::new(&update(rows, cols, 8, seed), true));
    let pair = weights.each_ref().map(|weight| (weight, None));
    for adapters in [[Some(&narrow[0]), Some(&narrow[1])], [None, Some(&narrow[1])]] {
        for cpu in backends() {
            let (input, mut latents) = (Input::float(&x, cols), Latents::default());
            let adapted = Adapted::new(adapters, &input, &mut latents);
            let (mut gate, mut up, mut out) =
                (vec![0.0; tokens * rows], vec![0.0; tokens * rows], vec![0.0; tokens * rows]);
            cpu.gated_linear(Function::Silu, pair, &adapted, &input, &mut out);
            let adapted = Adapted::new(adapters, &input, &mut latents);
            cpu.adapted_linears(&pair, &adapted, &input, &mut [&mut gate, &mut up]);
            gated(cpu.isa(), Function::Silu, &mut gate, &up);
            assert_eq!(out, gate);
        }
    }
}

#[test]
fn updates_of_one_matrix_are_added_up() {
    let shape = [4, 3];
    let (a, b) = (update(4, 3, 2, 1), update(4, 3, 1, 2));
    let mut both = Narrow::new(&a, true);
    both.join(&Narrow::new(&b, true));
    assert_eq!((both.rank(), both.shape()), (3, shape));
    let x = numbers(3, 9);
    let run = |narrow: &[&Narrow]| {
        let (input, mut out) = (Input::float(&x, 3), vec![0.0; 4]);
        for narrow in narrow {
            let mut latents = Latents::default();
            Adapted::new([Some(*narrow)], &input, &mut latents)
                .add_alone(&Cpu::new(Isa::best()), &mut [&mut out]);
        }
        out
    };
    assert_eq!(run(&[&both]), run(&[&Narrow::new(&a, true), &Narrow::new(&b, true)]));
}
