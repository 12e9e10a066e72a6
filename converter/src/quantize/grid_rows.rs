//! Rows into the types with a learned grid: scales, feedback, descent, bytes.

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};

use super::feedback::{Feedback, Ordered};
use super::group::RowGroup;
use super::half_scale::{ScaleOverflow, round_to_f16};
use super::lane_groups::encode_groups;
use super::learned::{Grid, Learned, Scales};
use super::levels::Levels;
use super::pack;
use super::strips::STRIP;

/// Bytes of rows of a type with a grid.
pub(super) struct GridRows<'a, L> {
    pub isa: Isa,
    pub grid: Grid<L>,
    pub bits: usize,
    pub cols: usize,
    pub feedback: Option<&'a Feedback>,
    /// One per column, padded with zeros to whole blocks; what counts without feedback.
    pub importance: &'a [f32],
    /// Passes of descent over codes and block scales at most.
    pub descents: usize,
}

impl<L: Levels> GridRows<'_, L> {
    pub(super) fn encode(&self, values: &[f32]) -> Result<Vec<u8>, ScaleOverflow> {
        let row_bytes = 2 + self.cols.div_ceil(STRIP) * (1 + 4 * self.bits);
        encode_groups(values, self.cols, row_bytes, |values, out| {
            let mut result = Ok(());
            vector::run(self.isa, OneGroup { rows: self, values, out, row_bytes, result: &mut result });
            result
        })
    }
}

/// The work on 16 rows.
struct OneGroup<'a, L> {
    rows: &'a GridRows<'a, L>,
    values: &'a [f32],
    out: &'a mut [u8],
    row_bytes: usize,
    result: &'a mut Result<(), ScaleOverflow>,
}

impl<L: Levels> VectorWork for OneGroup<'_, L> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Some(coded) = self.rows.code::<V>(self.values) else {
            *self.result = Err(ScaleOverflow);
            return;
        };
        for (lane, out) in self.out.chunks_exact_mut(self.row_bytes).enumerate() {
            pack_row(&coded, lane, self.rows.cols, out);
        }
    }
}

/// Sixteen rows with all that is stored of them.
pub(super) struct Coded<'a, L> {
    pub coder: Learned<'a, L>,
    pub blocks: Vec<Scales>,
    pub group: RowGroup,
}

impl<L: Levels> GridRows<'_, L> {
    /// At most 16 rows; `None` when a row scale leaves binary16.
    #[inline(always)]
    pub(super) fn code<V: Vector>(&self, values: &[f32]) -> Option<Coded<'_, L>> {
        let mut group = RowGroup::new(self.cols, STRIP, values);
        let ordered = self.feedback.map(Feedback::natural);
        let weights = ordered.map_or(self.importance, |ordered| &ordered.pivots);
        let scales = self.grid.row_scales::<V>(&group.originals, weights);
        if !scales.iter().all(|scale| scale.is_finite()) {
            return None;
        }
        let mut coder = Learned::new(&self.grid, scales);
        let mut blocks = group.code::<V, _>(&coder, weights, ordered.map(|ordered| &ordered.upper));
        if let Some(ordered) = ordered {
            improve::<V, _>(self.descents, &mut group, &mut coder, &mut blocks, ordered);
        }
        Some(Coded { coder, blocks, group })
    }
}

/// Descent, then the row scale that suits the codes, and descent again if that moved.
#[inline(always)]
fn improve<V: Vector, L: Levels>(
    descents: usize,
    group: &mut RowGroup,
    coder: &mut Learned<'_, L>,
    blocks: &mut [Scales],
    ordered: &Ordered,
) {
    let mut pull = group.pull::<V>(&ordered.moment);
    for _ in 0..descents {
        if !group.descend::<V, _>(&*coder, blocks, ordered, &mut pull) {
            break;
        }
    }
    refit_rows::<V, _>(group, coder, blocks, ordered, &mut pull);
}

/// Row scales that suit the codes best, where that gains anything after rounding.
#[inline(always)]
fn refit_rows<V: Vector, L: Levels>(
    group: &mut RowGroup,
    coder: &mut Learned<'_, L>,
    blocks: &[Scales],
    ordered: &Ordered,
    pull: &mut [Lanes],
) {
    let factor = group.best_factor::<V>(&ordered.moment, pull);
    let mut rows = *coder.row();
    for i in 0..LANES {
        let row = round_to_f16(rows[i] * factor[i]);
        rows[i] = if row > 0.0 && row.is_finite() { row } else { rows[i] };
    }
    let other = coder.with_row(rows);
    let mut values = group.values.clone();
    for (j, value) in values.iter_mut().enumerate() {
        *value = coder.moved_to(&other, &blocks[j / STRIP], V::from_lanes(value)).to_lanes();
    }
    let accepted = group.accept::<V>(values, ordered, pull);
    let mut kept = *coder.row();
    for i in 0..LANES {
        kept[i] = if accepted[i] { rows[i] } else { kept[i] };
    }
    *coder = coder.with_row(kept);
}

