//! The bytes of a whole file, mapped or in memory, and ranges of them.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::error::{Damage, Origin};
use crate::file_map::FileMap;

/// The bytes of a whole file.
#[derive(Debug, Clone)]
pub enum FileBytes {
    /// Mapped read-only.
    Mapped(Arc<FileMap>),
    /// In memory.
    Memory(Arc<Vec<u8>>),
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(map) => map,
            FileBytes::Memory(bytes) => bytes,
        }
    }
}

impl FileBytes {
    /// Tells the system that the bytes from `start` to `end` are not needed soon, so that reading a large file from front to
    /// back takes no memory to speak of. The bytes stay readable.
    pub(crate) fn release(&self, start: u64, end: u64) {
        if let FileBytes::Mapped(map) = self {
            map.release(start as usize..end as usize);
        }
    }
}

/// Raw bytes of a layer or section: in place in the file, or decompressed.
#[derive(Debug, Clone)]
pub enum RawBytes {
    /// A range of the file.
    InFile(FileBytes, Range<usize>),
    /// Decompressed.
    Owned(Arc<Vec<u8>>),
}

impl RawBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            RawBytes::InFile(file, range) => &file[range.clone()],
            RawBytes::Owned(bytes) => bytes,
        }
    }

    /// Where these bytes come from, whose stored form begins at `stored_at` in the file.
    pub(crate) fn origin(&self, stored_at: u64) -> Origin {
        match self {
            RawBytes::InFile(_, range) => Origin::InFile(range.start as u64),
            RawBytes::Owned(_) => Origin::Decompressed(stored_at),
        }
    }
}

/// `bytes` bytes from `offset`, which the field at `field_at` states, as a range inside `file`.
pub(crate) fn range_in(
    file: &[u8],
    offset: u64,
    bytes: u64,
    place: &str,
    field_at: u64,
) -> Result<Range<usize>, Damage> {
    match offset.checked_add(bytes) {
        Some(end) if end <= file.len() as u64 => Ok(offset as usize..end as usize),
        _ => Err(Damage::new(
            place,
            field_at,
            format!("a range inside the file of {} bytes", file.len()),
            format!("offset {offset}, {bytes} bytes"),
        )),
    }
}
