//! Codes and scales of the learned types in registers (SPEC.md section 6.2): what [`super::unpack`] is for the others.

use qsf_format::{CodeTables, GRID_UNIT, TRELLIS_UNIT};

use super::form::{FOUR_AND_ONE, FOUR_AND_TWO, Form};
use super::unpack::{PanelIsa, WORDS, four_bits, quad};

/// Words of four codes in a block.
const QUADS: usize = 8;

/// Codes of all quads, each by a call with its number as the last argument of a generic function.
macro_rules! quads {
    ($self:ident.$codes:ident::<$quant:ident>($words:ident)) => {
        quads!($self.$codes::<$quant>($words), 0 1 2 3 4 5 6 7)
    };
    ($self:ident.$codes:ident::<$quant:ident>($words:ident), $($quad:literal)*) => {
        [$($self.$codes::<$quant, $quad>($words)),*]
    };
}

/// The tables of a type as one call of a kernel needs them.
pub(super) struct Levels {
    /// Levels by code, the second table those of codes from 16 on; or the two tables of a trellis type.
    tables: [[u8; 16]; 2],
    shift: f32,
}

impl Levels {
    /// Those of the type with the id `QUANT`, with `offset` added to all levels.
    pub(super) fn new<const QUANT: u8>(tables: &CodeTables, offset: u8) -> Levels {
        let quant = Form::<QUANT>::TYPE;
        if let Some(sums) = tables.sums(quant) {
            let newest = sums.newest.map(|level| level.cast_unsigned().wrapping_add(offset));
            return Levels { tables: [newest, sums.oldest.map(i8::cast_unsigned)], shift: 0.0 };
        }
        let Some((levels, shift)) = tables.grid(quant) else {
            return Levels { tables: [[0; 16]; 2], shift: 0.0 };
        };
        // A number that the compiler knows: a division for each level would take as long as a small matrix.
        let count = const { 1 << Form::<QUANT>::CODE_BITS };
        let levels = &levels[..count];
        let level = |code: usize| levels[code % count].cast_unsigned().wrapping_add(offset);
        let table = |first: usize| std::array::from_fn(|i| level(first + i));
        Levels { tables: [table(0), table(16)], shift: f32::from(shift) }
    }

    /// The largest magnitude of a level, of a type that has them and without anything added.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn largest(&self) -> u8 {
        let levels = self.tables.as_flattened().iter();
        levels.map(|level| level.cast_signed().unsigned_abs()).max().unwrap_or(0)
    }
}

/// What the superblocks of a panel share.
pub(super) struct Head<I: PanelIsa> {
    tables: [I::Codes; 2],
    /// Scale of each row, in the unit of the type.
    scale: I::Floats,
    shift: I::Floats,
}

impl<I: PanelIsa> Head<I> {
    /// # Safety
    /// As for [`PanelIsa`]; `panel` must point to a panel of the type with the id `QUANT`.
    #[inline(always)]
    pub(super) unsafe fn new<const QUANT: u8>(levels: &Levels, panel: *const u8) -> Head<I> {
        let unit = if Form::<QUANT>::IS_TRELLIS { TRELLIS_UNIT } else { GRID_UNIT };
        // SAFETY: the caller's promises.
        unsafe {
            let [first, second] = &levels.tables;
            Head {
                tables: [I::table(first), I::table(second)],
                scale: I::mul(I::halves(panel), I::splat(unit)),
                shift: I::splat(levels.shift),
            }
        }
    }

    /// Scale a and offset b of a superblock, per row.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; `block` must point to a superblock of the type with the id `QUANT`.
    #[inline(always)]
    pub(super) unsafe fn scales<const QUANT: u8>(&self, block: *const u8) -> (I::Floats, I::Floats) {
        // SAFETY: the caller's promises.
        unsafe {
            if Form::<QUANT>::IS_TRELLIS {
                return (self.scale, self.scale);
            }
            let bytes = I::bytes(block);
            let a = I::mul(self.scale, I::floats(I::half(bytes)));
            (a, I::where_odd(bytes, I::mul(a, self.shift)))
        }
    }

