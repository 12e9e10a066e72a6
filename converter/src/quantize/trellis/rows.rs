//! Rows into the trellis types: a path search per row and row scale, then the row scale that suits the path.

use qsf_format::{SumTables, TrellisState};
use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use rayon::prelude::*;

use super::super::feedback::{Feedback, Ordered, column_of_step};
use super::super::group::{RowGroup, product};
use super::super::half_scale::{ScaleOverflow, round_to_f16};
use super::super::lane_groups::encode_groups;
use super::super::strips::STRIP;
use super::super::vectors::inverse;
use super::code::Code;
use super::search::{ROWS_TOGETHER, Row, Search, Steps};

/// Row scale in the unit of a stored one.
const ROW_UNIT: f32 = qsf_format::TRELLIS_UNIT;

/// Bytes of rows of a trellis type.
pub(in crate::quantize) struct TrellisRows<'a, const BITS: usize> {
    pub isa: Isa,
    pub state: TrellisState,
    pub sums: &'a SumTables,
    pub cols: usize,
    pub feedback: Option<&'a Feedback>,
    /// One per column; what counts without feedback.
    pub importance: &'a [f32],
    /// Scale of each row, in units of the one at which levels and weights have the same mean square.
    pub scale: f32,
    /// About how many paths survive a step.
    pub survivors: usize,
}

/// What all rows share.
struct Shared<'a, const BITS: usize> {
    rows: &'a TrellisRows<'a, BITS>,
    code: Code<BITS>,
    ordered: Option<&'a Ordered>,
    /// What each step costs, and whether it codes a column.
    weights: Vec<f32>,
    used: Vec<bool>,
}

impl<const BITS: usize> TrellisRows<'_, BITS> {
    pub(in crate::quantize) fn encode(&self, values: &[f32]) -> Result<Vec<u8>, ScaleOverflow> {
        let steps = self.cols.next_multiple_of(STRIP);
        let ordered = self.feedback.map(|feedback| feedback.steps(self.isa));
        let used: Vec<bool> = (0..steps).map(|step| column_of_step(step) < self.cols).collect();
        let weights = match ordered {
            Some(ordered) => ordered.pivots.clone(),
            None => (0..steps).map(|step| self.importance[column_of_step(step)]).collect(),
        };
        let code = Code::new(self.state, self.sums);
        let shared = Shared { rows: self, code, ordered, weights, used };
        let row_bytes = 2 + steps * BITS / 8;
        encode_groups(values, self.cols, row_bytes, |values, out| {
            let coded = shared.code(values).ok_or(ScaleOverflow)?;
            let rows = coded.codes.chunks_exact(steps).zip(coded.scales);
            for ((codes, scale), out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
                let (head, body) = out.split_at_mut(2);
                head.copy_from_slice(&half::f16::from_f32(scale).to_le_bytes());
                pack_bits(BITS, codes, body);
            }
            Ok(())
        })
    }
}

/// The searches for the paths of some rows.
struct SomeRows<'a, 'b, 'c, const BITS: usize> {
    shared: &'a Shared<'a, BITS>,
    searches: &'a mut [Search<'b, BITS>],
    rows: &'a mut [Row<'c>],
}

impl<const BITS: usize> VectorWork for SomeRows<'_, '_, '_, BITS> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Shared { rows, ordered, weights, used, .. } = self.shared;
        let steps = Steps { weights, ordered: *ordered, used };
        Search::run::<V>(self.searches, self.rows, &steps, rows.survivors);
    }
}

/// Better row scales for at most 16 rows.
struct Refit<'a, const BITS: usize> {
    shared: &'a Shared<'a, BITS>,
    group: &'a RowGroup,
    scales: &'a mut Lanes,
}

impl<const BITS: usize> VectorWork for Refit<'_, BITS> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        self.shared.refit::<V>(self.group, self.scales);
    }
}

/// What is stored of at most 16 rows.
struct Coded {
    /// R of each row.
    scales: Lanes,
    /// Bits of each step, row after row.
    codes: Vec<u8>,
}

