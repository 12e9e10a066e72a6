//! How values are stored (SPEC.md section 6): what the types of a family have in common, and in what they differ.
//!
//! Whoever takes blocks apart asks for this and not for the type. So a type of a family that there is needs no code of its own.

use half::f16;

use crate::sum_tables::SumTables;

/// What a type stores for its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Plain little-endian floats, without blocks.
    Float(FloatFormat),
    /// Blocks of `scale * code + min`: two f16, then the codes.
    Affine(Planes),
    /// Blocks of `d * level`, with levels `step` apart and symmetric around 0: an f16 d, then codes of 2 bits.
    Symmetric {
        /// Number of levels.
        levels: u8,
        /// From one level to the next.
        step: u8,
        /// How plain rows store the codes. Panels always store them as they are.
        rows: RowCodes,
    },
    /// Blocks of `d * q`: an f16 d, then signed bytes q in -127..=127.
    SignedBytes,
    /// Blocks of 32 in rows with an f16 scale: a byte with scale and choice of grid, then codes that levels of a grid stand for.
    Grid {
        /// Where the codes are.
        planes: Planes,
        /// What they stand for.
        levels: GridLevels,
        /// What the built-in second grid has more than the first in every level.
        shift: i8,
    },
    /// Blocks of 32 in rows with an f16 scale: steps of a trellis, whose levels are sums of two table entries.
    Trellis {
        /// Bits of a step.
        bits: usize,
        /// Which bits of the row so far choose the entries.
        state: TrellisState,
        /// The tables of a file that brings none of its own.
        tables: &'static SumTables,
    },
}

/// Which bits of a row choose a level of a trellis type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrellisState {
    /// The last 8.
    Byte,
    /// The last 16: of the newer byte the four older bits are combined with those of the older byte, by exclusive or.
    TwoBytes,
}

impl TrellisState {
    /// What chooses a level, of the last 16 bits, of which the oldest is lowest: an argument of [`SumTables::level`].
    #[inline]
    pub const fn fold(self, bits: u16) -> u8 {
        let newer = (bits >> 8) as u8;
        match self {
            TrellisState::Byte => newer,
            TrellisState::TwoBytes => newer ^ (bits as u8 & 15),
        }
    }
}

/// A format of plain floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatFormat {
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    Bf16,
    /// IEEE binary32.
    F32,
}

/// How plain rows store the codes of symmetric levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCodes {
    /// As they are, 2 bits each.
    Plain,
    /// Of the levels -1, 0 and 1: a bit each for the sign, then a bit each that says 0.
    SignAndZero,
}

/// The levels of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridLevels {
    /// Those of a table of the file, and these where it has none.
    Table(&'static [i8]),
    /// `2 * code` minus the number of codes. No file stores them.
    Even,
}

/// Where codes are: their low bits in one plane, and what is left in a second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planes {
    /// Bits in the first plane: 2, 4 or 8.
    pub low: usize,
    /// Bits in the second plane: 1 or 2, or 0 where there is none.
    pub high: usize,
}

/// One plane of the codes of a block, in the words of a row of a panel (SPEC.md section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PanelPlane {
    /// Bits of each code.
    pub bits: usize,
    /// The first word.
    pub first: usize,
    /// Number of words.
    pub words: usize,
}

impl Planes {
    /// 2 bits.
    pub const TWO: Planes = Planes { low: 2, high: 0 };
    /// 3 bits.
    pub const TWO_AND_ONE: Planes = Planes { low: 2, high: 1 };
    /// 4 bits.
    pub const FOUR: Planes = Planes { low: 4, high: 0 };
    /// 5 bits.
    pub const FOUR_AND_ONE: Planes = Planes { low: 4, high: 1 };
    /// 6 bits.
    pub const FOUR_AND_TWO: Planes = Planes { low: 4, high: 2 };
    /// Whole bytes.
    pub const EIGHT: Planes = Planes { low: 8, high: 0 };

    /// Bits of a code.
    pub const fn bits(self) -> usize {
        self.low + self.high
    }

    /// The planes of a block of `n` values in a panel, the low bits first.
    pub fn in_panels(self, n: usize) -> impl Iterator<Item = PanelPlane> {
        let low = PanelPlane { bits: self.low, first: 0, words: n * self.low / 32 };
        let high = PanelPlane { bits: self.high, first: low.words, words: n * self.high / 32 };
        [low, high].into_iter().filter(|plane| plane.bits > 0)
    }

    /// Code `i` of a block of `n` values of a plain row, from the bytes of its codes.
    pub(crate) fn in_row(self, codes: &[u8], n: usize, i: usize) -> u8 {
        let (low, high) = codes.split_at(n * self.low / 8);
        let code = plane_code(self.low, low, n, i);
        if self.high == 0 { code } else { code | plane_code(self.high, high, n, i) << self.low }
    }

