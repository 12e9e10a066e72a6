//! The model of a `tokenizer.json`, checked as it passes: the library first keeps all of it as a tree of values, whatever it is.

use std::borrow::Cow;
use std::fmt;

use qsf_format::{JsonLimits, check_json, in_force};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::scalar::Scalar;

/// Most pieces of a vocabulary, and most merges: the library takes some hundred bytes for each. The largest in use have some
/// 260 000 and 520 000.
pub(super) const MAX_PIECES: usize = 1 << 20;
/// Most bytes of all pieces, and of all merges, of which the library has three copies at a time. The largest in use have 5 MB.
const MAX_TEXT: usize = 32 << 20;
/// Most steps of a tree that leads to the pieces of a Unigram model, byte by byte: the library takes 320 bytes for each. 250 000
/// pieces of many languages have less than a million.
const MAX_STEPS: usize = 3 << 19;
/// Most bytes of a piece of a Unigram model. The library takes the tree apart by a call for each step of a piece, within the last one:
/// a piece of 150 000 bytes ended the program. Pieces in use have less than a hundred.
const MAX_PIECE: usize = 1024;
/// Most characters of a word that WordPiece takes apart, which takes the square of them. Models in use have 100 or 200.
const MAX_WORD: u64 = 1000;
/// Of all other members, of which the library reads a few texts and numbers.
const SETTINGS: JsonLimits = JsonLimits { bytes: 1 << 20, memory: 4 << 20 };

/// A model within the limits.
pub(super) struct CheckedModel;

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Vocab,
    Merges,
    MaxInputCharsPerWord,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for CheckedModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CheckedModel, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = CheckedModel;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the model of a tokenizer")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut model: A) -> Result<CheckedModel, A::Error> {
                let (mut vocab, mut merges, mut settings) = (None, None, 0);
                while let Some(member) = model.next_key()? {
                    match member {
                        // The library keeps every one of several.
                        Member::Vocab if vocab.is_some() => return Err(A::Error::duplicate_field("vocab")),
                        Member::Merges if merges.is_some() => {
                            return Err(A::Error::duplicate_field("merges"));
                        }
                        Member::Vocab => vocab = Some(model.next_value::<Vocab>()?),
                        Member::Merges => merges = Some(model.next_value::<Merges>()?),
                        Member::MaxInputCharsPerWord => {
                            // What is no number is for the library to refuse.
                            let most = model.next_value::<&RawValue>()?.get().parse::<u64>().unwrap_or(0);
                            if most > MAX_WORD {
                                return Err(A::Error::custom(format!(
                                    "max_input_chars_per_word of {most}; at most {MAX_WORD} is accepted"
                                )));
                            }
                        }
                        Member::Other => {
                            let value = model.next_value::<&RawValue>()?.get();
                            check_json(value.as_bytes(), SETTINGS).map_err(A::Error::custom)?;
                            settings += 1 + value.len();
                            if settings > SETTINGS.bytes {
                                return Err(A::Error::custom("too many members besides vocab and merges"));
                            }
                        }
                    }
                }
                Ok(CheckedModel)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// What has been counted of a list.
struct Sum {
    what: &'static str,
    count: usize,
    bytes: usize,
}

impl Sum {
    fn of(what: &'static str) -> Sum {
        Sum { what, count: 0, bytes: 0 }
    }

    fn add<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.count += 1;
        self.bytes += bytes;
        let (most, most_bytes) = (in_force(MAX_PIECES), in_force(MAX_TEXT));
        if self.count > most || self.bytes > most_bytes {
            let Sum { what, count, bytes } = self;
            return Err(E::custom(format!(
                "{count} {what} of {bytes} bytes, or more; at most {most} {what} of {most_bytes} bytes are accepted"
            )));
        }
        Ok(())
    }
}