/// The bytes of one row, in the order of SPEC.md section 6.
fn pack_row<L: Levels>(coded: &Coded<'_, L>, lane: usize, cols: usize, out: &mut [u8]) {
    let (head, body) = out.split_at_mut(2);
    head.copy_from_slice(&half::f16::from_f32(coded.coder.row()[lane]).to_le_bytes());
    let block_bytes = body.len() / coded.blocks.len();
    for (b, (block, out)) in coded.blocks.iter().zip(body.chunks_exact_mut(block_bytes)).enumerate() {
        let used = STRIP.min(cols - b * STRIP);
        let mut codes = [0; STRIP];
        for (code, value) in codes[..used].iter_mut().zip(&coded.group.values[b * STRIP..]) {
            *code = coded.coder.code(block, lane, value[lane]);
        }
        let (scale, codes_out) = out.split_at_mut(1);
        scale[0] = (((block.scale[lane] as i8) << 1) | block.second[lane] as i8) as u8;
        pack_codes(&codes, codes_out);
    }
}

/// 32 codes of 2, 3, 4, 5 or 6 bits, as the length of `out` says.
fn pack_codes(codes: &[u8; STRIP], out: &mut [u8]) {
    match out.len() {
        8 => pack::two_bit(codes, out),
        12 => {
            let (low, high) = out.split_at_mut(8);
            pack::two_bit(codes, low);
            pack::plane::<2>(codes, high);
        }
        16 => pack::four_bit(codes, out),
        20 => {
            let (low, high) = out.split_at_mut(16);
            pack::four_bit(codes, low);
            pack::plane::<4>(codes, high);
        }
        _ => {
            let (low, high) = out.split_at_mut(16);
            pack::four_bit(codes, low);
            pack::two_bit(&codes.map(|code| code >> 4), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::{BUILT_IN, BlockSize, QuantType, decode_row};

    use super::super::levels::Table;
    use super::*;

    /// Codes one group and hands out all that is known of it.
    struct Code<'a> {
        rows: &'a GridRows<'a, Table<7>>,
        values: &'a [f32],
        found: &'a mut Option<(RowGroup, Vec<u8>)>,
    }

    impl VectorWork for Code<'_> {
        fn run<V: Vector>(self) {
            let coded = self.rows.code::<V>(self.values).unwrap();
            let mut bytes = vec![0; 2 + self.rows.cols.div_ceil(STRIP) * 13];
            pack_row(&coded, 3, self.rows.cols, &mut bytes);
            *self.found = Some((coded.group, bytes));
        }
    }

    #[test]
    fn a_reader_gets_exactly_the_values_that_the_loss_was_computed_with() {
        for cols in [33, 300, 576] {
            let values: Vec<f32> = (0..5 * cols).map(|i| ((i * i) as f32 * 0.37).sin() * 0.1).collect();
            let moment: Vec<f32> = (0usize..cols * cols)
                .map(|i| {
                    if i / cols == i % cols {
                        1.5
                    } else {
                        0.5 / (1.0 + (i / cols).abs_diff(i % cols) as f32)
                    }
                })
                .collect();
            let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
            let (levels, shift) = BUILT_IN.grid(QuantType::N3).unwrap();
            let grid = Grid { levels: Table::new(levels), shift: f32::from(shift), clipped: 0.5 };
            let rows = GridRows {
                isa: Isa::best(),
                grid,
                bits: 3,
                cols,
                feedback: Some(&feedback),
                importance: &[],
                descents: 4,
            };
            let mut found = None;
            vector::run(Isa::best(), Code { rows: &rows, values: &values, found: &mut found });
            let (group, bytes) = found.unwrap();
            let mut decoded = vec![f32::NAN; cols];
            decode_row(QuantType::N3, BlockSize::B32, &BUILT_IN, &bytes, &mut decoded);
            for (j, decoded) in decoded.iter().enumerate() {
                assert_eq!(*decoded, group.values[j][3], "{cols}: column {j}");
                assert_eq!(group.errors[j][3], values[3 * cols + j] - decoded);
            }
        }
    }
}
