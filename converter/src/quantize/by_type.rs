//! Which quantizer each type has: one row for each, and the only list of types among the quantizers.

use qsf_format::QuantType;

use super::rows::{Affine, BlockType, EightBit, Symmetric, Ternary};

/// Work that is compiled for each quantizer.
pub(super) trait TypeWork: Sized {
    /// What comes of it.
    type Output;

    /// For plain floats.
    fn floats(self) -> Self::Output;

    /// For blocks with scales of their own.
    fn blocks<T: BlockType>(self, block_type: T) -> Self::Output;

    /// For a grid whose levels are in a table, with `GAPS` gaps between them. `clipped` is the least scale worth trying, as a part of the
    /// one that clips nothing: fewer levels want more clipping.
    fn table<const GAPS: usize>(self, clipped: f32) -> Self::Output;

    /// For a grid of even levels, with `clipped` as for [`TypeWork::table`].
    fn even(self, clipped: f32) -> Self::Output;

    /// For a trellis with `BITS` bits a step. `scale` is the row scale, in units of the one at which levels and weights have the same mean
    /// square.
    fn trellis<const BITS: usize>(self, scale: f32) -> Self::Output;
}

/// Does the work with the quantizer of a type.
pub(super) fn by_type<W: TypeWork>(quant: QuantType, work: W) -> W::Output {
    match quant {
        QuantType::F16 | QuantType::Bf16 | QuantType::F32 => work.floats(),
        QuantType::Q2Sym => work.blocks(Symmetric),
        QuantType::Q2 => work.blocks(Affine::<3>),
        QuantType::Q3 => work.blocks(Affine::<7>),
        QuantType::Q4 => work.blocks(Affine::<15>),
        QuantType::Ternary => work.blocks(Ternary),
        QuantType::Q8 => work.blocks(EightBit),
        QuantType::N2 => work.table::<3>(0.4),
        QuantType::N3 => work.table::<7>(0.5),
        QuantType::N4 => work.table::<15>(0.65),
        QuantType::N5 => work.table::<31>(0.65),
        QuantType::Q6 => work.even(0.8),
        QuantType::T2 => work.trellis::<2>(1.12),
        QuantType::T3 => work.trellis::<3>(1.17),
        QuantType::X2 => work.trellis::<2>(1.08),
        QuantType::X3 => work.trellis::<3>(1.15),
        QuantType::X4 => work.trellis::<4>(1.2),
    }
}
