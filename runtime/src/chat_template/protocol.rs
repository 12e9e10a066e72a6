//! The talk with the process that renders: what it is asked, and what it answers. Both are a length and as many bytes.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::message::Input;
use super::refusal::Refusal;

/// What the process says on stderr before it ends itself because of the time that a template has taken.
pub(super) const OUT_OF_TIME: &str = "the template has had its time";

/// What the process is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// To read a template.
    Read(String),
    /// To render it.
    Render(Input),
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The template is read.
    Read,
    /// The text, whose bytes come behind this.
    Text,
    /// It is refused.
    Refused(Refusal),
}

/// Writes a length and `bytes`.
pub(super) fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads the length of what comes; `None` where nothing does.
pub(super) fn read_length(from: &mut impl Read) -> io::Result<Option<u64>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Ok(()) => Ok(Some(u64::from_le_bytes(length))),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads `length` bytes, where that is at most `most`. The length is believed only as far as bytes come.
pub(super) fn read_bytes(from: &mut impl Read, length: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if length > most || from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(bytes)
}
