//! Reads a saved base, a few rows at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use qsf_cpu::zeros;
use rayon::prelude::*;

use super::super::options::EvalOptions;
use super::codes::decode;
use super::facts::{self, BaseFacts};
use super::layout::{CHUNK_HEAD, Layout, checksum};
use crate::content::cut_short;
use crate::error::{Result, RuntimeError};
use crate::fingerprint::text_fingerprint;

/// A saved base that is open. Rows are checked when they are read.
#[derive(Debug)]
pub struct SavedBase {
    path: PathBuf,
    file: File,
    facts: BaseFacts,
    layout: Layout,
    /// Where reading stands.
    chunk: usize,
    row: usize,
    bytes: Vec<u8>,
    logits: Vec<f32>,
    losses: Vec<f64>,
}

impl SavedBase {
    /// Whether the file at `path` is one, by its first bytes.
    pub fn is_at(path: &Path) -> bool {
        facts::is_saved_base(path)
    }

    /// Opens the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or has not the size that follows from what it says.
    pub fn open(path: &Path) -> Result<SavedBase> {
        let mut file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
        let (facts, start) = BaseFacts::read(path, &mut file)?;
        let Some(layout) = facts.layout(start) else {
            let found =
                format!("{} chunks of {} tokens, a vocabulary of {}", facts.chunks, facts.ctx, facts.vocab);
            return Err(RuntimeError::bad_input(
                path,
                "what it says of the base",
                "chunks that can be",
                found,
            ));
        };
        let bytes = file.metadata().map_err(|e| RuntimeError::io(path, "read", e))?.len();
        let expected = layout.file_bytes();
        if bytes != expected {
            let found = if bytes < expected { cut_short(bytes) } else { format!("{bytes} bytes") };
            return Err(RuntimeError::bad_input(
                path,
                "the size of the file",
                format!("{expected} bytes"),
                found,
            ));
        }
        let (bytes, logits, losses) = (Vec::new(), Vec::new(), Vec::new());
        Ok(SavedBase { path: path.to_owned(), file, facts, layout, chunk: 0, row: 0, bytes, logits, losses })
    }

    /// What it says of itself.
    pub fn facts(&self) -> &BaseFacts {
        &self.facts
    }

    /// Checks that it is of the chunks that are to be evaluated: all of them, or more.
    ///
    /// # Errors
    /// When it is of others, or of another tokenizer.
    pub fn check(
        &mut self,
        tokens: &[u32],
        options: &EvalOptions,
        vocab: u32,
        text_sha256: &str,
    ) -> Result<()> {
        let BaseFacts { ctx, chunks, first_token, vocab: known, .. } = self.facts;
        let refuse = |path: &Path, place: &str, expected: String, found: String| {
            Err(RuntimeError::bad_input(path, place, expected, found))
        };
        if known != vocab {
            let expected = format!("that of the model, {vocab} tokens");
            return refuse(
                &self.path,
                "its vocabulary",
                expected,
                format!("{known} tokens, of another base"),
            );
        }
        if ctx != options.ctx {
            let found = format!("{ctx}: pass --ctx-size {ctx}");
            return refuse(&self.path, "its tokens per chunk", options.ctx.to_string(), found);
        }
        let wanted = options.chunks_of(tokens)?;
        if wanted > chunks {
            let found = format!("{chunks}: pass --chunks {chunks}");
            return refuse(&self.path, "its chunks", format!("{wanted} at least"), found);
        }
        let same_text = self.facts.text_sha256 == text_sha256;
        if first_token != options.bos {
            let name = |token: Option<u32>| token.map_or_else(|| "none".into(), |token| token.to_string());
            let found = format!("{}: it has another tokenizer", name(first_token));
            return refuse(&self.path, "its first token", name(options.bos), found);
        }
        for (number, chunk) in tokens.chunks_exact(ctx).enumerate().take(wanted) {
            if self.chunk_hash(number)? != text_fingerprint(chunk) {
                let found = if same_text {
                    "others: the base has another tokenizer, and distributions cannot be compared"
                } else {
                    "others: it was made of another text"
                };
                let place = format!("the tokens of chunk {number}");
                return refuse(&self.path, &place, "those of the text".into(), found.into());
            }
        }
        Ok(())
    }