    /// Code `i` of a block of `n` values of a row of a panel. `byte` gives a byte of one of the row's words, by the numbers of both.
    pub(crate) fn in_panel(self, byte: impl Fn(usize, usize) -> u8, n: usize, i: usize) -> u8 {
        let (mut code, mut place) = (0, 0);
        for plane in self.in_panels(n) {
            let (word, bit) = plane.of_quad(i / 4);
            code |= (byte(word, i % 4) >> bit & mask(plane.bits)) << place;
            place += plane.bits;
        }
        code
    }
}

impl PanelPlane {
    /// The word of a quad of codes, and the bit of each of its bytes at which a code begins. Quads of a word are as many apart as there
    /// are words; single bits of neighbouring quads are in one word.
    pub const fn of_quad(self, quad: usize) -> (usize, usize) {
        if self.bits == 1 {
            (self.first + quad / 8, quad % 8)
        } else {
            (self.first + quad % self.words, self.bits * (quad / self.words))
        }
    }
}

/// Code `i` of a plane of a plain row: single bits follow each other; of wider codes those of a byte are far apart.
fn plane_code(bits: usize, plane: &[u8], n: usize, i: usize) -> u8 {
    if bits == 1 {
        return plane[i / 8] >> (i % 8) & 1;
    }
    let bytes = n * bits / 8;
    plane[i % bytes] >> (bits * (i / bytes)) & mask(bits)
}

const fn mask(bits: usize) -> u8 {
    u8::MAX >> (8 - bits)
}

impl FloatFormat {
    /// Bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            FloatFormat::F16 | FloatFormat::Bf16 => 2,
            FloatFormat::F32 => 4,
        }
    }
}

impl Encoding {
    /// Bytes of a block before its codes.
    pub const fn scale_bytes(self) -> usize {
        match self {
            Encoding::Affine(_) => 4,
            Encoding::Symmetric { .. } | Encoding::SignedBytes => 2,
            Encoding::Grid { .. } => 1,
            Encoding::Float(_) | Encoding::Trellis { .. } => 0,
        }
    }

    /// Bits of a value, without what a block has beside codes.
    pub const fn code_bits(self) -> usize {
        match self {
            Encoding::Float(format) => 8 * format.bytes(),
            Encoding::Affine(planes) | Encoding::Grid { planes, .. } => planes.bits(),
            Encoding::Symmetric { .. } => Planes::TWO.bits(),
            Encoding::SignedBytes => Planes::EIGHT.bits(),
            Encoding::Trellis { bits, .. } => bits,
        }
    }

    /// The planes of codes in panels; `None` for floats, and for a trellis, whose bits have no planes.
    pub const fn planes(self) -> Option<Planes> {
        match self {
            Encoding::Affine(planes) | Encoding::Grid { planes, .. } => Some(planes),
            Encoding::Symmetric { .. } => Some(Planes::TWO),
            Encoding::SignedBytes => Some(Planes::EIGHT),
            Encoding::Float(_) | Encoding::Trellis { .. } => None,
        }
    }

    /// Whether codes stand for entries of tables, in blocks of 32 values.
    pub const fn is_learned(self) -> bool {
        matches!(self, Encoding::Grid { .. } | Encoding::Trellis { .. })
    }

    /// Whether a value is more than a scale times a level.
    pub const fn has_min(self) -> bool {
        matches!(self, Encoding::Affine(_))
    }

    /// What the scale of a block is multiplied with for a code of a type that is not learned: its level, an integer.
    pub const fn level(self, code: u8) -> i8 {
        match self {
            Encoding::Symmetric { levels, step, .. } => {
                (step * code).cast_signed() - (step * (levels - 1) / 2).cast_signed()
            }
            _ => code.cast_signed(),
        }
    }

    /// Level `i` of a block of `n` values of a plain row, from the bytes of its codes. Not of floats and learned types.
    pub(crate) fn level_in_row(self, codes: &[u8], n: usize, i: usize) -> i8 {
        if let Encoding::Symmetric { rows: RowCodes::SignAndZero, .. } = self {
            let (sign, zero) = codes.split_at(n / 8);
            let (sign, zero) = (plane_code(1, sign, n, i), plane_code(1, zero, n, i));
            return (1 - zero.cast_signed()) * (1 - 2 * sign.cast_signed());
        }
        let planes = self.planes().expect("a type whose blocks have codes");
        self.level(planes.in_row(codes, n, i))
    }
}

/// The f16 at byte `at`.
pub(crate) fn read_f16(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
