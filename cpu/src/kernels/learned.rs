//! Codes and scales of the learned types in registers (SPEC.md section 6.2): what [`super::unpack`] is for the others.

use qsf_format::CodeTables;

use super::form::{FOUR_AND_ONE, FOUR_AND_TWO, Form};
use super::grid_lookup::{Order, Tables, plain, reordered};
use super::tokens::QUADS;
use super::unpack::{PanelIsa, WORDS, four_bits, quad};

/// Codes of four bits that begin at bit 1 or 2 of an index.
static BEHIND: [Order; 2] = [plain(1, 4), plain(2, 4)];

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

    /// What levels of the second grid have added.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn shift(&self) -> f32 {
        self.shift
    }

    /// The largest magnitude of a level, of a type that has them and without anything added.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn largest(&self) -> u8 {
        let levels = self.tables.as_flattened().iter();
        levels.map(|level| level.cast_signed().unsigned_abs()).max().unwrap_or(0)
    }
}

/// What all superblocks of a type share.
pub(super) struct Head<I: PanelIsa> {
    /// Both tables, each for codes that begin at bits 0, 1 and 2.
    tables: [[I::Codes; 3]; 2],
    /// Those of a grid type by index, where that is fewer instructions than by code.
    grid: Option<Tables<I>>,
}

impl<I: PanelIsa> Head<I> {
    /// # Safety
    /// As for [`PanelIsa`].
    #[inline(always)]
    pub(super) unsafe fn new<const QUANT: u8>(levels: &Levels) -> Head<I> {
        // SAFETY: the caller's promises.
        unsafe {
            let [first, second] = [I::table(&levels.tables[0]), I::table(&levels.tables[1])];
            let by_begin =
                |table| [table, reordered::<I>(table, &BEHIND[0]), reordered::<I>(table, &BEHIND[1])];
            Head { tables: [by_begin(first), by_begin(second)], grid: Tables::new::<QUANT>(&levels.tables) }
        }
    }

    /// The codes of all quads of superblock `j` of the panel, which is at `block`, as [`PanelIsa::dot_signed`] wants them.
    ///
    /// # Safety
    /// As for [`scales`].
    #[inline(always)]
    pub(super) unsafe fn codes<const QUANT: u8>(&self, block: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let words = block.add(Form::<QUANT>::CODES_OFFSET);
            if let Some(grid) = &self.grid {
                return grid.codes::<QUANT>(words);
            }
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
    /// As for [`scales`].
    #[inline(always)]
    unsafe fn grid_codes<const QUANT: u8, const QUAD: usize>(&self, words: *const u8) -> I::Codes {
        let [[first, ..], [second, ..]] = self.tables;
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
    /// As for [`scales`].
    #[inline(always)]
    unsafe fn trellis_codes_2<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1].map(|line| I::load(words.add(WORDS * line)));
            let ([before, a, b], [older, x, y]) = Self::strings::<QUANT, 2, 3>(words, lines, j);
            [
                self.level::<2, 6, 2>([before, a], [older, older]),
                self.level::<2, 0, 4>([a, a], [older, x]),
                self.level::<2, 2, 6>([a, a], [older, x]),
                self.level::<2, 4, 0>([a, b], [x, x]),
                self.level::<2, 6, 2>([a, b], [x, x]),
                self.level::<2, 0, 4>([b, b], [x, y]),
                self.level::<2, 2, 6>([b, b], [x, y]),
                self.level::<2, UPPER, 0>([b, b], [y, y]),
            ]
        }
    }

    /// The codes of a superblock of a trellis type with 3 bits a step.
    ///
    /// # Safety
    /// As for [`scales`].
    #[inline(always)]
    unsafe fn trellis_codes_3<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1, 2].map(|line| I::load(words.add(WORDS * line)));
            let ([before, a, b, c], [older, x, y, z]) = Self::strings::<QUANT, 3, 4>(words, lines, j);
            [
                self.level::<3, 7, 3>([before, a], [older, older]),
                self.level::<3, 2, 6>([a, a], [older, x]),
                self.level::<3, 5, 1>([a, b], [x, x]),
                self.level::<3, 0, UPPER>([b, b], [x, x]),
                self.level::<3, 3, 7>([b, b], [x, y]),
                self.level::<3, 6, 2>([b, c], [y, y]),
                self.level::<3, 1, 5>([c, c], [y, z]),
                self.level::<3, UPPER, 0>([c, c], [z, z]),
            ]
        }
    }

    /// The codes of a superblock of a trellis type with 4 bits a step.
    ///
    /// # Safety
    /// As for [`scales`].
    #[inline(always)]
    unsafe fn trellis_codes_4<const QUANT: u8>(&self, words: *const u8, j: usize) -> [I::Codes; QUADS] {
        // SAFETY: the caller's promises.
        unsafe {
            let lines = [0, 1, 2, 3].map(|line| I::load(words.add(WORDS * line)));
            let ([_, a, b, c, d], [older, x, y, z, last]) = Self::strings::<QUANT, 4, 5>(words, lines, j);
            [
                self.level::<4, 0, UPPER>([a, a], [older, older]),
                self.level::<4, UPPER, 0>([a, a], [x, x]),
                self.level::<4, 0, UPPER>([b, b], [x, x]),
                self.level::<4, UPPER, 0>([b, b], [y, y]),
                self.level::<4, 0, UPPER>([c, c], [y, y]),
                self.level::<4, UPPER, 0>([c, c], [z, z]),
                self.level::<4, 0, UPPER>([d, d], [z, z]),
                self.level::<4, UPPER, 0>([d, d], [last, last]),
            ]
        }
    }

    /// The bits that the newest and the oldest four of the folded states of a superblock are in: per column of a quad the byte before
    /// its own and then these, from the lines of superblock `j` of a trellis type. There is nothing between the lines of two
    /// superblocks. `BYTES` is one more than `LINES`.
    ///
    /// # Safety
    /// As for [`scales`].
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

    /// Levels of a trellis type of `BITS` bits a step by the newest and oldest bits of folded states: those from bit `NEWEST` of
    /// `newest` on, and so with `OLDEST`.
    ///
    /// # Safety
    /// As for [`scales`].
    #[inline(always)]
    unsafe fn level<const BITS: usize, const NEWEST: usize, const OLDEST: usize>(
        &self,
        newest: [I::Codes; 2],
        oldest: [I::Codes; 2],
    ) -> I::Codes {
        // SAFETY: the caller's promises.
        unsafe {
            I::add_codes(
                window::<I, BITS, NEWEST>(&self.tables[0], newest),
                window::<I, BITS, OLDEST>(&self.tables[1], oldest),
            )
        }
    }
}

