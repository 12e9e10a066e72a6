//! `tokenizer.model`: the model file of SentencePiece, a `ModelProto` of
//! <https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto>.

use std::path::Path;

use qsf_format::printable::message;

use super::charsmap::Charsmap;
use super::piece_model::{Algorithm, Piece, PieceKind, PieceModel, Prefix, TextRules};
use super::protobuf::{Field, Message};
use super::tokenizer_config::TokenizerConfig;
use super::tokenizer_json::{AddedSum, AddedToken, Around};
use crate::error::{Result, RuntimeError};

/// Most pieces of a model; the largest vocabularies in use have 262 thousand.
const MAX_PIECES: usize = 1 << 20;

/// What the file says, with the defaults of its definition.
struct ModelProto<'a> {
    pieces: Vec<Piece>,
    model_type: i32,
    treat_whitespace_as_suffix: bool,
    byte_fallback: bool,
    bos_id: i32,
    eos_id: i32,
    charsmap: &'a [u8],
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
}

/// Reads the model in `bytes`. `config` is what the files beside it say.
///
/// # Errors
/// The file is damaged, contradicts itself or `config`, or is of a type other than BPE and Unigram.
pub(super) fn read_sentencepiece(path: &Path, bytes: &[u8], config: &TokenizerConfig) -> Result<PieceModel> {
    let proto = read_proto(path, bytes)?;
    let unsupported = |what: String, supported: &str| {
        Err(RuntimeError::Unsupported { path: path.to_owned(), what, supported: supported.into() })
    };
    let algorithm = match proto.model_type {
        1 => Algorithm::Unigram,
        2 => Algorithm::Bpe,
        3 => return unsupported("a SentencePiece model of words".into(), "BPE and Unigram are"),
        4 => return unsupported("a SentencePiece model of characters".into(), "BPE and Unigram are"),
        other => {
            return unsupported(format!("SentencePiece model type {other}"), "1 (Unigram) and 2 (BPE) are");
        }
    };
    if proto.treat_whitespace_as_suffix {
        return unsupported("treat_whitespace_as_suffix".into(), "spaces in front of words are");
    }
    let mut pieces = proto.pieces;
    let unk = one_unknown(path, &pieces)?;
    let charsmap = (!proto.charsmap.is_empty()).then_some(proto.charsmap);
    if let Some(table) = charsmap {
        Charsmap::read(table).map_err(|problem| {
            let expected = "a table of replacements";
            RuntimeError::bad_input(path, "normalizer_spec.precompiled_charsmap", expected, message(problem))
        })?;
    }
    let added = added_tokens(path, &mut pieces, config)?;
    // SentencePiece knows one start of a text; transformers, where not told otherwise, puts a space after every special
    // token as well. With user-defined pieces, which occur inside of words, that would change ordinary text.
    let has_user_defined = pieces.iter().any(|p| p.kind == PieceKind::UserDefined);
    let legacy = config.legacy.unwrap_or(true) && !has_user_defined;
    let prefix = match config.add_prefix_space.unwrap_or(proto.add_dummy_prefix) {
        false => Prefix::None,
        true if legacy => Prefix::EverySegment,
        true => Prefix::Start,
    };
    // The models that are split by BPE are LLaMA's relatives, whose tokenizers add the start token by default.
    let default_bos = algorithm == Algorithm::Bpe;
    let token = |wanted: bool, id: i32| {
        let id = u32::try_from(id).ok().filter(|_| wanted)?;
        let piece = pieces.get(id as usize).filter(|p| p.kind == PieceKind::Control)?;
        Some((id, piece.text.clone()))
    };
    let around = Around {
        first: token(config.add_bos.unwrap_or(default_bos), proto.bos_id),
        last: token(config.add_eos.unwrap_or(false), proto.eos_id),
    };
    let model = PieceModel {
        path: path.to_owned(),
        place: "piece",
        algorithm,
        unk: Some(unk),
        byte_fallback: proto.byte_fallback,
        merge_user_defined: false,
        rules: TextRules {
            prefix,
            charsmap: charsmap.map(<[u8]>::to_vec),
            remove_extra_whitespaces: proto.remove_extra_whitespaces,
            escape_whitespaces: proto.escape_whitespaces,
        },
        added,
        around,
        pieces,
    };
    model.check()?;
    Ok(model)
}

/// The pieces of the model in `bytes`, as they stand there.
///
/// # Errors
/// The file is damaged.
pub(super) fn read_pieces(path: &Path, bytes: &[u8]) -> Result<Vec<Piece>> {
    Ok(read_proto(path, bytes)?.pieces)
}

/// SentencePiece refuses a model with no unknown piece, and one with two.
fn one_unknown(path: &Path, pieces: &[Piece]) -> Result<u32> {
    let mut unknown =
        pieces.iter().zip(0u32..).filter(|(p, _)| p.kind == PieceKind::Unknown).map(|(_, id)| id);
    match (unknown.next(), unknown.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(RuntimeError::bad_input(path, "pieces", "one of type UNKNOWN", "none")),
        (Some(a), Some(b)) => {
            Err(RuntimeError::bad_input(path, "pieces", "one of type UNKNOWN", format!("{a} and {b}")))
        }
    }
}

