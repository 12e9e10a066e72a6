//! The products that a decoder asks for, as tasks for all threads.

use qsf_cpu::{Cpu, Function};
use qsf_format::panels::PANEL_ROWS;

use super::adapted::{Adapted, MAX_WEIGHTS};
use super::gated;
use super::input::Input;
use super::output::Output;
use super::parts;
use super::task::{MatrixProduct, run_task};
use crate::tensor::Tensor;

/// Products of stored weights and activations, on the threads of a backend.
pub trait Products {
    /// `out = input * weight^T + bias`: `out` is m x `weight.rows()`, row major.
    ///
    /// Weights of block types use the kernels for the form that the input has; without one, and for float types, rows are
    /// decoded to floats.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    fn linear(&self, weight: &Tensor, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]);

    /// [`Products::linear`] with up to four weights and one input, spread over the threads together.
    ///
    /// # Panics
    /// When the shapes do not fit together, or there are more weights or not one output for each.
    fn linears(&self, weights: &[(&Tensor, Option<&[f32]>)], input: &Input<'_>, outs: &mut [&mut [f32]]) {
        self.adapted_linears(weights, &Adapted::NONE, input, outs);
    }

    /// [`Products::linears`] with the adapters of these weights.
    ///
    /// # Panics
    /// As [`Products::linears`].
    fn adapted_linears(
        &self,
        weights: &[(&Tensor, Option<&[f32]>)],
        adapted: &Adapted<'_>,
        input: &Input<'_>,
        outs: &mut [&mut [f32]],
    );

    /// [`Products::linear`] with some rows of a weight: fills the columns of `out` from `first` on, as many as `weight` has rows, with what
    /// the whole weight would give there.
    ///
    /// # Panics
    /// When the shapes do not fit together, or `first` is not at a panel.
    fn linear_rows(
        &self,
        weight: &Tensor,
        bias: Option<&[f32]>,
        input: &Input<'_>,
        out: &mut [f32],
        first: usize,
    );

    /// `out[r] = input . weight[r]` for a single input and the rows r of the panels of 16 rows whose numbers are `panels`;
    /// the rest of `out` stays as it is.
    ///
    /// # Panics
    /// When the shapes do not fit together, there is not one input, or `panels` is not ascending or exceeds the weight.
    fn linear_panels(&self, weight: &Tensor, panels: &[u32], input: &Input<'_>, out: &mut [f32]);

    /// `out = function(input * gate^T + bias) * (input * up^T + bias)`, value by value, for the pair of `gate` and `up`: the same bits
    /// as [`Products::adapted_linears`] and [`gated`](qsf_cpu::gated) give. `out` is m x rows of the weights, row major.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    fn gated_linear(
        &self,
        function: Function,
        pair: [(&Tensor, Option<&[f32]>); 2],
        adapted: &Adapted<'_>,
        input: &Input<'_>,
        out: &mut [f32],
    );
}

