//! How values are stored: in a type of the file format, or in another tool's.

use std::fmt;

use qsf_format::QuantType;

/// Type of the stored values of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredType {
    /// A type of the file format.
    Native(QuantType),
    /// A type that is only read.
    Foreign(ForeignType),
}

/// A type of values that only sources have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignType {
    /// The name that its users know, such as `Q4_K` or `GPTQ 4-bit`.
    pub name: &'static str,
    /// Whether values were rounded to fewer than 16 bits: another rounding on top would add to the error.
    pub quantized: bool,
}

/// Values that are -1, 0 or 1 times one number for all of the matrix.
pub const TERNARY: ForeignType = ForeignType { name: "BitNet", quantized: false };

impl StoredType {
    /// Whether all values are -1, 0 or 1 times one number, which [`QuantType::Ternary`] holds without loss.
    pub fn is_ternary(&self) -> bool {
        *self == StoredType::Foreign(TERNARY)
    }

    /// Whether values were rounded to fewer than 16 bits.
    pub fn is_quantized(&self) -> bool {
        match self {
            StoredType::Native(quant) => !quant.is_float(),
            StoredType::Foreign(foreign) => foreign.quantized,
        }
    }

    /// The type of the file format, where it is one.
    pub fn native(&self) -> Option<QuantType> {
        match self {
            StoredType::Native(quant) => Some(*quant),
            StoredType::Foreign(_) => None,
        }
    }
}

impl From<QuantType> for StoredType {
    fn from(quant: QuantType) -> StoredType {
        StoredType::Native(quant)
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredType::Native(quant) => f.pad(quant.name()),
            StoredType::Foreign(foreign) => f.pad(foreign.name),
        }
    }
}
