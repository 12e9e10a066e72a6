//! What a panel kernel needs of an instruction set, and the codes and scales of a panel in those terms.

use qsf_format::panels::PANEL_ROWS;

use super::form::{EIGHT, FOUR, Form, TWO_AND_ONE};
use crate::vector::CacheLevel;

/// Bytes of one column of halves or of one word of each row.
const HALVES: usize = 2 * PANEL_ROWS;
pub(super) const WORDS: usize = 4 * PANEL_ROWS;

/// Where weights are fetched while others are at work, and how near.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    /// Bytes from the superblock at work.
    pub bytes: usize,
    /// The cache to fetch them into.
    pub level: CacheLevel,
}

/// Sixteen rows at a time in the registers of an instruction set.
///
/// All functions are `#[inline(always)]`: they become part of a kernel that is compiled with the instruction set, and may
/// only be called from one.
///
/// # Safety
/// The processor must have the instruction set; pointers must have the bytes behind them that a function reads or writes.
pub(super) trait PanelIsa {
    /// 64 bytes: four codes of each row.
    type Codes: Copy;
    /// Sums of products of unsigned codes up to 15 while a group is worked through.
    type Dots: Copy;
    /// A 32-bit integer per row.
    type Ints: Copy;
    /// An f32 per row.
    type Floats: Copy;

    /// What [`PanelIsa::dot_signed`] wants added to signed codes: 0, or 128 where it multiplies unsigned ones. Then its sums
    /// are too large by so many times the sum of the codes x.
    const OFFSET: u8;
    /// Whether [`PanelIsa::lookup`] looks at the lower six bits of an index alone, in a table of 64 entries.
    const SKIPS_BITS: bool = false;

    /// What a product of a single token fetches from memory: the processor's own prefetching stops at the end of a page.
    fn ahead() -> Ahead;

    /// Asks for the cache lines that begin among the `bytes` bytes at `address`. These may lie behind the weights: then nothing
    /// happens. So of superblocks one after the other, which are no multiple of a line, each line is asked for once.
    unsafe fn fetch(address: *const u8, bytes: usize, level: CacheLevel);

