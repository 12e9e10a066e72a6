//! Tokenizers in the manner of GPT-2: the text is split into words by regular expressions, the bytes of each word are
//! written as printable characters, and neighbours are merged by the rank of the pair.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use qsf_format::printable::quote;
use serde_json::{Value, json};

use super::pre_tokenizers::Splits;
use super::tokenizer_json::{AddedToken, Around, BpeJson, TokenizerJson, Vocab, check_unique};
use crate::error::{Result, RuntimeError};

/// Longest token that merges may form; what makes a crafted list of merges cheap to check. Real ones reach a few
/// hundred bytes.
const MAX_TOKEN_BYTES: usize = 1 << 16;
/// Most merges; the largest lists in use have 520 thousand.
const MAX_MERGES: usize = 1 << 20;

/// The merges of a vocabulary, checked one by one as they are read: a list of wrong ones is not kept.
#[derive(Debug)]
pub(super) struct Merges<'a> {
    tokens: HashSet<&'a str>,
    path: &'a Path,
    formed: String,
    rank: usize,
    list: Vec<(String, String)>,
}

impl<'a> Merges<'a> {
    /// For the tokens of `vocab` in order of their ids, from `vocab_path`; `path` is where the merges are.
    ///
    /// # Errors
    /// When there are no tokens, or a token or an id is there twice.
    pub fn of(vocab: &'a [(String, u32)], vocab_path: &Path, path: &'a Path) -> Result<Merges<'a>> {
        if vocab.is_empty() {
            return Err(RuntimeError::bad_input(vocab_path, "the vocabulary", "tokens", "0 tokens"));
        }
        check_unique(vocab_path, "the vocabulary", vocab.iter().map(|(token, id)| (&**token, *id)))?;
        let tokens = vocab.iter().map(|(token, _)| &**token).collect();
        Ok(Merges { tokens, path, formed: String::new(), rank: 0, list: Vec::new() })
    }

    /// Adds the next merge.
    ///
    /// # Errors
    /// When it is not of tokens, makes no token, or is one too many.
    pub fn add(&mut self, left: &str, right: &str) -> Result<()> {
        let Merges { tokens, path, formed, rank, .. } = self;
        let wrong = |expected: &str, found: &str| {
            Err(RuntimeError::bad_input(path, format!("merge {rank}"), expected, quote(found)))
        };
        if self.list.len() == MAX_MERGES {
            return Err(RuntimeError::bad_input(path, "merges", format!("at most {MAX_MERGES}"), "more"));
        }
        for side in [left, right] {
            if side.is_empty() || !tokens.contains(side) {
                return wrong("tokens of the vocabulary", side);
            }
        }
        if left.len() + right.len() > MAX_TOKEN_BYTES {
            return wrong("tokens of at most 64 KiB", left);
        }
        formed.clear();
        formed.push_str(left);
        formed.push_str(right);
        if !tokens.contains(&**formed) {
            return wrong("a merge that makes a token of the vocabulary", formed);
        }
        self.list.push((left.to_owned(), right.to_owned()));
        self.rank += 1;
        Ok(())
    }

    /// All of them, best first.
    pub fn list(self) -> Vec<(String, String)> {
        self.list
    }
}

/// A vocabulary of byte-level tokens, its merges, and the rules by which a text is split into words.
#[derive(Debug, Clone)]
pub(crate) struct ByteLevelBpe {
    /// The file with the vocabulary, for messages.
    pub path: PathBuf,
    /// Tokens and their ids, in order of the ids; each token and each id once.
    pub vocab: Vec<(String, u32)>,
    /// Pairs that are merged, best first.
    pub merges: Vec<(String, String)>,
    /// How a text is split into words.
    pub splits: Splits,
    /// The text is brought into Unicode's composed form first.
    pub nfc: bool,
    /// A space goes before a text that does not begin with one.
    pub add_prefix_space: bool,
    /// Tokens that are cut out of the text first.
    pub added: Vec<AddedToken>,
    /// Tokens around every text.
    pub around: Around,
}

impl ByteLevelBpe {
    /// The text of a `tokenizer.json` that does the same.
    ///
    /// # Errors
    /// When it is too large for a QSF file.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        // The library gives an added token the id that the vocabulary says, and any other one where it says nothing.
        let known: HashSet<&str> = self.vocab.iter().map(|(token, _)| &**token).collect();
        let beyond = self.added.iter().filter(|token| !known.contains(&*token.content));
        let vocab = self.vocab.iter().map(|(token, id)| (&**token, *id));
        TokenizerJson {
            added: &self.added,
            normalizer: if self.nfc { json!({"type": "NFC"}) } else { Value::Null },
            pre_tokenizer: self.pre_tokenizer(),
            around: &self.around,
            decoder: json!({
                "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
            }),
            model: BpeJson {
                dropout: None,
                unk_token: None,
                continuing_subword_prefix: None,
                end_of_word_suffix: None,
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: self.splits.ignore_merges,
                vocab: Vocab(vocab.chain(beyond.map(|token| (&*token.content, token.id))).collect()),
                merges: self.merges.iter().map(|(left, right)| (&**left, &**right)).collect(),
            },
        }
        .write(&self.path)
    }

    /// Splits of the text into words, then bytes written as characters.
    pub fn pre_tokenizer(&self) -> Value {
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let splits = self.splits.patterns.iter().map(|pattern| {
            json!({
                "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
            })
        });
        // The space must be there before the text is split, and becomes a character with all others.
        let space = self.add_prefix_space.then(
            || json!({"type": "Metaspace", "replacement": " ", "prepend_scheme": "always", "split": false}),
        );
        let punctuation =
            self.splits.punctuation.then(|| json!({"type": "Punctuation", "behavior": "Contiguous"}));
        let steps: Vec<Value> = space.into_iter().chain(punctuation).chain(splits).chain([bytes]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}
