//! Text that the model writes itself (`--calibration self`): it is written before anything is fitted to it, and kept beside the
//! output meanwhile, round by round.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use qsf_calibration::{SELF_SEED, SelfRound, SelfWriter, TextPart};
use qsf_format::{FormatError, PartialFile};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::file_hash::hex;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{WeightSource, file_bytes};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::options::{Calibration, ConvertOptions};
use crate::resume::{Journal, NoRecords, Records};
use crate::sections::{TOOL, hash_files};
use crate::session::Session;

/// What the model has written.
#[derive(Debug, Default)]
struct SelfText {
    tokens: Vec<u32>,
    /// Of each round, where it ends, and what it is of.
    rounds: Vec<(usize, SelfRound)>,
}

/// Options whose texts are written.
pub(crate) struct WithText {
    pub options: ConvertOptions,
    /// What the text is kept in until the conversion is done.
    pub kept: Option<Journal>,
}

impl WithText {
    /// The text stays no longer.
    pub fn remove(self) {
        if let Some(journal) = self.kept {
            journal.remove();
        }
    }
}

/// `options` with the texts that the model writes, where they ask for some that are not written yet. With `out`, what a run before
/// has written for this output is taken.
///
/// # Errors
/// When the model cannot be run, the text is not that of the plan, the output is there already, or the user interrupts.
pub(crate) fn with_text(
    source: &dyn WeightSource,
    options: &ConvertOptions,
    out: Option<&Path>,
    session: &Session<'_>,
) -> Result<Option<WithText>> {
    let mut options = options.clone();
    let open = options.calibrations().into_iter().filter_map(|text| text.written.as_ref());
    let Some(most) = open.filter(|written| !written.done).map(|written| written.at.len()).max() else {
        return Ok(None);
    };
    let mut kept = match out {
        Some(out) => Some(Kept::open(source, &options, out, session)?),
        None => None,
    };
    let records: &mut dyn Records = match &mut kept {
        Some(kept) => &mut kept.journal,
        None => &mut NoRecords,
    };
    let text = write_text(source, most, records, session)?;
    let filled = options.calibrations_mut().into_iter().try_for_each(|calibration| text.fill(calibration));
    if let (Err(_), Some(kept)) = (&filled, &mut kept) {
        // The same text would be refused again.
        kept.journal.clear();
    }
    filled?;
    Ok(Some(WithText { options, kept: kept.map(|kept| kept.journal) }))
}

/// Has the model write a text that is not written yet.
///
/// # Errors
/// As a conversion by the text.
pub fn write_calibration(
    source: &dyn WeightSource,
    calibration: &mut Calibration,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<()> {
    let Some(written) = calibration.written.as_ref().filter(|written| !written.done) else { return Ok(()) };
    let session = Session { cpu, tokens: &[], progress, cancel };
    write_text(source, written.at.len(), &mut NoRecords, &session)?.fill(calibration)
}

/// Peak of memory of a process that has the model write, on top of what it has now.
///
/// # Errors
/// When the model's files cannot be looked at.
pub fn writing_bytes(source: &dyn WeightSource) -> Result<u64> {
    Ok(file_bytes(source)?.saturating_add(SelfWriter::bytes(source.config())))
}

/// At least `most` tokens.
fn write_text(
    source: &dyn WeightSource,
    most: usize,
    records: &mut dyn Records,
    session: &Session<'_>,
) -> Result<SelfText> {
    let Session { cpu, progress, cancel, .. } = *session;
    let (mut writer, mut text) = (None, SelfText::default());
    progress.begin("writing text", most as u64);
    let left = AtomicU64::new(most as u64);
    let advance = |tokens: u64| {
        let before = left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(tokens)));
        progress.advance(tokens.min(before.unwrap_or(0)));
    };
    let mut texts = 0;
    while text.tokens.len() < most {
        let name = format!("text {texts}");
        let known = records.get(&name)?.and_then(|bytes| from_bytes(&bytes));
        let round = match (known, &mut writer) {
            (Some(round), _) => {
                advance(round.tokens.len() as u64);
                round
            }
            (None, writer) => {
                let writer = match writer {
                    Some(writer) => writer,
                    None => writer.insert(SelfWriter::new(source, cpu, progress, cancel)?),
                };
                let round = writer.round(texts, most - text.tokens.len(), &|| advance(1))?;
                records.put_new(&name, &to_bytes(&round))?;
                round
            }
        };
        texts += round.texts;
        text.tokens.extend(&round.tokens);
        text.rounds.push((text.tokens.len(), round));
    }
    progress.end();
    drop(writer);
    for layer in (0..source.config().layers).map(Some).chain([None]) {
        source.release(layer);
    }
    Ok(text)
}

