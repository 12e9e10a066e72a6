//! The tokenizer in the metadata of a GGUF file
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer>). What the specification leaves open is as
//! llama.cpp has it (`llama_vocab::impl::load`), for its files are made to be read by that.

use std::collections::{HashMap, HashSet};

use qsf_format::printable::{message, quote};

use super::byte_level::{ByteLevelBpe, Merges};
use super::charsmap::Charsmap;
use super::end_tokens::{end_tokens, is_end_text};
use super::piece_model::{Algorithm, Piece, PieceKind, PieceModel, Prefix, TextRules, byte_of};
use super::pre_tokenizers;
use super::tokenizer_json::{AddedSum, AddedToken, Around};
use super::{Definition, Model};
use crate::error::{Result, RuntimeError};
use crate::gguf::Metadata;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// Most tokens; the largest vocabularies in use have 262 thousand.
const MAX_TOKENS: u64 = 1 << 20;
/// Most bytes of all tokens, of which there are several copies at a time; the largest vocabularies in use have 2 MB.
const MAX_TEXT: usize = 16 << 20;
/// Most lines with merges; the largest lists in use have 520 thousand.
const MAX_MERGES: u64 = 1 << 20;

/// What a GGUF file says of its tokenizer.
#[derive(Debug)]
pub struct GgufTokenizer {
    /// The tokenizer.
    pub definition: Definition,
    /// Tokens that end a text, in ascending order.
    pub stop_tokens: Vec<u32>,
}

/// Reads the tokenizer of a file; `None` where the file has none.
///
/// # Errors
/// The metadata contradicts itself, or is of a kind of tokenizer that is not supported.
pub fn read_gguf_tokenizer(metadata: &Metadata) -> Result<Option<GgufTokenizer>> {
    let Some(model) = metadata.str(MODEL)?.filter(|&model| model != "none" && model != "no_vocab") else {
        return Ok(None);
    };
    let vocabulary = Vocabulary::read(metadata)?;
    let definition = match model {
        "gpt2" => Model::ByteLevel(vocabulary.byte_level()?),
        "llama" => Model::Pieces(vocabulary.pieces(Algorithm::Bpe, vocabulary.scores()?)?),
        "gemma4" => Model::Pieces(vocabulary.pieces(Algorithm::Bpe, vocabulary.scores_of_merges()?)?),
        "t5" => Model::Pieces(vocabulary.pieces(Algorithm::Unigram, vocabulary.scores()?)?),
        other => {
            return Err(RuntimeError::Unsupported {
                path: metadata.path().to_owned(),
                what: format!("the tokenizer {}", quote(other)),
                supported: "gpt2, llama, gemma4 and t5 are".into(),
            });
        }
    };
    Ok(Some(GgufTokenizer { definition: Definition(definition), stop_tokens: vocabulary.stop_tokens()? }))
}

/// What all kinds of tokenizers have in these files.
struct Vocabulary<'a> {
    metadata: &'a Metadata,
    tokens: Vec<String>,
    kinds: Vec<PieceKind>,
}

/// Counts the tokens that would be cut out of a text, before anything is made of them.
fn count_cut_out(metadata: &Metadata, texts: &[&str], kinds: &[PieceKind]) -> Result<()> {
    let mut sum = AddedSum::default();
    for (text, _) in texts.iter().zip(kinds).filter(|(_, kind)| kind.is_cut_out()) {
        sum.add(text.len()).map_err(|problem| {
            metadata.wrong(TYPES, "control and user-defined tokens within limits", problem)
        })?;
    }
    Ok(())
}

/// The kinds of the tokens with these texts.
fn read_kinds(metadata: &Metadata, texts: &[&str]) -> Result<Vec<PieceKind>> {
    let Some(types) = metadata.i32s(TYPES)? else {
        let kind = |text: &&str| byte_of(text).map_or(PieceKind::Normal, |_| PieceKind::Byte);
        return Ok(texts.iter().map(kind).collect());
    };
    if types.len() != texts.len() {
        return Err(metadata.wrong(TYPES, format!("{} types", texts.len()), types.len()));
    }
    let kind = |&number: &i32| match number {
        // No type given.
        0 => Ok(PieceKind::Normal),
        number => {
            PieceKind::from_number(number).ok_or_else(|| metadata.wrong(TYPES, "types from 0 to 6", number))
        }
    };
    types.iter().map(kind).collect()
}

