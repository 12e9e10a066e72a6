//! The bytes of a tensor, wherever they are.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::FileMap;

use crate::arena::Region;

/// The bytes of a tensor: a range of a mapped file, or of memory of our own.
#[derive(Debug, Clone)]
pub enum TensorBytes {
    /// In place in a file.
    Mapped(Arc<FileMap>, Range<usize>),
    /// Decompressed, transposed or converted.
    Owned(Arc<Vec<u8>>, Range<usize>),
    /// In memory that was set aside for it.
    Region(Arc<Region>, Range<usize>),
}

impl TensorBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            TensorBytes::Mapped(map, range) => &map[range.clone()],
            TensorBytes::Owned(vec, range) => &vec[range.clone()],
            TensorBytes::Region(region, range) => &region[range.clone()],
        }
    }

    /// A part of the bytes, shared.
    ///
    /// # Panics
    /// When the part exceeds the bytes.
    pub fn slice(&self, part: Range<usize>) -> TensorBytes {
        assert!(part.start <= part.end && part.end <= self.as_slice().len(), "bytes {part:?} of fewer");
        let shift = |all: &Range<usize>| all.start + part.start..all.start + part.end;
        match self {
            TensorBytes::Mapped(map, all) => TensorBytes::Mapped(map.clone(), shift(all)),
            TensorBytes::Owned(vec, all) => TensorBytes::Owned(vec.clone(), shift(all)),
            TensorBytes::Region(region, all) => TensorBytes::Region(region.clone(), shift(all)),
        }
    }
}

impl From<Vec<u8>> for TensorBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        TensorBytes::Owned(Arc::new(bytes), range)
    }
}
