//! Tokenizers in the manner of SentencePiece: a list of pieces with scores. They come as `tokenizer.model` and inside GGUF
//! files; both become the same `tokenizer.json`.
//!
//! SentencePiece merges neighbours whose joint text has the best score, the leftmost first among equals (`bpe_model.cc`);
//! the library merges neighbours by the rank of the pair. Sorting all pairs by the score of what they form makes the two
//! the same, but for equal scores: see [`PieceModel::merges`].

use std::collections::HashMap;
use std::path::PathBuf;

use qsf_format::printable::quote;
use serde_json::{Value, json};

use super::tokenizer_json::{AddedToken, Around, BpeJson, TokenizerJson, UnigramJson, Vocab, check_unique};
use crate::error::{Result, RuntimeError};

/// What stands for a space in a piece (U+2581).
pub(crate) const SPACE_MARK: &str = "▁";
/// Longest piece that merges may form. SentencePiece trains pieces of 16 characters unless told otherwise; runs of
/// spaces reach a few hundred.
const MAX_MERGED_BYTES: usize = 1024;
/// Most bytes that all merges may take. The largest vocabulary in use (256 k pieces) needs 12 MB.
const MAX_MERGES_BYTES: usize = 64 << 20;

/// A vocabulary of pieces and the rules by which a text becomes some of them.
#[derive(Debug, Clone)]
pub(crate) struct PieceModel {
    /// The file, for messages.
    pub path: PathBuf,
    /// The place of the pieces in it, for messages.
    pub place: &'static str,
    /// The pieces; the id of a piece is its index.
    pub pieces: Vec<Piece>,
    /// How a text is split.
    pub algorithm: Algorithm,
    /// The piece for what no piece stands for.
    pub unk: Option<u32>,
    /// Characters without a piece become byte pieces.
    pub byte_fallback: bool,
    /// Merges may form user-defined pieces, as in llama.cpp; SentencePiece only finds them whole.
    pub merge_user_defined: bool,
    /// What happens to the text before it is split.
    pub rules: TextRules,
    /// Pieces, and tokens beyond them, that are cut out of the text first.
    pub added: Vec<AddedToken>,
    /// Tokens around every text.
    pub around: Around,
}

/// One piece of a vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Its text, with `\u{2581}` for spaces.
    pub text: String,
    /// Log-probability or negative rank: greater goes first.
    pub score: f32,
    /// What it is for.
    pub kind: PieceKind,
}

/// Types of pieces, as in `sentencepiece_model.proto` and, with the same numbers, in GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Text.
    Normal = 1,
    /// Stands for what no other piece does.
    Unknown = 2,
    /// No text: start, end, padding.
    Control = 3,
    /// Text that is never split.
    UserDefined = 4,
    /// Not in use.
    Unused = 5,
    /// A byte, spelled `<0x0A>`.
    Byte = 6,
}

impl PieceKind {
    /// The kind of a number in a file.
    pub fn from_number(number: i32) -> Option<PieceKind> {
        use PieceKind::{Byte, Control, Normal, Unknown, Unused, UserDefined};
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|kind| *kind as i32 == number)
    }

    /// Whether it is cut out of a text before the model sees it.
    pub fn is_cut_out(self) -> bool {
        matches!(self, PieceKind::Unknown | PieceKind::Control | PieceKind::UserDefined)
    }
}

/// How a text is split into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Neighbours are merged, best score first.
    Bpe,
    /// The split whose scores have the greatest sum.
    Unigram,
}

/// Where a space is put in front of the text, so that a first word is like every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Nowhere.
    None,
    /// At the start of the text.
    Start,
    /// Also after every token that was cut out: llama.cpp, and transformers where it is called legacy.
    EverySegment,
}

/// What happens to a text before it is split into pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRules {
    /// The space in front.
    pub prefix: Prefix,
    /// A table of replacements, checked.
    pub charsmap: Option<Vec<u8>>,
    /// Spaces at the ends are dropped, several become one.
    pub remove_extra_whitespaces: bool,
    /// Spaces are written as [`SPACE_MARK`].
    pub escape_whitespaces: bool,
}

/// A pair of pieces, by id, and the piece that they form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Merge {
    left: u32,
    right: u32,
    formed: u32,
}