impl<const BITS: usize> Shared<'_, BITS> {
    /// At most 16 rows, each searched on any thread. `None` when a row scale leaves binary16.
    fn code(&self, values: &[f32]) -> Option<Coded> {
        let (cols, steps, isa) = (self.rows.cols, self.weights.len(), self.rows.isa);
        let rows = values.len() / cols;
        let mut ordered = vec![0.0; rows * steps];
        for (row, out) in values.chunks_exact(cols).zip(ordered.chunks_exact_mut(steps)) {
            for (step, out) in out.iter_mut().enumerate() {
                *out = row.get(column_of_step(step)).copied().unwrap_or(0.0);
            }
        }
        let mut scales = [0.0; LANES];
        for (scale, originals) in scales.iter_mut().zip(ordered.chunks_exact(steps)) {
            *scale = round_to_f16(self.plain_scale(originals) * self.rows.scale);
            if !scale.is_finite() {
                return None;
            }
        }
        let (mut codes, mut found) = (vec![0; rows * steps], vec![0.0; rows * steps]);
        // With many threads, each has a row of its own.
        let together = ROWS_TOGETHER.min(LANES.div_ceil(rayon::current_num_threads()));
        let at_once = together * steps;
        let each = codes.par_chunks_mut(at_once).zip(found.par_chunks_mut(at_once));
        let each = each.zip(ordered.par_chunks(at_once)).zip(scales[..rows].par_chunks(together));
        each.for_each_init(
            || (0..together).map(|_| Search::new(&self.code, steps)).collect::<Vec<_>>(),
            |searches, (((codes, values), originals), scales)| {
                let mut losses = [0.0; ROWS_TOGETHER];
                let each = codes.chunks_exact_mut(steps).zip(values.chunks_exact_mut(steps));
                let each = each.zip(originals.chunks_exact(steps)).zip(scales.iter().zip(&mut losses));
                let row = |(((codes, values), originals), (scale, loss))| Row {
                    originals,
                    scale: scale * ROW_UNIT,
                    codes,
                    values,
                    loss,
                };
                let mut rows: Vec<Row<'_>> = each.map(row).collect();
                let searches = &mut searches[..rows.len()];
                vector::run(isa, SomeRows { shared: self, searches, rows: &mut rows });
            },
        );
        let mut group = RowGroup::new(steps, STRIP, &ordered);
        for (lane, found) in found.chunks_exact(steps).enumerate() {
            for (out, value) in group.values.iter_mut().zip(found) {
                out[lane] = *value;
            }
        }
        vector::run(isa, Refit { shared: self, group: &group, scales: &mut scales });
        Some(Coded { scales, codes })
    }

    /// The row scale at which levels and weights have the same mean square.
    fn plain_scale(&self, originals: &[f32]) -> f32 {
        let (mut squares, mut sum) = (0.0f64, 0.0f64);
        for (value, weight) in originals.iter().zip(&self.weights) {
            squares += f64::from(*weight) * f64::from(*value).powi(2);
            sum += f64::from(*weight);
        }
        let level: f64 =
            self.code.levels().iter().map(|level| f64::from(*level).powi(2)).sum::<f64>() / 256.0;
        let scale = (squares / sum / level).sqrt() as f32 / ROW_UNIT;
        if scale.is_nan() { 0.0 } else { scale }
    }

    /// The row scales that suit the paths best, where that gains anything after rounding.
    ///
    /// With levels v times `1 + r`, the loss `(e - r v) H (e - r v)'` is `e H e' - 2 r (e H v') + r^2 (v H v')`: one product with H
    /// says what each r gains.
    #[inline(always)]
    fn refit<V: Vector>(&self, group: &RowGroup, scales: &mut Lanes) {
        let curved = match self.ordered {
            Some(ordered) => product::<V>(&group.values, &ordered.moment),
            None => {
                let weighted =
                    |(value, weight): (&Lanes, &f32)| V::from_lanes(value).mul(V::splat(*weight)).to_lanes();
                group.values.iter().zip(&self.weights).map(weighted).collect()
            }
        };
        let (mut along, mut curve) = (V::splat(0.0), V::splat(0.0));
        for ((original, value), (curved, used)) in
            group.originals.iter().zip(&group.values).zip(curved.iter().zip(&self.used))
        {
            if *used {
                let (value, curved) = (V::from_lanes(value), V::from_lanes(curved));
                along = along.fma(V::from_lanes(original).sub(value), curved);
                curve = curve.fma(value, curved);
            }
        }
        let factor = V::splat(1.0).fma(along, inverse(curve)).to_lanes();
        let (along, curve) = (along.to_lanes(), curve.to_lanes());
        for lane in 0..LANES {
            let better = round_to_f16(scales[lane] * factor[lane]);
            let more = better / scales[lane] - 1.0;
            if better > 0.0 && better.is_finite() && more * (more * curve[lane] - 2.0 * along[lane]) < 0.0 {
                scales[lane] = better;
            }
        }
    }
}