impl SelfText {
    /// Puts as much of it into `calibration` as that has room for.
    fn fill(&self, calibration: &mut Calibration) -> Result<()> {
        let Some(written) = calibration.written.as_mut().filter(|written| !written.done) else {
            return Ok(());
        };
        written.done = true;
        let (at, expected) = (written.at.clone(), written.expected.take());
        let tokens = &self.tokens[..at.len()];
        calibration.tokens[at.clone()].copy_from_slice(tokens);
        let mut hash = Sha256::new();
        hash.update(&calibration.text_sha256);
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
        calibration.text_sha256 = hex(&<[u8; 32]>::from(hash.finalize()));
        if let Some(part) = calibration.parts.iter_mut().find(|part| part.tokens == at) {
            *part = self.part(at);
        }
        match expected {
            Some(expected) if expected != calibration.text_sha256 => {
                let found = &calibration.text_sha256;
                let problem = format!(
                    "--calibration self: the model has written another text than the plan was made by (SHA-256 {found}, expected \
                     {expected}); make a new plan by --save-plan"
                );
                Err(RuntimeError::Request(problem).into())
            }
            _ => Ok(()),
        }
    }

    /// What the tokens are of that stand at `at`.
    fn part(&self, at: std::ops::Range<usize>) -> TextPart {
        let (mut part, mut begin) = (TextPart { tokens: at.clone(), ..TextPart::default() }, 0);
        for (end, round) in &self.rounds {
            let taken = (*end).min(at.len()).saturating_sub(begin);
            begin = *end;
            match (taken, round.conversations) {
                (0, _) => {}
                (_, true) => {
                    part.conversations += round.texts;
                    part.conversation_tokens += taken;
                }
                (_, false) => part.texts += round.texts,
            }
        }
        part
    }
}

/// What a text is kept in, and the name by which no other process takes it.
struct Kept {
    journal: Journal,
    _lock: PartialFile,
}

impl Kept {
    fn open(
        source: &dyn WeightSource,
        options: &ConvertOptions,
        out: &Path,
        session: &Session<'_>,
    ) -> Result<Kept> {
        // Found now, not after the text is written.
        if !options.force && out.symlink_metadata().is_ok() {
            return Err(FormatError::Exists { path: out.to_owned() }.into());
        }
        let path = text_path(out);
        let (lock, _) = PartialFile::create(&path, true)?;
        let sources = hash_files(&source.files(), &[session.cancel])?;
        let of = json!([TOOL, SELF_SEED, sources, options.merged_scales]);
        let fingerprint = Sha256::digest(serde_json::to_vec(&of).expect("names and numbers are JSON"));
        let journal = Journal::open(&path, &fingerprint.into(), true)?;
        if journal.goes_on() {
            session.progress.note(&format!("going on with the text in {}", journal.path().display()));
        }
        Ok(Kept { journal, _lock: lock })
    }
}

/// What the text of a conversion to `out` is named after.
fn text_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".text");
    name.into()
}

/// Whether the texts are conversations, how many there are, and their tokens.
fn to_bytes(round: &SelfRound) -> Vec<u8> {
    let words = [round.conversations.into(), round.texts as u32];
    words.iter().chain(&round.tokens).flat_map(|word| word.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Option<SelfRound> {
    let (words, []) = bytes.as_chunks::<4>() else { return None };
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let (conversations, texts) = (words.next()? != 0, words.next()? as usize);
    // No text would be the next one for ever.
    (texts > 0).then_some(())?;
    Some(SelfRound { tokens: words.collect(), conversations, texts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> SelfText {
        let round = |tokens: Vec<u32>, conversations| SelfRound { tokens, conversations, texts: 2 };
        let (first, second) = (round(vec![1, 2, 3, 4], true), round(vec![5, 6, 7], false));
        SelfText { tokens: vec![1, 2, 3, 4, 5, 6, 7], rounds: vec![(4, first), (7, second)] }
    }

    #[test]
    fn a_round_comes_back_from_its_bytes() {
        for (_, round) in text().rounds {
            assert_eq!(from_bytes(&to_bytes(&round)), Some(round));
        }
        assert_eq!(from_bytes(&[0; 5]), None);
        assert_eq!(from_bytes(&[0; 4]), None);
    }

    #[test]
    fn the_part_says_what_its_tokens_are_of() {
        let part = text().part(2..8);
        assert_eq!((part.tokens, part.texts, part.conversations, part.conversation_tokens), (2..8, 2, 2, 4));
        let part = text().part(0..3);
        assert_eq!((part.texts, part.conversations, part.conversation_tokens), (0, 2, 3));
    }
}
