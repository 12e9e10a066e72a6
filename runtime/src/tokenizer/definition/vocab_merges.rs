//! `vocab.json` and `merges.txt`: the files of GPT-2 and its relatives. Neither says how a text is split into words, so
//! the class of the tokenizer in transformers decides that.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::byte_level::{ByteLevelBpe, Merges};
use super::pre_tokenizers::{GPT2, PreTokenizer, QWEN2};
use super::tokenizer_config::{TokenizerConfig, token_id};
use super::tokenizer_json::{AddedToken, Around};
use crate::error::{Result, RuntimeError};
use crate::model_dir::files::{self, FlatJson};
use qsf_format::printable::quote;

/// Most tokens; the largest vocabularies in use have 262 thousand.
const MAX_TOKENS: usize = 1 << 20;
/// Largest `merges.txt`; the largest in use have 5 MB.
const MAX_MERGES_BYTES: u64 = 32 << 20;

/// A class of transformers whose tokenizers are kept as these two files.
struct Class {
    name: &'static str,
    /// Values of `model_type` in config.json whose tokenizers are of the class.
    model_types: &'static [&'static str],
    /// How words are split.
    splits: &'static PreTokenizer,
    nfc: bool,
    /// The token that has every role that is given to no other.
    default_special: &'static str,
}

const CLASSES: [Class; 3] = [
    Class {
        name: "GPT2Tokenizer",
        model_types: &["gpt2", "gpt_neo", "opt"],
        splits: &GPT2,
        nfc: false,
        default_special: "<|endoftext|>",
    },
    Class {
        name: "CodeGenTokenizer",
        model_types: &["codegen", "phi"],
        splits: &GPT2,
        nfc: false,
        default_special: "<|endoftext|>",
    },
    Class {
        name: "Qwen2Tokenizer",
        model_types: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        splits: &QWEN2,
        nfc: true,
        default_special: "<|endoftext|>",
    },
];

/// Reads the vocabulary and merges at these paths. `config` is what the files beside them say.
///
/// # Errors
/// A file is malformed or contradicts the other, or how words are split is unknown.
pub(super) fn read_vocab_merges(
    vocab_path: &Path,
    merges_path: &Path,
    config: &TokenizerConfig,
) -> Result<ByteLevelBpe> {
    let class = class_of(vocab_path, config)?;
    let mut vocab = Vec::new();
    for (token, id) in files::read_flat(vocab_path, FlatJson { members: MAX_TOKENS, depth: 1 })? {
        let id = token_id(vocab_path, &token, &id)?;
        vocab.push((token, id));
    }
    vocab.sort_unstable_by_key(|(_, id)| *id);
    let merges = read_merges(merges_path, Merges::of(&vocab, vocab_path, merges_path)?)?;
    let added = added_tokens(vocab_path, &vocab, class, config)?;
    let around = {
        let token = |wanted: Option<bool>, role: &str| {
            let text = config.roles.get(role).map_or(class.default_special, String::as_str);
            let found = added.iter().find(|token| token.content == text);
            found.filter(|_| wanted == Some(true)).map(|token| (token.id, token.content.clone()))
        };
        Around { first: token(config.add_bos, "bos_token"), last: token(config.add_eos, "eos_token") }
    };
    Ok(ByteLevelBpe {
        path: vocab_path.to_owned(),
        vocab,
        merges,
        splits: class.splits.splits,
        nfc: class.nfc,
        add_prefix_space: config.add_prefix_space.unwrap_or(false),
        added,
        around,
    })
}

fn unsupported(path: &Path, what: String) -> RuntimeError {
    let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
    RuntimeError::Unsupported {
        path: path.to_owned(),
        what,
        supported: format!(
            "the tokenizer_class in tokenizer_config.json may be {}; a tokenizer.json of any kind is taken, too",
            names.join(", ")
        ),
    }
}

/// The class that tokenizer_config.json names, or else the one of the model in config.json.
fn class_of(vocab_path: &Path, config: &TokenizerConfig) -> Result<&'static Class> {
    if let Some(name) = &config.class {
        let found = CLASSES.iter().find(|class| class.name == name);
        return found.ok_or_else(|| unsupported(vocab_path, format!("vocab.json of a {}", quote(name))));
    }
    let config_path = vocab_path.parent().map(|dir| files::find(dir, "config.json")).transpose()?.flatten();
    let model = config_path.map(|path| files::read_object(&path)).transpose()?;
    let model_type = model.as_ref().and_then(|model| model.get("model_type")).and_then(Value::as_str);
    let found = model_type.and_then(|name| CLASSES.iter().find(|class| class.model_types.contains(&name)));
    found.ok_or_else(|| unsupported(vocab_path, "vocab.json of an unnamed class of tokenizer".into()))
}

/// The tokens that config lists, and the special ones that are in the vocabulary already.
fn added_tokens(
    vocab_path: &Path,
    vocab: &[(String, u32)],
    class: &Class,
    config: &TokenizerConfig,
) -> Result<Vec<AddedToken>> {
    let mut added = config.added.clone();
    for token in &added {
        let at = vocab.binary_search_by_key(&token.id, |(_, id)| *id);
        let there = at.ok().map(|at| &*vocab[at].0);
        if there.is_some_and(|there| there != token.content) {
            return Err(RuntimeError::bad_input(
                vocab_path,
                format!("token {}", token.id),
                format!("{} as in the list of added tokens", quote(&token.content)),
                quote(there.unwrap_or_default()),
            ));
        }
    }
    let listed: HashSet<u32> = added.iter().map(|token| token.id).collect();
    for (token, id) in vocab {
        let special = config.is_special(token) || token == class.default_special;
        if special && !listed.contains(id) {
            added.push(AddedToken::new(*id, &**token, true));
        }
    }
    added.sort_by_key(|token| token.id);
    let mut ids: HashMap<&str, u32> = vocab.iter().map(|(token, id)| (&**token, *id)).collect();
    for token in &added {
        let id = *ids.entry(&token.content).or_insert(token.id);
        if id != token.id {
            let place = format!("added token {}", token.id);
            let found = format!("{}, which is token {id}", quote(&token.content));
            return Err(RuntimeError::bad_input(vocab_path, place, "a text of its own", found));
        }
    }
    Ok(added)
}

fn read_merges(path: &Path, mut merges: Merges<'_>) -> Result<Vec<(String, String)>> {
    let bytes = files::read(path, MAX_MERGES_BYTES)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        RuntimeError::bad_input(path, format!("offset {}", e.valid_up_to()), "UTF-8 text", "other bytes")
    })?;
    for (line, number) in text.lines().zip(1..) {
        // The first line names the version; some files end in an empty line.
        if line.is_empty() || number == 1 && line.starts_with("#version") {
            continue;
        }
        let Some((left, right)) = line.split_once(' ').filter(|(_, right)| !right.contains(' ')) else {
            let place = format!("line {number}");
            return Err(RuntimeError::bad_input(path, place, "two tokens with a space between", quote(line)));
        };
        merges.add(left, right)?;
    }
    Ok(merges.list())
}
