//! The stored types of tensor values (SPEC.md section 6): ids, names, and how many bytes a row takes. What each type is says its row in
//! [`every_type`](crate::every_type).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::block_size::BlockSize;
use crate::built_in;
use crate::encoding::{Encoding, FloatFormat, GridLevels, Planes, RowCodes, TrellisState};

/// Makes [`QuantType`] of the rows of the table.
macro_rules! define {
    ({} $($(#[$doc:meta])* $kind:ident $quant:ident = $id:literal, $name:literal, $encoding:expr;)*) => {
        /// How the values of one tensor are stored. The discriminant is the id in the file.
        ///
        /// Block types hold `BlockSize` values per block and never cross a row; float types are plain little-endian arrays.
        /// *Learned* types (ids from 16) are block types whose codes stand for entries of tables
        /// ([`CodeTables`](crate::CodeTables)): their blocks hold 32 values in every file, and each row begins with a scale of
        /// its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum QuantType {
            $($(#[$doc])* #[serde(rename = $name)] $quant = $id,)*
        }

        impl QuantType {
            /// Every type, in id order.
            pub const ALL: [QuantType; [$($id),*].len()] = [$(QuantType::$quant),*];

            /// The name used on command lines, in META and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(QuantType::$quant => $name,)*
                }
            }

            /// What is stored for its values.
            pub const fn encoding(self) -> Encoding {
                match self {
                    $(QuantType::$quant => $encoding,)*
                }
            }
        }
    };
}

crate::every_type!(define! {});

/// Bytes before the blocks of a row of a learned type: its scale, an f16.
const ROW_SCALE_BYTES: usize = 2;

impl QuantType {
    /// Most bytes of a block of a learned type.
    pub const MOST_LEARNED_BLOCK_BYTES: usize = {
        let (mut most, mut i) = (0, 0);
        while i < Self::ALL.len() {
            let bytes = Self::ALL[i].block_bytes(BlockSize::B32);
            if Self::ALL[i].is_learned() && bytes > most {
                most = bytes;
            }
            i += 1;
        }
        most
    };

    /// Its place in [`QuantType::ALL`].
    pub const fn index(self) -> usize {
        const BY_ID: [u8; 256] = {
            let (mut places, mut i) = ([0; 256], 0);
            while i < QuantType::ALL.len() {
                places[QuantType::ALL[i].id() as usize] = i as u8;
                i += 1;
            }
            places
        };
        BY_ID[self.id() as usize] as usize
    }

    /// The id stored in files.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The type with this id, if this version of the format knows one.
    pub fn from_id(id: u8) -> Option<QuantType> {
        Self::ALL.into_iter().find(|t| t.id() == id)
    }

    /// Whether values are stored as plain floats rather than in scaled blocks.
    pub const fn is_float(self) -> bool {
        matches!(self.encoding(), Encoding::Float(_))
    }

    /// Whether codes stand for entries of learned tables: in blocks of 32, with a scale before each row.
    pub const fn is_learned(self) -> bool {
        self.encoding().is_learned()
    }

    /// Whether codes form a trellis: no block can be decoded without the bits before it.
    pub const fn is_trellis(self) -> bool {
        matches!(self.encoding(), Encoding::Trellis { .. })
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
        let encoding = self.encoding();
        encoding.scale_bytes() + self.block_size(block).get() * encoding.code_bits() / 8
    }

    /// Bytes of one row of `cols` values: its head and whole blocks for block types, exactly `cols` values for float types.
    /// `None` when the size does not fit a `u64`.
    pub fn row_bytes(self, block: BlockSize, cols: u64) -> Option<u64> {
        match self.encoding() {
            Encoding::Float(format) => cols.checked_mul(format.bytes() as u64),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_bytes_that_the_specification_states() {
        let expected = [18, 20, 28, 36, 18, 128, 256, 128, 66, 9, 13, 17, 21, 25, 8, 12, 8, 12, 16];
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
            assert_eq!(QuantType::ALL[t.index()], t);
            assert_eq!(t.name().parse::<QuantType>(), Ok(t));
            assert_eq!(serde_json::to_value(t).unwrap(), serde_json::json!(t.name()));
        }
        assert_eq!(QuantType::from_id(5), None, "'mixed' is no tensor type");
        assert!(QuantType::ALL.is_sorted(), "files list types by their ids");
    }
}
