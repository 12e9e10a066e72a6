//! Rows as blocks, and reading parts of a block.

use qsf_cpu::{Isa, Vectorized, f16_to_f32};

/// Decodes blocks of `B` bytes and `N` values, as many as there are of both.
pub(super) fn blocks<const B: usize, const N: usize>(
    isa: Isa,
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; B], &mut [f32; N]),
) {
    let (blocks, _) = bytes.as_chunks();
    let (values, _) = out.as_chunks_mut();
    isa.vectorize(Blocks { blocks, values, decode });
}

/// Decodes numbers of `W` bytes.
pub(super) fn numbers<const W: usize>(
    isa: Isa,
    bytes: &[u8],
    out: &mut [f32],
    read: impl Fn([u8; W]) -> f32,
) {
    blocks(
        isa,
        bytes,
        out,
        #[inline(always)]
        |bytes, [out]: &mut [f32; 1]| *out = read(*bytes),
    );
}

struct Blocks<'a, const B: usize, const N: usize, F> {
    blocks: &'a [[u8; B]],
    values: &'a mut [[f32; N]],
    decode: F,
}

impl<const B: usize, const N: usize, F: Fn(&[u8; B], &mut [f32; N])> Vectorized for Blocks<'_, B, N, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (block, values) in self.blocks.iter().zip(self.values) {
            // A copy, for here the compiler no longer knows that bytes and values do not overlap.
            let block = *block;
            (self.decode)(&block, values);
        }
    }
}

/// `N` bytes of a block, from `at` on.
///
/// # Panics
/// When the block ends before, which is a mistake in the caller: all of them pass constants.
#[inline(always)]
pub(super) fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("a part of the block")
}

/// The half-precision number at `at`.
#[inline(always)]
pub(super) fn half(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16_at(block, at))
}

#[inline(always)]
pub(super) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*part(block, at))
}

#[inline(always)]
pub(super) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*part(block, at))
}
