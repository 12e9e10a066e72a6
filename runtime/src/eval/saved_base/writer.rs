//! Writes a saved base, a few rows at a time.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use qsf_format::{PartialFile, human_bytes};
use rayon::prelude::*;

use super::codes::encode;
use super::facts::BaseFacts;
use super::layout::{CHUNK_HEAD, Layout, ROW_HEAD, checksum};
use crate::disk::free_bytes;
use crate::error::{Result, RuntimeError};
use crate::fingerprint::text_fingerprint;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A saved base in the making: it gets its name when it is whole.
pub struct BaseWriter {
    target: PartialFile,
    file: BufWriter<File>,
    layout: Layout,
    /// Chunks that were begun, and rows of the last of them.
    chunks: usize,
    rows: usize,
}

impl BaseWriter {
    /// Begins the file `path`, with `force` in place of one that is there.
    ///
    /// # Errors
    /// When it exists, the disk has too little room, or the system refuses.
    pub fn create(path: &Path, force: bool, facts: &BaseFacts) -> Result<BaseWriter> {
        let head = facts.to_bytes()?;
        let Some(layout) = facts.layout(head.len() as u64) else {
            let problem = format!(
                "{}: log-probabilities of {} chunks of {} tokens are more than a file can have: pass --chunks",
                path.display(),
                facts.chunks,
                facts.ctx
            );
            return Err(RuntimeError::Request(problem));
        };
        let needed = layout.file_bytes();
        if let Some(free) = free_bytes(path).filter(|free| *free < needed) {
            let problem = format!(
                "the log-probabilities take {}, and the disk has {} free: pass fewer --chunks",
                human_bytes(needed),
                human_bytes(free)
            );
            return Err(RuntimeError::io(path, "write", io::Error::new(ErrorKind::StorageFull, problem)));
        }
        let (target, file) = PartialFile::create(path, force)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        let mut writer = BaseWriter { target, file, layout, chunks: 0, rows: 0 };
        writer.put(&head)?;
        Ok(writer)
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.layout.file_bytes()
    }

    /// Begins the next chunk, of these tokens.
    pub(in super::super) fn begin_chunk(&mut self, tokens: &[u32]) -> Result<()> {
        let hash = text_fingerprint(tokens);
        let mut head = [0; CHUNK_HEAD];
        head[..4].copy_from_slice(&checksum(self.chunks as u64, &hash));
        head[4..].copy_from_slice(&hash);
        (self.chunks, self.rows) = (self.chunks + 1, 0);
        self.put(&head)
    }

    /// Writes the next rows of the chunk: their logits, and what each says of the true next token.
    pub(in super::super) fn put_rows(&mut self, logits: &[f32], losses: &[f64]) -> Result<()> {
        let Layout { vocab, .. } = self.layout;
        let chunk = self.chunks.saturating_sub(1);
        let first = self.layout.row_number(chunk, self.rows);
        let rows: Vec<Option<Vec<u8>>> = logits
            .par_chunks(vocab)
            .zip(losses.par_iter().enumerate())
            .map(|(row, (i, loss))| encoded_row(first + i as u64, row, *loss))
            .collect();
        for row in rows {
            let Some(row) = row else {
                let what = format!("logits that are not finite in chunk {chunk}, counted from 0");
                return Err(RuntimeError::NotANumber { what });
            };
            self.put(&row)?;
        }
        self.rows += losses.len();
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(mut self) -> Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(|e| RuntimeError::io(self.target.partial(), "write", e))?;
        self.target.publish(self.file.get_ref())?;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| RuntimeError::io(self.target.partial(), "write", e))
    }
}

fn encoded_row(number: u64, logits: &[f32], loss: f64) -> Option<Vec<u8>> {
    let mut row = Vec::with_capacity(ROW_HEAD + 2 * logits.len());
    row.extend([0; 8]);
    row.extend(loss.to_le_bytes());
    let range = encode(logits, &mut row)?;
    row[4..8].copy_from_slice(&range.to_le_bytes());
    let crc = checksum(number, &row[4..]);
    row[..4].copy_from_slice(&crc);
    Some(row)
}
