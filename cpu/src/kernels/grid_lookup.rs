//! Codes of grid types as a lookup finds them with bits in its index that they are not made of: then most shifts and masks are not
//! needed. A lookup looks at four bits, or at six where [`PanelIsa::SKIPS_BITS`].

use super::form::{FOUR, FOUR_AND_ONE, Form, TWO, TWO_AND_ONE};
use super::tokens::QUADS;
use super::unpack::{PanelIsa, WORDS};

/// Which code each index stands for. Of the first 16 where a lookup looks at four bits.
pub(super) type Order = [u8; 64];

/// That of codes whose `bits` lower bits begin at bit `low` of an index and whose next one is bit `high`.
const fn order(low: usize, bits: usize, high: usize) -> Order {
    let mut codes = [0; 64];
    let mut i = 0;
    while i < 64 {
        codes[i] = (((i >> low) % (1 << bits)) | (((i >> high) % 2) << bits)) as u8;
        i += 1;
    }
    codes
}

/// That of codes of `bits` bits from bit `low` on, with nothing above them.
pub(super) const fn plain(low: usize, bits: usize) -> Order {
    order(low, bits - 1, low + bits - 1)
}

/// The most orders that a type needs.
const ORDERS: usize = 6;

static OF_2_BITS: [Order; 3] = [plain(0, 2), plain(2, 2), plain(4, 2)];
static OF_2_AND_1_BITS: [Order; ORDERS] =
    [order(0, 2, 2), order(0, 2, 3), order(2, 2, 4), order(2, 2, 5), order(4, 2, 0), order(4, 2, 1)];
static OF_4_BITS: [Order; 1] = [plain(0, 4)];
static OF_4_AND_1_BITS: [Order; 2] = [order(0, 4, 4), order(0, 4, 5)];
/// In indices of four bits.
static SHORT_2_AND_1_BITS: [Order; 4] = [order(0, 2, 2), order(0, 2, 3), order(2, 2, 0), order(2, 2, 1)];

/// The table whose entry of each index is that of `order` in `table`.
///
/// # Safety
/// As for [`PanelIsa`].
#[inline(always)]
pub(super) unsafe fn reordered<I: PanelIsa>(table: I::Codes, order: &Order) -> I::Codes {
    // SAFETY: the caller's promise; a register of codes has 64 bytes.
    unsafe { I::lookup(table, I::load(order.as_ptr())) }
}

/// Levels by index, in each order of a type.
pub(super) struct Tables<I: PanelIsa>([I::Codes; ORDERS]);

impl<I: PanelIsa> Tables<I> {
    /// Those of the type with the id `QUANT` from its levels by code, which are there once more where codes have four bits or fewer.
    /// `None` where nothing is gained by them.
    ///
    /// # Safety
    /// As for [`PanelIsa`].
    #[inline(always)]
    pub(super) unsafe fn new<const QUANT: u8>(levels: &[[u8; 16]; 2]) -> Option<Tables<I>> {
        let orders: &[Order] = match (Form::<QUANT>::PLANES, I::SKIPS_BITS) {
            (TWO, _) => &OF_2_BITS,
            (TWO_AND_ONE, true) => &OF_2_AND_1_BITS,
            (TWO_AND_ONE, false) => &SHORT_2_AND_1_BITS,
            (FOUR, true) => &OF_4_BITS,
            (FOUR_AND_ONE, true) => &OF_4_AND_1_BITS,
            _ => return None,
        };
        // SAFETY: the caller's promises.
        unsafe {
            let levels = if I::SKIPS_BITS { I::long_table(levels) } else { I::table(&levels[0]) };
            let mut tables = [levels; ORDERS];
            for (table, order) in tables.iter_mut().zip(orders) {
                *table = reordered::<I>(levels, order);
            }
            Some(Tables(tables))
        }
    }

