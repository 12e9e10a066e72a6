//! The added tokens of a `tokenizer.json`, counted as they pass.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::scalar::Scalar;
use crate::tokenizer::definition::AddedSum;

/// Most members of an added token: the library knows seven, and keeps the others until the token is read.
const MAX_MEMBERS: usize = 64;

/// Added tokens within the limits.
pub(super) struct AddedTokens;

impl<'de> Deserialize<'de> for AddedTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AddedTokens, D::Error> {
        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = AddedTokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of added tokens")
            }

            fn visit_unit<E>(self) -> Result<AddedTokens, E> {
                Ok(AddedTokens)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AddedTokens, A::Error> {
                let mut sum = AddedSum::default();
                while let Some(Token(bytes)) = list.next_element()? {
                    sum.add(bytes).map_err(A::Error::custom)?;
                }
                Ok(AddedTokens)
            }
        }

        deserializer.deserialize_any(Tokens)
    }
}

/// Bytes of all texts of an added token.
struct Token(usize);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Token, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Token;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an added token")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut token: A) -> Result<Token, A::Error> {
                let (mut bytes, mut members) = (0, 0);
                // A key is a text.
                while let Some((_, value)) = token.next_entry::<Scalar, Scalar>()? {
                    bytes += value.bytes();
                    members += 1;
                    if members > MAX_MEMBERS {
                        let message = format!("an added token of more than {MAX_MEMBERS} members");
                        return Err(A::Error::custom(message));
                    }
                }
                Ok(Token(bytes))
            }
        }

        deserializer.deserialize_any(Members)
    }
}
