//! What kernels know of a type when they are compiled: its [`Encoding`] as constants, so that what is not for the type is not even
//! compiled.

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{Encoding, GRID_UNIT, GridLevels, Planes, QuantType, TRELLIS_UNIT, TrellisState};

use crate::activations::WEIGHT_OFFSET;

/// Planes of codes as numbers, for [`Form::PLANES`].
pub(super) const TWO: u8 = number(Planes::TWO);
pub(super) const TWO_AND_ONE: u8 = number(Planes::TWO_AND_ONE);
pub(super) const FOUR: u8 = number(Planes::FOUR);
pub(super) const FOUR_AND_ONE: u8 = number(Planes::FOUR_AND_ONE);
pub(super) const FOUR_AND_TWO: u8 = number(Planes::FOUR_AND_TWO);
pub(super) const EIGHT: u8 = number(Planes::EIGHT);

const fn number(planes: Planes) -> u8 {
    (planes.high << 4 | planes.low) as u8
}

/// The type with the id `QUANT`.
pub(super) struct Form<const QUANT: u8>;

impl<const QUANT: u8> Form<QUANT> {
    /// The type.
    pub(super) const TYPE: QuantType = {
        let mut i = 0;
        while QuantType::ALL[i].id() != QUANT {
            i += 1;
        }
        QuantType::ALL[i]
    };

    const ENCODING: Encoding = Self::TYPE.encoding();

    /// The planes of its codes, as one of the numbers above; 0 for a trellis. A type whose codes no kernel can unpack is an error of the
    /// compiler, here.
    pub(super) const PLANES: u8 = match (Self::ENCODING.planes(), Self::ENCODING) {
        (None, _) => 0,
        (Some(Planes::FOUR_AND_TWO), Encoding::Grid { levels: GridLevels::Even, .. }) => FOUR_AND_TWO,
        (_, Encoding::Grid { levels: GridLevels::Even, .. }) => panic!("codes of even levels have 6 bits"),
        (Some(Planes::FOUR_AND_ONE), Encoding::Grid { .. }) => FOUR_AND_ONE,
        (Some(planes @ (Planes::TWO | Planes::TWO_AND_ONE | Planes::FOUR | Planes::EIGHT)), _) => {
            number(planes)
        }
        _ => panic!("`quad` or `Head::grid_codes` must learn to unpack these planes"),
    };

    /// Whether codes stand for entries of tables, in blocks of 32 values and rows with a scale.
    pub(super) const IS_LEARNED: bool = Self::ENCODING.is_learned();
    /// Whether codes form a trellis.
    pub(super) const IS_TRELLIS: bool = matches!(Self::ENCODING, Encoding::Trellis { .. });
    /// Whether the last 16 bits of a trellis choose a level, and not the last 8.
    pub(super) const HAS_TWO_BYTES: bool =
        matches!(Self::ENCODING, Encoding::Trellis { state: TrellisState::TwoBytes, .. });
    /// The unit of the scales of rows, where they have any: half of the format's, where kernels take the scales of blocks twice.
    pub(super) const ROW_UNIT: f32 = if Self::IS_TRELLIS { TRELLIS_UNIT } else { GRID_UNIT / 2.0 };
    /// Whether codes are multiplied as signed ones.
    pub(super) const IS_SIGNED: bool = Self::IS_LEARNED || matches!(Self::ENCODING, Encoding::SignedBytes);
    /// Whether weights have an offset b.
    pub(super) const HAS_OFFSET: bool = !Self::IS_TRELLIS && !matches!(Self::ENCODING, Encoding::SignedBytes);
    /// Whether blocks have a min beside their scale.
    pub(super) const HAS_MIN: bool = Self::ENCODING.has_min();
    /// What the levels of codes begin with and how far they are apart, where a block has a scale of its own and no min.
    pub(super) const FIRST_LEVEL: f32 = Self::ENCODING.level(0) as f32;
    pub(super) const LEVEL_STEP: f32 = (Self::ENCODING.level(1) - Self::ENCODING.level(0)) as f32;
    /// How much twice a code of even levels is too large as a level; 0 for all other types.
    pub(super) const EVEN_OFFSET: u8 = match Self::ENCODING {
        Encoding::Grid { planes, levels: GridLevels::Even, .. } => 1 << planes.bits(),
        _ => 0,
    };
    /// The largest magnitude that a code or a level has; `None` where the tables of the file say. Only recoding asks.
    #[cfg(target_arch = "x86_64")]
    pub(super) const LARGEST: Option<u8> = match Self::ENCODING {
        Encoding::Symmetric { levels, .. } => Some(levels - 1),
        Encoding::Affine(planes) => Some((1 << planes.bits()) - 1),
        Encoding::Grid { levels: GridLevels::Even, .. } => Some(Self::EVEN_OFFSET),
        Encoding::Grid { levels: GridLevels::Table(_), .. } => None,
        Encoding::SignedBytes | Encoding::Trellis { .. } | Encoding::Float(_) => Some(127),
    };

    /// Bits of a code.
    pub(super) const CODE_BITS: usize = Self::ENCODING.code_bits();
    /// Bytes of a panel before its superblocks.
    pub(super) const HEAD_BYTES: usize = PANEL_ROWS * Self::TYPE.row_head_bytes();
    /// Where the words of codes start in a superblock.
    pub(super) const CODES_OFFSET: usize = PANEL_ROWS * Self::ENCODING.scale_bytes();

    /// Bytes of 16 interleaved blocks of `n` values.
    #[inline(always)]
    pub(super) const fn superblock_bytes(n: usize) -> usize {
        Self::CODES_OFFSET + PANEL_ROWS * (n * Self::CODE_BITS / 8)
    }

    /// What [`starts`](crate::activations::Int8Rows::starts) are divided by on an instruction set that wants `of_isa` added to signed
    /// codes. `None` where nothing is added to those of the type.
    pub(super) const fn start_divisor(of_isa: u8) -> Option<i32> {
        // Twice a code of even levels is small enough for every instruction set.
        let offset = if Self::EVEN_OFFSET != 0 { Self::EVEN_OFFSET } else { of_isa };
        if offset == 0 {
            return None;
        }
        assert!(WEIGHT_OFFSET.is_multiple_of(offset), "starts are not for this offset");
        Some((WEIGHT_OFFSET / offset) as i32)
    }
}