    /// Levels of all quads of a superblock with its codes at `words`, with what the levels have added.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; `words` must point to the codes of a superblock of the type with the id `QUANT`, and these tables be its.
    #[inline(always)]
    pub(super) unsafe fn codes<const QUANT: u8>(&self, words: *const u8) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            match (Form::<QUANT>::PLANES, I::SKIPS_BITS) {
                (TWO, true) => self.two_bits(words),
                (TWO, false) => self.two_of_four_bits(words),
                (TWO_AND_ONE, true) => self.two_and_one(words),
                (TWO_AND_ONE, false) => self.two_and_one_of_four_bits(words),
                (FOUR, _) => self.four_bits(words),
                _ => self.four_and_one(words),
            }
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn two_of_four_bits(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [at_0, at_2, ..] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b] = [0, 1].map(|word| I::load(words.add(WORDS * word)));
            let low = [I::and(a, 15), I::and(b, 15)];
            let high = [I::and(I::shift_right(a, 4), 15), I::and(I::shift_right(b, 4), 15)];
            [
                I::lookup(at_0, low[0]),
                I::lookup(at_0, low[1]),
                I::lookup(at_2, low[0]),
                I::lookup(at_2, low[1]),
                I::lookup(at_0, high[0]),
                I::lookup(at_0, high[1]),
                I::lookup(at_2, high[0]),
                I::lookup(at_2, high[1]),
            ]
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn two_and_one_of_four_bits(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [with_2, with_3, with_0, with_1, ..] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b, plane] = [0, 1, 2].map(|word| I::load(words.add(WORDS * word)));
            let (c, d) = (I::shift_right(a, 4), I::shift_right(b, 4));
            // The third bits of quads 0 and 1, 4 and 5 at bits 2 and 3; those of 2 and 3, 6 and 7 at bits 0 and 1.
            let middle = I::shift_right(plane, 2);
            let of_0 = I::and(I::shift_left(plane, 2), 0x0C);
            let of_2 = I::and(middle, 0x03);
            let of_4 = I::and(middle, 0x0C);
            let of_6 = I::and(I::shift_right(plane, 6), 0x03);
            [
                I::lookup(with_2, I::or(I::and(a, 0x03), of_0)),
                I::lookup(with_3, I::or(I::and(b, 0x03), of_0)),
                I::lookup(with_0, I::or(I::and(a, 0x0C), of_2)),
                I::lookup(with_1, I::or(I::and(b, 0x0C), of_2)),
                I::lookup(with_2, I::or(I::and(c, 0x03), of_4)),
                I::lookup(with_3, I::or(I::and(d, 0x03), of_4)),
                I::lookup(with_0, I::or(I::and(c, 0x0C), of_6)),
                I::lookup(with_1, I::or(I::and(d, 0x0C), of_6)),
            ]
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn two_bits(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [at_0, at_2, at_4, ..] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b] = [0, 1].map(|word| I::load(words.add(WORDS * word)));
            [
                I::lookup(at_0, a),
                I::lookup(at_0, b),
                I::lookup(at_2, a),
                I::lookup(at_2, b),
                I::lookup(at_4, a),
                I::lookup(at_4, b),
                I::lookup(at_0, I::shift_right(a, 6)),
                I::lookup(at_0, I::shift_right(b, 6)),
            ]
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn two_and_one(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [with_2, with_3, with_4, with_5, with_0, with_1] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b, plane] = [0, 1, 2].map(|word| I::load(words.add(WORDS * word)));
            // The third bits of quads 0 to 3 at bits 2 to 5, those of quads 4 to 7 at bits 0 to 3.
            let (first, last) = (I::shift_left(plane, 2), I::shift_right(plane, 4));
            [
                I::lookup(with_2, I::merge(0x03, a, first)),
                I::lookup(with_3, I::merge(0x03, b, first)),
                I::lookup(with_4, I::merge(0x0C, a, first)),
                I::lookup(with_5, I::merge(0x0C, b, first)),
                I::lookup(with_0, I::merge(0x30, a, last)),
                I::lookup(with_1, I::merge(0x30, b, last)),
                I::lookup(with_2, I::merge(0x03, I::shift_right(a, 6), last)),
                I::lookup(with_3, I::merge(0x03, I::shift_right(b, 6), last)),
            ]
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn four_bits(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [table, ..] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b, c, d] = [0, 1, 2, 3].map(|word| I::load(words.add(WORDS * word)));
            [
                I::lookup(table, a),
                I::lookup(table, b),
                I::lookup(table, c),
                I::lookup(table, d),
                I::lookup(table, I::shift_right(a, 4)),
                I::lookup(table, I::shift_right(b, 4)),
                I::lookup(table, I::shift_right(c, 4)),
                I::lookup(table, I::shift_right(d, 4)),
            ]
        }
    }

    /// # Safety
    /// As for [`Tables::codes`].
    #[inline(always)]
    unsafe fn four_and_one(&self, words: *const u8) -> [I::Codes; QUADS] {
        let [with_4, with_5, ..] = self.0;
        // SAFETY: the caller's promises.
        unsafe {
            let [a, b, c, d, plane] = [0, 1, 2, 3, 4].map(|word| I::load(words.add(WORDS * word)));
            // The fifth bits of two quads each at bits 4 and 5.
            let of_0 = I::shift_left(plane, 4);
            let of_2 = I::shift_left(plane, 2);
            let of_6 = I::shift_right(plane, 2);
            [
                I::lookup(with_4, I::merge(15, a, of_0)),
                I::lookup(with_5, I::merge(15, b, of_0)),
                I::lookup(with_4, I::merge(15, c, of_2)),
                I::lookup(with_5, I::merge(15, d, of_2)),
                I::lookup(with_4, I::merge(15, I::shift_right(a, 4), plane)),
                I::lookup(with_5, I::merge(15, I::shift_right(b, 4), plane)),
                I::lookup(with_4, I::merge(15, I::shift_right(c, 4), of_6)),
                I::lookup(with_5, I::merge(15, I::shift_right(d, 4), of_6)),
            ]
        }
    }
}
