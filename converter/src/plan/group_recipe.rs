//! `--quant` of directories whose matrices are whole numbers with a scale for each group of columns.

use std::fmt;
use std::str::FromStr;

use qsf_format::{QuantType, TensorKind};
use qsf_runtime::grouped::{GroupType, GroupZero};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The scheme of a directory: by the name that llm-compressor has for it, or by mode and bits of MLX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupScheme {
    /// Bits of a code.
    pub bits: u32,
    /// What a code stands for.
    pub zero: GroupZero,
}

/// What is quantized, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRecipe {
    /// The scheme.
    pub scheme: GroupScheme,
    /// Columns that share a scale; the largest of 128, 64 and 32 that divides all rows, where it is not said.
    pub group: Option<usize>,
}

/// Names of schemes. W is weights, A activations: 16 bits are those of the model. `affine` is the mode of MLX.
const SCHEMES: [(&str, GroupScheme); 10] = [
    ("W4A16", GroupScheme { bits: 4, zero: GroupZero::Middle }),
    ("W8A16", GroupScheme { bits: 8, zero: GroupZero::Middle }),
    ("W4A16_ASYM", GroupScheme { bits: 4, zero: GroupZero::Code }),
    ("W8A16_ASYM", GroupScheme { bits: 8, zero: GroupZero::Code }),
    ("affine2", GroupScheme::affine(2)),
    ("affine3", GroupScheme::affine(3)),
    ("affine4", GroupScheme::affine(4)),
    ("affine5", GroupScheme::affine(5)),
    ("affine6", GroupScheme::affine(6)),
    ("affine8", GroupScheme::affine(8)),
];

impl GroupScheme {
    /// 4 bits around 0.
    pub const DEFAULT: GroupScheme = SCHEMES[0].1;

    /// So many bits with a scale and a bias for each group, as MLX has them.
    pub const fn affine(bits: u32) -> GroupScheme {
        GroupScheme { bits, zero: GroupZero::Bias }
    }

    /// Whether it is one of MLX; else, one of compressed-tensors.
    pub fn is_mlx(self) -> bool {
        self.zero == GroupZero::Bias
    }

    /// The name that `--quant` takes.
    pub fn name(self) -> &'static str {
        SCHEMES.iter().find(|(_, scheme)| *scheme == self).map_or("groups", |(name, _)| name)
    }

    /// The names of those of MLX, or of the others.
    pub fn names(of_mlx: bool) -> String {
        let known = SCHEMES.iter().filter(|(_, scheme)| scheme.is_mlx() == of_mlx);
        known.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The type with these groups and scales.
    pub fn with(self, group: usize, scale: QuantType) -> GroupType {
        GroupType { bits: self.bits, group, zero: self.zero, scale }
    }

    /// Whether matrices of this kind are quantized: those of layers that are multiplied with tokens. Embedding and head stay as they
    /// are, as in the recipes of llm-compressor, but for MLX, whose own converter quantizes them. Routers stay, and what is small
    /// or decides over time.
    pub fn covers(self, kind: TensorKind) -> bool {
        use TensorKind::*;
        if matches!(kind, TokenEmbedding | Head) {
            return self.is_mlx();
        }
        matches!(
            kind,
            AttnQ
                | AttnK
                | AttnV
                | AttnOutput
                | AttnGate
                | AttnQDown
                | AttnKvDown
                | FfnGate
                | FfnUp
                | FfnDown
                | ExpertGate
                | ExpertUp
                | ExpertDown
                | SharedGate
                | SharedUp
                | SharedDown
                | MixerIn
                | MixerGate
                | MixerOutput
        )
    }
}

impl fmt::Display for GroupScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GroupScheme {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let known = SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(s));
        known.map(|(_, scheme)| *scheme).ok_or_else(|| {
            format!("unknown scheme '{s}'; known: {}, {}", Self::names(false), Self::names(true))
        })
    }
}

impl Serialize for GroupScheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for GroupScheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupScheme, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_known_by_their_names_in_any_case() {
        for (name, scheme) in SCHEMES {
            assert_eq!((name.to_lowercase().parse(), scheme.name()), (Ok(scheme), name));
        }
        assert!("W3A16".parse::<GroupScheme>().unwrap_err().contains("W4A16_ASYM"));
    }
}
