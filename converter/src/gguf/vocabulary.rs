//! The tokens of a `tokenizer.json`, and what each is.

use std::collections::HashMap;

use qsf_runtime::tokenizer::PieceKind;
use serde_json::Value as Json;

/// The tokens of a `tokenizer.json`.
pub(super) struct Vocabulary {
    pub tokens: Vec<String>,
    pub kinds: Vec<PieceKind>,
    pub ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// A token for each row of the embedding.
    pub fn read(json: &Json, rows: usize) -> Vocabulary {
        let model = &json["model"];
        let mut tokens: Vec<Option<String>> = vec![None; rows];
        let mut put = |id: usize, text: &str| {
            if let Some(place) = tokens.get_mut(id) {
                *place = Some(text.to_owned());
            }
        };
        if let Some(vocab) = model["vocab"].as_object() {
            vocab.iter().for_each(|(text, id)| put(id.as_u64().unwrap_or(u64::MAX) as usize, text));
        }
        if let Some(pieces) = model["vocab"].as_array() {
            let texts = pieces.iter().filter_map(|piece| piece[0].as_str());
            texts.enumerate().for_each(|(id, text)| put(id, text));
        }
        let mut kinds: Vec<PieceKind> = tokens
            .iter()
            .map(|text| match text {
                None => PieceKind::Unused,
                Some(text) if is_byte(text) => PieceKind::Byte,
                Some(_) => PieceKind::Normal,
            })
            .collect();
        let byte_level = is_byte_level(json);
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let (Some(id), Some(text)) = (added["id"].as_u64(), added["content"].as_str()) else { continue };
            let (id, special) = (id as usize, added["special"].as_bool().unwrap_or(false));
            let Some(place) = tokens.get_mut(id) else { continue };
            let control = special || looks_special(text);
            // llama.cpp looks for them in the text as it is, spaces and all.
            *place =
                Some(if control || !byte_level { text.to_owned() } else { text.replace('\u{2581}', " ") });
            kinds[id] = if control { PieceKind::Control } else { PieceKind::UserDefined };
        }
        let unknown = model["unk_token"].as_str();
        for (kind, text) in kinds.iter_mut().zip(&tokens) {
            if !byte_level && text.is_some() && text.as_deref() == unknown {
                *kind = PieceKind::Unknown;
            }
        }
        let named = |(i, text): (usize, Option<String>)| text.unwrap_or_else(|| format!("[PAD{i}]"));
        let tokens: Vec<String> = tokens.into_iter().enumerate().map(named).collect();
        let ids = tokens.iter().cloned().zip(0..).collect();
        Vocabulary { tokens, kinds, ids }
    }
}

/// Whether bytes are written as characters.
pub(super) fn is_byte_level(json: &Json) -> bool {
    fn has(step: &Json) -> bool {
        step["type"] == "ByteLevel"
            || ["decoders", "pretokenizers"]
                .iter()
                .any(|list| step[*list].as_array().is_some_and(|steps| steps.iter().any(has)))
    }
    has(&json["decoder"]) || has(&json["pre_tokenizer"])
}

/// Tokens that stand for nothing that is written, though their files do not say so (as llama.cpp's converter has it).
pub(super) fn looks_special(text: &str) -> bool {
    ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].contains(&text)
        || (text.starts_with("<|") && text.ends_with("|>"))
        || (text.starts_with("<｜") && text.ends_with("｜>"))
        || (text.starts_with("<unused") && text.ends_with('>'))
}

fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
