//! Small encoders that know nothing of `tokenizer.json`: they read the definition of the source and follow the papers and
//! programs that it was made for. Slow and plain, to check the fast ones by.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

use super::super::definition::{
    AddedToken, Algorithm, ByteLevelBpe, Charsmap, PieceModel, Prefix, SPACE_MARK, byte_of,
};

/// The tokens of a text, without those that go around it.
pub(super) trait Reference {
    fn encode(&self, text: &str) -> tokenizers::Result<Vec<u32>>;
}

/// A part of a text: a token that was cut out, or what lies between; `usize` is where it begins.
enum TextPart<'a> {
    Token(u32),
    Text(usize, &'a str),
}

/// Cuts tokens out of a text: at each place the longest one.
fn cut<'t>(text: &'t str, tokens: &[&AddedToken]) -> Vec<TextPart<'t>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        let here = tokens.iter().filter(|token| text[at..].starts_with(&*token.content));
        let Some(token) = here.max_by_key(|token| token.content.len()) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let before = &text[start..at];
        let before = if token.lstrip { before.trim_end() } else { before };
        if !before.is_empty() {
            parts.push(TextPart::Text(start, before));
        }
        parts.push(TextPart::Token(token.id));
        at += token.content.len();
        if token.rstrip {
            at = text.len() - text[at..].trim_start().len();
        }
        start = at;
    }
    if start < text.len() {
        parts.push(TextPart::Text(start, &text[start..]));
    }
    parts
}

/// SentencePiece: normalization, then pieces by score.
pub(super) struct PieceReference<'a> {
    model: &'a PieceModel,
    charsmap: Option<Charsmap<'a>>,
    /// Pieces of text, with their scores.
    pieces: HashMap<&'a str, (u32, f32)>,
    bytes: HashMap<u8, u32>,
    longest: usize,
    least_score: f64,
    /// Tokens that are cut out of the raw text, and of the normalized text.
    raw: Vec<&'a AddedToken>,
    normalized: Vec<&'a AddedToken>,
}

impl<'a> PieceReference<'a> {
    pub fn new(model: &'a PieceModel) -> Result<PieceReference<'a>, String> {
        let charsmap = model.rules.charsmap.as_deref().map(Charsmap::read).transpose()?;
        let ids = || model.pieces.iter().zip(0u32..);
        let text = ids().filter(|(piece, _)| model.is_mergeable(piece.kind));
        let (normalized, raw) = model.added.iter().partition(|token| token.normalized);
        Ok(PieceReference {
            charsmap,
            pieces: text.map(|(piece, id)| (&*piece.text, (id, piece.score))).collect(),
            bytes: ids().filter_map(|(piece, id)| Some((byte_of(&piece.text)?, id))).collect(),
            longest: model.pieces.iter().map(|piece| piece.text.len()).max().unwrap_or(0),
            least_score: model.least_score(),
            raw,
            normalized,
            model,
        })
    }

    fn normalize(&self, text: &str, at_start: bool) -> String {
        let rules = &self.model.rules;
        let mut text = match &self.charsmap {
            Some(charsmap) => charsmap.normalize(text),
            None => text.to_owned(),
        };
        if rules.remove_extra_whitespaces {
            text = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        }
        let prefixed = match rules.prefix {
            Prefix::None => false,
            Prefix::Start => at_start,
            Prefix::EverySegment => true,
        };
        if prefixed && !text.is_empty() {
            text.insert(0, ' ');
        }
        if rules.escape_whitespaces { text.replace(' ', SPACE_MARK) } else { text }
    }

    /// Merges neighbours whose joint text is a piece: best score first, leftmost first among equals.
    fn merge(&self, text: &str) -> Vec<(usize, usize)> {
        // Symbols as (start, length, left neighbour, right neighbour); a merged one has no length left.
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let count = starts.len();
        let end = |i: usize| starts.get(i + 1).copied().unwrap_or(text.len());
        let mut symbols: Vec<(usize, usize, Option<usize>, Option<usize>)> = (0..count)
            .map(|i| {
                (starts[i], end(i) - starts[i], i.checked_sub(1), Some(i + 1).filter(|&next| next < count))
            })
            .collect();
        let mut queue = BinaryHeap::new();
        let pair = |symbols: &[(usize, usize, Option<usize>, Option<usize>)], left: usize, right: usize| {
            let (start, len) = (symbols[left].0, symbols[left].1 + symbols[right].1);
            let &(_, score) = self.pieces.get(&text[start..start + len])?;
            Some(Pair { score, left, right, len })
        };
        queue.extend((1..count).filter_map(|right| pair(&symbols, right - 1, right)));
        while let Some(Pair { left, right, len, .. }) = queue.pop() {
            let (a, b) = (symbols[left], symbols[right]);
            if a.1 == 0 || b.1 == 0 || a.1 + b.1 != len {
                continue;
            }
            symbols[left].1 = len;
            symbols[left].3 = b.3;
            symbols[right].1 = 0;
            if let Some(next) = b.3 {
                symbols[next].2 = Some(left);
                queue.extend(pair(&symbols, left, next));
            }
            if let Some(previous) = a.2 {
                queue.extend(pair(&symbols, previous, left));
            }
        }
        symbols.into_iter().filter(|symbol| symbol.1 > 0).map(|(start, len, ..)| (start, len)).collect()
    }

    /// The split whose scores have the greatest sum (Kudo 2018, <https://arxiv.org/abs/1804.10959>).
    fn best_split(&self, text: &str) -> Vec<(usize, usize)> {
        // Ten below the least score for a character without a piece: `unigram_model.cc`.
        let unknown = self.least_score - 10.0;
        let mut best: Vec<Option<(f64, usize)>> = vec![None; text.len() + 1];
        best[0] = Some((0.0, 0));
        for (start, c) in text.char_indices() {
            let Some((so_far, _)) = best[start] else { continue };
            let mut offer = |end: usize, score: f64| {
                if best[end].is_none_or(|(other, _)| score > other) {
                    best[end] = Some((score, start));
                }
            };
            let mut single = false;
            for (at, last) in text[start..].char_indices() {
                let end = start + at + last.len_utf8();
                if end - start > self.longest {
                    break;
                }
                if let Some(&(_, score)) = self.pieces.get(&text[start..end]) {
                    single |= at == 0;
                    offer(end, so_far + f64::from(score));
                }
            }
            if !single {
                offer(start + c.len_utf8(), so_far + unknown);
            }
        }
        let mut split = Vec::new();
        let mut end = text.len();
        while let Some((_, start)) = best[end].filter(|_| end > 0) {
            split.push((start, end - start));
            end = start;
        }
        split.reverse();
        split
    }

    fn push_pieces(&self, text: &str, ids: &mut Vec<u32>) {
        let split = match self.model.algorithm {
            Algorithm::Bpe => self.merge(text),
            Algorithm::Unigram => self.best_split(text),
        };
        let mut after_unknown = false;
        for (start, len) in split {
            let piece = &text[start..start + len];
            let unknown = match self.pieces.get(piece) {
                Some(&(id, _)) => {
                    ids.push(id);
                    false
                }
                None if self.model.byte_fallback => {
                    ids.extend(piece.bytes().filter_map(|byte| self.bytes.get(&byte)));
                    false
                }
                None => {
                    // A run of unknown characters is one token.
                    ids.extend(self.model.unk.filter(|_| !after_unknown));
                    true
                }
            };
            after_unknown = unknown;
        }
    }
}

impl Reference for PieceReference<'_> {
    fn encode(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut ids = Vec::new();
        for part in cut(text, &self.raw) {
            let text = match part {
                TextPart::Token(id) => {
                    ids.push(id);
                    continue;
                }
                TextPart::Text(at, text) => self.normalize(text, at == 0),
            };
            for part in cut(&text, &self.normalized) {
                match part {
                    TextPart::Token(id) => ids.push(id),
                    TextPart::Text(_, text) => self.push_pieces(text, &mut ids),
                }
            }
        }
        Ok(ids)
    }
}