/// Pieces with their ids, or a list of pieces with their scores.
struct Vocab;

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vocab, D::Error> {
        struct Pieces;

        impl<'de> Visitor<'de> for Pieces {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: an object or a list")
            }

            fn visit_unit<E>(self) -> Result<Vocab, E> {
                Ok(Vocab)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut pieces: A) -> Result<Vocab, A::Error> {
                let mut sum = Sum::of("pieces");
                while let Some((piece, id)) = pieces.next_entry::<Scalar, Scalar>()? {
                    sum.add(piece.bytes() + id.bytes())?;
                }
                Ok(Vocab)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab, A::Error> {
                let mut sum = Sum::of("pieces");
                let mut pieces = Vec::new();
                while let Some(Scored(piece, score)) = list.next_element()? {
                    sum.add(piece.len() + score.bytes())?;
                    if piece.len() > MAX_PIECE {
                        return Err(A::Error::custom(format!(
                            "a piece of {} bytes; at most {MAX_PIECE} are accepted",
                            piece.len()
                        )));
                    }
                    pieces.push(piece);
                }
                match tree_steps(&mut pieces) {
                    ..=MAX_STEPS => Ok(Vocab),
                    steps => Err(A::Error::custom(format!(
                        "pieces whose tree has {steps} steps; at most {MAX_STEPS} are accepted"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(Pieces)
    }
}

/// A piece with its score.
#[derive(Deserialize)]
struct Scored<'a>(#[serde(borrow)] Cow<'a, str>, Scalar);

/// Steps of the tree that leads to all texts byte by byte: each has its own behind what it shares with its neighbour in order.
fn tree_steps(texts: &mut [Cow<'_, str>]) -> usize {
    let all: usize = texts.iter().map(|text| text.len()).sum();
    if all <= MAX_STEPS {
        return all;
    }
    texts.sort_unstable();
    let shared = |pair: &[Cow<'_, str>]| {
        pair[0].bytes().zip(pair[1].bytes()).take_while(|(left, right)| left == right).count()
    };
    all - texts.windows(2).map(shared).sum::<usize>()
}

/// Merges: texts, or pairs of them.
struct Merges;

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Merges, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_unit<E>(self) -> Result<Merges, E> {
                Ok(Merges)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut merges: A) -> Result<Merges, A::Error> {
                let mut sum = Sum::of("merges");
                while let Some(Merge(bytes)) = merges.next_element()? {
                    sum.add(bytes)?;
                }
                Ok(Merges)
            }
        }

        deserializer.deserialize_any(Pairs)
    }
}

/// Bytes of a merge.
struct Merge(usize);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Merge, D::Error> {
        struct Sides;

        impl<'de> Visitor<'de> for Sides {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: a text, or a list of two")
            }

            fn visit_str<E>(self, both: &str) -> Result<Merge, E> {
                Ok(Merge(both.len()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sides: A) -> Result<Merge, A::Error> {
                let mut bytes = 0;
                let mut count = 0;
                while let Some(side) = sides.next_element::<Scalar>()? {
                    bytes += side.bytes();
                    count += 1;
                    if count > 2 {
                        return Err(A::Error::invalid_length(count, &self));
                    }
                }
                Ok(Merge(bytes))
            }
        }

        deserializer.deserialize_any(Sides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<(), String> {
        serde_json::from_str::<CheckedModel>(json).map(|_| ()).map_err(|e| e.to_string())
    }

    fn error(json: &str) -> String {
        check(json).expect_err("this is refused")
    }

    #[test]
    fn models_of_all_kinds_are_accepted() {
        check(r#"{"type": "BPE", "vocab": {"a": 0}, "merges": ["a b", ["a", "b"]], "dropout": null}"#)
            .unwrap();
        check(r#"{"type": "Unigram", "vocab": [["a", 0.5], ["\u0061b", -1]], "merges": null}"#).unwrap();
        check(r#"{"vocab": null, "new": {"settings": [1]}}"#).unwrap();
    }

    #[test]
    fn what_is_nested_in_a_vocabulary_or_in_merges_is_refused() {
        assert!(error(r#"{"vocab": {"a": [0]}}"#).contains("sequence"));
        assert!(error(r#"{"vocab": [["a", {}]]}"#).contains("map"));
        assert!(error(r#"{"vocab": [["a", 0, 0]]}"#).contains("trailing"));
        assert!(error(r#"{"merges": [["a", ["b"]]]}"#).contains("sequence"));
        assert!(error(r#"{"merges": [["a", "b", "c"]]}"#).contains("invalid length 3"));
        assert!(error(r#"{"vocab": {}, "vocab": {}}"#).contains("duplicate field"));
    }

    #[test]
    fn other_members_are_weighed_one_by_one_and_together() {
        let member = format!("\"junk\": [{}0]", "0,".repeat(200_000));
        assert!(error(&format!("{{{member}}}")).contains("MiB of memory"));
        let members = vec![format!("\"junk\": \"{}\"", "x".repeat(1 << 17)); 10].join(",");
        assert!(error(&format!("{{{members}}}")).contains("too many members"));
    }

    #[test]
    fn pieces_and_words_of_any_length_are_refused() {
        let unigram = |bytes: usize| format!("{{\"vocab\": [[\"{}\", 0]]}}", "x".repeat(bytes));
        check(&unigram(MAX_PIECE)).unwrap();
        assert!(error(&unigram(MAX_PIECE + 1)).contains("a piece of 1025 bytes"));
        check("{\"max_input_chars_per_word\": 100}").unwrap();
        assert!(error("{\"max_input_chars_per_word\": 1000000000}").contains("at most 1000"));
    }

    #[test]
    fn a_tree_of_pieces_has_a_step_for_every_byte_that_is_not_shared() {
        let mut texts = ["abc", "abd", "b", "abcd"].map(Cow::from);
        assert_eq!(tree_steps(&mut texts), 11);
        let mut texts: Vec<Cow<'_, str>> =
            (0..9).map(|i| format!("{}{i}", "x".repeat(1 << 18)).into()).collect();
        assert_eq!(tree_steps(&mut texts), (1 << 18) + 9);
        let pieces: Vec<String> = (0..30_000).map(|i| format!("[\"{i:05}{}\",0]", "x".repeat(60))).collect();
        assert!(error(&format!("{{\"vocab\": [{}]}}", pieces.join(","))).contains("tree has"));
    }
}
