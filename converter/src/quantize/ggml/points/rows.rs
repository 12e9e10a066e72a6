//! Rows into a type with a grid: units, feedback, descent, units that suit the points, bytes.

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};

use super::super::super::feedback::Feedback;
use super::super::super::group::RowGroup;
use super::super::super::half_scale::ScaleOverflow;
use super::super::super::lane_groups::encode_groups;
use super::super::super::strips::STRIP;
use super::super::coder::Strip;
use super::super::shape::SUPER;
use super::codebook::Codebook;
use super::coder::PointCoder;
use super::pack::PointBlock;
use super::shape::PointShape;
use super::signed::Points;
use super::units::choose_unit;

/// The least weight of a column, as a part of the largest of its block: what calibration never saw has to be near, too.
const LEAST_WEIGHT: f32 = 1e-6;

/// Rows that are to be blocks of a type.
pub(in super::super) struct PointRows<'a> {
    pub isa: Isa,
    pub shape: PointShape,
    pub cols: usize,
    pub feedback: Option<&'a Feedback>,
    /// One per column; what counts without feedback.
    pub importance: &'a [f32],
    /// Passes of descent over points and scales at most.
    pub descents: usize,
}

impl PointRows<'_> {
    pub(in super::super) fn encode(&self, values: &[f32]) -> Result<Vec<u8>, ScaleOverflow> {
        let ty = self.shape.ty;
        let row_bytes = self.cols / ty.block_len() * ty.block_bytes();
        let (book, weights) = (Codebook::new(ty), even_out(self.importance));
        encode_groups(values, self.cols, row_bytes, |values, out| {
            let mut result = Ok(());
            let points = Points { shape: self.shape, book: &book };
            let group = OneGroup { rows: self, points, weights: &weights, values, out, result: &mut result };
            vector::run(self.isa, group);
            result
        })
    }
}

/// Importance whose largest value in each block is 1 and whose least is not nothing.
fn even_out(importance: &[f32]) -> Vec<f32> {
    let mut weights = importance.to_vec();
    for block in weights.chunks_mut(SUPER) {
        let largest = block.iter().copied().fold(0.0, f32::max);
        for weight in block {
            let part = if largest >= f32::MIN_POSITIVE { *weight / largest } else { 1.0 };
            *weight = part.max(LEAST_WEIGHT);
        }
    }
    weights
}

/// The work on at most 16 rows.
struct OneGroup<'a> {
    rows: &'a PointRows<'a>,
    points: Points<'a>,
    weights: &'a [f32],
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
        let weights = ordered.map_or(self.weights, |ordered| &ordered.pivots[..]);
        // No iterator that maps: its closure is compiled apart, and without the vectors.
        let mut units: Vec<Lanes> = Vec::with_capacity(rows.cols.div_ceil(SUPER));
        for (values, weights) in group.originals.chunks(SUPER).zip(weights.chunks(SUPER)) {
            units.push(choose_unit::<V>(self.points, values, weights));
        }
        if !units.as_flattened().iter().all(|unit| unit.is_finite()) {
            *self.result = Err(ScaleOverflow);
            return;
        }
        let coder = PointCoder { points: self.points, units };
        let strips = group.fit::<V, _>(&coder, weights, ordered, rows.descents);
        let ty = rows.shape.ty;
        let row_bytes = rows.cols / ty.block_len() * ty.block_bytes();
        for (lane, out) in self.out.chunks_exact_mut(row_bytes).enumerate() {
            for (b, out) in out.chunks_exact_mut(ty.block_bytes()).enumerate() {
                write_block(&coder, &group, &strips, lane, b, out);
            }
        }
    }
}

/// Block `b` of row `lane`.
fn write_block(
    coder: &PointCoder<'_>,
    group: &RowGroup,
    strips: &[Strip],
    lane: usize,
    b: usize,
    out: &mut [u8],
) {
    let Points { shape, book } = coder.points;
    let (mut scales, mut levels) = ([0u8; SUPER / 16], [0.0; SUPER]);
    for (i, level) in levels.iter_mut().enumerate() {
        let column = b * SUPER + i;
        let of_group = &strips[column / STRIP].groups[column % STRIP / shape.group];
        scales[i / shape.group] = of_group.scale[lane] as u8;
        // Levels are whole numbers of eighths.
        let inverse = if of_group.step[lane] == 0.0 { 0.0 } else { 1.0 / of_group.step[lane] };
        *level = (group.values[column][lane] * inverse * 8.0).round_ties_even() / 8.0;
    }
    let unit = coder.units[b][lane] / shape.unit;
    let scales = &scales[..SUPER / shape.group];
    PointBlock { ty: shape.ty, book, unit, scales, levels: &levels }.write(out);
}