/// Two neighbours that could be merged. The greatest is merged first.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Length of both when they met; another one since means that one of them has changed.
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// Byte-level BPE (Sennrich et al. 2016, <https://arxiv.org/abs/1508.07909>): over and over, the pair of least rank is merged
/// wherever it stands. Only the split into words is the library's.
pub(super) struct ByteReference<'a> {
    model: &'a ByteLevelBpe,
    words: PreTokenizerWrapper,
    ids: HashMap<&'a str, u32>,
    ranks: HashMap<(&'a str, &'a str), usize>,
    added: Vec<&'a AddedToken>,
}

impl<'a> ByteReference<'a> {
    pub fn new(model: &'a ByteLevelBpe) -> Result<ByteReference<'a>, String> {
        let ranks = model.merges.iter().enumerate().map(|(rank, (left, right))| ((&**left, &**right), rank));
        Ok(ByteReference {
            words: serde_json::from_value(model.pre_tokenizer()).map_err(|e| e.to_string())?,
            ids: model.vocab.iter().map(|(token, id)| (&**token, *id)).collect(),
            ranks: ranks.collect(),
            added: model.added.iter().collect(),
            model,
        })
    }

    fn push_word(&self, word: &str, ids: &mut Vec<u32>) {
        if let Some(&id) = self.ids.get(word).filter(|_| self.model.splits.ignore_merges) {
            ids.push(id);
            return;
        }
        // Ends of the symbols in `word`.
        let mut ends: Vec<usize> = word.char_indices().map(|(at, c)| at + c.len_utf8()).collect();
        loop {
            let start = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
            let sides = |i: usize| (&word[start(i)..ends[i]], &word[ends[i]..ends[i + 1]]);
            let ranked =
                (0..ends.len().saturating_sub(1)).filter_map(|i| Some((*self.ranks.get(&sides(i))?, i)));
            let Some((_, first)) = ranked.min() else { break };
            ends.remove(first);
        }
        let mut start = 0;
        for end in ends {
            ids.extend(self.ids.get(&word[start..end]));
            start = end;
        }
    }
}

impl Reference for ByteReference<'_> {
    fn encode(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut ids = Vec::new();
        for part in cut(text, &self.added) {
            let text = match part {
                TextPart::Token(id) => {
                    ids.push(id);
                    continue;
                }
                TextPart::Text(_, text) => text,
            };
            let mut text = NormalizedString::from(text);
            if self.model.nfc {
                tokenizers::normalizers::unicode::NFC.normalize(&mut text)?;
            }
            let mut words = PreTokenizedString::from(text);
            self.words.pre_tokenize(&mut words)?;
            for (word, ..) in words.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
                self.push_word(word, &mut ids);
            }
        }
        Ok(ids)
    }
}