    /// Goes to the first row of chunk `number`.
    pub(in super::super) fn begin_chunk(&mut self, number: usize) -> Result<()> {
        self.chunk_hash(number)?;
        (self.chunk, self.row) = (number, 0);
        Ok(())
    }

    /// The next `count` rows: logits, and the negative log-likelihood of each true next token.
    pub(in super::super) fn rows(&mut self, count: usize) -> Result<(&[f32], &[f64])> {
        let Layout { vocab, .. } = self.layout;
        let row_bytes = self.layout.row_bytes();
        let needed = count * row_bytes;
        if self.bytes.len() < needed {
            self.bytes.try_reserve_exact(needed - self.bytes.len()).map_err(|_| {
                RuntimeError::OutOfMemory {
                    what: "log-probabilities of the base".into(),
                    bytes: needed as u64,
                }
            })?;
            self.bytes.resize(needed, 0);
            self.logits = zeros(count * vocab, "logits of the base")?;
            self.losses.resize(count, 0.0);
        }
        let SavedBase { path, file, bytes, logits, losses, .. } = self;
        let bytes = &mut bytes[..needed];
        file.read_exact(bytes).map_err(|e| RuntimeError::io(path, "read", e))?;
        let first = self.layout.row_number(self.chunk, self.row);
        let read = bytes
            .par_chunks(row_bytes)
            .zip(logits.par_chunks_mut(vocab))
            .zip(losses.par_iter_mut())
            .enumerate()
            .map(|(i, ((row, logits), loss))| {
                *loss = decode_row(first + i as u64, row, logits)?;
                Ok(())
            })
            .collect::<Vec<std::result::Result<(), String>>>();
        for (i, row) in read.into_iter().enumerate() {
            if let Err(found) = row {
                let place = format!("position {} of chunk {}", self.row + i, self.chunk);
                return Err(RuntimeError::bad_input(&self.path, place, "what was written", found));
            }
        }
        self.row += count;
        Ok((&self.logits[..count * vocab], &self.losses[..count]))
    }

    /// The hash of the tokens of chunk `number`; reading stands behind it.
    fn chunk_hash(&mut self, number: usize) -> Result<[u8; 32]> {
        let mut head = [0; CHUNK_HEAD];
        let start = SeekFrom::Start(self.layout.chunk_start(number));
        let read = self.file.seek(start).and_then(|_| self.file.read_exact(&mut head));
        read.map_err(|e| RuntimeError::io(&self.path, "read", e))?;
        let (crc, hash) = head.split_at(4);
        match <[u8; 32]>::try_from(hash) {
            Ok(hash) if crc == checksum(number as u64, &hash) => Ok(hash),
            _ => {
                let place = format!("the start of chunk {number}");
                Err(RuntimeError::bad_input(&self.path, place, "what was written", "another checksum"))
            }
        }
    }
}

/// Decodes the row of this number among all; the negative log-likelihood of its true next token. Else what is wrong with it.
fn decode_row(number: u64, row: &[u8], logits: &mut [f32]) -> std::result::Result<f64, String> {
    let damaged = || "another checksum".to_owned();
    let (crc, rest) = row.split_first_chunk::<4>().ok_or_else(damaged)?;
    if *crc != checksum(number, rest) {
        return Err(damaged());
    }
    let (range, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (loss, codes) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (range, loss) = (f32::from_le_bytes(*range), f64::from_le_bytes(*loss));
    if !(range.is_finite() && range >= 0.0 && loss.is_finite()) {
        return Err(format!("a range of {range} and a loss of {loss}"));
    }
    decode(codes.as_chunks::<2>().0, range, logits);
    Ok(loss)
}