    unsafe fn load(codes: *const u8) -> Self::Codes;
    /// Shifts within pairs of bytes: what crosses into a byte is for [`PanelIsa::and`] to remove.
    unsafe fn shift_right(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn shift_left(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn and(codes: Self::Codes, mask: u8) -> Self::Codes;
    unsafe fn or(a: Self::Codes, b: Self::Codes) -> Self::Codes;
    unsafe fn xor(a: Self::Codes, b: Self::Codes) -> Self::Codes;
    /// The bits of `set` where those of `mask` are set, else those of `clear`.
    #[inline(always)]
    unsafe fn merge(mask: u8, set: Self::Codes, clear: Self::Codes) -> Self::Codes {
        // SAFETY: the caller's promises.
        unsafe { Self::or(Self::and(set, mask), Self::and(clear, !mask)) }
    }
    /// Sums of bytes, without what does not fit a byte.
    unsafe fn add_codes(a: Self::Codes, b: Self::Codes) -> Self::Codes;
    unsafe fn splat_codes(code: u8) -> Self::Codes;
    /// The codes of each row, the fourth first moved into the next and the first filled with the fourth of `before`.
    unsafe fn carry(codes: Self::Codes, before: Self::Codes) -> Self::Codes;
    /// A table for [`PanelIsa::lookup`].
    unsafe fn table(entries: &[u8; 16]) -> Self::Codes;
    /// A table of 32 entries for [`PanelIsa::lookup`]. Only where [`PanelIsa::SKIPS_BITS`].
    #[inline(always)]
    unsafe fn long_table(entries: &[[u8; 16]; 2]) -> Self::Codes {
        // SAFETY: the caller's promise.
        unsafe { Self::table(&entries[0]) }
    }
    /// Entries of the table instead of codes, which are below 16 unless [`PanelIsa::SKIPS_BITS`].
    unsafe fn lookup(table: Self::Codes, codes: Self::Codes) -> Self::Codes;
    /// Bytes of `set` where bit `bit` of the byte of `plane` is set, else those of `clear`.
    unsafe fn choose(plane: Self::Codes, bit: usize, clear: Self::Codes, set: Self::Codes) -> Self::Codes;

    unsafe fn no_dots() -> Self::Dots;
    /// Adds the products of unsigned codes of at most 15 with the four codes at `x`; at most eight times.
    unsafe fn dot(dots: Self::Dots, codes: Self::Codes, x: *const i8) -> Self::Dots;
    unsafe fn ints(dots: Self::Dots) -> Self::Ints;

    unsafe fn no_ints() -> Self::Ints;
    /// Adds the products of signed codes, to which [`PanelIsa::OFFSET`] has been added, with the four codes at `x`. Codes up
    /// to 127 are multiplied as they are.
    unsafe fn dot_signed(ints: Self::Ints, codes: Self::Codes, x: *const i8) -> Self::Ints;
    unsafe fn add_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn splat_ints(value: i32) -> Self::Ints;

    /// Sixteen signed bytes.
    unsafe fn bytes(bytes: *const u8) -> Self::Ints;
    /// Each without its lowest bit.
    unsafe fn even(ints: Self::Ints) -> Self::Ints;
    /// The floats where the integer is odd, else 0.
    unsafe fn where_odd(ints: Self::Ints, floats: Self::Floats) -> Self::Floats;
    /// Sixteen halves.
    unsafe fn halves(halves: *const u8) -> Self::Floats;
    unsafe fn floats(ints: Self::Ints) -> Self::Floats;
    unsafe fn splat(value: f32) -> Self::Floats;
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    unsafe fn store(floats: Self::Floats, out: *mut f32);
}

/// Scale a and offset b of a superblock of a type that is not learned, per row.
///
/// # Safety
/// As for [`PanelIsa`]; `block` must point to a superblock of the type with the id `QUANT`.
#[inline(always)]
pub(super) unsafe fn scales<I: PanelIsa, const QUANT: u8>(block: *const u8) -> (I::Floats, I::Floats) {
    // SAFETY: the caller's promises.
    unsafe {
        let first = I::halves(block);
        if Form::<QUANT>::HAS_MIN {
            return (first, I::halves(block.add(HALVES)));
        }
        if Form::<QUANT>::IS_SIGNED {
            return (first, first);
        }
        let a = if const { Form::<QUANT>::LEVEL_STEP == 1.0 } {
            first
        } else {
            I::mul(first, I::splat(Form::<QUANT>::LEVEL_STEP))
        };
        (a, I::mul(first, I::splat(Form::<QUANT>::FIRST_LEVEL)))
    }
}

/// Codes of the elements `4 * quad..4 * quad + 4` of a superblock of `n` values: unsigned, but signed for 8-bit. Of learned
/// types only where codes are below 16.
///
/// # Safety
/// As for [`PanelIsa`]; `words` must point to the words of a superblock of the type with the id `QUANT`, and `quad` be below
/// `n / 4`.
#[inline(always)]
pub(super) unsafe fn quad<I: PanelIsa, const QUANT: u8>(words: *const u8, n: usize, quad: usize) -> I::Codes {
    // SAFETY: the words of a block, and so every offset, follow the layout.
    unsafe {
        match Form::<QUANT>::PLANES {
            FOUR => four_bits::<I>(words, n, quad),
            TWO_AND_ONE => {
                let low = two_bits::<I>(words, n, quad);
                let plane = I::load(words.add(WORDS * (n / 16 + quad / 8)));
                let bit = quad % 8;
                let high =
                    if bit < 2 { I::shift_left(plane, 2 - bit) } else { I::shift_right(plane, bit - 2) };
                I::or(low, I::and(high, 4))
            }
            EIGHT => I::load(words.add(WORDS * quad)),
            _ => two_bits::<I>(words, n, quad),
        }
    }
}

/// # Safety
/// As for [`quad`].
#[inline(always)]
unsafe fn two_bits<I: PanelIsa>(words: *const u8, n: usize, quad: usize) -> I::Codes {
    let (place, shift) = place(quad, n / 16);
    // SAFETY: the caller's promises.
    unsafe { I::and(I::shift_right(I::load(words.add(WORDS * place)), 2 * shift), 3) }
}

/// # Safety
/// As for [`quad`].
#[inline(always)]
pub(super) unsafe fn four_bits<I: PanelIsa>(words: *const u8, n: usize, quad: usize) -> I::Codes {
    let (place, shift) = place(quad, n / 8);
    // SAFETY: the caller's promises.
    unsafe { I::and(I::shift_right(I::load(words.add(WORDS * place)), 4 * shift), 15) }
}

/// The word of a quad among `count`, a power of two, and how many others are below it there.
#[inline(always)]
fn place(quad: usize, count: usize) -> (usize, usize) {
    // A division takes longer than the rest.
    (quad & (count - 1), quad >> count.trailing_zeros())
}
