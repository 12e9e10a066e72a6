//! What the values of a tensor are stored as: a type of QSF, a block type of ggml in a GGUF file, or a type of groups in a model
//! directory.

use std::fmt;
use std::str::FromStr;

use qsf_format::{BlockSize, QuantType};
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::grouped::GroupType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type that this converter writes. Floats are the same in both formats, and always [`TensorType::Qsf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorType {
    /// A type of the QSF format.
    Qsf(QuantType),
    /// A block type of ggml, of those that there is a quantizer for.
    Ggml(GgmlType),
    /// Whole numbers that share a scale in groups, in a directory for compressed-tensors or MLX.
    Groups(GroupType),
}

/// The block types of ggml that can be written, smallest first.
pub const GGML_TYPES: [GgmlType; 22] = [
    GgmlType::IQ1_S,
    GgmlType::TQ1_0,
    GgmlType::IQ1_M,
    GgmlType::IQ2_XXS,
    GgmlType::TQ2_0,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::Q2_K,
    GgmlType::IQ3_XXS,
    GgmlType::Q3_K,
    GgmlType::IQ3_S,
    GgmlType::MXFP4,
    GgmlType::IQ4_XS,
    GgmlType::Q4_K,
    GgmlType::IQ4_NL,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_K,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q6_K,
    GgmlType::Q8_0,
];

/// The types of other formats than QSF, for who has named none of any.
pub(super) fn names_of_others() -> String {
    let [first, .., last] = GroupType::BITS;
    format!("for GGUF {}; for MLX affine{first} to {last}", GGML_TYPES.map(GgmlType::name).join(", "))
}

impl TensorType {
    /// Plain 32-bit floats.
    pub const F32: TensorType = TensorType::Qsf(QuantType::F32);

    /// Whether values are plain floats rather than scaled blocks.
    pub const fn is_float(self) -> bool {
        match self {
            TensorType::Qsf(quant) => quant.is_float(),
            TensorType::Ggml(_) | TensorType::Groups(_) => false,
        }
    }

    /// The type of the QSF format, where it is one.
    pub const fn qsf(self) -> Option<QuantType> {
        match self {
            TensorType::Qsf(quant) => Some(quant),
            TensorType::Ggml(_) | TensorType::Groups(_) => None,
        }
    }

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Qsf(quant) => quant.name(),
            TensorType::Ggml(ty) => ty.name(),
            TensorType::Groups(ty) => ty.name(),
        }
    }

    /// Bytes of a row of `cols` values; `None` beyond `u64`, or where the row is no whole number of blocks and must be.
    pub fn row_bytes(self, block: BlockSize, cols: u64) -> Option<u64> {
        match self {
            TensorType::Qsf(quant) => quant.row_bytes(block, cols),
            TensorType::Ggml(ty) => {
                let len = ty.block_len() as u64;
                cols.is_multiple_of(len).then(|| (cols / len).checked_mul(ty.block_bytes() as u64))?
            }
            TensorType::Groups(ty) => ty.row_bytes(usize::try_from(cols).ok()?).map(|bytes| bytes as u64),
        }
    }

    /// Bytes of a `rows` x `cols` tensor; `None` as for [`row_bytes`](Self::row_bytes).
    pub fn tensor_bytes(self, block: BlockSize, rows: u64, cols: u64) -> Option<u64> {
        self.row_bytes(block, cols)?.checked_mul(rows)
    }

    /// Whether rows of so many values can be stored as this.
    pub fn suits(self, cols: usize) -> bool {
        match self {
            TensorType::Qsf(_) => true,
            TensorType::Ggml(ty) => cols.is_multiple_of(ty.block_len()),
            TensorType::Groups(ty) => ty.suits(cols),
        }
    }

    /// The type itself, or what llama-quantize takes instead where rows of so many values are no whole number of blocks.
    pub fn or_smaller_blocks(self, cols: usize) -> TensorType {
        match self {
            TensorType::Qsf(_) | TensorType::Groups(_) => self,
            TensorType::Ggml(ty) => fallback(ty, cols),
        }
    }

    /// A type of GGUF files that has blocks, by its name.
    ///
    /// # Errors
    /// When the name is unknown.
    pub fn of_gguf(name: &str) -> Result<TensorType, String> {
        let known = GGML_TYPES.into_iter().find(|ty| ty.name().eq_ignore_ascii_case(name));
        known.map(TensorType::Ggml).ok_or_else(|| {
            format!(
                "unknown type '{name}' of GGUF files; known: {}",
                GGML_TYPES.map(GgmlType::name).join(", ")
            )
        })
    }

    /// Whether the size of its blocks is that of the file.
    pub fn has_chosen_blocks(self) -> bool {
        self.qsf().is_some_and(|quant| {
            !quant.is_float() && quant.block_size(BlockSize::B32) != quant.block_size(BlockSize::B64)
        })
    }
}

impl From<QuantType> for TensorType {
    fn from(quant: QuantType) -> TensorType {
        TensorType::Qsf(quant)
    }
}

impl From<GgmlType> for TensorType {
    fn from(ty: GgmlType) -> TensorType {
        match ty {
            GgmlType::F32 => TensorType::Qsf(QuantType::F32),
            GgmlType::F16 => TensorType::Qsf(QuantType::F16),
            GgmlType::BF16 => TensorType::Qsf(QuantType::Bf16),
            block => TensorType::Ggml(block),
        }
    }
}

impl PartialEq<QuantType> for TensorType {
    fn eq(&self, quant: &QuantType) -> bool {
        self.qsf() == Some(*quant)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TensorType {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if let Some(ty) = GGML_TYPES.into_iter().find(|ty| ty.name().eq_ignore_ascii_case(s)) {
            return Ok(TensorType::Ggml(ty));
        }
        if let Some(ty) = GroupType::of_name(s) {
            return Ok(TensorType::Groups(ty));
        }
        s.parse().map(TensorType::Qsf).map_err(|error| format!("{error}; {}", names_of_others()))
    }
}

impl Serialize for TensorType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TensorType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TensorType, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The type itself, or one with smaller blocks where rows are no whole number of its own.
fn fallback(wanted: GgmlType, cols: usize) -> TensorType {
    use GgmlType::*;
    if cols.is_multiple_of(wanted.block_len()) {
        return wanted.into();
    }
    let smaller = match wanted {
        IQ4_XS | IQ3_S | IQ3_XXS | IQ2_S | IQ2_XS | IQ2_XXS | IQ1_M | IQ1_S => IQ4_NL,
        Q2_K | Q3_K | TQ1_0 | TQ2_0 => Q4_0,
        Q4_K => Q5_0,
        Q5_K => Q5_1,
        Q6_K => Q8_0,
        other => other,
    };
    if cols.is_multiple_of(smaller.block_len()) { smaller.into() } else { TensorType::Qsf(QuantType::F16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_floats_are_one_type_in_both_formats() {
        for ty in GGML_TYPES {
            assert_eq!(ty.name().to_lowercase().parse(), Ok(TensorType::Ggml(ty)));
            let json = serde_json::to_string(&TensorType::Ggml(ty)).unwrap();
            assert_eq!(serde_json::from_str::<TensorType>(&json).unwrap(), TensorType::Ggml(ty));
        }
        assert_eq!("BF16".parse(), Ok(TensorType::Qsf(QuantType::Bf16)));
        assert_eq!(TensorType::from(GgmlType::F16), QuantType::F16);
        let error = "Q7_K".parse::<TensorType>().unwrap_err();
        assert!(error.contains("Q4_K") && error.contains("2bit-sym"), "{error}");
    }

    #[test]
    fn a_row_that_is_no_whole_number_of_blocks_has_no_size() {
        let k = TensorType::Ggml(GgmlType::Q4_K);
        assert_eq!(k.row_bytes(BlockSize::B64, 512), Some(288));
        assert_eq!(k.row_bytes(BlockSize::B64, 576), None);
        assert!(!k.suits(576) && TensorType::Ggml(GgmlType::Q8_0).suits(576));
    }
}
