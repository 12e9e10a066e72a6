//! Products of a matrix whose rows are in several types: of each part by its own kernel, and then every row in its place.

use std::cell::RefCell;

use qsf_cpu::Cpu;

use super::adapted::{Adapted, MAX_WEIGHTS};
use super::input::Input;
use crate::tensor::{SplitRows, Tensor};
use qsf_format::MOST_PARTS;

thread_local! {
    /// What the parts give, one behind the other, each tokens x rows. It only grows.
    static SCRATCH: RefCell<Vec<f32>> = RefCell::default();
}

/// Products of matrices that are not in parts.
pub(super) type Multiply<'a> = dyn Fn(&[(&Tensor, Option<&[f32]>)], &Input<'_>, &mut [&mut [f32]]) + 'a;

/// Weights and biases of a call of which some are in parts, one by one; `multiply` does those that are not.
pub(super) fn linears(
    cpu: &Cpu,
    multiply: &Multiply<'_>,
    weights: &[(&Tensor, Option<&[f32]>)],
    adapted: &Adapted<'_>,
    input: &Input<'_>,
    outs: &mut [&mut [f32]],
) {
    for ((weight, bias), out) in weights.iter().zip(&mut *outs) {
        match weight.split() {
            Some(split) => linear(cpu, multiply, split, *bias, input, out),
            None => multiply(&[(weight, *bias)], input, &mut [out]),
        }
    }
    adapted.add_alone(cpu, outs);
}

/// One matrix in parts.
fn linear(
    cpu: &Cpu,
    multiply: &Multiply<'_>,
    split: &SplitRows,
    bias: Option<&[f32]>,
    input: &Input<'_>,
    out: &mut [f32],
) {
    const { assert!(MOST_PARTS <= MAX_WEIGHTS, "all parts in one call") };
    let (tokens, rows) = (input.rows(), split.rows().rows());
    assert_eq!(out.len(), tokens * rows, "output of another size");
    assert!(bias.is_none_or(|bias| bias.len() == rows), "bias of another length");
    if tokens == 0 {
        return;
    }
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < out.len() {
            scratch.resize(out.len(), 0.0);
        }
        let mut left = &mut scratch[..out.len()];
        let mut outs: [&mut [f32]; MOST_PARTS] = Default::default();
        for (slot, part) in outs.iter_mut().zip(split.parts()) {
            (*slot, left) = left.split_at_mut(tokens * part.rows());
        }
        let first = (&split.parts()[0], None);
        let mut weights = [first; MOST_PARTS];
        for (slot, part) in weights.iter_mut().zip(split.parts()) {
            slot.0 = part;
        }
        let parts = split.parts().len();
        multiply(&weights[..parts], input, &mut outs[..parts]);
        let outs = outs.each_ref().map(|out| &**out);
        cpu.for_each_rows([(out, rows)], rows, |token, [out]| {
            for (token, out) in (token..).zip(out.chunks_exact_mut(rows)) {
                for run in split.rows().runs() {
                    let (part, width) = (usize::from(run.part), split.rows().rows_of(usize::from(run.part)));
                    let from = &outs[part][token * width..][run.rows_in_part()];
                    out[run.rows()].copy_from_slice(from);
                }
                if let Some(bias) = bias {
                    out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use qsf_cpu::Isa;
    use qsf_format::{BlockSize, QuantType, RowParts};

    use super::*;
    use crate::linear::Products;

    const COLS: usize = 128;

    fn part(quant: QuantType, rows: usize, seed: usize) -> Tensor {
        let bytes = quant.tensor_bytes(BlockSize::B64, rows as u64, COLS as u64).unwrap() as usize;
        let bytes: Vec<u8> = (0..bytes).map(|i| ((i * 167 + seed * 31 + i / 7) % 60) as u8).collect();
        Tensor::new(rows, COLS, quant, BlockSize::B64, bytes.into()).unwrap()
    }

    #[test]
    fn rows_in_parts_give_the_bits_that_they_give_alone() {
        let of_row = |row: usize| if row % 7 == 3 { 1 } else { u8::from(row % 11 == 5) * 2 };
        let rows = RowParts::of((0..200).map(of_row)).unwrap();
        let quants = [QuantType::Q3, QuantType::Q8, QuantType::F16];
        let parts: Vec<Tensor> =
            quants.iter().enumerate().map(|(i, q)| part(*q, rows.rows_of(i), i)).collect();
        let all = Tensor::of_parts(parts.clone(), rows.clone());
        let bias: Vec<f32> = (0..200).map(|i| i as f32 / 8.0).collect();
        for (threads, tokens) in [(1, 1), (2, 1), (2, 5)] {
            let cpu = Cpu::with_threads(Isa::best(), threads).unwrap();
            let x: Vec<f32> = (0..tokens * COLS).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
            let mut codes = qsf_cpu::Int8Rows::default();
            codes.quantize(&cpu, &x, tokens, COLS);
            for input in [Input::float(&x, COLS), Input::with_int8(&x, COLS, &codes)] {
                let mut found = vec![0.0; tokens * 200];
                cpu.linear(&all, Some(&bias), &input, &mut found);
                for (i, part) in parts.iter().enumerate() {
                    let mut alone = vec![0.0; tokens * part.rows()];
                    cpu.linear(part, None, &input, &mut alone);
                    for (j, row) in rows.rows_in(i).enumerate() {
                        for token in 0..tokens {
                            let expected = alone[token * part.rows() + j] + bias[row];
                            assert_eq!(found[token * 200 + row], expected, "row {row}");
                        }
                    }
                }
            }
        }
    }
}
