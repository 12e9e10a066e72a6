//! Two weights and the product of what they give, one through a function: results of both never leave the caches of a core.

use std::cell::RefCell;
use std::ops::Range;

use super::adapted::Adapted;
use super::input::Input;
use super::output::Output;
use super::task::{MatrixProduct, run_task};
use crate::tensor::Tensor;
use qsf_cpu::{AlignedFloats, Cpu, Function, Vectorized, gate};

thread_local! {
    /// Some rows of both results, for all tokens.
    static RESULTS: RefCell<[AlignedFloats; 2]> = RefCell::default();
}

/// [`Products::gated_linear`](super::Products::gated_linear).
pub(super) fn gated_linear(
    cpu: &Cpu,
    function: Function,
    pair: [(&Tensor, Option<&[f32]>); 2],
    adapted: &Adapted<'_>,
    input: &Input<'_>,
    out: &mut [f32],
) {
    let (m, k, rows) = (input.rows(), input.cols(), pair[0].0.rows());
    for (weight, bias) in pair {
        assert_eq!((weight.rows(), weight.cols()), (rows, k), "weights of different shapes");
        assert!(bias.is_none_or(|bias| bias.len() == rows), "bias of another length");
    }
    assert_eq!(out.len(), m * rows, "output of another size");
    if m == 0 {
        return;
    }
    let out = Output::columns_of(out, m, 0..rows);
    let parts = input.row_parts();
    let work = (2 * rows).saturating_mul(k).saturating_mul(m).saturating_add(adapted.work());
    adapted.for_each_part(cpu, parts.count(rows), parts.units.clone(), work, |part| {
        let part = parts.rows_of(part, rows);
        RESULTS.with_borrow_mut(|results| {
            for (number, (result, (weight, bias))) in results.iter_mut().zip(pair).enumerate() {
                let out = Output::only(result.at_least(m * part.len()), m, part.clone());
                let product = MatrixProduct { weight, bias, out, first_unit: 0 };
                // SAFETY: the buffer is this thread's.
                unsafe {
                    run_task(cpu, &product, part.clone(), input);
                    adapted.add(cpu, number, part.clone(), &product.out);
                }
            }
            let [gate, up] = results.each_ref().map(|result| &result[..m * part.len()]);
            cpu.isa().vectorize(Product { function, gate, up, part, out: &out });
        });
    });
}

/// The product of the parts, row by row, to columns of the output that are the task's own.
struct Product<'a> {
    function: Function,
    gate: &'a [f32],
    up: &'a [f32],
    part: Range<usize>,
    out: &'a Output<'a>,
}

impl Vectorized for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let width = self.part.len();
        let rows = self.gate.chunks_exact(width).zip(self.up.chunks_exact(width));
        for (row, (of_gate, of_up)) in rows.enumerate() {
            // SAFETY: every row of weights is in one part, and each has columns of its own.
            let out = unsafe { self.out.part_of_row(row, self.part.clone()) };
            gate(self.function, of_gate, of_up, out);
        }
    }
}
