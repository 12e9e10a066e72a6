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

    /// For a trellis with `BITS` bits a step.
    fn trellis<const BITS: usize>(self, scales: TrellisScales) -> Self::Output;
}

/// Row scales that are tried for a trellis, in units of the one at which levels and weights have the same mean square.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrellisScales {
    /// All of them.
    pub trials: [f32; 2],
    /// The one where only one may be tried.
    pub single: f32,
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
        QuantType::T2 => work.trellis::<2>(TrellisScales { trials: [1.08, 1.2], single: 1.12 }),
        QuantType::T3 => work.trellis::<3>(TrellisScales { trials: [1.1, 1.22], single: 1.17 }),
        QuantType::X2 => work.trellis::<2>(TrellisScales { trials: [1.04, 1.12], single: 1.08 }),
        QuantType::X3 => work.trellis::<3>(TrellisScales { trials: [1.11, 1.2], single: 1.15 }),
        QuantType::X4 => work.trellis::<4>(TrellisScales { trials: [1.16, 1.24], single: 1.2 }),
    }
}
