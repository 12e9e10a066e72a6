//! The stored types of tensor values (SPEC.md section 6): ids, names, and how many bytes a row takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the values of one tensor are stored. The discriminant is the id in the file.
///
/// Block types hold `BlockSize` values per block and never cross a row; float types are plain little-endian arrays.
/// *Learned* types (ids from 16) are block types whose codes stand for entries of tables ([`CodeTables`](crate::CodeTables)):
/// their blocks hold 32 values in every file, and each row begins with a scale of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum QuantType {
    /// `d * (2q - 3)`, q in 0..=3.
    #[serde(rename = "2bit-sym")]
    Q2Sym = 0,
    /// `scale * q + min`, q in 0..=3.
    #[serde(rename = "2bit")]
    Q2 = 1,
    /// `scale * q + min`, q in 0..=7.
    #[serde(rename = "3bit")]
    Q3 = 2,
    /// `scale * q + min`, q in 0..=15.
    #[serde(rename = "4bit")]
    Q4 = 3,
    /// `d * {-1, 0, 1}`.
    #[serde(rename = "ternary")]
    Ternary = 4,
    /// IEEE binary16.
    #[serde(rename = "f16")]
    F16 = 6,
    /// IEEE binary32.
    #[serde(rename = "f32")]
    F32 = 7,
    /// The upper half of an IEEE binary32.
    #[serde(rename = "bf16")]
    Bf16 = 8,
    /// `d * q`, q in -127..=127.
    #[serde(rename = "8bit")]
    Q8 = 9,
    /// 2-bit codes of a learned grid, with a scale and a choice of grid per 32 values.
    #[serde(rename = "n2")]
    N2 = 16,
    /// The same with 3 bits.
    #[serde(rename = "n3")]
    N3 = 17,
    /// The same with 4 bits.
    #[serde(rename = "n4")]
    N4 = 18,
    /// The same with 5 bits.
    #[serde(rename = "n5")]
    N5 = 19,
    /// The same with 6 bits and a linear grid.
    #[serde(rename = "6bit")]
    Q6 = 20,
    /// A trellis with 2 bits per value: levels are sums of two table entries, chosen by the last 8 bits.
    #[serde(rename = "t2")]
    T2 = 21,
    /// The same with 3 bits per value.
    #[serde(rename = "t3")]
    T3 = 22,
}

/// Bytes before the blocks of a row of a learned type: its scale, an f16.
const ROW_SCALE_BYTES: usize = 2;

impl QuantType {
    /// Every type, in id order.
    pub const ALL: [QuantType; 16] = [
        QuantType::Q2Sym,
        QuantType::Q2,
        QuantType::Q3,
        QuantType::Q4,
        QuantType::Ternary,
        QuantType::F16,
        QuantType::F32,
        QuantType::Bf16,
        QuantType::Q8,
        QuantType::N2,
        QuantType::N3,
        QuantType::N4,
        QuantType::N5,
        QuantType::Q6,
        QuantType::T2,
        QuantType::T3,
    ];

    /// The id stored in files.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The type with this id, if this version of the format knows one.
    pub fn from_id(id: u8) -> Option<QuantType> {
        Self::ALL.into_iter().find(|t| t.id() == id)
    }

