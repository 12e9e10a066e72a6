//! The types that keys and values are stored in.

use std::fmt;
use std::str::FromStr;

/// How keys, or values, are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvType {
    /// As they are computed.
    #[default]
    F32,
    /// As IEEE binary16.
    F16,
    /// Rotated by a Hadamard matrix, in codes of 8 bits with an f16 scale per 64 values of a head.
    Q8,
    /// Rotated by a Hadamard matrix, in codes of 4 bits with an f16 scale per 32 values of a head.
    Q4,
    /// Rotated by a Hadamard matrix, in codes of 2 bits with an f16 scale per 32 values of a head.
    Q2,
}

impl KvType {
    /// Every type, the most precise first.
    pub const ALL: [KvType; 5] = [KvType::F32, KvType::F16, KvType::Q8, KvType::Q4, KvType::Q2];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8 => "8bit",
            KvType::Q4 => "4bit",
            KvType::Q2 => "2bit",
        }
    }

    fn by_name(name: &str) -> Option<KvType> {
        KvType::ALL.into_iter().find(|kv_type| kv_type.name() == name)
    }
}

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvTypes {
    /// Keys, behind their rotary positions.
    pub keys: KvType,
    /// Values.
    pub values: KvType,
}

impl KvTypes {
    /// Keys and values in f16.
    pub const F16: KvTypes = KvTypes { keys: KvType::F16, values: KvType::F16 };

    /// Keys and values in codes of 8 bits.
    pub const EIGHT_BIT: KvTypes = KvTypes { keys: KvType::Q8, values: KvType::Q8 };
}

impl From<KvType> for KvTypes {
    fn from(both: KvType) -> KvTypes {
        KvTypes { keys: both, values: both }
    }
}

/// The name of one type where both are the same, else those of keys and values with a comma between.
impl fmt::Display for KvTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KvTypes { keys, values } = self;
        if keys == values { f.write_str(keys.name()) } else { write!(f, "{},{}", keys.name(), values.name()) }
    }
}

impl FromStr for KvTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<KvTypes, String> {
        let (keys, values) = text.split_once(',').unwrap_or((text, text));
        match (KvType::by_name(keys), KvType::by_name(values)) {
            (Some(keys), Some(values)) => Ok(KvTypes { keys, values }),
            _ => Err(format!(
                "'{text}' is none of: f32, f16, 8bit, 4bit, 2bit, or two of them for keys and values, as in 8bit,4bit"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_documented_and_nothing_else() {
        for kv_type in KvType::ALL {
            assert_eq!(kv_type.name().parse(), Ok(KvTypes::from(kv_type)));
        }
        let pair = KvTypes { keys: KvType::Q8, values: KvType::Q4 };
        assert_eq!("8bit,4bit".parse(), Ok(pair));
        assert_eq!((pair.to_string(), KvTypes::F16.to_string()), ("8bit,4bit".into(), "f16".into()));
        for wrong in ["", ",", "8bit,", ",4bit", "8bit,4bit,2bit", "3bit", "F16", "q8_0", "8bit, 4bit"] {
            let error = wrong.parse::<KvTypes>().unwrap_err();
            assert!(error.contains("8bit,4bit"), "{error}");
        }
    }
}
