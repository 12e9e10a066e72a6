//! A value of a JSON text that holds no others, measured as it passes: nothing is built of it.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

/// A text, a number, true, false or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    /// A text of so many bytes.
    Text(usize),
    Other,
}

impl Scalar {
    /// Bytes of the text.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::Text(bytes) => bytes,
            Scalar::Other => 0,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct Measure;

        impl Visitor<'_> for Measure {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true, false or null")
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.len()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }
        }

        deserializer.deserialize_any(Measure)
    }
}