impl Products for Cpu {
    fn linear(&self, weight: &Tensor, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]) {
        self.linears(&[(weight, bias)], input, &mut [out]);
    }

    fn adapted_linears(
        &self,
        weights: &[(&Tensor, Option<&[f32]>)],
        adapted: &Adapted<'_>,
        input: &Input<'_>,
        outs: &mut [&mut [f32]],
    ) {
        assert_eq!(weights.len(), outs.len(), "one output per weight");
        assert!(weights.len() <= MAX_WEIGHTS, "{} weights in one call", weights.len());
        let m = input.rows();
        if m == 0 {
            return;
        }
        if weights.iter().any(|(weight, _)| weight.split().is_some()) {
            let multiply =
                |weights: &[(&Tensor, Option<&[f32]>)], input: &Input<'_>, outs: &mut [&mut [f32]]| {
                    self.linears(weights, input, outs);
                };
            return parts::linears(self, &multiply, weights, adapted, input, outs);
        }
        let all_rows: usize = weights.iter().map(|(weight, _)| weight.rows()).sum();
        let parts = input.row_parts();
        let mut products: [Option<MatrixProduct<'_>>; MAX_WEIGHTS] = [const { None }; MAX_WEIGHTS];
        let mut units = 0;
        for ((slot, (weight, bias)), out) in products.iter_mut().zip(weights).zip(outs) {
            assert_eq!(weight.cols(), input.k, "weight of other columns than the input");
            assert!(bias.is_none_or(|bias| bias.len() == weight.rows()), "bias of another length");
            assert_eq!(out.len(), m * weight.rows(), "output of another size");
            let out = Output::columns_of(out, m, 0..weight.rows());
            *slot = Some(MatrixProduct { weight, bias: *bias, out, first_unit: units });
            units += parts.count(weight.rows());
        }
        let work = all_rows.saturating_mul(input.k).saturating_mul(m).saturating_add(adapted.work());
        adapted.for_each_part(self, units, parts.units.clone(), work, |part| {
            for (number, product) in products.iter().flatten().enumerate() {
                let (first, all) = (product.first_unit, product.weight.rows());
                let own = part.start.max(first)..part.end.min(first + parts.count(all));
                if own.is_empty() {
                    continue;
                }
                let rows = parts.rows_of(own.start - first..own.end - first, all);
                // SAFETY: every unit is in one part, and each has rows of its own.
                unsafe {
                    run_task(self, product, rows.clone(), input);
                    adapted.add(self, number, rows, &product.out);
                }
            }
        });
    }

    fn linear_rows(
        &self,
        weight: &Tensor,
        bias: Option<&[f32]>,
        input: &Input<'_>,
        out: &mut [f32],
        first: usize,
    ) {
        let (m, rows) = (input.rows(), weight.rows());
        if m == 0 {
            return;
        }
        assert_eq!(weight.cols(), input.k, "weight of other columns than the input");
        assert!(bias.is_none_or(|bias| bias.len() == rows), "bias of another length");
        assert!(first.is_multiple_of(PANEL_ROWS), "rows from {first} on cut a panel");
        let parts = input.row_parts();
        let out = Output::columns_of(out, m, first..first + rows);
        let product = MatrixProduct { weight, bias, out, first_unit: 0 };
        let work = rows.saturating_mul(input.k).saturating_mul(m);
        self.for_each_part(parts.count(rows), parts.units.clone(), work, |part| {
            // SAFETY: every unit is in one part, and each has rows of its own.
            unsafe { run_task(self, &product, parts.rows_of(part, rows), input) };
        });
    }

    fn linear_panels(&self, weight: &Tensor, panels: &[u32], input: &Input<'_>, out: &mut [f32]) {
        assert_eq!((input.rows(), weight.cols()), (1, input.k), "not one input of the weight's columns");
        assert!(panels.is_sorted_by(|a, b| a < b), "panels that do not ascend");
        assert_eq!(out.len(), weight.rows(), "output of another size");
        let out = Output::columns_of(out, 1, 0..weight.rows());
        let product = MatrixProduct { weight, bias: None, out, first_unit: 0 };
        let work = (panels.len() * PANEL_ROWS).saturating_mul(input.k);
        self.for_each_part(panels.len(), input.row_parts().units, work, |part| {
            for run in panels[part].chunk_by(|a, b| a + 1 == *b) {
                // Whatever unit other products of this input have: panels are the caller's.
                let first = run[0] as usize * PANEL_ROWS;
                let rows = first..weight.rows().min(first + run.len() * PANEL_ROWS);
                // SAFETY: every panel is in one part, and each has rows of its own.
                unsafe { run_task(self, &product, rows, input) };
            }
        });
    }

    fn gated_linear(
        &self,
        function: Function,
        pair: [(&Tensor, Option<&[f32]>); 2],
        adapted: &Adapted<'_>,
        input: &Input<'_>,
        out: &mut [f32],
    ) {
        gated::gated_linear(self, function, pair, adapted, input, out);
    }
}
