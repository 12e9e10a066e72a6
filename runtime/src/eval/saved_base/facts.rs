//! What a saved base says of itself: a line `QSF-BASE-LOGPROBS 1 HASH BYTES`, with 1 the version, BYTES the length of the
//! JSON behind the line in ten digits, and HASH the SHA-256 of that JSON in lower-case hexadecimal.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use qsf_format::{JsonLimits, from_json};
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::error::{Result, RuntimeError};
use crate::file_hash::sha256;

/// How such a file begins.
const MAGIC: &str = "QSF-BASE-LOGPROBS 1 ";
/// A hash, a space, ten digits and a line's end.
const REST_OF_LINE: usize = 64 + 1 + 10 + 1;
/// Most bytes of the JSON; real ones have less than a thousand, and a hundred for each file of the base.
const MAX_JSON: u64 = 1 << 20;

/// What a saved base is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFacts {
    /// Name of the base.
    pub model: String,
    /// Its fingerprint, in hexadecimal.
    pub fingerprint: String,
    /// Its files.
    pub files: Vec<BaseFile>,
    /// What ran it, and how; as `qsf-eval --json` says it.
    pub device: String,
    /// Type of its activations.
    pub activations: String,
    /// Type of its keys and values.
    pub kv_type: String,
    /// SHA-256 of the whole text.
    pub text_sha256: String,
    /// The token that the tokenizer puts before a text.
    pub first_token: Option<u32>,
    /// Tokens that the base knows.
    pub vocab: u32,
    /// Tokens per chunk.
    pub ctx: usize,
    /// Chunks.
    pub chunks: usize,
    /// Version of the program.
    pub version: String,
}

/// A file of a base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFile {
    /// Its name, without folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl BaseFacts {
    /// The beginning of the file.
    ///
    /// # Errors
    /// When there is too much to say.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(self)
            .map_err(|e| RuntimeError::Request(format!("a base cannot be saved: {e}")))?;
        if json.len() as u64 > MAX_JSON {
            return Err(RuntimeError::Request("a base of so many files cannot be saved".into()));
        }
        let line = format!("{MAGIC}{} {:010}\n", sha256(&json), json.len());
        Ok([line.as_bytes(), &json].concat())
    }

    /// Reads the beginning of `file`; the facts, and where the first chunk begins.
    ///
    /// # Errors
    /// When it is no saved base, or damaged.
    pub(super) fn read(path: &Path, file: &mut impl Read) -> Result<(BaseFacts, u64)> {
        let refuse = |place: &str, expected: String, found: String| {
            Err(RuntimeError::bad_input(path, place, expected, found))
        };
        let mut line = vec![0; MAGIC.len() + REST_OF_LINE];
        file.read_exact(&mut line).map_err(|e| RuntimeError::io(path, "read the first line", e))?;
        let line = str::from_utf8(&line).ok();
        let Some(rest) = line.and_then(|line| line.strip_prefix(MAGIC)?.strip_suffix('\n')) else {
            let expected = "log-probabilities that qsf-eval --save-base of this version wrote";
            return refuse("the first line", expected.into(), "another line".into());
        };
        let length = rest.split_once(' ').and_then(|(hash, bytes)| Some((hash, bytes.parse::<u64>().ok()?)));
        let Some((hash, bytes)) = length.filter(|(_, bytes)| *bytes <= MAX_JSON) else {
            return refuse(
                "the first line",
                format!("a hash and at most {MAX_JSON} bytes"),
                rest.escape_default().to_string(),
            );
        };
        let mut json = Vec::new();
        file.take(bytes).read_to_end(&mut json).map_err(|e| RuntimeError::io(path, "read", e))?;
        let found = sha256(&json);
        if hash != found {
            return refuse("what it says of the base", format!("SHA-256 {}", hash.escape_default()), found);
        }
        let facts = match from_json::<BaseFacts>(&json, JsonLimits::DESCRIPTION) {
            Ok(facts) => facts,
            Err(error) => {
                return refuse("what it says of the base", "the facts of this version".into(), error);
            }
        };
        Ok((facts, MAGIC.len() as u64 + REST_OF_LINE as u64 + bytes))
    }

    /// Where chunks and rows are.
    pub(super) fn layout(&self, start: u64) -> Option<Layout> {
        Layout::new(self.ctx, self.chunks, self.vocab, start)
    }
}

/// Whether a file begins as a saved base does; false where it cannot be read, which whoever opens it then says.
pub(super) fn is_saved_base(path: &Path) -> bool {
    let mut start = Vec::new();
    // Of a later version as well, so that the message is about that.
    let mark = MAGIC.trim_end_matches("1 ");
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let read = is_file.then(|| File::open(path).ok()?.take(mark.len() as u64).read_to_end(&mut start).ok());
    read.flatten().is_some() && start == mark.as_bytes()
}