impl<'a> Vocabulary<'a> {
    fn read(metadata: &'a Metadata) -> Result<Vocabulary<'a>> {
        let count = metadata.array_length(TOKENS).unwrap_or_default();
        if count > MAX_TOKENS {
            return Err(metadata.wrong(TOKENS, format!("1 to {MAX_TOKENS} tokens"), count));
        }
        let texts = metadata.strings(TOKENS)?.unwrap_or_default();
        if texts.is_empty() {
            return Err(metadata.wrong(TOKENS, format!("1 to {MAX_TOKENS} tokens"), 0));
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes > MAX_TEXT {
            return Err(metadata.wrong(TOKENS, format!("at most {MAX_TEXT} bytes of tokens"), bytes));
        }
        let kinds = read_kinds(metadata, &texts)?;
        count_cut_out(metadata, &texts, &kinds)?;
        let named = |(i, text): (usize, &&str)| {
            // Tokens without text cannot be told apart otherwise.
            if text.is_empty() { format!("[EMPTY_{i}]") } else { (*text).to_owned() }
        };
        let tokens: Vec<String> = texts.iter().enumerate().map(named).collect();
        let mut vocabulary = Vocabulary { metadata, tokens, kinds };
        vocabulary.correct_kinds()?;
        Ok(vocabulary)
    }

    fn correct_kinds(&mut self) -> Result<()> {
        if !self.metadata.contains(TYPES) {
            for role in ["bos", "eos"] {
                if let Some(id) = self.id(role)? {
                    self.kinds[id as usize] = PieceKind::Control;
                }
            }
            if let Some(id) = self.id("unknown")? {
                self.kinds[id as usize] = PieceKind::Unknown;
            }
        }
        for (text, kind) in self.tokens.iter().zip(&mut self.kinds) {
            if is_end_text(text) {
                *kind = PieceKind::Control;
            }
        }
        Ok(())
    }

    /// The id of the token with this role, where the file names one.
    fn id(&self, role: &str) -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{role}_token_id");
        match self.metadata.u32(&key)? {
            // -1, written without its sign.
            None | Some(u32::MAX) => Ok(None),
            Some(id) if (id as usize) < self.tokens.len() => Ok(Some(id)),
            Some(id) => Err(self.metadata.wrong(&key, format!("a token id below {}", self.tokens.len()), id)),
        }
    }

    /// The token of a role, or else this id where the vocabulary has it.
    fn id_or(&self, role: &str, default: u32) -> Result<Option<u32>> {
        Ok(self.id(role)?.or(Some(default).filter(|&id| (id as usize) < self.tokens.len())))
    }

    fn stop_tokens(&self) -> Result<Vec<u32>> {
        let mut ids: Vec<u32> = Vec::new();
        for role in ["eos", "eot", "eom"] {
            ids.extend(self.id(role)?);
        }
        ids.extend(end_tokens(self.tokens.iter().map(String::as_str).zip(0..)));
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// The tokens that are cut out of a text before the model sees it.
    fn added(&self) -> Result<Vec<AddedToken>> {
        // Phi-3's special tokens swallow the white space after them, which the format has no place for: llama.cpp goes
        // by the model's name.
        let name = self.metadata.str("general.name")?.unwrap_or_default().to_lowercase();
        let rstrip = name.contains("phi-3") || name.contains("phi3");
        let token = |((text, kind), id): ((&String, &PieceKind), u32)| {
            let special = match kind {
                PieceKind::Control | PieceKind::Unknown => true,
                PieceKind::UserDefined => false,
                PieceKind::Normal | PieceKind::Unused | PieceKind::Byte => return None,
            };
            let rstrip = rstrip && !["<unk>", "<s>", "<|endoftext|>"].contains(&&**text);
            Some(AddedToken { rstrip, ..AddedToken::new(id, text, special) })
        };
        Ok(self.tokens.iter().zip(&self.kinds).zip(0..).filter_map(token).collect())
    }

    /// The tokens around every text; `add_bos`, `add_eos`: whether they are there where the file does not say.
    fn around(&self, bos: Option<u32>, add_bos: bool, eos: Option<u32>, add_eos: bool) -> Result<Around> {
        let token = |key: &str, id: Option<u32>, default: bool| -> Result<Option<(u32, String)>> {
            let wanted = self.metadata.bool(key)?.unwrap_or(default);
            Ok(id.filter(|_| wanted).map(|id| (id, self.tokens[id as usize].clone())))
        };
        Ok(Around {
            first: token("tokenizer.ggml.add_bos_token", bos, add_bos)?,
            last: token("tokenizer.ggml.add_eos_token", eos, add_eos)?,
        })
    }

    fn byte_level(&self) -> Result<ByteLevelBpe> {
        let metadata = self.metadata;
        // Files from before the key existed do not say; `default` is what runs them elsewhere.
        let name = metadata.str(PRE)?.filter(|name| !name.is_empty()).unwrap_or("default");
        let kind = pre_tokenizers::pre_tokenizer(name).ok_or_else(|| RuntimeError::Unsupported {
            path: metadata.path().to_owned(),
            what: format!("the pre-tokenizer {}", quote(name)),
            supported: format!("{} are", pre_tokenizers::names().join(", ")),
        })?;
        let vocab: Vec<(String, u32)> = self.tokens.iter().cloned().zip(0..).collect();
        Ok(ByteLevelBpe {
            path: metadata.path().to_owned(),
            merges: self.merges(Merges::of(&vocab, metadata.path(), metadata.path())?)?,
            vocab,
            splits: kind.splits,
            nfc: false,
            add_prefix_space: false,
            added: self.added()?,
            around: self.around(self.id("bos")?, kind.add_bos, self.id("eos")?, false)?,
        })
    }

    fn merges(&self, mut merges: Merges<'_>) -> Result<Vec<(String, String)>> {
        let mut seen = HashSet::new();
        for (left, right) in self.pairs()? {
            // Of a pair that is there twice, the first counts.
            if seen.insert((left, right)) {
                merges.add(left, right)?;
            }
        }
        Ok(merges.list())
    }

    /// The two tokens of each merge.
    fn pairs(&self) -> Result<Vec<(&'a str, &'a str)>> {
        if let Some(count) = self.metadata.array_length(MERGES).filter(|&count| count > MAX_MERGES) {
            return Err(self.metadata.wrong(MERGES, format!("at most {MAX_MERGES} merges"), count));
        }
        let lines = self.metadata.strings(MERGES)?;
        let lines = lines.ok_or_else(|| self.metadata.wrong(MERGES, "an array of merges", "no such key"))?;
        let pair = |(rank, line): (usize, &'a str)| {
            // The first character may be a space itself.
            let first = line.chars().next().map_or(0, char::len_utf8);
            let cut = line[first..].find(' ').map(|at| at + first);
            cut.map(|cut| (&line[..cut], &line[cut + 1..])).ok_or_else(|| {
                let found = format!("merge {rank}: {}", quote(line));
                self.metadata.wrong(MERGES, "two tokens with a space between", found)
            })
        };
        lines.into_iter().enumerate().map(pair).collect()
    }

    fn scores(&self) -> Result<Vec<f32>> {
        let scores = self.metadata.f32s(SCORES)?.unwrap_or_default();
        if scores.len() != self.tokens.len() {
            let expected = format!("{} scores", self.tokens.len());
            return Err(self.metadata.wrong(SCORES, expected, scores.len()));
        }
        Ok(scores)
    }

    /// Scores by which pieces are merged in the order of the merges. Gemma 4's files have a list of these, which was made of the scores
    /// of SentencePiece, and no scores of use. What no merge forms is merged last.
    fn scores_of_merges(&self) -> Result<Vec<f32>> {
        let mut ranks: HashMap<String, usize> = HashMap::new();
        let pairs = self.pairs()?;
        for (rank, (left, right)) in pairs.iter().enumerate() {
            ranks.entry(format!("{left}{right}")).or_insert(rank);
        }
        // Ranks below 2^24 are floats without loss.
        let score = |text: &String| -(ranks.get(text).copied().unwrap_or(pairs.len()) as f32);
        Ok(self.tokens.iter().map(score).collect())
    }

    fn pieces(&self, algorithm: Algorithm, scores: Vec<f32>) -> Result<PieceModel> {
        let metadata = self.metadata;
        let tokens = self.tokens.iter().zip(&self.kinds).zip(scores);
        let pieces = tokens.map(|((text, &kind), score)| Piece { text: text.clone(), score, kind });
        let unigram = algorithm == Algorithm::Unigram;
        let (bos, eos, unk) = if unigram {
            (self.id("bos")?, self.id_or("eos", 1)?, self.id_or("unknown", 2)?)
        } else {
            (self.id_or("bos", 1)?, self.id_or("eos", 2)?, self.id_or("unknown", 0)?)
        };
        let prefix = metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(!unigram);
        let model = PieceModel {
            path: metadata.path().to_owned(),
            place: "token",
            pieces: pieces.collect(),
            algorithm,
            unk,
            byte_fallback: self.kinds.contains(&PieceKind::Byte),
            merge_user_defined: true,
            rules: TextRules {
                prefix: if prefix { Prefix::EverySegment } else { Prefix::None },
                charsmap: self.charsmap()?,
                remove_extra_whitespaces: unigram
                    && metadata.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false),
                escape_whitespaces: true,
            },
            added: self.added()?,
            around: self.around(bos, !unigram, eos, unigram)?,
        };
        model.check()?;
        Ok(model)
    }

    fn charsmap(&self) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.metadata.i32s(CHARSMAP)? else { return Ok(None) };
        // Written as signed or as unsigned bytes.
        let byte = |&value: &i32| u8::try_from(value).or_else(|_| i8::try_from(value).map(|byte| byte as u8));
        let bytes: Vec<u8> = bytes
            .iter()
            .map(|value| byte(value).map_err(|_| self.metadata.wrong(CHARSMAP, "bytes", value)))
            .collect::<Result<_>>()?;
        Charsmap::read(&bytes)
            .map_err(|problem| self.metadata.wrong(CHARSMAP, "a table of replacements", message(problem)))?;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}