/// The tokens to cut out of the text: those of the model that are never split, and those that `config` adds to it.
fn added_tokens(path: &Path, pieces: &mut [Piece], config: &TokenizerConfig) -> Result<Vec<AddedToken>> {
    let mut added: std::collections::BTreeMap<u32, AddedToken> = pieces
        .iter()
        .zip(0u32..)
        .filter_map(|(piece, id)| match piece.kind {
            PieceKind::Unknown | PieceKind::Control => Some((id, AddedToken::new(id, &*piece.text, true))),
            // Found in the text as the model sees it, where spaces are marks already.
            PieceKind::UserDefined => {
                let token = AddedToken::new(id, &*piece.text, false);
                Some((id, AddedToken { normalized: true, ..token }))
            }
            PieceKind::Normal | PieceKind::Unused | PieceKind::Byte => None,
        })
        .collect();
    for token in &config.added {
        if let Some(piece) = pieces.get_mut(token.id as usize)
            && piece.text != token.content
        {
            // Placeholders in the model get their names here; text that has a meaning does not get another one.
            if piece.kind == PieceKind::Normal || piece.kind == PieceKind::Byte {
                return Err(RuntimeError::bad_input(
                    path,
                    format!("piece {}", token.id),
                    format!("{} as in tokenizer_config.json", qsf_format::printable::quote(&token.content)),
                    qsf_format::printable::quote(&piece.text),
                ));
            }
            piece.text.clone_from(&token.content);
        }
        // A normalizer that puts a space in front would do so with the token, too.
        added.insert(token.id, AddedToken { normalized: false, ..token.clone() });
    }
    Ok(added.into_values().collect())
}

fn read_proto<'a>(path: &'a Path, bytes: &'a [u8]) -> Result<ModelProto<'a>> {
    let mut proto = ModelProto {
        pieces: Vec::new(),
        model_type: 1,
        treat_whitespace_as_suffix: false,
        byte_fallback: false,
        bos_id: 1,
        eos_id: 2,
        charsmap: &[],
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
    };
    let mut cut_out = AddedSum::default();
    let mut file = Message::of_file(path, bytes);
    while let Some(field) = file.next()? {
        match field.number {
            1 => {
                if proto.pieces.len() == MAX_PIECES {
                    let expected = format!("at most {MAX_PIECES} pieces");
                    return Err(RuntimeError::bad_input(path, "pieces", expected, "more"));
                }
                let piece = read_piece(path, file.within(&field)?)?;
                if piece.kind.is_cut_out() {
                    cut_out.add(piece.text.len()).map_err(|problem| {
                        let expected = "control and user-defined ones within limits";
                        RuntimeError::bad_input(path, "pieces", expected, problem)
                    })?;
                }
                proto.pieces.push(piece);
            }
            2 => read_each(file.within(&field)?, |field| proto.trainer_field(path, field))?,
            3 => read_each(file.within(&field)?, |field| proto.normalizer_field(path, field))?,
            // Test samples, a table for decoding that no language model uses, and extensions.
            _ => {}
        }
    }
    Ok(proto)
}

fn read_each<'a>(mut message: Message<'a>, mut read: impl FnMut(&Field<'a>) -> Result<()>) -> Result<()> {
    while let Some(field) = message.next()? {
        read(&field)?;
    }
    Ok(())
}

fn read_piece(path: &Path, message: Message<'_>) -> Result<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
    read_each(message, |field| {
        match field.number {
            1 => piece.text = field.text(path)?.to_owned(),
            2 => piece.score = field.float(path)?,
            3 => {
                let number = field.int32(path)?;
                piece.kind = PieceKind::from_number(number).ok_or_else(|| {
                    let place = format!("offset {}", field.offset);
                    RuntimeError::bad_input(path, place, "a type of piece from 1 to 6", number)
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(piece)
}

impl<'a> ModelProto<'a> {
    fn trainer_field(&mut self, path: &Path, field: &Field<'a>) -> Result<()> {
        match field.number {
            3 => self.model_type = field.int32(path)?,
            24 => self.treat_whitespace_as_suffix = field.bool(path)?,
            35 => self.byte_fallback = field.bool(path)?,
            41 => self.bos_id = field.int32(path)?,
            42 => self.eos_id = field.int32(path)?,
            _ => {}
        }
        Ok(())
    }

    fn normalizer_field(&mut self, path: &Path, field: &Field<'a>) -> Result<()> {
        match field.number {
            2 => self.charsmap = field.bytes(path)?,
            3 => self.add_dummy_prefix = field.bool(path)?,
            4 => self.remove_extra_whitespaces = field.bool(path)?,
            5 => self.escape_whitespaces = field.bool(path)?,
            _ => {}
        }
        Ok(())
    }
}
