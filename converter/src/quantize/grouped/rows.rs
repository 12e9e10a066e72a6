//! Rows into groups: feedback, descent, bytes.

use half::{bf16, f16};
use qsf_format::QuantType;
use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use qsf_runtime::grouped::{GroupType, GroupZero, pack_codes};

use super::super::feedback::Feedback;
use super::super::group::RowGroup;
use super::super::half_scale::ScaleOverflow;
use super::super::lane_groups::encode_groups;
use super::super::strips::STRIP;
use super::coder::{GroupCoder, GroupScales};

/// Rows that are to be groups of a type.
pub(super) struct GroupRows<'a> {
    pub isa: Isa,
    pub ty: GroupType,
    pub cols: usize,
    pub feedback: Option<&'a Feedback>,
    /// One per column; what counts without feedback.
    pub importance: &'a [f32],
    /// Passes of descent over codes and scales at most.
    pub descents: usize,
}

impl GroupRows<'_> {
    fn row_bytes(&self) -> usize {
        self.ty.row_bytes(self.cols).unwrap_or(1)
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
struct OneGroup<'a> {
    rows: &'a GroupRows<'a>,
    values: &'a [f32],
    out: &'a mut [u8],
    result: &'a mut Result<(), ScaleOverflow>,
}

impl VectorWork for OneGroup<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let rows = self.rows;
        let mut group = RowGroup::new(rows.cols, STRIP, self.values);
        let ordered = rows.feedback.map(Feedback::natural);
        let weights = ordered.map_or(rows.importance, |ordered| &ordered.pivots[..]);
        let coder = GroupCoder::new(rows.ty);
        let groups = group.fit::<V, _>(&coder, weights, ordered, rows.descents);
        for (lane, out) in self.out.chunks_exact_mut(rows.row_bytes()).enumerate() {
            if !pack_row(rows, &coder, &group, &groups, lane, out) {
                *self.result = Err(ScaleOverflow);
            }
        }
    }
}

/// Row `lane` as bytes; `false` when a scale is beyond its type.
fn pack_row(
    rows: &GroupRows<'_>,
    coder: &GroupCoder,
    group: &RowGroup,
    groups: &[GroupScales],
    lane: usize,
    out: &mut [u8],
) -> bool {
    let GroupRows { ty, cols, .. } = *rows;
    let mut codes = vec![0; cols];
    for ((codes, values), scales) in codes.chunks_mut(ty.group).zip(group.values.chunks(ty.group)).zip(groups)
    {
        for (code, value) in codes.iter_mut().zip(values) {
            *code = coder.code(scales, lane, value[lane]);
        }
    }
    pack_codes(ty.bits, &codes, &mut out[ty.codes(cols)]);
    let width = ty.scale_bytes();
    let mut finite = true;
    for (g, scales) in groups.iter().enumerate() {
        let (step, offset) = (scales.step[lane], scales.offset[lane]);
        finite &= step.is_finite() && offset.is_finite();
        write_float(ty.scale, step, &mut out[ty.scales(cols)][g * width..][..width]);
        let offsets = &mut out[ty.offsets(cols)];
        match ty.zero {
            GroupZero::Middle => {}
            // With a scale of 0 all values are 0, whatever code stands for it.
            GroupZero::Code => offsets[g] = if step == 0.0 { 0 } else { (offset / step).round() as u8 },
            // Stored as what is added.
            GroupZero::Bias => write_float(ty.scale, -offset, &mut offsets[g * width..][..width]),
        }
    }
    finite
}

/// A number that the type holds exactly.
fn write_float(ty: QuantType, value: f32, out: &mut [u8]) {
    match ty {
        QuantType::F16 => out.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
        QuantType::Bf16 => out.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
        _ => out.copy_from_slice(&value.to_le_bytes()),
    }
}
