//! Rows of blocks: the loop that every block type shares.

use qsf_format::BlockSize;
use qsf_runtime::cpu::Vectorized;
use qsf_runtime::cpu::lanes::LANES;

use super::block::{Block, Codes, MAX_LANES};
use super::half_scale::ScaleOverflow;
use super::weights::ColumnWeights;
use super::{affine, eight_bit, pack, two_level};

/// A block type: how one block becomes bytes. A value is `step * q + min` with whole numbers q.
pub(super) trait BlockType: Sync {
    /// What is stored beside the codes.
    type Scales: Copy;

    /// Least and largest q.
    const CODES: (f32, f32);

    /// The best scales that the type's search finds.
    fn fit(&self, block: &Block<'_>) -> Result<Self::Scales, ScaleOverflow>;

    /// `step` and `min` for these scales.
    fn line(&self, scales: Self::Scales) -> (f32, f32);

    /// Writes the whole block, scales first, with the codes nearest to its values. `out` has exactly the block's bytes;
    /// `codes` is scratch.
    fn write(&self, block: &Block<'_>, scales: Self::Scales, codes: &mut Codes, out: &mut [u8]);
}

/// Rows to be encoded as `T`.
pub(super) struct EncodeRows<'a, T> {
    pub block: BlockSize,
    pub block_bytes: usize,
    pub cols: usize,
    pub values: &'a [f32],
    pub weights: &'a ColumnWeights,
    pub out: &'a mut [u8],
    pub block_type: T,
}

impl<T: BlockType> Vectorized for EncodeRows<'_, T> {
    type Output = Result<(), ScaleOverflow>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let mut room = [[0.0; LANES]; MAX_LANES];
        let mut codes: Codes = [0; 256];
        let mut out = self.out.chunks_exact_mut(self.block_bytes);
        for row in self.values.chunks_exact(self.cols) {
            let blocks = row.chunks(self.block.get()).zip(self.weights.blocks());
            for ((values, weights), out) in blocks.zip(&mut out) {
                let block = Block::new(self.block, values, weights, &mut room);
                let scales = self.block_type.fit(&block)?;
                self.block_type.write(&block, scales, &mut codes, out);
            }
        }
        Ok(())
    }
}

/// 2, 3 and 4 bits with scale and min, by their largest code.
pub(super) struct Affine<const TOP: usize>;

impl<const TOP: usize> BlockType for Affine<TOP> {
    type Scales = affine::ScaleAndMin;

    const CODES: (f32, f32) = (0.0, TOP as f32);

    #[inline(always)]
    fn fit(&self, block: &Block<'_>) -> Result<affine::ScaleAndMin, ScaleOverflow> {
        affine::fit::<TOP>(block)
    }

    #[inline(always)]
    fn line(&self, grid: affine::ScaleAndMin) -> (f32, f32) {
        (grid.scale, grid.min)
    }

    #[inline(always)]
    fn write(&self, block: &Block<'_>, grid: affine::ScaleAndMin, codes: &mut Codes, out: &mut [u8]) {
        affine::encode::<TOP>(block, grid, codes);
        let n = block.values.len() * LANES;
        let (codes, packed) = (&codes[..n], &mut out[4..]);
        match TOP {
            3 => pack::two_bit(codes, packed),
            7 => {
                let (low, high) = packed.split_at_mut(n / 4);
                pack::two_bit(codes, low);
                pack::plane::<2>(codes, high);
            }
            _ => pack::four_bit(codes, packed),
        }
        write_f16(grid.scale, &mut out[..2]);
        write_f16(grid.min, &mut out[2..4]);
    }
}

/// 2 bits, symmetric.
pub(super) struct Symmetric;

impl BlockType for Symmetric {
    type Scales = f32;

    const CODES: (f32, f32) = (0.0, 3.0);

    #[inline(always)]
    fn fit(&self, block: &Block<'_>) -> Result<f32, ScaleOverflow> {
        two_level::fit(block, two_level::Levels::SYMMETRIC)
    }

    #[inline(always)]
    fn line(&self, scale: f32) -> (f32, f32) {
        (2.0 * scale, -3.0 * scale)
    }

    #[inline(always)]
    fn write(&self, block: &Block<'_>, scale: f32, codes: &mut Codes, out: &mut [u8]) {
        two_level::encode_symmetric(block, scale, codes);
        write_f16(scale, &mut out[..2]);
        pack::two_bit(&codes[..block.values.len() * LANES], &mut out[2..]);
    }
}

/// Ternary.
pub(super) struct Ternary;

impl BlockType for Ternary {
    type Scales = f32;

    const CODES: (f32, f32) = (-1.0, 1.0);

    #[inline(always)]
    fn fit(&self, block: &Block<'_>) -> Result<f32, ScaleOverflow> {
        two_level::fit(block, two_level::Levels::TERNARY)
    }

    #[inline(always)]
    fn line(&self, scale: f32) -> (f32, f32) {
        (scale, 0.0)
    }

    #[inline(always)]
    fn write(&self, block: &Block<'_>, scale: f32, codes: &mut Codes, out: &mut [u8]) {
        two_level::encode_ternary(block, scale, codes);
        let n = block.values.len() * LANES;
        write_f16(scale, &mut out[..2]);
        let (sign, zero) = out[2..].split_at_mut(n / 8);
        pack::plane::<0>(&codes[..n], sign);
        pack::plane::<1>(&codes[..n], zero);
    }
}

/// 8 bits.
pub(super) struct EightBit;

impl BlockType for EightBit {
    type Scales = f32;

    const CODES: (f32, f32) = (-127.0, 127.0);

    #[inline(always)]
    fn fit(&self, block: &Block<'_>) -> Result<f32, ScaleOverflow> {
        eight_bit::fit(block)
    }

    #[inline(always)]
    fn line(&self, scale: f32) -> (f32, f32) {
        (scale, 0.0)
    }

    #[inline(always)]
    fn write(&self, block: &Block<'_>, scale: f32, codes: &mut Codes, out: &mut [u8]) {
        eight_bit::encode(block, scale, codes);
        write_f16(scale, &mut out[..2]);
        out[2..].copy_from_slice(&codes[..block.values.len() * LANES]);
    }
}

/// Writes a number that is already a binary16 value.
#[inline(always)]
fn write_f16(v: f32, out: &mut [u8]) {
    out.copy_from_slice(&half::f16::from_f32(v).to_le_bytes());
}
