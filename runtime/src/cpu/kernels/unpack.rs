//! What a panel kernel needs of an instruction set, and the codes and scales of a panel in those terms.

use qsf_format::QuantType;
use qsf_format::panels::PANEL_ROWS;

pub(super) const Q2_SYM: u8 = QuantType::Q2Sym as u8;
pub(super) const Q2: u8 = QuantType::Q2 as u8;
pub(super) const Q3: u8 = QuantType::Q3 as u8;
pub(super) const Q4: u8 = QuantType::Q4 as u8;
pub(super) const TERNARY: u8 = QuantType::Ternary as u8;
pub(super) const Q8: u8 = QuantType::Q8 as u8;
pub(super) const N2: u8 = QuantType::N2 as u8;
pub(super) const N3: u8 = QuantType::N3 as u8;
pub(super) const N4: u8 = QuantType::N4 as u8;
pub(super) const N5: u8 = QuantType::N5 as u8;
pub(super) const Q6: u8 = QuantType::Q6 as u8;
pub(super) const T2: u8 = QuantType::T2 as u8;
pub(super) const T3: u8 = QuantType::T3 as u8;

/// Bytes of one column of halves or of one word of each row.
const HALVES: usize = 2 * PANEL_ROWS;
pub(super) const WORDS: usize = 4 * PANEL_ROWS;
const CACHE_LINE: usize = 64;

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

    /// Bytes from the superblock at work to the one that is fetched from memory: the processor's own prefetching stops at the end
    /// of a page.
    fn ahead() -> usize;

    /// Asks for the cache line at `address`, which may be any address.
    unsafe fn prefetch(address: *const u8);

    unsafe fn load(codes: *const u8) -> Self::Codes;
    /// Shifts within pairs of bytes: what crosses into a byte is for [`PanelIsa::and`] to remove.
    unsafe fn shift_right(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn shift_left(codes: Self::Codes, bits: usize) -> Self::Codes;
    unsafe fn and(codes: Self::Codes, mask: u8) -> Self::Codes;
    unsafe fn or(a: Self::Codes, b: Self::Codes) -> Self::Codes;
    /// Sums of bytes, without what does not fit a byte.
    unsafe fn add_codes(a: Self::Codes, b: Self::Codes) -> Self::Codes;
    unsafe fn splat_codes(code: u8) -> Self::Codes;
    /// The codes of each row, the fourth first moved into the next and the first filled with the fourth of `before`.
    unsafe fn carry(codes: Self::Codes, before: Self::Codes) -> Self::Codes;
    /// A table for [`PanelIsa::lookup`].
    unsafe fn table(entries: &[u8; 16]) -> Self::Codes;
    /// Entries of the table instead of codes, which are below 16.
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
    unsafe fn subtract(ints: Self::Ints, value: i32) -> Self::Ints;

    /// Sixteen signed bytes.
    unsafe fn bytes(bytes: *const u8) -> Self::Ints;
    /// Half of each, rounded down.
    unsafe fn half(ints: Self::Ints) -> Self::Ints;
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

/// Asks for the `bytes` bytes at `address`, which may lie behind the weights: then nothing happens.
///
/// # Safety
/// As for [`PanelIsa`].
#[inline(always)]
pub(super) unsafe fn fetch<I: PanelIsa>(address: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(CACHE_LINE) {
        // SAFETY: the caller's promise.
        unsafe { I::prefetch(address.wrapping_add(line)) }
    }
}

/// The type with this id.
pub(super) const fn quant_type(id: u8) -> QuantType {
    let mut i = 0;
    while QuantType::ALL[i] as u8 != id {
        i += 1;
    }
    QuantType::ALL[i]
}

/// Whether the type with this id is a learned one.
pub(super) const fn is_learned(quant: u8) -> bool {
    quant_type(quant).is_learned()
}

/// Whether codes of the type with this id are multiplied by [`PanelIsa::dot_signed`].
pub(super) const fn is_signed(quant: u8) -> bool {
    quant == Q8 || is_learned(quant)
}

/// Whether weights of the type with this id have an offset b.
pub(super) const fn has_offset(quant: u8) -> bool {
    !matches!(quant, Q8 | T2 | T3)
}

/// What the sum of the codes x is multiplied with and subtracted from a sum of products that [`PanelIsa::dot_signed`] made.
pub(super) const fn code_offset<I: PanelIsa>(quant: u8) -> i32 {
    // Codes of `6bit` are 64 too large, and then small enough for every instruction set.
    if quant == Q6 { 64 } else { I::OFFSET as i32 }
}

/// Bytes of a panel before its superblocks.
pub(super) const fn head_bytes(quant: u8) -> usize {
    PANEL_ROWS * quant_type(quant).row_head_bytes()
}

/// Bytes of 16 interleaved blocks of `n` values, of which the first are scales.
pub(super) const fn superblock_bytes(quant: u8, n: usize) -> usize {
    let codes = match quant {
        Q4 | N4 => n / 2,
        Q3 | N3 | T3 => n / 4 + n / 8,
        N5 => n / 2 + n / 8,
        Q6 => n / 2 + n / 4,
        Q8 => n,
        _ => n / 4,
    };
    codes_offset(quant) + PANEL_ROWS * codes
}

/// Where the words of codes start in a superblock.
pub(super) const fn codes_offset(quant: u8) -> usize {
    match quant {
        Q2 | Q3 | Q4 => 2 * HALVES,
        N2 | N3 | N4 | N5 | Q6 => PANEL_ROWS,
        T2 | T3 => 0,
        _ => HALVES,
    }
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
        match QUANT {
            Q2_SYM => (I::add(first, first), I::mul(first, I::splat(-3.0))),
            TERNARY => (first, I::mul(first, I::splat(-1.0))),
            Q8 => (first, first),
            _ => (first, I::halves(block.add(HALVES))),
        }
    }
}

/// Codes of the elements `4 * quad..4 * quad + 4` of a superblock of `n` values: unsigned, but signed for 8-bit. Not of
/// learned types.
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
                let (place, shift) = place(quad, n / 8);
                I::and(I::shift_right(I::load(words.add(WORDS * place)), 4 * shift), 15)
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
    let (place, shift) = place(quad, n / 16);
    // SAFETY: the caller's promises.
    unsafe { I::and(I::shift_right(I::load(words.add(WORDS * place)), 2 * shift), 3) }
}

/// The word of a quad among `count`, a power of two, and how many others are below it there.
#[inline(always)]
fn place(quad: usize, count: usize) -> (usize, usize) {
    // A division takes longer than the rest.
    (quad & (count - 1), quad >> count.trailing_zeros())
}