/// Scale a and offset b of a superblock per row, in the units of [`result`]: 2 s, and 2 s once more where a block has the second grid.
/// Twice, since its byte without the lowest bit is that: compilers make three instructions of halving bytes.
///
/// # Safety
/// As for [`PanelIsa`]; `block` must point to a superblock of the learned type with the id `QUANT`.
#[inline(always)]
pub(super) unsafe fn scales<I: PanelIsa, const QUANT: u8>(block: *const u8) -> (I::Floats, I::Floats) {
    // SAFETY: the caller's promises.
    unsafe {
        if Form::<QUANT>::IS_TRELLIS {
            return (I::splat(1.0), I::splat(0.0));
        }
        let bytes = I::bytes(block);
        let s = I::floats(I::even(bytes));
        (s, I::where_odd(bytes, s))
    }
}

/// What sums with scales a and with offsets b make, of the rows of a panel: of any type, not of learned ones alone.
///
/// # Safety
/// As for [`PanelIsa`]; `panel` must point to a panel of the type with the id `QUANT`.
#[inline(always)]
pub(super) unsafe fn result<I: PanelIsa, const QUANT: u8>(
    levels: &Levels,
    panel: *const u8,
    acc: I::Floats,
    acc_b: I::Floats,
) -> I::Floats {
    // SAFETY: the caller's promises.
    unsafe {
        match (Form::<QUANT>::IS_LEARNED, Form::<QUANT>::HAS_OFFSET) {
            (false, false) => acc,
            (false, true) => I::add(acc, acc_b),
            (true, has_offset) => {
                let scale = I::mul(I::halves(panel), I::splat(Form::<QUANT>::ROW_UNIT));
                let sum = if has_offset { I::fma(acc_b, I::splat(levels.shift), acc) } else { acc };
                I::mul(sum, scale)
            }
        }
    }
}

/// The upper four bits of a byte, where no window is wanted that goes on in the next byte.
const UPPER: usize = 8;

/// Entries of one of `tables` by the four bits from bit `BIT` of the bytes `low` on, which may go on in the bytes `high`.
///
/// # Safety
/// As for [`PanelIsa`].
#[inline(always)]
unsafe fn window<I: PanelIsa, const BITS: usize, const BIT: usize>(
    tables: &[I::Codes; 3],
    [low, high]: [I::Codes; 2],
) -> I::Codes {
    // SAFETY: the caller's promise.
    unsafe {
        if I::SKIPS_BITS {
            // Bits of `low` from `first` on, and then those of `high`: several windows are found in them.
            let both = |first: usize| {
                I::merge(255 >> first, I::shift_right(low, first), I::shift_left(high, 8 - first))
            };
            let (codes, begin) = match BIT {
                0..=2 => (low, BIT),
                3 => (I::shift_right(low, 1), 2),
                UPPER => (I::shift_right(low, 4), 0),
                // Windows are at even bits.
                4 | 6 if BITS == 2 => (both(4), BIT - 4),
                _ => (both(5), BIT - 5),
            };
            return I::lookup(tables[begin], codes);
        }
        let code = match BIT {
            0 => I::and(low, 15),
            1..=4 => I::and(I::shift_right(low, BIT), 15),
            UPPER => I::and(I::shift_right(low, 4), 15),
            _ => {
                let from_low = 15 >> (BIT - 4);
                let low = I::and(I::shift_right(low, BIT), from_low);
                I::or(low, I::and(I::shift_left(high, 8 - BIT), 15 & !from_low))
            }
        };
        I::lookup(tables[0], code)
    }
}