impl PieceModel {
    /// Checks what every origin must keep to: pieces that differ, finite scores, byte pieces for all bytes or none.
    ///
    /// # Errors
    /// The first piece that is wrong.
    pub fn check(&self) -> Result<()> {
        let wrong = |place: String, expected: &str, found: String| {
            Err(RuntimeError::bad_input(&self.path, place, expected, found))
        };
        if self.pieces.is_empty() {
            return wrong(self.place.into(), "a vocabulary", "0 pieces".into());
        }
        check_unique(&self.path, self.place, self.pieces.iter().zip(0..).map(|(p, id)| (&*p.text, id)))?;
        for (piece, id) in self.pieces.iter().zip(0u32..) {
            let place = || format!("{} {id}", self.place);
            if piece.text.is_empty() {
                return wrong(place(), "a text", "an empty one".into());
            }
            if !piece.score.is_finite() {
                return wrong(place(), "a finite score", piece.score.to_string());
            }
            if piece.kind == PieceKind::Byte && byte_of(&piece.text).is_none() {
                return wrong(place(), "a byte spelled <0x00> to <0xFF>", quote(&piece.text));
            }
        }
        if let Some(unk) = self.unk.filter(|&unk| unk as usize >= self.pieces.len()) {
            return wrong("the unknown token".into(), "the id of a piece", unk.to_string());
        }
        let bytes = self.pieces.iter().filter(|p| p.kind == PieceKind::Byte).count();
        if self.byte_fallback && bytes != 256 {
            return wrong(self.place.into(), "256 byte pieces", bytes.to_string());
        }
        Ok(())
    }

