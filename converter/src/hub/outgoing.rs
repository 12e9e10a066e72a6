//! What is sent with a request.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Take};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The body of a request.
#[derive(Debug, Clone)]
pub(super) enum Outgoing {
    Nothing,
    /// What is in memory, and its type.
    Text(Vec<u8>, &'static str),
    Part(FilePart),
}

/// Where bytes are.
#[derive(Debug, Clone)]
pub enum Content {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Bytes(Arc<[u8]>),
}

/// A part of them.
#[derive(Debug, Clone)]
pub(super) struct FilePart {
    pub content: Content,
    pub from: u64,
    pub bytes: u64,
    /// Counts what was sent.
    pub sent: Arc<AtomicU64>,
}

/// Reads a part, and counts.
pub(super) struct PartReader {
    part: Take<Box<dyn Read>>,
    sent: Arc<AtomicU64>,
}

impl Outgoing {
    pub fn is_nothing(&self) -> bool {
        matches!(self, Outgoing::Nothing)
    }

    /// The type of what is in memory; storage hosts take parts of files as they are.
    pub fn content_type(&self) -> Option<&'static str> {
        if let Outgoing::Text(_, kind) = self { Some(kind) } else { None }
    }
}

impl Content {
    /// How many bytes there are.
    ///
    /// # Errors
    /// When the system does not say.
    pub(super) fn size(&self) -> io::Result<u64> {
        match self {
            Content::File(path) => Ok(path.metadata()?.len()),
            Content::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Opens them at byte `from`.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open_at(&self, from: u64) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Content::File(path) => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(from))?;
                Box::new(file)
            }
            Content::Bytes(bytes) => {
                let mut cursor = Cursor::new(bytes.clone());
                cursor.set_position(from);
                Box::new(cursor)
            }
        })
    }
}

impl FilePart {
    /// Opens it at its first byte.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(&self) -> io::Result<PartReader> {
        Ok(PartReader { part: self.content.open_at(self.from)?.take(self.bytes), sent: self.sent.clone() })
    }
}

impl Read for PartReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.part.read(out)?;
        self.sent.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
