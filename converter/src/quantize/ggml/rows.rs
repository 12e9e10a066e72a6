//! Rows into a type of ggml: units, feedback, descent, bytes.

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use qsf_runtime::ggml::GgmlType;

use super::super::feedback::Feedback;
use super::super::group::RowGroup;
use super::super::half_scale::ScaleOverflow;
use super::super::lane_groups::encode_groups;
use super::super::levels::Levels;
use super::super::strips::STRIP;
use super::coder::{GgmlCoder, Strip};
use super::pack::{BlockParts, pack};
use super::scales::{Units, choose_units};
use super::shape::{ScaleForm, Shape};

/// Rows that are to be blocks of a type.
pub(super) struct GgmlRows<'a, L> {
    pub isa: Isa,
    pub ty: GgmlType,
    pub shape: Shape,
    pub levels: L,
    pub cols: usize,
    pub feedback: Option<&'a Feedback>,
    /// One per column; what counts without feedback.
    pub importance: &'a [f32],
    /// Passes of descent over codes and scales at most.
    pub descents: usize,
}

impl<L: Levels> GgmlRows<'_, L> {
    fn row_bytes(&self) -> usize {
        self.cols / self.ty.block_len() * self.ty.block_bytes()
    }

    pub(super) fn encode(&self, values: &[f32]) -> Result<Vec<u8>, ScaleOverflow> {
        let row_bytes = self.row_bytes();
        encode_groups(values, self.cols, row_bytes, |values, out| {
            let mut result = Ok(());
            vector::run(self.isa, OneGroup { rows: self, values, out, result: &mut result });
            result
        })
    }
}

/// The work on at most 16 rows.
struct OneGroup<'a, L> {
    rows: &'a GgmlRows<'a, L>,
    values: &'a [f32],
    out: &'a mut [u8],
    result: &'a mut Result<(), ScaleOverflow>,
}

impl<L: Levels> VectorWork for OneGroup<'_, L> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let rows = self.rows;
        let mut group = RowGroup::new(rows.cols, STRIP, self.values);
        let ordered = rows.feedback.map(Feedback::natural);
        let weights = ordered.map_or(rows.importance, |ordered| &ordered.pivots[..]);
        let block = rows.ty.block_len();
        // A loop, since closures are compiled without the vector instructions of what calls them.
        let mut units = Vec::with_capacity(group.originals.len().div_ceil(block));
        for (values, weights) in group.originals.chunks(block).zip(weights.chunks(block)) {
            units.push(choose_units::<V>(&rows.shape, &rows.levels, values, weights));
        }
        if !units.iter().all(Units::are_finite) {
            *self.result = Err(ScaleOverflow);
            return;
        }
        let coder = GgmlCoder { shape: rows.shape, levels: &rows.levels, units };
        let strips = group.fit::<V, _>(&coder, weights, ordered, rows.descents);
        for (lane, out) in self.out.chunks_exact_mut(rows.row_bytes()).enumerate() {
            for (b, out) in out.chunks_exact_mut(rows.ty.block_bytes()).enumerate() {
                if !pack_block(rows, &coder, &group, &strips, lane, b, out) {
                    *self.result = Err(ScaleOverflow);
                }
            }
        }
    }
}

/// Block `b` of row `lane`; `false` when a scale is beyond binary16.
fn pack_block<L: Levels>(
    rows: &GgmlRows<'_, L>,
    coder: &GgmlCoder<'_, L>,
    group: &RowGroup,
    strips: &[Strip],
    lane: usize,
    b: usize,
    out: &mut [u8],
) -> bool {
    let len = rows.ty.block_len();
    let mut codes = [0u8; 256];
    let (mut scales, mut mins) = ([0i32; 16], [0i32; 16]);
    for (i, code) in codes[..len].iter_mut().enumerate() {
        let column = b * len + i;
        let strip = &strips[column / STRIP];
        *code = coder.code(strip, lane, column % STRIP, group.values[column][lane]);
        let of_group = &strip.groups[column % STRIP / rows.shape.group];
        let place = i / rows.shape.group;
        (scales[place], mins[place]) = (of_group.scale[lane] as i32, of_group.min[lane] as i32);
    }
    let groups = len / rows.shape.group;
    let (unit, min_unit) = match rows.shape.scales {
        ScaleForm::Half | ScaleForm::Power => {
            let of_group = &strips[b].groups[0];
            // Stored as what is added.
            (of_group.step[lane], -of_group.offset[lane])
        }
        ScaleForm::Integer { .. } => (coder.units[b].unit[lane], coder.units[b].min_unit[lane]),
    };
    let parts =
        BlockParts { unit, min_unit, scales: &scales[..groups], mins: &mins[..groups], codes: &codes[..len] };
    pack(rows.ty, &parts, out);
    unit.is_finite() && min_unit.is_finite()
}
