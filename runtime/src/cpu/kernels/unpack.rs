//! What a panel kernel needs of an instruction set, and the codes and scales of a panel in those terms.

use qsf_format::QuantType;
use qsf_format::panels::PANEL_ROWS;

pub(super) const Q2_SYM: u8 = QuantType::Q2Sym as u8;
pub(super) const Q2: u8 = QuantType::Q2 as u8;
pub(super) const Q3: u8 = QuantType::Q3 as u8;
pub(super) const Q4: u8 = QuantType::Q4 as u8;
pub(super) const TERNARY: u8 = QuantType::Ternary as u8;
pub(super) const Q8: u8 = QuantType::Q8 as u8;

/// Bytes of one column of halves or of one word of each row.
const HALVES: usize = 2 * PANEL_ROWS;
const WORDS: usize = 4 * PANEL_ROWS;

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

    /// Tokens that share the unpacked codes: as many as registers allow. 1, 4 or 8.
    const TILE: usize;

    /// Asks for the cache line at `address`, which may be any address.
    unsafe fn prefetch(address: *const u8);

    unsafe fn load(codes: *const u8) -> Self::Codes;
    /// Shifts within pairs of bytes: what crosses into a byte is for [`PanelIsa::and`] to remove.
    unsafe fn shift_right(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn shift_left(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn and(codes: Self::Codes, mask: u8) -> Self::Codes;
    unsafe fn or(a: Self::Codes, b: Self::Codes) -> Self::Codes;

    unsafe fn no_dots() -> Self::Dots;
    /// Adds the products of unsigned codes of at most 15 with the four codes at `x`; at most eight times.
    unsafe fn dot(dots: Self::Dots, codes: Self::Codes, x: *const i8) -> Self::Dots;
    unsafe fn ints(dots: Self::Dots) -> Self::Ints;

    unsafe fn no_ints() -> Self::Ints;
    /// Adds the products of signed codes with the four codes at `x`; perhaps with an offset that
    /// [`PanelIsa::without_offset`] removes.
    unsafe fn dot_signed(ints: Self::Ints, codes: Self::Codes, x: *const i8) -> Self::Ints;
    /// The sum of products, where `sum` is the sum of the codes x.
    unsafe fn without_offset(ints: Self::Ints, sum: i32) -> Self::Ints;

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

/// Whether blocks of the type with this id store a min beside the scale.
const fn has_min(quant: u8) -> bool {
    matches!(quant, Q2 | Q3 | Q4)
}

/// Bytes of 16 interleaved blocks of `n` values, of which the first are scales.
pub(super) const fn superblock_bytes(quant: u8, n: usize) -> usize {
    let codes = match quant {
        Q4 => n / 2,
        Q3 => n / 4 + n / 8,
        Q8 => n,
        _ => n / 4,
    };
    codes_offset(quant) + PANEL_ROWS * codes
}

/// Where the words of codes start in a superblock.
pub(super) const fn codes_offset(quant: u8) -> usize {
    if has_min(quant) { 2 * HALVES } else { HALVES }
}

/// Scale a and offset b of a superblock, per row.
///
/// # Safety
/// As for [`PanelIsa`]; `block` must point to a superblock of the type with the id `QUANT`.
#[inline(always)]
pub(super) unsafe fn scales<I: PanelIsa, const QUANT: u8>(block: *const u8) -> (I::Floats, I::Floats) {
    // SAFETY: the caller's promises.
    unsafe {
        let first = I::halves(block);
        match QUANT {
            Q2_SYM => (I::add(first, first), I::mul(first, I::splat(-3.0))),
            TERNARY => (first, I::mul(first, I::splat(-1.0))),
            Q8 => (first, first),
            _ => (first, I::halves(block.add(HALVES))),
        }
    }
}

/// Codes of the elements `4 * quad..4 * quad + 4` of a superblock of `n` values: unsigned, but signed for 8-bit.
///
/// # Safety
/// As for [`PanelIsa`]; `words` must point to the words of a superblock of the type with the id `QUANT`, and `quad` be below
/// `n / 4`.
#[inline(always)]
pub(super) unsafe fn quad<I: PanelIsa, const QUANT: u8>(words: *const u8, n: usize, quad: usize) -> I::Codes {
    // SAFETY: the words of a block, and so every offset, follow the layout.
    unsafe {
        match QUANT {
            Q4 => {
                let count = n / 8;
                let word = I::load(words.add(WORDS * (quad % count)));
                I::and(I::shift_right(word, 4 * (quad / count)), 15)
            }
            Q3 => {
                let low = two_bits::<I>(words, n, quad);
                let plane = I::load(words.add(WORDS * (n / 16 + quad / 8)));
                let bit = quad % 8;
                let high =
                    if bit < 2 { I::shift_left(plane, 2 - bit) } else { I::shift_right(plane, bit - 2) };
                I::or(low, I::and(high, 4))
            }
            Q8 => I::load(words.add(WORDS * quad)),
            _ => two_bits::<I>(words, n, quad),
        }
    }
}

/// # Safety
/// As for [`quad`].
#[inline(always)]
unsafe fn two_bits<I: PanelIsa>(words: *const u8, n: usize, quad: usize) -> I::Codes {
    let count = n / 16;
    // SAFETY: the caller's promises.
    unsafe {
        let word = I::load(words.add(WORDS * (quad % count)));
        I::and(I::shift_right(word, 2 * (quad / count)), 3)
    }
}