/// The bits of all steps, the first lowest.
fn pack_bits(bits: usize, codes: &[u8], out: &mut [u8]) {
    out.fill(0);
    for (step, code) in codes.iter().enumerate() {
        let at = step * bits;
        let wide = u16::from(*code) << (at % 8);
        out[at / 8] |= wide as u8;
        if at % 8 + bits > 8 {
            out[at / 8 + 1] |= (wide >> 8) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::{BUILT_IN, BlockSize, Encoding, QuantType, decode_row};

    use super::*;

    fn the_loss_is_that_of_a_reader<const BITS: usize>(quant: QuantType) {
        let Encoding::Trellis { state, .. } = quant.encoding() else { panic!("{quant}") };
        let sums = BUILT_IN.sums(quant).unwrap();
        for cols in [33usize, 96, 300] {
            let moment: Vec<f32> =
                (0..cols * cols).map(|i| 1.0 / (1.0 + (i / cols).abs_diff(i % cols) as f32)).collect();
            let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
            let ordered = feedback.steps(Isa::best());
            let steps = cols.next_multiple_of(STRIP);
            let weights: Vec<f32> = (0..cols).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
            let originals: Vec<f32> =
                (0..steps).map(|step| weights.get(column_of_step(step)).copied().unwrap_or(0.0)).collect();
            let rows = TrellisRows {
                isa: Isa::best(),
                state,
                sums,
                cols,
                feedback: Some(&feedback),
                importance: &[],
                scale: 1.0,
                survivors: 32,
            };
            let shared = Shared {
                rows: &rows,
                code: Code::<BITS>::new(state, sums),
                ordered: Some(ordered),
                weights: ordered.pivots.clone(),
                used: (0..steps).map(|step| column_of_step(step) < cols).collect(),
            };
            let (mut loss, mut codes, mut values) = (0.0, vec![0; steps], vec![0.0; steps]);
            let row = Row {
                originals: &originals,
                scale: 2.0 * ROW_UNIT,
                codes: &mut codes,
                values: &mut values,
                loss: &mut loss,
            };
            let searches = &mut [Search::new(&shared.code, steps)];
            vector::run(Isa::best(), SomeRows { shared: &shared, searches, rows: &mut [row] });

            let mut bytes = vec![0; 2 + steps * BITS / 8];
            bytes[..2].copy_from_slice(&half::f16::from_f32(2.0).to_le_bytes());
            pack_bits(BITS, &codes, &mut bytes[2..]);
            let mut decoded = vec![0.0; cols];
            decode_row(quant, BlockSize::B32, &BUILT_IN, &bytes, &mut decoded);
            for step in (0..steps).filter(|step| column_of_step(*step) < cols) {
                assert_eq!(values[step], decoded[column_of_step(step)], "{quant}, {cols}: step {step}");
            }
            let error =
                |step: usize| if shared.used[step] { f64::from(originals[step] - values[step]) } else { 0.0 };
            let recomputed: f64 = (0..steps)
                .map(|i| {
                    error(i) * (0..steps).map(|j| f64::from(ordered.moment.at(i, j)) * error(j)).sum::<f64>()
                })
                .sum();
            assert!(
                (loss - recomputed).abs() < 1e-4 * recomputed,
                "{quant}, {cols}: {loss} for {recomputed}"
            );
        }
    }

    #[test]
    fn no_scale_beside_that_of_a_row_loses_less() {
        let (cols, quant) = (96usize, QuantType::X3);
        let Encoding::Trellis { state, .. } = quant.encoding() else { panic!("{quant}") };
        let sums = BUILT_IN.sums(quant).unwrap();
        let moment: Vec<f32> =
            (0..cols * cols).map(|i| 1.0 / (1.0 + (i / cols).abs_diff(i % cols) as f32)).collect();
        let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
        let importance: Vec<f32> = (0..cols).map(|i| 1.0 + (i % 5) as f32).collect();
        let values: Vec<f32> = (0..LANES * cols).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        for feedback in [Some(&feedback), None] {
            // Far from what suits the rows.
            let rows = TrellisRows::<3> {
                isa: Isa::best(),
                state,
                sums,
                cols,
                feedback,
                importance: &importance,
                scale: 0.7,
                survivors: 16,
            };
            let loss = |bytes: &[u8], row: usize| -> f64 {
                let mut decoded = vec![0.0; cols];
                decode_row(quant, BlockSize::B32, &BUILT_IN, bytes, &mut decoded);
                let error = |i: usize| f64::from(values[row * cols + i]) - f64::from(decoded[i]);
                let entry = |i: usize, j: usize| match feedback {
                    Some(feedback) => f64::from(feedback.natural().moment.at(i, j)),
                    None if i == j => f64::from(importance[i]),
                    None => 0.0,
                };
                (0..cols * cols)
                    .map(|at| error(at / cols) * entry(at / cols, at % cols) * error(at % cols))
                    .sum()
            };
            let bytes = rows.encode(&values).unwrap();
            let row_bytes = bytes.len() / LANES;
            let mut moved = 0;
            for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
                // The scale next to the one that was chosen, on either side, is no better but for rounding.
                let chosen = u16::from_le_bytes([bytes[0], bytes[1]]);
                for other in [chosen - 1, chosen + 1] {
                    let mut beside = bytes.to_vec();
                    beside[..2].copy_from_slice(&other.to_le_bytes());
                    assert!(loss(bytes, row) <= loss(&beside, row) * 1.0001, "row {row}");
                    moved += u32::from(loss(bytes, row) < loss(&beside, row));
                }
            }
            assert!(moved > LANES as u32, "scales say nothing: {moved}");
        }
    }

    #[test]
    fn rows_that_take_turns_have_the_bytes_of_rows_that_have_a_thread_each() {
        let (cols, quant) = (200usize, QuantType::X3);
        let Encoding::Trellis { state, .. } = quant.encoding() else { panic!("{quant}") };
        let moment: Vec<f32> =
            (0..cols * cols).map(|i| 1.0 / (1.0 + (i / cols).abs_diff(i % cols) as f32)).collect();
        let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
        let rows = TrellisRows::<3> {
            isa: Isa::best(),
            state,
            sums: BUILT_IN.sums(quant).unwrap(),
            cols,
            feedback: Some(&feedback),
            importance: &[],
            scale: 1.0,
            survivors: 16,
        };
        let values: Vec<f32> = (0..22 * cols).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let by = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| rows.encode(&values)).unwrap()
        };
        let alone = by(16);
        assert_eq!(by(1), alone);
        assert_eq!(by(7), alone);
    }

    #[test]
    fn the_loss_of_a_path_is_that_of_the_values_that_a_reader_gets() {
        the_loss_is_that_of_a_reader::<2>(QuantType::T2);
        the_loss_is_that_of_a_reader::<3>(QuantType::T3);
        the_loss_is_that_of_a_reader::<2>(QuantType::X2);
        the_loss_is_that_of_a_reader::<3>(QuantType::X3);
        the_loss_is_that_of_a_reader::<4>(QuantType::X4);
    }
}
