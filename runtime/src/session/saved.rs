//! The bytes of a sequence: what they belong to, its tokens and logits, what the layers keep, and a checksum of it all.
//!
//! | Bytes | What |
//! |---|---|
//! | 8 | `QSFSEQ`, and the version as two digits |
//! | 4, n | lines of what they belong to, `name=value` |
//! | 4, 4 x n | tokens |
//! | 1, and where it is 1 4 x vocabulary | f32 logits of the token that comes next |
//! | n | what the layers keep |
//! | 4 | CRC-32 of all before |

use super::seen::Seen;
use crate::decoder::KvCache;
use crate::error::{Result, RuntimeError};

const MAGIC: &[u8; 8] = b"QSFSEQ02";
const WORD: usize = size_of::<u32>();

/// What must be the same where a sequence goes on, by name.
pub(super) struct Belongs(pub Vec<(&'static str, String)>);

impl Belongs {
    fn lines(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    /// # Errors
    /// When `lines` are others; the message names the first.
    fn check(&self, lines: &[u8]) -> Result<()> {
        let lines = std::str::from_utf8(lines).map_err(|_| damaged("what it belongs to is no text"))?;
        let mut saved = lines.lines();
        for (name, here) in &self.0 {
            let Some(there) = saved.next().and_then(|line| line.strip_prefix(name)?.strip_prefix('=')) else {
                return Err(damaged(&format!("it does not say its {name}")));
            };
            if there != here {
                return Err(RuntimeError::Request(format!(
                    "the saved sequence is of another {name}: expected {here}, found {}",
                    there.escape_debug().take(80).collect::<String>()
                )));
            }
        }
        match saved.next() {
            None => Ok(()),
            Some(_) => Err(damaged("it says more of what it belongs to than is known")),
        }
    }
}

/// The bytes of a sequence.
pub(super) fn write(belongs: &Belongs, seen: &Seen, kept: &KvCache) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let lines = belongs.lines();
    bytes.extend((lines.len() as u32).to_le_bytes());
    bytes.extend(lines.as_bytes());
    bytes.extend((seen.tokens.len() as u32).to_le_bytes());
    seen.tokens.iter().for_each(|token| bytes.extend(token.to_le_bytes()));
    bytes.push(u8::from(!seen.logits.is_empty()));
    seen.logits.iter().for_each(|logit| bytes.extend(logit.to_le_bytes()));
    kept.save(&mut bytes);
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// What a sequence has seen, and the bytes of what the layers keep.
///
/// # Errors
/// When they are damaged, or belong to something else.
pub(super) fn read<'a>(
    belongs: &Belongs,
    vocab: u32,
    context: usize,
    bytes: &'a [u8],
) -> Result<(Seen, &'a [u8])> {
    let Some((all, sum)) = bytes.split_last_chunk::<WORD>() else { return Err(damaged("it is cut short")) };
    let Some(rest) = all.strip_prefix(MAGIC) else {
        return Err(damaged("it does not begin as one of this version does"));
    };
    if crc32fast::hash(all) != u32::from_le_bytes(*sum) {
        return Err(damaged("its checksum is another"));
    }
    let (lines, rest) = counted(rest, 1)?;
    belongs.check(lines)?;
    let (tokens, rest) = counted(rest, WORD)?;
    let tokens = words(tokens).map(u32::from_le_bytes);
    if tokens.len() > context || tokens.clone().any(|token| token >= vocab) {
        return Err(damaged("it has more tokens than fit, or such that there are not"));
    }
    let tokens = tokens.collect();
    let (logits, kept) = match rest.split_first() {
        Some((0, rest)) => (Vec::new(), rest),
        Some((1, rest)) => {
            let (logits, rest) =
                rest.split_at_checked(vocab as usize * WORD).ok_or_else(|| damaged("logits are missing"))?;
            (words(logits).map(f32::from_le_bytes).collect(), rest)
        }
        _ => return Err(damaged("it does not say whether it has logits")),
    };
    Ok((Seen { tokens, logits }, kept))
}

fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = [u8; WORD]> + Clone {
    bytes.as_chunks().0.iter().copied()
}

/// As many units of `size` bytes as a number says, and the bytes behind.
fn counted(bytes: &[u8], size: usize) -> Result<(&[u8], &[u8])> {
    let part = bytes.split_first_chunk::<WORD>().and_then(|(count, rest)| {
        let count = u32::from_le_bytes(*count) as usize;
        rest.split_at_checked(count.checked_mul(size)?)
    });
    part.ok_or_else(|| damaged("it is cut short"))
}

fn damaged(problem: &str) -> RuntimeError {
    RuntimeError::Request(format!("a saved sequence is damaged: {problem}"))
}
