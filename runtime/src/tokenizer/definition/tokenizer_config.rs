//! What the small files beside a vocabulary say about it: `tokenizer_config.json`, `special_tokens_map.json` and
//! `added_tokens.json`, as transformers writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::tokenizer_json::AddedToken;
use crate::error::{Result, RuntimeError};
use crate::model_dir::files::{self, FlatJson};
use crate::model_dir::{Fields, describe};

/// Most tokens that may be added to a vocabulary; the largest real lists have a few thousand.
const MAX_ADDED: usize = 1 << 16;

/// What the files say; everything may be missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenizerConfig {
    /// Name of the tokenizer's class in transformers, without `Fast` at its end.
    pub class: Option<String>,
    /// Tokens that are cut out of the text, in order of their ids.
    pub added: Vec<AddedToken>,
    /// Spellings of the tokens that have a role (start, end, padding and so on), by the name of the role.
    pub roles: BTreeMap<String, String>,
    /// Spellings of further special tokens.
    pub further_special: BTreeSet<String>,
    /// Whether the start token goes before every text.
    pub add_bos: Option<bool>,
    /// Whether the end token goes after every text.
    pub add_eos: Option<bool>,
    /// Whether a space goes before every text.
    pub add_prefix_space: Option<bool>,
    /// Whether that is done after special tokens, too.
    pub legacy: Option<bool>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// Roles of tokens in the files of transformers.
const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

impl TokenizerConfig {
    /// Reads what is there of the three files in `dir`.
    ///
    /// # Errors
    /// When one of them is malformed.
    pub fn read(dir: &Path) -> Result<TokenizerConfig> {
        let mut config = TokenizerConfig::default();
        let mut added = BTreeMap::new();
        for name in ["special_tokens_map.json", "tokenizer_config.json"] {
            if let Some(path) = files::find(dir, name)? {
                let map = files::read_object(&path)?;
                config.read_roles(&path, &map)?;
                if name == "tokenizer_config.json" {
                    config.read_settings(&path, &map, &mut added)?;
                }
                config.files.push(path);
            }
        }
        if let Some(path) = files::find(dir, "added_tokens.json")? {
            let map = files::read_flat(&path, FlatJson { members: MAX_ADDED, depth: 1 })?;
            for (content, id) in &map {
                let id = token_id(&path, content, id)?;
                // The newer list knows more about each token.
                added.entry(id).or_insert_with(|| {
                    let special = config.is_special(content);
                    AddedToken { normalized: !special, ..AddedToken::new(id, content, special) }
                });
            }
            config.files.push(path);
        }
        if added.len() > MAX_ADDED {
            let expected = format!("at most {MAX_ADDED} added tokens");
            return Err(RuntimeError::bad_input(dir, "added tokens", expected, added.len()));
        }
        config.added = added.into_values().collect();
        Ok(config)
    }

    /// Whether `content` has a role or is listed as special.
    pub fn is_special(&self, content: &str) -> bool {
        self.further_special.contains(content) || self.roles.values().any(|role| role == content)
    }

    /// The text of the token that ends a text.
    pub fn eos(&self) -> Option<&str> {
        self.roles.get("eos_token").map(String::as_str)
    }

    fn read_roles(&mut self, path: &Path, map: &Map<String, Value>) -> Result<()> {
        let fields = Fields { path, within: "", map };
        for role in ROLES {
            if let Some(value) = fields.get(role) {
                let expected = "a token or an object with its content";
                let content = content(value).ok_or_else(|| fields.wrong(role, expected, describe(value)))?;
                self.roles.insert(role.to_owned(), content.to_owned());
            }
        }
        // transformers 5 calls the list `extra_special_tokens`; an object there names roles of its own.
        for name in ["additional_special_tokens", "extra_special_tokens"] {
            let count = match fields.get(name) {
                Some(Value::Array(list)) => list.len(),
                Some(Value::Object(named)) => named.len(),
                _ => 0,
            };
            if count > MAX_ADDED {
                return Err(fields.wrong(name, format!("at most {MAX_ADDED} tokens"), count));
            }
            match fields.get(name) {
                Some(Value::Array(list)) => {
                    self.further_special.extend(list.iter().filter_map(content).map(Into::into));
                }
                Some(Value::Object(named)) => {
                    self.further_special.extend(named.values().filter_map(content).map(Into::into));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_settings(
        &mut self,
        path: &Path,
        map: &Map<String, Value>,
        added: &mut BTreeMap<u32, AddedToken>,
    ) -> Result<()> {
        let fields = Fields { path, within: "", map };
        let class = fields.str("tokenizer_class")?;
        self.class = class.map(|class| class.strip_suffix("Fast").unwrap_or(class).to_owned());
        self.add_bos = fields.bool("add_bos_token")?;
        self.add_eos = fields.bool("add_eos_token")?;
        self.add_prefix_space = fields.bool("add_prefix_space")?;
        self.legacy = fields.bool("legacy")?;
        let Some(decoder) = fields.object("added_tokens_decoder", "added_tokens_decoder.")? else {
            return Ok(());
        };
        for (id, value) in decoder.map {
            let wrong = |expected: &str| decoder.wrong(id, expected, describe(value));
            let number = id.parse().map_err(|_| wrong("a token id as the name of the field"))?;
            let token = value.as_object().ok_or_else(|| wrong("a token with its content"))?;
            let within = format!("added_tokens_decoder.{id}.");
            let token = Fields { path, within: &within, map: token };
            let content = token.str("content")?.unwrap_or_default();
            let flag = |name: &str| Ok::<_, RuntimeError>(token.bool(name)?.unwrap_or(false));
            let special = flag("special")?;
            let token = AddedToken {
                id: number,
                content: content.to_owned(),
                single_word: flag("single_word")?,
                lstrip: flag("lstrip")?,
                rstrip: flag("rstrip")?,
                normalized: token.bool("normalized")?.unwrap_or(!special),
                special,
            };
            if token.content.is_empty() {
                return Err(wrong("a token with a text"));
            }
            added.insert(number, token);
        }
        Ok(())
    }
}

/// A token given as its text, or as an object that describes it.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

/// The id of a token in a file that maps texts to ids.
pub(super) fn token_id(path: &Path, token: &str, id: &Value) -> Result<u32> {
    let found = id.as_u64().and_then(|id| u32::try_from(id).ok());
    found.ok_or_else(|| {
        let place = format!("token {}", qsf_format::printable::quote(token));
        RuntimeError::bad_input(path, place, "an id from 0 to 4294967295", describe(id))
    })
}
