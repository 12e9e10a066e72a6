//! Tokens that end an answer, known by their texts: what configurations list of them is often not all.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Texts that end an answer in one model or another. Files mark them as text at times, and still mean the token.
const END_TEXTS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Texts that end no answer where others are tokens, too (`llama_vocab::impl::load`): the end of a message before the answer
/// in models of several channels, and a mark of strikethrough.
const NO_ENDS: [(&str, [&str; 2]); 4] = [
    ("<|end|>", ["<|return|>", "<|call|>"]),
    ("<|end|>", ["<|flush|>", "<|call|>"]),
    ("<|end|>", ["<|flush|>", "<|calls|>"]),
    ("</s>", ["<|tool_response>", "<|tool_response>"]),
];

/// Whether a token with this text ends an answer in one model or another.
pub(super) fn is_end_text(text: &str) -> bool {
    END_TEXTS.contains(&text)
}

/// The ids of those of the tokens that end an answer, in ascending order.
pub(super) fn end_tokens<'a>(tokens: impl Iterator<Item = (&'a str, u32)>) -> Vec<u32> {
    let ends: Vec<(&str, u32)> = tokens.filter(|(text, _)| is_end_text(text)).collect();
    let has = |wanted: &str| ends.iter().any(|(text, _)| *text == wanted);
    let ends_none =
        |text: &str| NO_ENDS.iter().any(|(end, others)| *end == text && others.iter().all(|text| has(text)));
    let mut ids: Vec<u32> = ends.iter().filter(|(text, _)| !ends_none(text)).map(|(_, id)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What a `tokenizer.json` has of tokens that end an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndTokens {
    /// The token that ends a text, as files beside it call it (`eos_token`).
    pub eos: Option<u32>,
    /// Special tokens that end an answer in one model or another, in ascending order.
    pub known: Vec<u32>,
}

impl EndTokens {
    /// Those in `json`, of which `eos` is the text of the one that ends a text. What is no `tokenizer.json` has none: that it
    /// is wrong is said where it is used.
    pub(super) fn read(json: &[u8], eos: Option<&str>) -> EndTokens {
        let mut found = Found { eos, ..Found::default() };
        let read = Place { found: &mut found, at: At::File }
            .deserialize(&mut serde_json::Deserializer::from_slice(json));
        if read.is_err() {
            return EndTokens::default();
        }
        let known = end_tokens(found.ends.iter().map(|(text, id)| (&**text, *id)));
        EndTokens { eos: found.added.or(found.in_vocabulary), known }
    }
}

/// What was found so far. Nothing of a file is kept but these few.
#[derive(Default)]
struct Found<'a> {
    eos: Option<&'a str>,
    /// The id of `eos` among added tokens.
    added: Option<u32>,
    /// The same in the vocabulary.
    in_vocabulary: Option<u32>,
    /// Special tokens with texts that end an answer, each text once.
    ends: Vec<(String, u32)>,
}

#[derive(Clone, Copy)]
enum At {
    File,
    Model,
    Vocabulary,
    Added,
}

/// A part of the file, which is read for what is looked for.
struct Place<'f, 'a> {
    found: &'f mut Found<'a>,
    at: At,
}

/// An added token.
#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

impl Found<'_> {
    fn add(&mut self, token: Added) {
        if self.eos == Some(&*token.content) {
            self.added.get_or_insert(token.id);
        }
        if token.special
            && is_end_text(&token.content)
            && self.ends.iter().all(|(text, _)| *text != token.content)
        {
            self.ends.push((token.content, token.id));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tokenizer.json")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let below = match (self.at, &*key) {
                (At::File, "added_tokens") => At::Added,
                (At::File, "model") => At::Model,
                (At::Model, "vocab") => At::Vocabulary,
                (At::Vocabulary, text) if self.found.eos == Some(text) => {
                    self.found.in_vocabulary = Some(map.next_value()?);
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Place { found: &mut *self.found, at: below })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        match self.at {
            At::Added => {
                while let Some(token) = list.next_element()? {
                    self.found.add(token);
                }
            }
            // Pieces with their scores; their places are their ids.
            At::Vocabulary => {
                let mut id = 0;
                while let Some((text, _)) = list.next_element::<(String, IgnoredAny)>()? {
                    if self.found.eos == Some(&*text) {
                        self.found.in_vocabulary.get_or_insert(id);
                    }
                    id += 1;
                }
            }
            At::File | At::Model => while list.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(json: &Value, eos: &str) -> EndTokens {
        EndTokens::read(json.to_string().as_bytes(), Some(eos))
    }

    fn added(tokens: &[(&str, bool)]) -> Value {
        let token = |(id, (text, special)): (usize, &(&str, bool))| json!({"id": id, "content": text, "special": special});
        let tokens: Vec<Value> = tokens.iter().enumerate().map(token).collect();
        json!({"added_tokens": tokens, "model": null})
    }

    #[test]
    fn special_tokens_that_end_answers_are_known_by_their_texts() {
        let json = added(&[("<|im_end|>", true), ("</s>", false), ("<|im_start|>", true), ("<eos>", true)]);
        assert_eq!(read(&json, "</s>"), EndTokens { eos: Some(1), known: vec![0, 3] });
        assert_eq!(read(&json, "<none>"), EndTokens { eos: None, known: vec![0, 3] });
        assert_eq!(EndTokens::read(json.to_string().as_bytes(), None).eos, None);
        for wrong in
            ["", "[]", "3", "{\"added_tokens\": [{\"id\": -1, \"content\": \"</s>\"}]}", "{\"model\": 3}"]
        {
            assert_eq!(EndTokens::read(wrong.as_bytes(), Some("</s>")), EndTokens::default(), "{wrong}");
        }
    }

    #[test]
    fn the_end_of_a_text_may_stand_in_the_vocabulary_alone() {
        for (vocab, id) in [
            (json!({"a": 0, "</s>": 7}), Some(7)),
            (json!([["<unk>", 0.0], ["</s>", -1.5]]), Some(1)),
            (json!({"a": 0}), None),
        ] {
            let json =
                json!({"model": {"type": "any", "vocab": vocab, "merges": [["a", "b"]]}, "version": "1.0"});
            assert_eq!(read(&json, "</s>"), EndTokens { eos: id, known: vec![] });
        }
    }

    #[test]
    fn the_end_of_a_message_is_none_of_an_answer_that_has_several() {
        let known = |texts: &[&str]| {
            let tokens: Vec<(&str, bool)> = texts.iter().map(|text| (*text, true)).collect();
            read(&added(&tokens), "").known
        };
        assert_eq!(known(&["<|end|>", "<|return|>"]), [0, 1]);
        assert_eq!(known(&["<|return|>", "<|end|>", "<|call|>"]), [0, 2]);
        assert_eq!(known(&["<|flush|>", "<|end|>", "<|calls|>"]), [0, 2]);
        assert_eq!(known(&["</s>", "<|tool_response>"]), [1]);
    }
}