    /// The text of a `tokenizer.json` that does the same.
    ///
    /// # Errors
    /// When a piece is longer than merges can reasonably form, or the text is too large for a QSF file.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        match self.algorithm {
            Algorithm::Bpe => self.write(BpeJson {
                dropout: None,
                unk_token: self.unk.map(|id| &*self.pieces[id as usize].text),
                continuing_subword_prefix: None,
                end_of_word_suffix: None,
                fuse_unk: true,
                byte_fallback: self.byte_fallback,
                ignore_merges: false,
                vocab: self.vocab(),
                merges: self.merges()?.iter().map(|m| (self.text(m.left), self.text(m.right))).collect(),
            }),
            Algorithm::Unigram => {
                let unk_id = self.unk.ok_or_else(|| {
                    RuntimeError::bad_input(&self.path, self.place, "an unknown token", "none")
                })?;
                self.write(UnigramJson {
                    unk_id,
                    vocab: self.unigram_scores(),
                    byte_fallback: self.byte_fallback,
                })
            }
        }
    }

    fn write<M: serde::Serialize>(&self, model: M) -> Result<Vec<u8>> {
        TokenizerJson {
            added: &self.added,
            normalizer: self.normalizer(),
            pre_tokenizer: self.pre_tokenizer(),
            around: &self.around,
            decoder: self.decoder(),
            model,
        }
        .write(&self.path)
    }

    fn text(&self, id: u32) -> &str {
        &self.pieces[id as usize].text
    }

    /// All pieces, and the added tokens beyond them: the library gives an added token the id that the vocabulary says.
    fn vocab(&self) -> Vocab<'_> {
        let pieces = self.pieces.iter().zip(0..).map(|(piece, id)| (&*piece.text, id));
        let beyond = self.added.iter().filter(|token| token.id as usize >= self.pieces.len());
        Vocab(pieces.chain(beyond.map(|token| (&*token.content, token.id))).collect())
    }

    /// Pieces that are no text are given the least score of all, as SentencePiece's own minimum counts text only.
    fn unigram_scores(&self) -> Vec<(&str, f64)> {
        let least = self.least_score();
        let score = |p: &Piece| if p.kind == PieceKind::Normal { f64::from(p.score) } else { least };
        self.pieces.iter().map(|p| (&*p.text, score(p))).collect()
    }

    /// The least score of a piece of text.
    pub fn least_score(&self) -> f64 {
        let scores = self.pieces.iter().filter(|p| p.kind == PieceKind::Normal).map(|p| p.score);
        f64::from(scores.reduce(f32::min).unwrap_or(0.0))
    }

    /// Whether merges can form a piece of this kind and go on from it.
    pub fn is_mergeable(&self, kind: PieceKind) -> bool {
        match kind {
            PieceKind::Normal => true,
            PieceKind::UserDefined | PieceKind::Unused => self.merge_user_defined,
            PieceKind::Unknown | PieceKind::Control | PieceKind::Byte => false,
        }
    }

    /// Every pair of pieces that form a third, best score first.
    ///
    /// Among equal scores SentencePiece takes the leftmost pair of the text, for which there is no rank. Equal scores
    /// are given to runs of spaces (llama-2 gives all of them the same), where the leftmost pair is the run that grew
    /// already: the longest piece goes first, and of the pairs that form it the one whose left side is longest.
    fn merges(&self) -> Result<Vec<Merge>> {
        let ids: HashMap<&str, u32> = self
            .pieces
            .iter()
            .zip(0..)
            .filter(|(piece, _)| self.is_mergeable(piece.kind))
            .map(|(piece, id)| (&*piece.text, id))
            .collect();
        let mut merges = Vec::new();
        let mut total = 0usize;
        for (piece, formed) in self.pieces.iter().zip(0..) {
            let text = &*piece.text;
            if !self.is_mergeable(piece.kind) || text.chars().nth(1).is_none() {
                continue;
            }
            if text.len() > MAX_MERGED_BYTES {
                return Err(RuntimeError::bad_input(
                    &self.path,
                    format!("{} {formed}", self.place),
                    format!("at most {MAX_MERGED_BYTES} bytes"),
                    text.len(),
                ));
            }
            for (cut, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(cut);
                if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
                    merges.push(Merge { left, right, formed });
                    total += text.len();
                }
            }
            if total > MAX_MERGES_BYTES {
                let expected = format!("pieces that form each other in at most {MAX_MERGES_BYTES} bytes");
                return Err(RuntimeError::bad_input(&self.path, self.place, expected, "more"));
            }
        }
        merges.sort_by(|a, b| {
            let key = |m: &Merge| (self.text(m.formed).len(), self.text(m.left).len());
            let score = |m: &Merge| self.pieces[m.formed as usize].score;
            score(b).total_cmp(&score(a)).then(key(b).cmp(&key(a))).then(a.formed.cmp(&b.formed))
        });
        Ok(merges)
    }

    fn mark(&self) -> &'static str {
        if self.rules.escape_whitespaces { SPACE_MARK } else { " " }
    }

    fn normalizer(&self) -> Value {
        let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let mut steps = Vec::new();
        if let Some(charsmap) = &self.rules.charsmap {
            steps.push(json!({"type": "Precompiled", "precompiled_charsmap": base64::encode(charsmap)}));
        }
        if self.rules.remove_extra_whitespaces {
            // A space that is left at the start is the one that would be put there: see `pre_tokenizer`.
            let ends = if self.rules.prefix == Prefix::Start { " +$" } else { "^ +| +$" };
            steps.push(replace(json!({"Regex": ends}), ""));
            steps.push(replace(json!({"Regex": " {2,}"}), " "));
        }
        if self.rules.prefix == Prefix::EverySegment {
            steps.push(json!({"type": "Prepend", "prepend": self.mark()}));
        }
        if self.rules.escape_whitespaces {
            steps.push(replace(json!({"String": " "}), SPACE_MARK));
        }
        match steps.len() {
            0 => Value::Null,
            _ => json!({"type": "Sequence", "normalizers": steps}),
        }
    }

    /// The space at the start of the text only, which `Metaspace` knows. But it leaves the space out where there is one
    /// already, which SentencePiece does only where it drops the spaces at the start. So otherwise a first one runs
    /// with a mark that no text has any more at this point, and a second one turns that into the real mark.
    fn pre_tokenizer(&self) -> Value {
        let metaspace = |replacement: &str, scheme: &str| json!({"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": false});
        let rules = &self.rules;
        match rules.prefix {
            Prefix::Start if rules.escape_whitespaces && !rules.remove_extra_whitespaces => json!({
                "type": "Sequence",
                "pretokenizers": [metaspace(" ", "first"), metaspace(SPACE_MARK, "never")],
            }),
            Prefix::Start => metaspace(self.mark(), "first"),
            Prefix::None | Prefix::EverySegment => Value::Null,
        }
    }

    fn decoder(&self) -> Value {
        let mut steps = vec![
            json!({"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if self.rules.prefix != Prefix::None {
            steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        json!({"type": "Sequence", "decoders": steps})
    }
}

/// The byte that `<0x0A>` and the like stand for.
pub(crate) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` alone would take a sign.
    let hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    hex.then(|| u8::from_str_radix(digits, 16).ok())?
}