    /// The codes of all quads of superblock `j` of the panel, which is at `block`, as [`PanelIsa::dot_signed`] wants them.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    pub(super) unsafe fn codes<const QUANT: u8>(&self, block: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let words = block.add(Form::<QUANT>::CODES_OFFSET);
            match (Form::<QUANT>::IS_TRELLIS, Form::<QUANT>::CODE_BITS) {
                (true, 2) => self.trellis_codes_2::<QUANT>(words, j),
                (true, 3) => self.trellis_codes_3::<QUANT>(words, j),
                (true, _) => self.trellis_codes_4::<QUANT>(words, j),
                _ => quads!(self.grid_codes::<QUANT>(words)),
            }
        }
    }

    /// The codes of quad `QUAD` of a grid type.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn grid_codes<const QUANT: u8, const QUAD: usize>(&self, words: *const u8) -> I::Codes {
        let [first, second] = self.tables;
        // SAFETY: the caller's promises; the words of codes are as in the other types, with 32 values in a block.
        unsafe {
            match Form::<QUANT>::PLANES {
                FOUR_AND_ONE => {
                    let code = four_bits::<I>(words, 32, QUAD);
                    let plane = I::load(words.add(4 * WORDS));
                    I::choose(plane, QUAD, I::lookup(first, code), I::lookup(second, code))
                }
                FOUR_AND_TWO => {
                    // Even levels. Twice the code: bits 1 to 4, and bits 5 and 6.
                    let low = I::load(words.add(WORDS * (QUAD % 4)));
                    let low = if QUAD < 4 { I::shift_left(low, 1) } else { I::shift_right(low, 3) };
                    let high = I::load(words.add(WORDS * (4 + QUAD % 2)));
                    let place = 2 * (QUAD / 2);
                    let high =
                        if place < 6 { I::shift_left(high, 5 - place) } else { I::shift_right(high, 1) };
                    I::or(I::and(low, 0x1E), I::and(high, 0x60))
                }
                _ => I::lookup(first, quad::<I, QUANT>(words, 32, QUAD)),
            }
        }
    }

    /// The codes of a superblock of a trellis type with 2 bits a step.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn trellis_codes_2<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1].map(|line| I::load(words.add(WORDS * line)));
            let ([before, a, b], [older, x, y]) = Self::strings::<QUANT, 2, 3>(words, lines, j);
            [
                self.level(window::<I, 6>(before, a), window::<I, 2>(older, older)),
                self.level(window::<I, 0>(a, a), window::<I, 4>(older, older)),
                self.level(window::<I, 2>(a, a), window::<I, 6>(older, x)),
                self.level(window::<I, 4>(a, a), window::<I, 0>(x, x)),
                self.level(window::<I, 6>(a, b), window::<I, 2>(x, x)),
                self.level(window::<I, 0>(b, b), window::<I, 4>(x, x)),
                self.level(window::<I, 2>(b, b), window::<I, 6>(x, y)),
                self.level(window::<I, 4>(b, b), window::<I, 0>(y, y)),
            ]
        }
    }

    /// The codes of a superblock of a trellis type with 3 bits a step.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn trellis_codes_3<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1, 2].map(|line| I::load(words.add(WORDS * line)));
            let ([before, a, b, c], [older, x, y, z]) = Self::strings::<QUANT, 3, 4>(words, lines, j);
            [
                self.level(window::<I, 7>(before, a), window::<I, 3>(older, older)),
                self.level(window::<I, 2>(a, a), window::<I, 6>(older, x)),
                self.level(window::<I, 5>(a, b), window::<I, 1>(x, x)),
                self.level(window::<I, 0>(b, b), window::<I, 4>(x, x)),
                self.level(window::<I, 3>(b, b), window::<I, 7>(x, y)),
                self.level(window::<I, 6>(b, c), window::<I, 2>(y, y)),
                self.level(window::<I, 1>(c, c), window::<I, 5>(y, z)),
                self.level(window::<I, 4>(c, c), window::<I, 0>(z, z)),
            ]
        }
    }

    /// The codes of a superblock of a trellis type with 4 bits a step.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn trellis_codes_4<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1, 2, 3].map(|line| I::load(words.add(WORDS * line)));
            let ([_, a, b, c, d], [older, x, y, z, last]) = Self::strings::<QUANT, 4, 5>(words, lines, j);
            [
                self.level(window::<I, 0>(a, a), window::<I, 4>(older, older)),
                self.level(window::<I, 4>(a, a), window::<I, 0>(x, x)),
                self.level(window::<I, 0>(b, b), window::<I, 4>(x, x)),
                self.level(window::<I, 4>(b, b), window::<I, 0>(y, y)),
                self.level(window::<I, 0>(c, c), window::<I, 4>(y, y)),
                self.level(window::<I, 4>(c, c), window::<I, 0>(z, z)),
                self.level(window::<I, 0>(d, d), window::<I, 4>(z, z)),
                self.level(window::<I, 4>(d, d), window::<I, 0>(last, last)),
            ]
        }
    }

    /// The bits that the newest and the oldest four of the folded states of a superblock are in: per column of a quad the byte before
    /// its own and then these, from the lines of superblock `j` of a trellis type. There is nothing between the lines of two
    /// superblocks. `BYTES` is one more than `LINES`.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn strings<const QUANT: u8, const LINES: usize, const BYTES: usize>(
        words: *const u8,
        lines: [I::Codes; LINES],
        j: usize,
    ) -> ([I::Codes; BYTES], [I::Codes; BYTES]) {
        // SAFETY: the caller's promises.
        unsafe {
            // The byte `back` lines before the superblock's first.
            let byte_before = |back: usize| {
                let before = if j == 0 { I::splat_codes(0) } else { I::load(words.sub(WORDS * back)) };
                I::carry(lines[LINES - back], before)
            };
            let mut newest = [byte_before(1); BYTES];
            newest[1..].copy_from_slice(&lines);
            let mut oldest = newest;
            if Form::<QUANT>::HAS_TWO_BYTES {
                oldest[0] = I::xor(newest[0], byte_before(2));
                for byte in 1..BYTES {
                    oldest[byte] = I::xor(newest[byte], newest[byte - 1]);
                }
            }
            (newest, oldest)
        }
    }

    /// Levels of a trellis type by the newest and oldest bits of folded states.
    ///
    /// # Safety
    /// As for [`Head::scales`].
    #[inline(always)]
    unsafe fn level(&self, newest: I::Codes, oldest: I::Codes) -> I::Codes {
        // SAFETY: the caller's promises.
        unsafe { I::add_codes(I::lookup(self.tables[0], newest), I::lookup(self.tables[1], oldest)) }
    }
}

/// The four bits from bit `BIT` of the bytes `low` on, which may go on in the bytes `high`.
///
/// # Safety
/// As for [`PanelIsa`].
#[inline(always)]
unsafe fn window<I: PanelIsa, const BIT: usize>(low: I::Codes, high: I::Codes) -> I::Codes {
    // SAFETY: the caller's promise.
    unsafe {
        match BIT {
            0 => I::and(low, 15),
            1..=4 => I::and(I::shift_right(low, BIT), 15),
            _ => {
                let from_low = 15 >> (BIT - 4);
                let low = I::and(I::shift_right(low, BIT), from_low);
                I::or(low, I::and(I::shift_left(high, 8 - BIT), 15 & !from_low))
            }
        }
    }
}