    /// The name used on command lines, in META and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            QuantType::Q2Sym => "2bit-sym",
            QuantType::Q2 => "2bit",
            QuantType::Q3 => "3bit",
            QuantType::Q4 => "4bit",
            QuantType::Ternary => "ternary",
            QuantType::F16 => "f16",
            QuantType::F32 => "f32",
            QuantType::Bf16 => "bf16",
            QuantType::Q8 => "8bit",
            QuantType::N2 => "n2",
            QuantType::N3 => "n3",
            QuantType::N4 => "n4",
            QuantType::N5 => "n5",
            QuantType::Q6 => "6bit",
            QuantType::T2 => "t2",
            QuantType::T3 => "t3",
        }
    }

    /// Whether values are stored as plain floats rather than in scaled blocks.
    pub const fn is_float(self) -> bool {
        matches!(self, QuantType::F16 | QuantType::F32 | QuantType::Bf16)
    }

    /// Whether codes stand for entries of learned tables: in blocks of 32, with a scale before each row.
    pub const fn is_learned(self) -> bool {
        self as u8 >= QuantType::N2 as u8
    }

    /// Whether codes form a trellis: no block can be decoded without the bits before it.
    pub const fn is_trellis(self) -> bool {
        matches!(self, QuantType::T2 | QuantType::T3)
    }

    /// Values per block in a file whose header says `block`.
    pub const fn block_size(self, block: BlockSize) -> BlockSize {
        if self.is_learned() { BlockSize::B32 } else { block }
    }

    /// Bytes of a row before its blocks.
    pub const fn row_head_bytes(self) -> usize {
        if self.is_learned() { ROW_SCALE_BYTES } else { 0 }
    }

    /// Bytes of one block of a file whose header says `block`; for float types, bytes of `block` plain values.
    pub const fn block_bytes(self, block: BlockSize) -> usize {
        let n = block.get();
        match self {
            QuantType::Q2Sym | QuantType::Ternary => 2 + n / 4,
            QuantType::Q2 => 4 + n / 4,
            QuantType::Q3 => 4 + n / 4 + n / 8,
            QuantType::Q4 => 4 + n / 2,
            QuantType::Q8 => 2 + n,
            QuantType::F16 | QuantType::Bf16 => 2 * n,
            QuantType::F32 => 4 * n,
            QuantType::N2 => 9,
            QuantType::N3 => 13,
            QuantType::N4 => 17,
            QuantType::N5 => 21,
            QuantType::Q6 => 25,
            QuantType::T2 => 8,
            QuantType::T3 => 12,
        }
    }

    /// Bytes of one row of `cols` values: its head and whole blocks for block types, exactly `cols` values for float types.
    /// `None` when the size does not fit a `u64`.
    pub fn row_bytes(self, block: BlockSize, cols: u64) -> Option<u64> {
        match self {
            QuantType::F16 | QuantType::Bf16 => cols.checked_mul(2),
            QuantType::F32 => cols.checked_mul(4),
            _ => cols
                .div_ceil(self.block_size(block).get() as u64)
                .checked_mul(self.block_bytes(block) as u64)?
                .checked_add(self.row_head_bytes() as u64),
        }
    }

    /// Bytes of a `rows` x `cols` tensor, `None` when that does not fit a `u64`.
    pub fn tensor_bytes(self, block: BlockSize, rows: u64, cols: u64) -> Option<u64> {
        self.row_bytes(block, cols)?.checked_mul(rows)
    }

    /// Stored bits per value in whole blocks, their scales included, those of rows not.
    pub fn bits_per_value(self, block: BlockSize) -> f64 {
        self.block_bytes(block) as f64 * 8.0 / self.block_size(block).get() as f64
    }
}

impl fmt::Display for QuantType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for QuantType {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let wanted = s.to_ascii_lowercase();
        Self::ALL.into_iter().find(|t| t.name() == wanted).ok_or_else(|| {
            format!("unknown type '{s}'; known: {}", Self::ALL.map(QuantType::name).join(", "))
        })
    }
}

/// Values per block: 32, 64, 128 or 256 (header bytes 108-109; 0 there means 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct BlockSize(u16);

impl BlockSize {
    /// The size of learned types.
    pub const B32: BlockSize = BlockSize(32);
    /// The default of the format.
    pub const B64: BlockSize = BlockSize(64);
    /// Every legal size.
    pub const ALL: [BlockSize; 4] = [BlockSize(32), BlockSize(64), BlockSize(128), BlockSize(256)];

    /// The block size of `n` values, if legal.
    pub fn new(n: u16) -> Option<BlockSize> {
        Self::ALL.into_iter().find(|b| b.0 == n)
    }

    /// Values per block.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::B64
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BlockSize> for u16 {
    fn from(block: BlockSize) -> u16 {
        block.0
    }
}

impl TryFrom<u16> for BlockSize {
    type Error = String;

    fn try_from(n: u16) -> Result<Self, Self::Error> {
        Self::new(n).ok_or_else(|| format!("block size {n} is not one of 32, 64, 128, 256"))
    }
}

impl FromStr for BlockSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<u16>().map_err(|e| format!("block size '{s}': {e}")).and_then(Self::try_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_bytes_that_the_specification_states() {
        let expected = [18, 20, 28, 36, 18, 128, 256, 128, 66, 9, 13, 17, 21, 25, 8, 12];
        assert_eq!(QuantType::ALL.map(|t| t.block_bytes(BlockSize::B64)), expected);
    }

    #[test]
    fn a_row_takes_whole_blocks_and_a_float_row_exactly_its_values() {
        assert_eq!(QuantType::Q4.row_bytes(BlockSize::B64, 65), Some(72));
        assert_eq!(QuantType::F16.row_bytes(BlockSize::B64, 65), Some(130));
        assert_eq!(QuantType::F32.tensor_bytes(BlockSize::B64, u64::MAX, 2), None);
        assert_eq!(
            QuantType::N4.row_bytes(BlockSize::B64, 65),
            Some(2 + 3 * 17),
            "blocks of 32 in every file"
        );
        assert_eq!(QuantType::T2.row_bytes(BlockSize::B64, 32), Some(2 + 8));
    }

    #[test]
    fn ids_and_names_come_back() {
        for t in QuantType::ALL {
            assert_eq!(QuantType::from_id(t.id()), Some(t));
            assert_eq!(t.name().parse::<QuantType>(), Ok(t));
            assert_eq!(serde_json::to_value(t).unwrap(), serde_json::json!(t.name()));
        }
        assert_eq!(QuantType::from_id(5), None, "'mixed' is no tensor type");
    }
}
